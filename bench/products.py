"""The matrix products of bge-small and nothing else, as onnxruntime runs them on this machine.

Their time is the limit for an embedding: what the model does besides (scaling to int8, norms, the
activation) comes on top. The weights are random, but as many as the model has: they do not fit into
the caches of a core.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

LAYERS, HIDDEN, INNER, HEADS = 12, 384, 1536, 12
HEAD = HIDDEN // HEADS
# Inputs, outputs and number of the dense products of a layer: query, key, value and output of the
# attention, and both of the feed-forward network.
DENSE = ((HIDDEN, HIDDEN, 4), (HIDDEN, INNER, 1), (INNER, HIDDEN, 1))

_FLOAT, _UINT8, _INT8, _INT32 = 1, 2, 3, 6  # element types of ONNX
_OPSET, _IR = 11, 6  # as the package's model


class Rates(NamedTuple):
    """Seconds of the products of one text, by kind."""

    int8: float
    float32: float


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
        return Rates(
            _time(self._dense, _dense_inputs(tokens), threads, seconds),
            _time(self._attention, _attention_inputs(tokens), threads, seconds),
        )


def _time(session: Any, inputs: Mapping[str, Any], threads: int, seconds: float) -> float:
    def work(_: int) -> int:
        done = 0
        while time.perf_counter() < deadline:
            session.run(None, inputs)
            done += 1
        return done

    session.run(None, inputs)
    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        deadline = began + seconds
        done = sum(pool.map(work, range(threads)))
        return (time.perf_counter() - began) / done


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
    nodes, weights, outputs = [], [_tensor("zero", _UINT8, np.uint8(128))], []
    for layer in range(LAYERS):
        for inputs, out, count in DENSE:
            for number in range(count):
                name = f"{layer}-{inputs}-{out}-{number}"
                matrix = chance.integers(-127, 128, (inputs, out), np.int8)
                weights.append(_tensor(f"w{name}", _INT8, matrix))
                nodes.append(_node("MatMulInteger", [f"x{inputs}", f"w{name}", "zero"], name))
                outputs.append(_value(name, _INT32, 2))
    return _model(nodes, weights, [_value(f"x{n}", _UINT8, 2) for n in (HIDDEN, INNER)], outputs)


def _build_attention() -> bytes:
    nodes, outputs = [], []
    for layer in range(LAYERS):
        for one, other in (("queries", "keys"), ("weights", "values")):
            name = f"{layer}-{one}"
            nodes.append(_node("MatMul", [one, other], name))
            outputs.append(_value(name, _FLOAT, 3))
    inputs = [_value(name, _FLOAT, 3) for name in ("queries", "keys", "weights", "values")]
    return _model(nodes, [], inputs, outputs)


# The messages of onnx.proto, by their field numbers: the package `onnx` is not needed for more.


def _model(
    nodes: Iterable[bytes],
    weights: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
) -> bytes:
    parts = ((1, nodes), (5, weights), (11, inputs), (12, outputs))
    graph = b"".join(_field(number, each) for number, part in parts for each in part)
    return _field(1, _IR) + _field(7, graph + _field(2, b"g")) + _field(8, _field(2, _OPSET))


def _node(operator: str, inputs: Sequence[str], output: str) -> bytes:
    named = b"".join(_field(1, name.encode()) for name in inputs)
    return named + _field(2, output.encode()) + _field(4, operator.encode())


def _tensor(name: str, kind: int, array: Any) -> bytes:
    shape = b"".join(_field(1, size) for size in array.shape)
    return shape + _field(2, kind) + _field(8, name.encode()) + _field(9, array.tobytes())


def _value(name: str, kind: int, dimensions: int) -> bytes:
    """Return an input or output; its dimensions may be of any size."""
    shape = b"".join(_field(1, b"") for _ in range(dimensions))
    tensor = _field(1, kind) + _field(2, shape)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
