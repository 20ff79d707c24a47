"""Serving a protobuf service: one parser and one error translation for every method."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from agent_memory.interfaces.grpc.admission import Confirm, GrpcCaller, Guard
from agent_memory.interfaces.observing import FAILED, OK, Observer
from agent_memory.interfaces.wire.errors import get_codes
from agent_memory.kernel import tracing
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput
from agent_memory.kernel.tracing import Interface, TraceContext

log = structlog.get_logger()

M = TypeVar("M", bound=Message)
Context = Any  # grpc.aio.ServicerContext, whose stubs are generic over two types we do not use
Metadata = Iterable[tuple[str, Any]]
Handler: TypeAlias = "grpc.GenericRpcHandler[Any, Any]"
_Method: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Unary = Callable[[Any], Awaitable[Message]]
Stream = Callable[[AsyncIterator[Any]], AsyncIterator[Message]]


def build_service(
    descriptor: ServiceDescriptor,
    *,
    unary: dict[str, Unary],
    stream: dict[str, Stream],
    guard: Guard | None,
    observer: Observer,
) -> Handler:
    """Build the handlers of a service; methods without one answer UNIMPLEMENTED.

    Requests are parsed here and not by gRPC, which would answer INTERNAL for a client's bad bytes.
    The guard checks each call, except on the Unix socket: only its owner can open it.
    """
    known = descriptor.methods_by_name
    methods = {
        **{name: _unary(known[name], call, guard, observer) for name, call in unary.items()},
        **{name: _stream(known[name], call, guard, observer) for name, call in stream.items()},
    }
    return grpc.method_handlers_generic_handler(descriptor.full_name, methods)


def _unary(
    method: MethodDescriptor, call: Unary, guard: Guard | None, observer: Observer
) -> _Method:
    request_class = GetMessageClass(method.input_type)

    async def answer(raw: bytes, context: Context) -> Message:
        metadata = context.invocation_metadata() or ()
        started, outcome = observer.begin(), FAILED
        try:
            if guard is not None and (confirm := _admit(context, metadata, guard)) is not None:
                await _confirm(context, confirm)
            response = await call(_parse(request_class, raw))
            outcome = OK
            return response
        except AgentMemoryError as exc:
            outcome = type(exc).__name__
            await _abort(context, method, exc)
            raise AssertionError("abort returned") from exc
        finally:
            observer.end(started, Interface.GRPC, method.name, outcome, _trace(metadata))

    return grpc.unary_unary_rpc_method_handler(
        answer, response_serializer=lambda message: message.SerializeToString()
    )


def _stream(
    method: MethodDescriptor, call: Stream, guard: Guard | None, observer: Observer
) -> _Method:
    request_class = GetMessageClass(method.input_type)

    async def answer(raw: AsyncIterator[bytes], context: Context) -> AsyncIterator[Message]:
        try:
            metadata = context.invocation_metadata() or ()
            with observer.observe(Interface.GRPC, method.name, _trace(metadata)):
                if guard is not None and (confirm := _admit(context, metadata, guard)) is not None:
                    await _confirm(context, confirm)
                async for message in call(_parse(request_class, part) async for part in raw):
                    yield message
        except AgentMemoryError as exc:
            await _abort(context, method, exc)

    return grpc.stream_stream_rpc_method_handler(
        answer, response_serializer=lambda message: message.SerializeToString()
    )


def _trace(metadata: Metadata) -> TraceContext | None:
    for name, value in metadata:
        if name == "traceparent" and isinstance(value, str):
            return tracing.parse_traceparent(value)
    return None


def _admit(context: Context, metadata: Metadata, guard: Guard) -> Confirm | None:
    caller = GrpcCaller(authorization=dict(metadata).get("authorization"), peer=context.peer())
    return None if caller.uses_socket else guard(caller)


async def _confirm(context: Context, confirm: Confirm) -> None:
    # This writes to the call's own connection. If it is gone, gRPC cancels this task before it
    # reports the write as done.
    await context.send_initial_metadata(())
    confirm()


def _parse(request_class: type[M], raw: bytes) -> M:
    try:
        return request_class.FromString(raw)
    except DecodeError as exc:
        raise InvalidInput(
            f"the request is not a {request_class.DESCRIPTOR.full_name}: it is damaged, or a string"
            " of it is not valid UTF-8"
        ) from exc


async def _abort(context: Context, method: MethodDescriptor, exc: AgentMemoryError) -> None:
    code = get_codes(exc).grpc
    if code == "INTERNAL":
        log.error("grpc.failed", method=method.name, error=str(exc))
    await context.abort(grpc.StatusCode[code], str(exc) or type(exc).__doc__)
