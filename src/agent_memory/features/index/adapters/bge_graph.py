"""The graph of bge-small in fused operators of onnxruntime.

The graph of the package has an operator for every step: beside its matrix products, which take the
same time either way, that takes nearly as long again. This one computes the same from the same
weights, in half of the operators, and in the last layer only what the vector needs: its first
token.
"""

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_memory.features.index.adapters import onnx_messages
from agent_memory.features.index.adapters.onnx_messages import (
    FLOAT,
    INT8,
    INT64,
    UINT8,
    Attribute,
    ByteRange,
)

INPUT = "tokens"  # their numbers, as 1 x n

_LAYERS, _HEADS = 12, 12
_EPSILON = 1e-12  # of the norms
_IR, _OPSETS = 8, {"": 18, "com.microsoft": 1}
_FUSED = "com.microsoft"
_TYPES = {FLOAT: "<f4", UINT8: "u1", INT8: "i1", INT64: "<i8"}


class _StoredTensor(NamedTuple):
    kind: int
    shape: tuple[int, ...]
    span: ByteRange  # of its values
    packed: bool  # the values are varints


def write_graph(path: Path, max_tokens: int) -> bytes:
    """Return the model of this file as a graph whose matrices stay in the file.

    Raises OSError, KeyError or ValueError if it is another model.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        data = memoryview(content)
        try:
            return _GraphWriter(_StoredModel(data), path.name, max_tokens).write()
        finally:
            data.release()


class _StoredModel:
    """The weights of a model in the file of the package."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._tensors: dict[str, _StoredTensor] = {}
        self._matrices: dict[str, str] = {}  # by the node that multiplies with it
        for number, value in onnx_messages.read_fields(data, ByteRange(0, len(data))):
            if number == 7 and isinstance(value, ByteRange):
                self._read_graph(value)

    def get(self, name: str) -> _StoredTensor:
        return self._tensors[name]

    def get_matrix(self, part: str) -> str:
        """Return the name of the matrix of a part, without its ending."""
        return self._matrices[f"/encoder/{part}/MatMul_quant"].removesuffix("_quantized")

    def read(self, name: str) -> NDArray[Any]:
        kind, shape, span, packed = self._tensors[name]
        if packed:
            values = onnx_messages.read_varints(self._data, span)
            return np.array(values, _TYPES[kind]).reshape(shape)
        return np.frombuffer(bytes(self._data[slice(*span)]), _TYPES[kind]).reshape(shape)

    def read_embeddings(self, name: str) -> NDArray[np.float32]:
        prefix = f"embeddings.{name}.weight"
        numbers = self.read(f"{prefix}_quantized").astype(np.float32)
        shifted = numbers - self.read(f"{prefix}_zero_point").astype(np.float32)
        return np.asarray(shifted * self.read(f"{prefix}_scale"), np.float32)

    def _read_graph(self, span: ByteRange) -> None:
        for number, value in onnx_messages.read_fields(self._data, span):
            if number == 1 and isinstance(value, ByteRange):
                self._read_node(value)
            elif number == 5 and isinstance(value, ByteRange):
                self._read_tensor(value)

    def _read_node(self, span: ByteRange) -> None:
        names = [
            (number, bytes(self._data[slice(*value)]).decode())
            for number, value in onnx_messages.read_fields(self._data, span)
            if number in (1, 3, 4) and isinstance(value, ByteRange)
        ]
        if (4, "MatMulInteger") in names:
            _, matrix, *_ = [text for number, text in names if number == 1]
            (node,) = [text for number, text in names if number == 3]
            self._matrices[node] = matrix

    def _read_tensor(self, span: ByteRange) -> None:
        shape, kind, name, values, packed = [], 0, "", ByteRange(0, 0), False
        for number, value in onnx_messages.read_fields(self._data, span):
            match number, value:
                case 1, int(size):
                    shape.append(size)
                case 1, ByteRange() as sizes:
                    shape += onnx_messages.read_varints(self._data, sizes)
                case 2, int(found):
                    kind = found
                case 8, ByteRange() as text:
                    name = bytes(self._data[slice(*text)]).decode()
                case ((4 | 5 | 9), ByteRange() as place):
                    values, packed = place, number == 5
        self._tensors[name] = _StoredTensor(kind, tuple(shape), values, packed)


