"""Serving a protobuf service: one parser and one error translation for every method."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from agent_memory.interfaces.grpc.admission import Confirm, GrpcCaller, Guard, TeamGuard
from agent_memory.interfaces.observing import FAILED, OK, Observer
from agent_memory.interfaces.permissions import Permission
from agent_memory.interfaces.wire.errors import ERRORS, describe_error, get_codes
from agent_memory.kernel import access, tracing
from agent_memory.kernel.access import Principal, Role
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
        admitted: _Admitted | None = None
        try:
            if isinstance(guard, TeamGuard):
                admitted = await _authorize(context, metadata, guard, method)
            elif guard is not None and (confirm := _admit(context, metadata, guard)) is not None:
                await _confirm(context, confirm)
            response = await call(_parse(request_class, raw))
            outcome = OK
            return response
        except AgentMemoryError as exc:
            outcome = type(exc).__name__
            await _abort(context, method, exc)
            raise AssertionError("abort returned") from exc
        finally:
            if admitted is not None:
                await admitted.enter(method, outcome)
            observer.end(started, Interface.GRPC, method.name, outcome, _trace(metadata))

    return grpc.unary_unary_rpc_method_handler(
        answer, response_serializer=lambda message: message.SerializeToString()
    )


def _stream(
    method: MethodDescriptor, call: Stream, guard: Guard | None, observer: Observer
) -> _Method:
    request_class = GetMessageClass(method.input_type)

    async def answer(raw: AsyncIterator[bytes], context: Context) -> AsyncIterator[Message]:
        admitted: _Admitted | None = None
        outcome = FAILED
        try:
            metadata = context.invocation_metadata() or ()
            with observer.observe(Interface.GRPC, method.name, _trace(metadata)):
                if isinstance(guard, TeamGuard):
                    admitted = await _authorize(context, metadata, guard, method)
                elif (
                    guard is not None and (confirm := _admit(context, metadata, guard)) is not None
                ):
                    await _confirm(context, confirm)
                async for message in call(_parse(request_class, part) async for part in raw):
                    yield message
            outcome = OK
        except AgentMemoryError as exc:
            outcome = type(exc).__name__
            await _abort(context, method, exc)
        finally:
            if admitted is not None:
                await admitted.enter(method, outcome)

    return grpc.stream_stream_rpc_method_handler(
        answer, response_serializer=lambda message: message.SerializeToString()
    )


def _trace(metadata: Metadata) -> TraceContext | None:
    for name, value in metadata:
        if name == "traceparent" and isinstance(value, str):
            return tracing.parse_traceparent(value)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admitted:
    """A call that a team server has admitted."""

    guard: TeamGuard
    key: str
    principal: Principal
    needed: Permission

    async def enter(self, method: MethodDescriptor, outcome: str) -> None:
        """Enter the call into the audit log, with the HTTP status of its outcome."""
        await self.guard.auditor.note(
            self.key,
            self.principal,
            "grpc",
            method.full_name,
            "",
            _STATUSES.get(outcome, _STATUSES[FAILED]),
            needed=self.needed,
            writes=self.needed.role is not Role.READER,
        )


_STATUSES = {OK: 200, FAILED: 500} | {kind.__name__: codes.http for kind, codes in ERRORS.items()}


async def _authorize(
    context: Context, metadata: Metadata, guard: TeamGuard, method: MethodDescriptor
) -> _Admitted:
    caller = _read_caller(context, metadata)
    key, principal, needed = await guard.admit(caller, method.full_name)
    access.act_as(principal)
    return _Admitted(guard=guard, key=key, principal=principal, needed=needed)


def _admit(context: Context, metadata: Metadata, guard: Guard) -> Confirm | None:
    caller = _read_caller(context, metadata)
    return None if caller.uses_socket else guard(caller)


def _read_caller(context: Context, metadata: Metadata) -> GrpcCaller:
    return GrpcCaller(authorization=dict(metadata).get("authorization"), peer=context.peer())


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
    await context.abort(grpc.StatusCode[code], describe_error(exc))
