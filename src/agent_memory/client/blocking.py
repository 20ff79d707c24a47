"""The client for ordinary programs: a call returns when its answer is there."""

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, TypeVar, Unpack

import grpc

from agent_memory.client import batches, calls, endpoints
from agent_memory.client.endpoints import Endpoint
from agent_memory.client.errors import RpcError
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


class MemoryClient:
    """A connection to the daemon. Threads may share it. Built by `connect` or `connect_default`."""

    def __init__(self, endpoint: Endpoint, *, key: str | None, timeout_seconds: float) -> None:
        self._metadata = calls.metadata(key)
        self._seconds = timeout_seconds
        self._closed = False
        self._channel = calls.open_channel(endpoint)

    @classmethod
    def connect(
        cls,
        endpoint: str,
        *,
        key: str | None = None,
        timeout_seconds: float = calls.CALL_SECONDS,
        connect_seconds: float = calls.CONNECT_SECONDS,
    ) -> Self:
        """Connect and make sure that a daemon answers. `timeout_seconds` is for each later call."""
        key = endpoints.choose_key(key, os.environ)
        found = [endpoints.resolve(endpoint, key, os.environ)]
        return cls._open(found, key, timeout_seconds, connect_seconds)

    @classmethod
    def connect_default(
        cls,
        *,
        key: str | None = None,
        timeout_seconds: float = calls.CALL_SECONDS,
        connect_seconds: float = calls.CONNECT_SECONDS,
    ) -> Self:
        """Connect to the daemon that MEMORY_ENDPOINT names, or to the one that runs here."""
        key = endpoints.choose_key(key, os.environ)
        found = endpoints.discover(os.environ, key)
        return cls._open(found, key, timeout_seconds, connect_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        self._channel.close()

    def ingest(self, event: Event) -> tuple[str, bool]:
        """Store an event: its id, and whether it is new. When this returns, it is on disk."""
        return self._unary(calls.ingest(event))

    def ingest_batch(self, events: Iterable[Event]) -> int:
        """Store many events, any number of them: how many are new.

        Raises EventsRefused for those that the daemon refuses, after all others are stored.
        """
        return batches.sum_created([self._stream(each) for each in batches.split_rounds(events)])

    def get_events(
        self, from_ms: int, to_ms: int, limit: int = 50, continuation_token: str | None = None
    ) -> GetEventsResult:
        """One page of the events from `from_ms` to `to_ms`, both included, by time."""
        call = calls.get_events(from_ms, to_ms, limit, continuation_token)
        return self._unary(call)

    def iter_events(self, from_ms: int, to_ms: int) -> Iterator[Event]:
        """All events from `from_ms` to `to_ms`, both included, by time; read page by page."""
        call: calls.Unary[GetEventsResult] | None = calls.first_page(from_ms, to_ms)
        while call is not None:
            page = self._unary(call)
            yield from page.events
            call = calls.next_page(from_ms, to_ms, page)

    def get_toc_root(self) -> list[TocNode]:
        """Return the years of the table of contents, newest first."""
        return self._unary(calls.get_toc_root())

    def get_node(self, node_id: str) -> TocNode | None:
        """Return a node of the table of contents; None if there is no such node."""
        return self._unary(calls.get_node(node_id))

    def browse_toc(
        self, parent_id: str, limit: int = 20, continuation_token: str | None = None
    ) -> BrowseTocResult:
        """One page of a node's children."""
        return self._unary(calls.browse_toc(parent_id, limit, continuation_token))

    def expand_grip(
        self, grip_id: str, events_before: int | None = None, events_after: int | None = None
    ) -> ExpandGripResult:
        """Return the events of an excerpt and some around it. None leaves the number to the
        daemon."""
        return self._unary(calls.expand_grip(grip_id, events_before, events_after))

    def search(self, query: str, **filters: Unpack[SearchFilters]) -> SearchResult:
        """Search for an answer, best hits first. An empty query lists what the filters allow."""
        return self._unary(calls.search(query, filters))

    def get_scheduler_status(self) -> SchedulerStatus:
        """Return the state of the daemon's background jobs."""
        return self._unary(calls.get_scheduler_status())

    def pause_job(self, job_name: str) -> None:
        """Hold a job back until it is resumed."""
        self._unary(calls.pause_job(job_name))

    def resume_job(self, job_name: str) -> None:
        """Let a paused job run again."""
        self._unary(calls.resume_job(job_name))

    def run_job(self, job_name: str) -> Job:
        """Run a job now, and wait for its end."""
        return self._unary(calls.run_job(job_name))

    @classmethod
    def _open(
        cls,
        candidates: Iterable[Endpoint],
        key: str | None,
        timeout_seconds: float,
        connect_seconds: float,
    ) -> Self:
        failures: dict[str, RpcError] = {}
        for endpoint in candidates:
            client = cls(endpoint, key=key, timeout_seconds=timeout_seconds)
            failure = client._probe(connect_seconds)
            if failure is None:
                return client
            client.close()
            failures[endpoint.name] = failure
        raise calls.no_daemon_error(failures)

    def _probe(self, seconds: float) -> RpcError | None:
        try:
            self._unary(calls.PROBE, seconds)
        except RpcError as exc:
            return calls.none_if_answered(exc)
        return None

    def _unary(self, call: calls.Unary[Value], seconds: float | None = None) -> Value:
        if self._closed:
            raise calls.client_closed_error()
        send = self._channel.unary_unary(call.path, None, None)
        try:
            answer: bytes = send(
                call.request, timeout=seconds or self._seconds, metadata=self._metadata
            )
        except grpc.RpcError as exc:
            raise calls.to_rpc_error(exc) from exc
        return call.parse(answer)

    def _stream(self, call: calls.Stream[Value]) -> Value:
        if self._closed:
            raise calls.client_closed_error()
        send = self._channel.stream_stream(call.path, None, None)
        try:
            answers: list[bytes] = list(
                send(iter(call.requests), timeout=self._seconds, metadata=self._metadata)
            )
        except grpc.RpcError as exc:
            raise calls.to_rpc_error(exc) from exc
        return call.parse(answers)
