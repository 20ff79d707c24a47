"""The client for asyncio programs: the same calls, awaited."""

import os
from collections.abc import AsyncIterator, Iterable
from typing import Self, TypeVar, Unpack

from agent_memory.client import batches, calls, endpoints
from agent_memory.client.endpoints import Endpoint
from agent_memory.client.errors import RpcError
from agent_memory.client.late_grpc import grpc
from agent_memory.client.values import (
    BrowseTocResult,
    Event,
    ExpandGripResult,
    GetEventsResult,
    Job,
    SchedulerStatus,
    SearchFilters,
    SearchResult,
    TocNode,
)

Value = TypeVar("Value")


class AsyncMemoryClient:
    """A connection to the daemon. Tasks may share it. Built by `connect` or `connect_default`."""

    def __init__(self, endpoint: Endpoint, *, key: str | None, timeout_seconds: float) -> None:
        self._metadata = calls.metadata(key)
        self._seconds = timeout_seconds
        self._closed = False
        self._channel = (
            grpc.aio.secure_channel(
                endpoint.target, grpc.ssl_channel_credentials(), endpoint.options
            )
            if endpoint.tls
            else grpc.aio.insecure_channel(endpoint.target, endpoint.options)
        )

    @classmethod
    async def connect(
        cls,
        endpoint: str,
        *,
        key: str | None = None,
        timeout_seconds: float = calls.CALL_SECONDS,
        connect_seconds: float = calls.CONNECT_SECONDS,
    ) -> Self:
        """Connect and make sure that a daemon answers. `timeout_seconds` is for each later call."""
        return await cls._open(endpoint, key, timeout_seconds, connect_seconds)

    @classmethod
    async def connect_default(
        cls,
        *,
        key: str | None = None,
        timeout_seconds: float = calls.CALL_SECONDS,
        connect_seconds: float = calls.CONNECT_SECONDS,
    ) -> Self:
        """Connect to the daemon that MEMORY_ENDPOINT names, or to the one that runs here."""
        return await cls._open(None, key, timeout_seconds, connect_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        await self._channel.close(None)

    async def ingest(self, event: Event) -> tuple[str, bool]:
        """Store an event: its id, and whether it is new. When this returns, it is on disk."""
        return await self._unary(calls.ingest(event))

    async def ingest_batch(self, events: Iterable[Event]) -> int:
        """Store many events, any number of them: how many are new.

        Raises EventsRefused for those that the daemon refuses, after all others are stored.
        """
        return batches.sum_created(
            [await self._stream(each) for each in batches.split_rounds(events)]
        )

    async def get_events(
        self, from_ms: int, to_ms: int, limit: int = 50, continuation_token: str | None = None
    ) -> GetEventsResult:
        """One page of the events from `from_ms` to `to_ms`, both included, by time."""
        call = calls.get_events(from_ms, to_ms, limit, continuation_token)
        return await self._unary(call)

    async def iter_events(self, from_ms: int, to_ms: int) -> AsyncIterator[Event]:
        """All events from `from_ms` to `to_ms`, both included, by time; read page by page."""
        call: calls.Unary[GetEventsResult] | None = calls.first_page(from_ms, to_ms)
        while call is not None:
            page = await self._unary(call)
            for event in page.events:
                yield event
            call = calls.next_page(from_ms, to_ms, page)

    async def get_toc_root(self) -> list[TocNode]:
        """Return the years of the table of contents, newest first."""
        return await self._unary(calls.get_toc_root())

    async def get_node(self, node_id: str) -> TocNode | None:
        """Return a node of the table of contents; None if there is no such node."""
        return await self._unary(calls.get_node(node_id))

    async def browse_toc(
        self, parent_id: str, limit: int = 20, continuation_token: str | None = None
    ) -> BrowseTocResult:
        """One page of a node's children."""
        return await self._unary(calls.browse_toc(parent_id, limit, continuation_token))

    async def expand_grip(
        self, grip_id: str, events_before: int | None = None, events_after: int | None = None
    ) -> ExpandGripResult:
        """Return the events of an excerpt and some around it. None leaves the number to the
        daemon."""
        return await self._unary(calls.expand_grip(grip_id, events_before, events_after))

    async def search(self, query: str, **filters: Unpack[SearchFilters]) -> SearchResult:
        """Search for an answer, best hits first. An empty query lists what the filters allow."""
        return await self._unary(calls.search(query, filters))

    async def get_scheduler_status(self) -> SchedulerStatus:
        """Return the state of the daemon's background jobs."""
        return await self._unary(calls.get_scheduler_status())

    async def pause_job(self, job_name: str) -> None:
        """Hold a job back until it is resumed."""
        await self._unary(calls.pause_job(job_name))

    async def resume_job(self, job_name: str) -> None:
        """Let a paused job run again."""
        await self._unary(calls.resume_job(job_name))

    async def run_job(self, job_name: str) -> Job:
        """Run a job now, and wait for its end."""
        return await self._unary(calls.run_job(job_name))

    @classmethod
    async def _open(
        cls, address: str | None, key: str | None, timeout_seconds: float, connect_seconds: float
    ) -> Self:
        key = endpoints.choose_key(key, os.environ)
        failures: dict[str, RpcError] = {}
        for endpoint in endpoints.list_candidates(address, key, os.environ):
            client = cls(endpoint, key=key, timeout_seconds=timeout_seconds)
            try:
                await client._unary(calls.PROBE, connect_seconds)
            except RpcError as exc:
                if calls.is_unanswered(exc):
                    await client.close()
                    failures[endpoint.name] = exc
                    continue
            return client
        raise calls.no_daemon_error(failures)

    async def _unary(self, call: calls.Unary[Value], seconds: float | None = None) -> Value:
        if self._closed:
            raise calls.client_closed_error()
        send = self._channel.unary_unary(call.path, None, None)
        try:
            answer: bytes = await send(
                call.request, timeout=seconds or self._seconds, metadata=self._metadata
            )
        except grpc.RpcError as exc:
            raise calls.to_rpc_error(exc) from exc
        return call.parse(answer)

    async def _stream(self, call: calls.Stream[Value]) -> Value:
        if self._closed:
            raise calls.client_closed_error()
        send = self._channel.stream_stream(call.path, None, None)
        try:
            stream = send(iter(call.requests), timeout=self._seconds, metadata=self._metadata)
            answers: list[bytes] = [answer async for answer in stream]
        except grpc.RpcError as exc:
            raise calls.to_rpc_error(exc) from exc
        return call.parse(answers)
