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

from agent_memory.features.index.adapters.onnx_messages import (
    FLOAT,
    INT8,
    INT32,
    UINT8,
    encode_model,
    encode_node,
    encode_tensor,
    encode_value,
)

LAYERS, HIDDEN, INNER, HEADS = 12, 384, 1536, 12
HEAD = HIDDEN // HEADS
# Inputs, outputs and number of the dense products of a layer: query, key, value and output of the
# attention, and both of the feed-forward network.
DENSE = ((HIDDEN, HIDDEN, 4), (HIDDEN, INNER, 1), (INNER, HIDDEN, 1))

_IR, _OPSETS = 6, {"": 11}  # as the package's model


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
    nodes, weights, outputs = [], [encode_tensor("zero", UINT8, np.uint8(128))], []
    for layer in range(LAYERS):
        for inputs, out, count in DENSE:
            for number in range(count):
                name = f"{layer}-{inputs}-{out}-{number}"
                matrix = chance.integers(-127, 128, (inputs, out), np.int8)
                weights.append(encode_tensor(f"w{name}", INT8, matrix))
                nodes.append(
                    encode_node("MatMulInteger", [f"x{inputs}", f"w{name}", "zero"], [name])
                )
                outputs.append(encode_value(name, INT32, 2))
    given = [encode_value(f"x{n}", UINT8, 2) for n in (HIDDEN, INNER)]
    return encode_model(nodes, weights, given, outputs, ir=_IR, opsets=_OPSETS)


def _build_attention() -> bytes:
    nodes, outputs = [], []
    for layer in range(LAYERS):
        for one, other in (("queries", "keys"), ("weights", "values")):
            name = f"{layer}-{one}"
            nodes.append(encode_node("MatMul", [one, other], [name]))
            outputs.append(encode_value(name, FLOAT, 3))
    inputs = [encode_value(name, FLOAT, 3) for name in ("queries", "keys", "weights", "values")]
    return encode_model(nodes, [], inputs, outputs, ir=_IR, opsets=_OPSETS)
