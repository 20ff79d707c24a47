"""One connection for ordinary programs and asyncio alike: calls are blocked on, or awaited."""

import asyncio
import os
from contextlib import suppress
from typing import Any, Self, TypeVar

from agent_memory.client import calls, endpoints
from agent_memory.client.endpoints import Endpoint
from agent_memory.client.errors import RpcError
from agent_memory.client.late_grpc import grpc

Value = TypeVar("Value")


class Connection:
    """Threads, tasks and event loops may share it.

    `call` and `acall` are for calls that may be sent twice. One that finds the daemon gone waits
    for another to take its place, `connect_seconds` at most, and is sent again.
    """

    def __init__(
        self, endpoint: Endpoint, *, key: str | None, timeout_seconds: float, connect_seconds: float
    ) -> None:
        self._metadata = calls.metadata(key)
        self._seconds = timeout_seconds
        self._patience = connect_seconds
        self._closed = False
        self._methods: dict[str, Any] = {}  # grpc.UnaryUnaryMultiCallable of each path
        self._channel = calls.open_channel(endpoint)

    @classmethod
    def open(
        cls,
        endpoint: str | None,
        *,
        key: str | None,
        timeout_seconds: float,
        connect_seconds: float,
    ) -> Self:
        """To this endpoint, or to the daemon that is found."""
        key = endpoints.choose_key(key, os.environ)
        failures: dict[str, RpcError] = {}
        for each in endpoints.list_candidates(endpoint, key, os.environ):
            connection = cls(
                each, key=key, timeout_seconds=timeout_seconds, connect_seconds=connect_seconds
            )
            try:
                connection.send(calls.PROBE, connect_seconds)
            except RpcError as exc:
                if calls.is_unanswered(exc):
                    connection.close()
                    failures[each.name] = exc
                    continue
            return connection
        raise calls.no_daemon_error(failures)

    def close(self) -> None:
        self._closed = True
        self._channel.close()

    def call(self, call: calls.Unary[Value]) -> Value:
        try:
            return self.send(call)
        except RpcError as exc:
            failure = _raise_unless_lost(exc)
        try:
            self.send(calls.PROBE, self._patience, wait_for_ready=True)
        except RpcError:
            raise failure from None
        return self.send(call)

    async def acall(self, call: calls.Unary[Value]) -> Value:
        try:
            return await self._asend(call, self._seconds)
        except RpcError as exc:
            failure = _raise_unless_lost(exc)
        try:
            await self._asend(calls.PROBE, self._patience, wait_for_ready=True)
        except RpcError:
            raise failure from None
        return await self._asend(call, self._seconds)

    def send(
        self,
        call: calls.Unary[Value],
        seconds: float | None = None,
        *,
        wait_for_ready: bool = False,
    ) -> Value:
        """Send a call once, and wait for its answer."""
        try:
            answer: bytes = self._method(call.path)(
                call.request,
                timeout=seconds or self._seconds,
                metadata=self._metadata,
                wait_for_ready=wait_for_ready,
            )
        except grpc.RpcError as exc:
            raise calls.to_rpc_error(exc) from exc
        return call.parse(answer)

    def send_stream(self, call: calls.Stream[Value]) -> Value:
        """Send all messages of a call once, and wait for all answers."""
        if self._closed:
            raise calls.client_closed_error()
        method = self._channel.stream_stream(call.path, None, None)
        try:
            answers: list[bytes] = list(
                method(iter(call.requests), timeout=self._seconds, metadata=self._metadata)
            )
        except grpc.RpcError as exc:
            raise calls.to_rpc_error(exc) from exc
        return call.parse(answers)

    async def _asend(
        self, call: calls.Unary[Value], seconds: float, *, wait_for_ready: bool = False
    ) -> Value:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bytes] = loop.create_future()
        sent = self._method(call.path).future(
            call.request, timeout=seconds, metadata=self._metadata, wait_for_ready=wait_for_ready
        )

        def answer() -> None:
            if waiter.done():
                return  # its task was cancelled
            try:
                waiter.set_result(sent.result())
            except (grpc.RpcError, grpc.FutureCancelledError) as exc:
                waiter.set_exception(exc)

        def settle(_done: object) -> None:
            with suppress(RuntimeError):  # the loop was closed, so no caller waits
                loop.call_soon_threadsafe(answer)

        sent.add_done_callback(settle)
        try:
            return call.parse(await waiter)
        except grpc.RpcError as exc:
            raise calls.to_rpc_error(exc) from exc
        except asyncio.CancelledError:
            sent.cancel()
            raise

    def _method(self, path: str) -> Any:
        if self._closed:
            raise calls.client_closed_error()
        found = self._methods.get(path)
        if found is None:
            found = self._methods[path] = self._channel.unary_unary(path, None, None)
        return found


def _raise_unless_lost(error: RpcError) -> RpcError:
    """Return the error if it means that the daemon went away; raise it otherwise."""
    if error.code != "UNAVAILABLE":
        raise error
    return error
