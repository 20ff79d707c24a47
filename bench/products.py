"""The matrix products of bge-small and nothing else, as onnxruntime runs them on this machine.

Their time is the limit for an embedding: what the model does besides (scaling to int8, norms, the
activation) comes on top. All products of the model count, also those of the last layer that an
embedding does not need: 7% of them. The weights are random, but as many as the model has: they do
not fit into the caches of a core.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import GraphProto, TensorProto, ValueInfoProto, helper, numpy_helper

LAYERS, HIDDEN, INNER, HEADS = 12, 384, 1536, 12
HEAD = HIDDEN // HEADS
# Inputs, outputs and number of the dense products of a layer: query, key, value and output of the
# attention, and both of the feed-forward network.
DENSE = ((HIDDEN, HIDDEN, 4), (HIDDEN, INNER, 1), (INNER, HIDDEN, 1))

_IR, _OPSET = 6, 11  # as the package's model


class Rates(NamedTuple):
    """Seconds of the products of one text, by kind, and the processor time of all."""

    int8: float
    float32: float
    cpu: float

    @property
    def wall(self) -> float:
        return self.int8 + self.float32


def count_dense_flops(tokens: int) -> int:
    weights = sum(inputs * outputs * count for inputs, outputs, count in DENSE)
    return 2 * tokens * weights * LAYERS


def count_attention_flops(tokens: int) -> int:
    """Count both products: of queries and keys, and of their weights and values."""
    return 2 * 2 * tokens * tokens * HIDDEN * LAYERS


class Products:
    """The products of all layers: dense ones in int8, those of the attention in float32."""

    def __init__(self) -> None:
        self._dense = _open(_build_dense())
        self._attention = _open(_build_attention())

    def measure(self, tokens: int, threads: int, seconds: float) -> Rates:
        """Return the seconds that the products of a text take, on average, if each thread has
        texts of its own."""
        int8, cpu = _time(self._dense, _dense_inputs(tokens), threads, seconds)
        float32, more = _time(self._attention, _attention_inputs(tokens), threads, seconds)
        return Rates(int8, float32, cpu + more)


def _time(
    session: Any, inputs: Mapping[str, Any], threads: int, seconds: float
) -> tuple[float, float]:
    """Return the seconds of a run and its processor time."""

    def work(_: int) -> tuple[int, float]:
        done, began = 0, time.thread_time()
        while not done or time.perf_counter() < deadline:
            session.run(None, inputs)
            done += 1
        return done, time.thread_time() - began

    session.run(None, inputs)
    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        deadline = began + seconds
        done, cpu = map(sum, zip(*pool.map(work, range(threads)), strict=True))
        return (time.perf_counter() - began) / done, cpu / done


def _open(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Optimizing would remove all but one of the equal products.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _dense_inputs(tokens: int) -> dict[str, NDArray[np.uint8]]:
    chance = np.random.default_rng(0)
    return {
        f"x{size}": chance.integers(0, 256, (tokens, size), np.uint8) for size in (HIDDEN, INNER)
    }


def _attention_inputs(tokens: int) -> dict[str, NDArray[np.float32]]:
    chance = np.random.default_rng(0)
    shapes = {
        "queries": (HEADS, tokens, HEAD),
        "keys": (HEADS, HEAD, tokens),
        "weights": (HEADS, tokens, tokens),
        "values": (HEADS, tokens, HEAD),
    }
    return {name: chance.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _build_dense() -> bytes:
    chance = np.random.default_rng(0)
    nodes, outputs = [], []
    weights = [numpy_helper.from_array(np.array(128, np.uint8), "zero")]
    for layer in range(LAYERS):
        for inputs, out, count in DENSE:
            for number in range(count):
                name = f"{layer}-{inputs}-{out}-{number}"
                matrix = chance.integers(-127, 128, (inputs, out), np.int8)
                weights.append(numpy_helper.from_array(matrix, f"w{name}"))
                names = [f"x{inputs}", f"w{name}", "zero"]
                nodes.append(helper.make_node("MatMulInteger", names, [name]))
                outputs.append(_describe(name, TensorProto.INT32, 2))
    given = [_describe(f"x{n}", TensorProto.UINT8, 2) for n in (HIDDEN, INNER)]
    return _encode(helper.make_graph(nodes, "dense", given, outputs, weights))


def _build_attention() -> bytes:
    nodes, outputs = [], []
    for layer in range(LAYERS):
        for one, other in (("queries", "keys"), ("weights", "values")):
            name = f"{layer}-{one}"
            nodes.append(helper.make_node("MatMul", [one, other], [name]))
            outputs.append(_describe(name, TensorProto.FLOAT, 3))
    names = ("queries", "keys", "weights", "values")
    inputs = [_describe(name, TensorProto.FLOAT, 3) for name in names]
    return _encode(helper.make_graph(nodes, "attention", inputs, outputs))


def _describe(name: str, kind: int, dimensions: int) -> ValueInfoProto:
    """Describe an input or output; its dimensions may be of any size."""
    return helper.make_tensor_value_info(name, kind, [None] * dimensions)


def _encode(graph: GraphProto) -> bytes:
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, ir_version=_IR, opset_imports=opsets)
    return model.SerializeToString()
