"""The audit log: entries are collected and stored in groups, so that requests do not wait."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from agent_memory.features.access.model.audit import AuditEntry, AuditFilter, AuditPage
from agent_memory.features.access.ports import AuditStore
from agent_memory.kernel import access
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import Clock

GROUP_SECONDS = 1.0  # how long entries that nobody waits for are collected
MOST_WAITING = 10_000  # of these, by what they have in common
KEEP = 1_000_000  # entries
DAY_MS = 86_400_000
TRIM_EVERY = 1_000  # entries written
PAGE = 500
MOST_READ = 20_000  # entries that one page may search

OnFailure = Callable[[Sequence[AuditEntry], AgentMemoryError], None]


class AuditLog:
    """The log. `on_failure` gets entries that could not be stored."""

    def __init__(
        self, store: AuditStore, clock: Clock, *, days: int, on_failure: OnFailure
    ) -> None:
        self.clock = clock
        self._store = store
        self._days = days
        self._on_failure = on_failure
        self._changed = threading.Condition()
        self._waiting: dict[tuple[object, ...], AuditEntry] = {}
        self._awaited: list[tuple[AuditEntry, Future[None]]] = []
        self._dropped = 0
        self._written = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def enter(self, entry: AuditEntry, *, must: bool) -> "Future[None] | None":
        """Add an entry. One that `must` be stored returns a future: wait for it, so that there are
        never more of them than requests under way. Others alike become one, and are dropped if too
        many wait."""
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
                self._thread.start()
            if must:
                stored: Future[None] = Future()
                self._awaited.append((entry, stored))
                if self._closed:
                    self._write_all()
                self._changed.notify()
                return stored
            known = self._waiting.get(entry.alike)
            if known is not None:
                self._waiting[entry.alike] = replace(known, count=known.count + entry.count)
            elif len(self._waiting) < MOST_WAITING:
                self._waiting[entry.alike] = entry
                if len(self._waiting) == 1:
                    self._changed.notify()
            else:
                self._dropped += entry.count
            return None

    def note_acts(self, interface: str, method: str, targets: Mapping[str, int]) -> None:
        """Enter durably what the caller did to each target, with its status."""
        caller = access.get_caller()
        stored = [
            self.enter(
                AuditEntry(
                    at_ms=self.clock.now(),
                    person="" if caller is None else caller.person,
                    key="",
                    interface=interface,
                    method=method,
                    target=target,
                    status=status,
                ),
                must=True,
            )
            for target, status in targets.items()
        ]
        for future in stored:
            if future is not None:
                future.result()

    def list_entries(
        self, wanted: AuditFilter, *, limit: int, before: int | None = None
    ) -> AuditPage:
        """Return entries, newest first. A page may have fewer than `limit`: only `next` shows
        whether there are more."""
        found: list[AuditEntry] = []
        read = 0
        while read < MOST_READ:
            page = self._store.list_before(before, limit=PAGE)
            for entry in page:
                before = entry.number
                if wanted(entry):
                    found.append(entry)
                    if len(found) == limit:
                        return AuditPage(entries=tuple(found), next=before)
            if len(page) < PAGE or page[-1].at_ms < wanted.since - DAY_MS:
                return AuditPage(entries=tuple(found))
            read += len(page)
        return AuditPage(entries=tuple(found), next=before)

    def close(self) -> None:
        """Store what waits."""
        with self._changed:
            self._closed = True
            thread, self._thread = self._thread, None
            self._changed.notify()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        with self._changed:
            while True:
                while not (self._waiting or self._awaited or self._closed):
                    self._changed.wait()
                if not (self._awaited or self._closed):
                    self._changed.wait(GROUP_SECONDS)
                self._write_all()
                if self._closed and not (self._waiting or self._awaited):
                    return

    def _write_all(self) -> None:
        """Store everything that waits, with the lock released meanwhile."""
        awaited, self._awaited = self._awaited, []
        collected, self._waiting = list(self._waiting.values()), {}
        dropped, self._dropped = self._dropped, 0
        if dropped:
            collected.append(self._describe_dropped(dropped))
        entries = sorted([*collected, *(entry for entry, _ in awaited)], key=lambda e: e.at_ms)
        if not entries:
            return
        self._changed.release()
        try:
            self._store.add(entries)
            self._written += len(entries)
            if self._written >= TRIM_EVERY:
                self._written = 0
                self.trim()
        except AgentMemoryError as exc:
            self._on_failure(entries, exc)
        finally:
            self._changed.acquire()
            for _, stored in awaited:
                stored.set_result(None)

    def trim(self) -> None:
        """Remove what is older than the days that are kept, or more than fits."""
        since = Millis(self.clock.now() - self._days * DAY_MS)
        self._store.trim(keep=KEEP, since=since)

    def _describe_dropped(self, count: int) -> AuditEntry:
        return AuditEntry(
            at_ms=self.clock.now(),
            person="",
            key="",
            interface="audit",
            method="dropped",
            target="",
            status=0,
            count=count,
        )
