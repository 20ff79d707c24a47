"""Generate the graph of the embedder, or check that the committed file is current.

The model's package has an operator for every step, which takes nearly as long again as its matrix
products. This graph computes the same from the same weights in fused operators of onnxruntime,
with half as many of them, and computes in the last layer only its first token: the vector. The
weights stay in the file of the package, and the graph names where they are.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from agent_memory.features.index.adapters.bge import GRAPH, INPUT, MODEL_FILE, locate_file
from agent_memory.features.index.adapters.bge_model import MAX_TOKENS

LAYERS, HEADS = 12, 12
EPSILON = 1e-12  # of the norms
FUSED = "com.microsoft"
OPERATOR_SETS = {"": 18, FUSED: 1}


def build_graph(path: Path) -> bytes:
    """Return the graph for the model in this file."""
    writer = _GraphWriter(path)
    state = writer.embed()
    for layer in range(LAYERS):
        state = writer.add_layer(state, f"layer.{layer}", last=layer == LAYERS - 1)
    return writer.write(state)


class _GraphWriter:
    def __init__(self, path: Path) -> None:
        model: ModelProto = onnx.load(str(path))
        self._file = path.name
        self._content = path.read_bytes()
        self._stored = {each.name: each for each in model.graph.initializer}
        # The names of matrices are numbers, so look them up by the node that multiplies with one.
        self._matrices = {
            node.name: node.input[1].removesuffix("_quantized")
            for node in model.graph.node
            if node.op_type == "MatMulInteger"
        }
        self._nodes: list[NodeProto] = []
        self._weights: dict[str, TensorProto] = {}

    def write(self, output: str) -> bytes:
        graph = helper.make_graph(
            self._nodes,
            "embedder",
            [helper.make_tensor_value_info(INPUT, TensorProto.INT64, [None, None])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [None, None, None])],
            list(self._weights.values()),
        )
        operators = [helper.make_opsetid(*each) for each in OPERATOR_SETS.items()]
        model = helper.make_model(graph, ir_version=8, opset_imports=operators)
        return model.SerializeToString(deterministic=True)

    def embed(self) -> str:
        """Add words, positions and the only type of token there is, and scale them."""
        self._define("zero", [0])
        self._define("one", [1])
        self._define("most", [MAX_TOKENS])
        numbers = self._refer("embeddings.word_embeddings.weight_quantized")
        found = self._add("Gather", [numbers, INPUT], "word numbers")
        scales = self._refer_scales("word_embeddings")
        words = self._add("DequantizeLinear", [found, *scales], "words")
        # All of this but the last slice is constant: onnxruntime computes it once.
        places = self._read_rows("position_embeddings", "most")
        kinds = self._read_rows("token_type_embeddings", "one")
        self._add("Add", [places, kinds], "places")
        self._add("Unsqueeze", ["places", "zero"], "all places")
        self._add("Shape", [INPUT], "shape")
        self._add("Gather", ["shape", "one"], "length")
        self._add("Slice", ["all places", "zero", "length", "one"], "used places")
        return self._normalize("embeddings", [words, "used places"], [])

    def add_layer(self, state: str, layer: str, *, last: bool) -> str:
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
        found = self._fuse("MultiHeadAttention", heads, attention, num_heads=HEADS)
        found = self._multiply_dynamic(found, f"{output}.dense", biased=False)
        bias = self._refer(f"encoder.{output}.dense.bias")
        state = self._normalize(f"encoder.{output}", [found, state], [bias])
        inner = self._multiply_dynamic(state, f"{layer}.intermediate.dense", biased=True)
        inner = self._fuse("Gelu", [inner], f"{layer} inner")
        inner = self._multiply_dynamic(inner, f"{layer}.output.dense", biased=False)
        bias = self._refer(f"encoder.{layer}.output.dense.bias")
        return self._normalize(f"encoder.{layer}.output", [inner, state], [bias])

    def _read_rows(self, table: str, count: str) -> str:
        """Scale the first rows of a table. DequantizeLinear would be computed in each run."""
        numbers = self._refer(f"embeddings.{table}.weight_quantized")
        scale, zero = self._refer_scales(table)
        rows = self._add("Slice", [numbers, "zero", count, "zero"], f"{table} numbers")
        parts = [
            self._add("Cast", [each], f"{each} as float", to=TensorProto.FLOAT)
            for each in (rows, zero)
        ]
        shifted = self._add("Sub", parts, f"{table} shifted")
        return self._add("Mul", [shifted, scale], table)

    def _refer_scales(self, table: str) -> list[str]:
        return [self._refer(f"embeddings.{table}.weight_{end}") for end in ("scale", "zero_point")]

    def _quantize(self, state: str, name: str) -> Sequence[str]:
        """Return the names of the numbers, of their scale and of their zero point."""
        outputs = [f"{name} numbers", f"{name} scale", f"{name} zero"]
        self._nodes.append(helper.make_node("DynamicQuantizeLinear", [state], outputs))
        return outputs

    def _multiply(self, quantized: Sequence[str], part: str) -> str:
        numbers, scale, zero = quantized
        matrix, matrix_scale = self._refer_matrix(part)
        bias = self._refer(f"encoder.{part}.bias")
        inputs = [numbers, matrix, scale, matrix_scale, zero, "", bias]
        return self._fuse("MatMulIntegerToFloat", inputs, part)

    def _multiply_dynamic(self, state: str, part: str, *, biased: bool) -> str:
        inputs = [state, *self._refer_matrix(part)]
        if biased:
            inputs += ["", self._refer(f"encoder.{part}.bias")]
        return self._fuse("DynamicQuantizeMatMul", inputs, part)

    def _normalize(self, part: str, sums: Sequence[str], bias: Sequence[str]) -> str:
        """Add both states and the bias, and scale the sum to a mean of 0 and a variance of 1."""
        scales = [self._refer(f"{part}.LayerNorm.{name}") for name in ("weight", "bias")]
        inputs = [*sums, *scales, *bias]
        return self._fuse("SkipLayerNormalization", inputs, f"{part} norm", epsilon=EPSILON)

    def _fuse(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        node = helper.make_node(operator, inputs, [output], domain=FUSED, **attributes)
        self._nodes.append(node)
        return output

    def _add(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def _define(self, name: str, values: Sequence[int]) -> None:
        self._weights[name] = numpy_helper.from_array(np.array(values, np.int64), name)

    def _refer_matrix(self, part: str) -> tuple[str, str]:
        """Return the names of the matrix of a part and of its scale."""
        path = part.replace(".", "/").replace("layer/", "layer.")
        matrix = self._matrices[f"/encoder/{path}/MatMul_quant"]
        return self._refer(f"{matrix}_quantized"), self._refer(f"{matrix}_scale")

    def _refer(self, name: str) -> str:
        """Add a weight whose values stay in the file."""
        stored = self._stored[name]
        values = numpy_helper.to_array(stored)
        weight = numpy_helper.from_array(values, name)
        if values.size > 1:
            weight.ClearField("raw_data")
            weight.data_location = TensorProto.EXTERNAL
            offset = self._content.index(values.tobytes())
            place = {"location": self._file, "offset": offset, "length": values.nbytes}
            for key, value in place.items():
                weight.external_data.add(key=key, value=str(value))
        self._weights[name] = weight
        return name


def main() -> None:
    graph = build_graph(locate_file(MODEL_FILE))
    if sys.argv[1:] != ["--check"]:
        GRAPH.write_bytes(graph)
    elif GRAPH.read_bytes() != graph:
        sys.exit("the embedder's graph is not current: run `make reference` and commit the result")


if __name__ == "__main__":
    main()
