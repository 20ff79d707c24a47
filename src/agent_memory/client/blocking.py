"""The client for ordinary programs: a call returns when its answer is there."""

from collections.abc import Iterable, Iterator
from typing import Self, Unpack

from agent_memory.client import batches, calls
from agent_memory.client.connection import Connection
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


class MemoryClient:
    """A connection to the daemon. Threads may share it. Built by `connect` or `connect_default`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
        return cls(
            Connection.open(
                endpoint, key=key, timeout_seconds=timeout_seconds, connect_seconds=connect_seconds
            )
        )

    @classmethod
    def connect_default(
        cls,
        *,
        key: str | None = None,
        timeout_seconds: float = calls.CALL_SECONDS,
        connect_seconds: float = calls.CONNECT_SECONDS,
    ) -> Self:
        """Connect to the daemon that MEMORY_ENDPOINT names, or to the one that runs here."""
        return cls(
            Connection.open(
                None, key=key, timeout_seconds=timeout_seconds, connect_seconds=connect_seconds
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def ingest(self, event: Event) -> tuple[str, bool]:
        """Store an event: its id, and whether it is new. When this returns, it is on disk."""
        return self._connection.send(calls.ingest(event))

    def ingest_batch(self, events: Iterable[Event]) -> int:
        """Store many events, any number of them: how many are new.

        Raises EventsRefused for those that the daemon refuses, after all others are stored.
        """
        return batches.sum_created(
            [self._connection.send_stream(each) for each in batches.split_rounds(events)]
        )

    def get_events(
        self, from_ms: int, to_ms: int, limit: int = 50, continuation_token: str | None = None
    ) -> GetEventsResult:
        """One page of the events from `from_ms` to `to_ms`, both included, by time."""
        call = calls.get_events(from_ms, to_ms, limit, continuation_token)
        return self._connection.send(call)

    def iter_events(self, from_ms: int, to_ms: int) -> Iterator[Event]:
        """All events from `from_ms` to `to_ms`, both included, by time; read page by page."""
        call: calls.Unary[GetEventsResult] | None = calls.first_page(from_ms, to_ms)
        while call is not None:
            page = self._connection.send(call)
            yield from page.events
            call = calls.next_page(from_ms, to_ms, page)

    def get_toc_root(self) -> list[TocNode]:
        """Return the years of the table of contents, newest first."""
        return self._connection.send(calls.get_toc_root())

    def get_node(self, node_id: str) -> TocNode | None:
        """Return a node of the table of contents; None if there is no such node."""
        return self._connection.send(calls.get_node(node_id))

    def browse_toc(
        self, parent_id: str, limit: int = 20, continuation_token: str | None = None
    ) -> BrowseTocResult:
        """One page of a node's children."""
        return self._connection.send(calls.browse_toc(parent_id, limit, continuation_token))

    def expand_grip(
        self, grip_id: str, events_before: int | None = None, events_after: int | None = None
    ) -> ExpandGripResult:
        """Return the events of an excerpt and some around it. None leaves the number to the
        daemon."""
        return self._connection.send(calls.expand_grip(grip_id, events_before, events_after))

    def search(self, query: str, **filters: Unpack[SearchFilters]) -> SearchResult:
        """Search for an answer, best hits first. An empty query lists what the filters allow."""
        return self._connection.send(calls.search(query, filters))

    def get_scheduler_status(self) -> SchedulerStatus:
        """Return the state of the daemon's background jobs."""
        return self._connection.send(calls.get_scheduler_status())

    def pause_job(self, job_name: str) -> None:
        """Hold a job back until it is resumed."""
        self._connection.send(calls.pause_job(job_name))

    def resume_job(self, job_name: str) -> None:
        """Let a paused job run again."""
        self._connection.send(calls.resume_job(job_name))

    def run_job(self, job_name: str) -> Job:
        """Run a job now, and wait for its end."""
        return self._connection.send(calls.run_job(job_name))
