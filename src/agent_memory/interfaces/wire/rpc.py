"""Operations as methods of gRPC: their requests and answers as messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from agent_memory.features.recall.search_operations import (
    MAX_HIT_CHARS,
    HitAnswer,
    PassageAnswer,
    SearchPage,
    cut_text,
)
from agent_memory.interfaces.wire import protobuf
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.operations import Operation
from agent_memory.proto import checkpoints_pb2, kontekst_pb2, memory_pb2

MAX_NAME_CHARS = 1_000  # of a hit's texts but these
_WHOLE = frozenset({"id", "uri", "title", "text"})

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


def _wrap_hits(page: SearchPage) -> Mapping[str, Any]:
    rows = msgspec.to_builtins(page)
    return {**rows, "hits": [_wrap_hit(hit) for hit in rows["results"]]}


def _wrap_hit(hit: dict[str, Any]) -> dict[str, Any]:
    """Cut what a page of hits would be too large with. Names come from metadata."""
    cut: dict[str, Any] = {
        name: value[:MAX_NAME_CHARS]
        for name, value in hit.items()
        if isinstance(value, str) and name not in _WHOLE
    }
    text = cut_text(hit["text"], MAX_HIT_CHARS)
    truncated = len(text) < len(hit["text"])
    if (passage := hit["passage"]) is not None:
        marks = [{"start": start, "end": end} for start, end in passage["marks"]]
        cut["passage"] = {**passage, "marks": marks}
    return {**hit, **cut, "text": text, "truncated": truncated}


def _unwrap_hits(_kind: type[Any], message: Any, _request: Any) -> SearchPage:
    return SearchPage(
        results=list(map(_unwrap_hit, message.hits)),
        total=message.total,
        certain=message.certain,
        warning=message.warning if message.HasField("warning") else None,
        continuation_token=message.continuation_token or None,
    )


def _unwrap_hit(message: Any) -> HitAnswer:
    passage = None
    if message.HasField("passage"):
        passage = PassageAnswer(
            text=message.passage.text,
            start=message.passage.start,
            end=message.passage.end,
            marks=[(mark.start, mark.end) for mark in message.passage.marks],
        )
        message.ClearField("passage")
    return msgspec.structs.replace(protobuf.from_message(HitAnswer, message), passage=passage)


_JOB_CHANGE = AnswerShape(lambda _job: {"success": True}, _check_success, _fail)
SHAPES: Mapping[str, AnswerShape] = {
    # An empty message means that there is none.
    "memory.MemoryService.GetNode": AnswerShape(
        lambda node: {"node": node}, _unwrap_node, lambda _: {}
    ),
    "memory.MemoryService.ExpandGrip": AnswerShape(msgspec.to_builtins, _unwrap_grip, lambda _: {}),
    "memory.MemoryService.Search": AnswerShape(_wrap_hits, _unwrap_hits),
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
