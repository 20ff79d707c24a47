"""A feed of changes as they become durable.

One thread reads the outbox for all followers, and only while there are any. Slow consumers are
disconnected, so that nothing piles up behind them.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.outbox import EventChanged, MemoryChanged, OutboxEntry
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.features.log.services import paging
from agent_memory.features.memories.model.memories import Area, Memory
from agent_memory.features.memories.ports import Memories
from agent_memory.kernel import access
from agent_memory.kernel.errors import StorageClosed
from agent_memory.kernel.ids import MemoryKey, Position

ROOM = 1_000  # changes that may be pending for one follower
ROOM_CHARS = 16 << 20  # characters that may be pending for one follower
_BATCH = 64
_PAGE = 16  # records per read: each may be a megabyte

FeedRecord = Event | Memory
Encode = Callable[[FeedRecord], str]
RecordFilter = Callable[[FeedRecord], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedItem:
    """A record as it is now, and its encoded text, shared by all followers."""

    sequence: int
    record: FeedRecord
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Events of one session or project; empty matches any."""

    session_id: str = ""
    project: str = ""

    def __call__(self, record: FeedRecord) -> bool:
        return (
            isinstance(record, Event)
            and (not self.session_id or record.session_id == self.session_id)
            and (not self.project or record.metadata.get("project") == self.project)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """Memories of one area."""

    area: Area

    def __call__(self, record: FeedRecord) -> bool:
        return isinstance(record, Memory) and self.area.holds(record)


class Follower:
    """A follower of the feed. `start` is the entry after which it gets everything."""

    def __init__(self, wanted: RecordFilter, wake: Callable[[], None], start: int) -> None:
        self.start = start
        self.slow = False  # too much was pending
        self.ended = False  # the feed was closed
        self._wanted = wanted
        self._wake = wake
        self._waiting: deque[FeedItem] = deque()
        self._chars = 0
        self._lock = threading.Lock()

    @property
    def dropped(self) -> bool:
        """Whether the follower gets nothing more."""
        return self.slow or self.ended

    def take(self) -> list[FeedItem]:
        """Return what has arrived since the last call."""
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
            self._chars = 0
        return taken

    def give(self, changes: Sequence[FeedItem]) -> None:
        wanted = [c for c in changes if c.sequence > self.start and self._wanted(c.record)]
        if not wanted:
            return
        with self._lock:
            self._waiting.extend(wanted)
            self._chars += sum(len(change.text) for change in wanted)
            if len(self._waiting) > ROOM or self._chars > ROOM_CHARS:
                self.slow = True
                self._waiting.clear()
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()


class ChangeFeed:
    """The feed. Call `wake` whenever something became durable."""

    def __init__(self, log: EventLog, outbox: Outbox, memories: Memories, encode: Encode) -> None:
        self._log = log
        self._outbox = outbox
        self._memories = memories
        self._encode = encode
        self._followers: list[Follower] = []
        self._cursor = 0
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def follow(self, wanted: RecordFilter, wake: Callable[[], None]) -> Follower:
        """Follow the feed until `leave`. `wake` is called on another thread when there is
        something to take or the follower was dropped; it must not block. The caller of now gets
        only what they see."""
        wanted = _restrict(wanted)
        newest = self._log.watermark()  # outside the lock: it may wait for a flush
        with self._lock:
            if self._closed:
                raise StorageClosed("the store is closed")
            if not self._followers:
                self._cursor = max(self._cursor, newest)
            follower = Follower(wanted, wake, self._cursor)
            self._followers = [*self._followers, follower]
            if self._thread is None:
                # A thread has a context of its own, so it works for no caller.
                self._thread = threading.Thread(target=self._run, name="changes", daemon=True)
                self._thread.start()
        self._woken.set()
        return follower

    def follow_memories(self, wake: Callable[[], None]) -> "FollowedMemories":
        """Follow the memories alone, as `follow` does."""
        follower = self.follow(lambda record: isinstance(record, Memory), wake)
        return FollowedMemories(self, follower)

    def leave(self, follower: Follower) -> None:
        """Leave the feed without waiting: this is called on event loops. A busy feed removes the
        follower itself."""
        follower.ended = True
        if self._lock.acquire(blocking=False):
            try:
                self._followers = [each for each in self._followers if each is not follower]
            finally:
                self._lock.release()

    def wake(self) -> None:
        if self._followers:
            self._woken.set()

    @property
    def needed(self) -> int | None:
        """The entry after which the outbox is still needed; None without followers."""
        with self._lock:
            return self._cursor if self._followers else None

    def watermark(self) -> int:
        return self._log.watermark()

    def has_all_after(self, after: int) -> bool:
        """Tell whether the outbox still has everything after this entry."""
        return paging.has_all_after(self._outbox, after, self._log.watermark())

    def read_since(
        self, after: int, up_to: int, wanted: RecordFilter
    ) -> tuple[list[FeedItem], int]:
        """Return some changes after this entry, and the entry that they reach to."""
        wanted = _restrict(wanted)
        read = [each for each in self._outbox.read(after, limit=_PAGE) if each[0] <= up_to]
        found = [
            FeedItem(sequence=sequence, record=record, text=self._encode(record))
            for sequence, record in self._resolve_records(read)
            if wanted(record)
        ]
        return found, read[-1][0] if len(read) == _PAGE else up_to

    def close(self) -> None:
        with self._lock:
            self._closed = True
            thread = self._thread
        self._woken.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while not self._closed:
            self._woken.wait()
            self._woken.clear()
            try:
                while self._step():
                    pass
            except StorageClosed:
                break
            except Exception:
                # Read the next change again whatever went wrong: followers reconnect,
                # and get the reason then.
                self._drop_all()
        self._drop_all()

    def _step(self) -> bool:
        """Deliver some of what is new. Return whether there may be more."""
        with self._lock:
            after = self._cursor
            if not self._followers or self._closed:
                return False
        entries = self._outbox.read(after, limit=_BATCH)
        if not entries:
            return False
        changes = [
            FeedItem(sequence=sequence, record=record, text=self._encode(record))
            for sequence, record in self._resolve_records(entries)
        ]
        with self._lock:
            # Followers that joined meanwhile get it too, if it comes after their start.
            for follower in self._followers:
                if not follower.dropped:
                    follower.give(changes)
            self._cursor = max(self._cursor, entries[-1][0])
            self._followers = [each for each in self._followers if not each.dropped]
        return True

    def _drop_all(self) -> None:
        with self._lock:
            followers, self._followers = self._followers, []
        for follower in followers:
            with suppress(RuntimeError):  # its event loop is closed
                follower.end()

    def _resolve_records(
        self, entries: Sequence[tuple[int, OutboxEntry]]
    ) -> Iterator[tuple[int, FeedRecord]]:
        """Read the records behind the entries, as far as they exist."""
        places = [entry.at for _, entry in entries if isinstance(entry, EventChanged)]
        events: dict[Position, Event] = {}
        if places:
            events = {event.position: event for event in self._log.get_at(places)}
        memories: dict[MemoryKey, Memory | None] = {}
        for sequence, entry in entries:
            record: FeedRecord | None = None
            if isinstance(entry, EventChanged):
                # once: a second entry of the same event means that it was forgotten
                record = events.pop(entry.at, None)
            elif isinstance(entry, MemoryChanged):
                if entry.key not in memories:
                    memories[entry.key] = self._memories.get(entry.key)
                record = memories[entry.key]
            if record is not None:
                yield sequence, record


@dataclass(frozen=True, slots=True)
class FollowedMemories:
    """A MemoryFollower."""

    feed: ChangeFeed
    follower: Follower

    @property
    def dropped(self) -> bool:
        return self.follower.dropped

    def take(self) -> list[Memory]:
        return [item.record for item in self.follower.take() if isinstance(item.record, Memory)]

    def leave(self) -> None:
        self.feed.leave(self.follower)


def _restrict(wanted: RecordFilter) -> RecordFilter:
    """Return the filter narrowed to what the caller of now sees."""
    caller = access.get_caller()
    if caller is None:
        return wanted

    def admits(record: FeedRecord) -> bool:
        if isinstance(record, Memory):
            seen = caller.sees_domain(record.domain)
        else:
            seen = caller.sees_project(record.metadata.get("project", ""))
        return seen and wanted(record)

    return admits
