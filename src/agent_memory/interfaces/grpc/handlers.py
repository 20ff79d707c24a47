"""Serving a protobuf service: one parser and one error translation for every method."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import structlog
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from agent_memory.interfaces.grpc.admission import GrpcCaller, Guard, TeamGuard
from agent_memory.interfaces.grpc.calls import (
    CallHead,
    Method,
    Methods,
    ReadRequest,
    StreamMethod,
    UnaryMethod,
)
from agent_memory.interfaces.grpc.messages import parse_request
from agent_memory.interfaces.grpc.statuses import Status, StatusError
from agent_memory.interfaces.guard import Identity
from agent_memory.interfaces.observing import FAILED, OK, Observer
from agent_memory.interfaces.permissions import Permission
from agent_memory.interfaces.wire.errors import ERRORS, describe_error, get_codes
from agent_memory.kernel import access, deadlines, tracing
from agent_memory.kernel.access import Role
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.kernel.tracing import Interface, TraceContext

log = structlog.get_logger()

Unary = Callable[[Any], Awaitable[Message]]
Stream = Callable[[AsyncIterator[Any]], AsyncIterator[Message]]


def build_service(
    descriptor: ServiceDescriptor,
    *,
    unary: dict[str, Unary],
    stream: dict[str, Stream],
    guard: Guard | None,
    observer: Observer,
) -> Methods:
    """Build the methods of a service, by their paths.

    The guard checks each call, except on the Unix socket: only its owner can open it.
    """
    known = descriptor.methods_by_name
    methods: dict[str, Method] = {
        **{name: _unary(known[name], call, guard, observer) for name, call in unary.items()},
        **{name: _stream(known[name], call, guard, observer) for name, call in stream.items()},
    }
    return {f"/{descriptor.full_name}/{name}".encode(): method for name, method in methods.items()}


def _unary(
    method: MethodDescriptor, call: Unary, guard: Guard | None, observer: Observer
) -> UnaryMethod:
    request_class = GetMessageClass(method.input_type)

    async def answer(read: ReadRequest, head: CallHead) -> bytes:
        started, outcome = observer.begin(), FAILED
        admitted: _Admitted | None = None
        try:
            deadlines.expect_answer(head.read_timeout())
            if isinstance(guard, TeamGuard):
                admitted = await _authorize(head, guard, method)
                check: Callable[[], None] = admitted.check
            else:
                check = partial(_admit, head, guard)
                check()
            raw = await read()
            check()  # the key may have been revoked before the request was whole
            response = await call(parse_request(request_class, raw))
            outcome = OK
            return response.SerializeToString()
        except AgentMemoryError as exc:
            outcome = type(exc).__name__
            raise _translate(method, exc) from exc
        finally:
            if admitted is not None:
                await admitted.enter(method, outcome)
            observer.end(started, Interface.GRPC, method.name, outcome, _trace(head))

    return UnaryMethod(answer)


def _stream(
    method: MethodDescriptor, call: Stream, guard: Guard | None, observer: Observer
) -> StreamMethod:
    request_class = GetMessageClass(method.input_type)

    async def answer(raw: AsyncIterator[bytes], head: CallHead) -> AsyncIterator[bytes]:
        admitted: _Admitted | None = None
        outcome = FAILED
        try:
            with observer.observe(Interface.GRPC, method.name, _trace(head)):
                deadlines.expect_answer(head.read_timeout())
                if isinstance(guard, TeamGuard):
                    admitted = await _authorize(head, guard, method)
                    check: Callable[[], None] = admitted.check
                else:
                    check = partial(_admit, head, guard)
                    check()
                messages = call(_read_messages(request_class, raw, check))
                # Closed here, not by the garbage collector: a client may have left between two.
                async with contextlib.aclosing(cast("Any", messages)):
                    async for message in messages:
                        check()
                        yield message.SerializeToString()
            outcome = OK
        except AgentMemoryError as exc:
            outcome = type(exc).__name__
            raise _translate(method, exc) from exc
        finally:
            if admitted is not None:
                await admitted.enter(method, outcome)

    return StreamMethod(answer)


async def _read_messages(
    request_class: type[Message], raw: AsyncIterator[bytes], check: Callable[[], None]
) -> AsyncIterator[Message]:
    """Parse the messages of a stream. Its key may be revoked while it is open, so each is
    admitted by itself."""
    async for part in raw:
        check()
        yield parse_request(request_class, part)


def _trace(head: CallHead) -> TraceContext | None:
    value = head.traceparent
    return None if value is None else tracing.parse_traceparent(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admitted:
    """A call that a team server has admitted."""

    guard: TeamGuard
    caller: Identity
    needed: Permission

    def check(self) -> None:
        """Raise Unauthorized once the caller would not be admitted any more."""
        self.guard.check_valid(self.caller)

    async def enter(self, method: MethodDescriptor, outcome: str) -> None:
        """Enter the call into the audit log, with the HTTP status of its outcome."""
        await self.guard.auditor.note(
            self.caller.name,
            self.caller.principal,
            "grpc",
            method.full_name,
            "",
            _STATUSES.get(outcome, _STATUSES[FAILED]),
            needed=self.needed,
            writes=self.needed.role is not Role.READER,
        )


_STATUSES = {OK: 200, FAILED: 500} | {kind.__name__: codes.http for kind, codes in ERRORS.items()}


async def _authorize(head: CallHead, guard: TeamGuard, method: MethodDescriptor) -> _Admitted:
    caller, needed = await guard.admit(_read_caller(head), method.full_name)
    access.act_as(caller.principal)
    return _Admitted(guard=guard, caller=caller, needed=needed)


def _admit(head: CallHead, guard: Guard | None) -> None:
    if guard is not None and not head.origin.uses_socket:
        guard(_read_caller(head))


def _read_caller(head: CallHead) -> GrpcCaller:
    return GrpcCaller(authorization=head.authorization, origin=head.origin)


def _translate(method: MethodDescriptor, exc: AgentMemoryError) -> StatusError:
    code = get_codes(exc).grpc
    if code == "INTERNAL":
        log.error("grpc.failed", method=method.name, error=str(exc))
    return StatusError(Status[code], describe_error(exc))
