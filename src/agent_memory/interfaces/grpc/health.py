"""grpc.health.v1.Health: whether each service answers. It needs no key: it shows nothing stored."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from google.protobuf.message import Message
from grpc_health.v1 import health_pb2 as pb

from agent_memory.interfaces.grpc.calls import (
    CallHead,
    Methods,
    ReadRequest,
    StreamMethod,
    UnaryMethod,
)
from agent_memory.interfaces.grpc.messages import parse_request
from agent_memory.interfaces.grpc.statuses import Status, StatusError

SERVICE = pb.DESCRIPTOR.services_by_name["Health"].full_name

_States = pb.HealthCheckResponse


class HealthService:
    """The state of each service by its name; the empty name stands for all of them."""

    def __init__(self, services: Iterable[str]) -> None:
        self._states = dict.fromkeys(["", *services], _States.NOT_SERVING)
        self._is_ending = False
        self._changed = asyncio.Event()

    def build_methods(self) -> Methods:
        return {
            f"/{SERVICE}/Check".encode(): UnaryMethod(self._check, is_open=True),
            f"/{SERVICE}/List".encode(): UnaryMethod(self._list, is_open=True),
            f"/{SERVICE}/Watch".encode(): StreamMethod(self._watch, is_open=True),
        }

    def report(self, serving: bool) -> None:
        """Change the state of every service, unless the server is about to end."""
        if not self._is_ending:
            self._set_all(_States.SERVING if serving else _States.NOT_SERVING)

    def end(self) -> None:
        self._is_ending = True
        self._set_all(_States.NOT_SERVING)

    def _set_all(self, state: "pb.HealthCheckResponse.ServingStatus") -> None:
        self._states = dict.fromkeys(self._states, state)
        self._changed.set()
        self._changed = asyncio.Event()

    async def _check(self, read: ReadRequest, _head: CallHead) -> bytes:
        request = parse_request(pb.HealthCheckRequest, await read())
        state = self._states.get(request.service)
        if state is None:
            raise StatusError(Status.NOT_FOUND, "there is no such service")
        return _serialize(_States(status=state))

    async def _list(self, read: ReadRequest, _head: CallHead) -> bytes:
        await read()
        statuses = {name: _States(status=state) for name, state in self._states.items()}
        return _serialize(pb.HealthListResponse(statuses=statuses))

    async def _watch(self, requests: AsyncIterator[bytes], _head: CallHead) -> AsyncIterator[bytes]:
        request = parse_request(pb.HealthCheckRequest, await anext(requests, b""))
        last = None
        while True:
            changed = self._changed
            state = self._states.get(request.service, _States.SERVICE_UNKNOWN)
            if state != last:
                last = state
                yield _serialize(_States(status=state))
            await changed.wait()


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
