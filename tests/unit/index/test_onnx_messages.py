"""The messages of ONNX files: what is written is read, by us and by onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from agent_memory.features.index.adapters import onnx_messages
from agent_memory.features.index.adapters.onnx_messages import (
    FLOAT,
    INT64,
    ByteRange,
    WireField,
    encode_model,
    encode_node,
    encode_stored_tensor,
    encode_tensor,
    encode_value,
)

FOLDER = "session.model_external_initializers_file_folder_path"


def read(data: bytes) -> list[WireField]:
    return list(onnx_messages.read_fields(memoryview(data), ByteRange(0, len(data))))


def test_the_fields_of_a_message_are_read_in_their_order() -> None:
    tensor = encode_tensor("w", FLOAT, np.zeros((300, 2), np.float32))
    fields = read(tensor)
    assert [number for number, _ in fields] == [1, 1, 2, 8, 9]
    assert [value for _, value in fields[:3]] == [300, 2, FLOAT]
    name, values = (tensor[slice(*value)] for _, value in fields[3:] if not isinstance(value, int))
    assert name == b"w"
    assert values == bytes(300 * 2 * 4)


def test_fields_of_fixed_size_are_read() -> None:
    assert read(b"\x0d1234\x111234567812\x02ab"[:14]) == [
        WireField(1, ByteRange(1, 5)),
        WireField(2, ByteRange(6, 14)),
    ]


def test_packed_numbers_are_read() -> None:
    data = memoryview(b"\x00\x7f\x80\x01\xac\x02")
    assert onnx_messages.read_varints(data, ByteRange(0, len(data))) == [0, 127, 128, 300]


@pytest.mark.parametrize(
    "data", [b"\x0a\x05abc", b"\x08", b"\x08\x80", b"\x0b", b"\x0d12"], ids=repr
)
def test_a_damaged_message_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="ONNX message"):
        read(data)


def test_onnxruntime_runs_a_graph_with_attributes_and_weights_in_another_file(
    tmp_path: Path,
) -> None:
    scales = np.array([1, 2, 4], np.float32)
    (tmp_path / "weights").write_bytes(b"other" + scales.tobytes())
    model = encode_model(
        [
            encode_node("Mul", ["x", "scales"], ["scaled"]),
            encode_node("Add", ["scaled", "shift"], ["shifted"]),
            encode_node("Elu", ["shifted"], ["bent"], attributes={"alpha": 0.5}),
            encode_node("ReduceSum", ["bent", "axis"], ["sum"], attributes={"keepdims": 0}),
            encode_node("Gelu", ["bent"], ["fused"], domain="com.microsoft"),
        ],
        [
            encode_stored_tensor("scales", FLOAT, (3,), "weights", ByteRange(5, 17)),
            encode_tensor("shift", FLOAT, np.array(-1, np.float32)),
            encode_tensor("axis", INT64, np.array([0])),
        ],
        [encode_value("x", FLOAT, 1)],
        [encode_value("bent", FLOAT, 1), encode_value("sum", FLOAT, 0)],
        ir=8,
        opsets={"": 18, "com.microsoft": 1},
    )
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(FOLDER, str(tmp_path))
    session: Any = onnxruntime.InferenceSession(model, options)
    bent, total = session.run(None, {"x": np.array([0, 1, 2], np.float32)})
    assert bent.tolist() == pytest.approx([0.5 * np.expm1(-1), 1, 7])
    assert float(total) == pytest.approx(float(bent.sum()))