class _GraphWriter:
    def __init__(self, stored: _StoredModel, file: str, max_tokens: int) -> None:
        self._stored = stored
        self._file = file
        self._max_tokens = max_tokens
        self._nodes: list[bytes] = []
        self._weights: list[bytes] = []

    def write(self) -> bytes:
        self._define("zero", np.array([0]))
        self._define("one", np.array([1]))
        state = self._embed()
        for layer in range(_LAYERS):
            state = self._add_layer(state, f"layer.{layer}", last=layer == _LAYERS - 1)
        return onnx_messages.encode_model(
            self._nodes,
            self._weights,
            [onnx_messages.encode_value(INPUT, INT64, 2)],
            [onnx_messages.encode_value(state, FLOAT, 3)],
            ir=_IR,
            opsets=_OPSETS,
        )

    def _embed(self) -> str:
        """Add words, positions and the only type of token there is, and scale them."""
        words = "embeddings.word_embeddings.weight"
        positions = self._stored.read_embeddings("position_embeddings")[: self._max_tokens]
        kinds = self._stored.read_embeddings("token_type_embeddings")
        self._define("places", (positions + kinds[0])[np.newaxis])
        self._add("Gather", [self._refer(f"{words}_quantized"), INPUT], "word numbers")
        scales = [self._copy(f"{words}_scale"), self._copy(f"{words}_zero_point")]
        self._add("DequantizeLinear", ["word numbers", *scales], "words")
        self._add("Shape", [INPUT], "shape")
        self._add("Gather", ["shape", "one"], "length")
        self._add("Slice", ["places", "zero", "length", "one"], "used places")
        return self._normalize("embeddings", ["words", "used places"], [])

    def _add_layer(self, state: str, layer: str, *, last: bool) -> str:
        attention, output = f"{layer}.attention.self", f"{layer}.attention.output"
        every = self._quantize(state, f"{layer} every")
        asking = every
        if last:  # the other tokens would change nothing
            state = self._add("Slice", [state, "zero", "one", "one"], f"{layer} first")
            asking = self._quantize(state, f"{layer} asking")
        heads = [
            self._multiply(numbers, f"{attention}.{part}")
            for part, numbers in (("query", asking), ("key", every), ("value", every))
        ]
        found = self._fuse("MultiHeadAttention", heads, attention, {"num_heads": _HEADS})
        found = self._multiply_dynamic(found, f"{output}.dense", biased=False)
        bias = self._copy(f"encoder.{output}.dense.bias")
        state = self._normalize(f"encoder.{output}", [found, state], [bias])
        inner = self._multiply_dynamic(state, f"{layer}.intermediate.dense", biased=True)
        inner = self._fuse("Gelu", [inner], f"{layer} inner")
        inner = self._multiply_dynamic(inner, f"{layer}.output.dense", biased=False)
        bias = self._copy(f"encoder.{layer}.output.dense.bias")
        return self._normalize(f"encoder.{layer}.output", [inner, state], [bias])

    def _quantize(self, state: str, name: str) -> Sequence[str]:
        """Return the names of the numbers, of their scale and of their zero point."""
        outputs = [f"{name} numbers", f"{name} scale", f"{name} zero"]
        self._nodes.append(onnx_messages.encode_node("DynamicQuantizeLinear", [state], outputs))
        return outputs

    def _multiply(self, quantized: Sequence[str], part: str) -> str:
        numbers, scale, zero = quantized
        matrix = self._stored.get_matrix(part.replace(".", "/").replace("layer/", "layer."))
        weights = [self._refer(f"{matrix}_quantized"), scale, self._copy(f"{matrix}_scale"), zero]
        bias = self._copy(f"encoder.{part}.bias")
        return self._fuse("MatMulIntegerToFloat", [numbers, *weights, "", bias], part)

    def _multiply_dynamic(self, state: str, part: str, *, biased: bool) -> str:
        matrix = self._stored.get_matrix(part.replace(".", "/").replace("layer/", "layer."))
        inputs = [state, self._refer(f"{matrix}_quantized"), self._copy(f"{matrix}_scale")]
        if biased:
            inputs += ["", self._copy(f"encoder.{part}.bias")]
        return self._fuse("DynamicQuantizeMatMul", inputs, part)

    def _normalize(self, part: str, sums: Sequence[str], bias: Sequence[str]) -> str:
        """Add both states and the bias, and scale the sum to a mean of 0 and a variance of 1."""
        scales = [self._copy(f"{part}.LayerNorm.{name}") for name in ("weight", "bias")]
        inputs = [*sums, *scales, *bias]
        return self._fuse("SkipLayerNormalization", inputs, f"{part} norm", {"epsilon": _EPSILON})

    def _fuse(
        self,
        operator: str,
        inputs: Sequence[str],
        output: str,
        attributes: dict[str, Attribute] | None = None,
    ) -> str:
        self._nodes.append(
            onnx_messages.encode_node(
                operator, inputs, [output], domain=_FUSED, attributes=attributes
            )
        )
        return output

    def _add(self, operator: str, inputs: Sequence[str], output: str) -> str:
        self._nodes.append(onnx_messages.encode_node(operator, inputs, [output]))
        return output

    def _define(self, name: str, array: NDArray[Any]) -> None:
        kind = FLOAT if array.dtype == np.float32 else INT64
        self._weights.append(onnx_messages.encode_tensor(name, kind, array))

    def _copy(self, name: str) -> str:
        kind, array = self._stored.get(name).kind, self._stored.read(name)
        self._weights.append(onnx_messages.encode_tensor(name, kind, array))
        return name

    def _refer(self, name: str) -> str:
        kind, shape, span, _ = self._stored.get(name)
        self._weights.append(
            onnx_messages.encode_stored_tensor(name, kind, shape, self._file, span)
        )
        return name
