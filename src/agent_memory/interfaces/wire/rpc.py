"""Operations as methods of gRPC: their requests and answers as messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from agent_memory.interfaces.wire import protobuf
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.operations import Operation
from agent_memory.proto import checkpoints_pb2, kontekst_pb2, memory_pb2

SERVICES: Mapping[str, ServiceDescriptor] = {
    service.full_name: service
    for file in (memory_pb2, checkpoints_pb2, kontekst_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
}


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """How an answer stands in its message where it is not the message itself.

    `wrap` returns the fields of the message, and `wrap_missing` those that say that there is
    nothing; without it, NotFound is the status of the call. `unwrap` returns the answer of this
    kind to a request in a message, or raises NotFound.
    """

    wrap: Callable[[Any], Mapping[str, Any]]
    unwrap: Callable[[Any, Any, Any], Any]
    wrap_missing: Callable[[NotFound], Mapping[str, Any]] | None = None


def _fail(error: NotFound) -> Mapping[str, Any]:
    return {"success": False, "error": str(error)}


def _unwrap_job(kind: type[Any], message: Any, _request: Any) -> Any:
    if not message.HasField("job"):
        raise NotFound(message.error)
    return protobuf.from_message(kind, message.job)


def _check_success(_kind: type[Any], message: Any, _request: Any) -> None:
    if not message.success:
        raise NotFound(message.error)


def _unwrap_node(kind: type[Any], message: Any, request: Any) -> Any:
    if not message.HasField("node"):
        raise NotFound(f"no node {request.node_id!r}")
    return protobuf.from_message(kind, message.node)


def _unwrap_grip(kind: type[Any], message: Any, request: Any) -> Any:
    if not message.HasField("grip"):
        raise NotFound(f"no grip {request.grip_id!r}")
    return protobuf.from_message(kind, message)


_JOB_CHANGE = AnswerShape(lambda _job: {"success": True}, _check_success, _fail)
SHAPES: Mapping[str, AnswerShape] = {
    # These say nothing of what is missing.
    "memory.MemoryService.GetNode": AnswerShape(
        lambda node: {"node": node}, _unwrap_node, lambda _: {}
    ),
    "memory.MemoryService.ExpandGrip": AnswerShape(msgspec.to_builtins, _unwrap_grip, lambda _: {}),
    "memory.MemoryService.PauseJob": _JOB_CHANGE,
    "memory.MemoryService.ResumeJob": _JOB_CHANGE,
    "memory.MemoryService.RunJob": AnswerShape(
        lambda job: {"success": job.last_error is None, "error": job.last_error, "job": job},
        _unwrap_job,
        _fail,
    ),
}


def find_method(name: str) -> MethodDescriptor:
    """Return a method by its full name."""
    service, _, method = name.rpartition(".")
    return SERVICES[service].methods_by_name[method]


def find_path(operation: Operation[Any]) -> str:
    """Return the path of an operation in the headers of a call."""
    service, _, method = operation.rpc.rpartition(".")
    return f"/{service}/{method}"


def pack_request(operation: Operation[Any], request: object) -> bytes:
    kind = GetMessageClass(find_method(operation.rpc).input_type)
    message = kind() if request is None else protobuf.to_message(kind, request)
    return message.SerializeToString()


def unpack_answer(operation: Operation[Any], request: Any, content: bytes) -> Any:
    """Return the answer to a request that a message has. Raises InvalidInput, and NotFound."""
    message: Any = GetMessageClass(find_method(operation.rpc).output_type).FromString(content)
    shape = SHAPES.get(operation.rpc)
    if operation.answer is type(None):
        return None
    if shape is None:
        return protobuf.from_message(operation.answer, message)
    return shape.unwrap(operation.answer, message, request)


def pack_answer(operation: Operation[Any], call: Callable[[], object]) -> Message:
    """Return the message with what a call of the operation returns."""
    kind = GetMessageClass(find_method(operation.rpc).output_type)
    shape = SHAPES.get(operation.rpc)
    if shape is None:
        return protobuf.to_message(kind, call())
    try:
        fields = shape.wrap(call())
    except NotFound as exc:
        if shape.wrap_missing is None:
            raise
        fields = shape.wrap_missing(exc)
    return protobuf.to_message(kind, fields)
