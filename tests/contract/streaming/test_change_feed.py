"""What is told to those who follow changes, over every store."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, EventRole, EventType, SessionPosition
from agent_memory.features.memories.adapters.memory_store import StoredMemories
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.features.streaming.services import change_feed
from agent_memory.features.streaming.services.change_feed import (
    ChangeFeed,
    EventFilter,
    FeedItem,
    FeedRecord,
    MemoryFilter,
)
from agent_memory.kernel.ids import USER, Domain, EventId, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import TIMEOUT
from tests.memory_values import memory


def event(name: str, *, session: str = "s", project: str = "", text: str = "") -> Event:
    return Event(
        event_id=EventId(name),
        session_id=SessionId(session),
        at_ms=Millis(5),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=text,
        metadata={"project": project} if project else {},
    )


class Feed:
    """A feed, and what writes to it."""

    def __init__(self, store: OrderedStore) -> None:
        self.log = StoredEventLog(store)
        self.memories = StoredMemories(store)
        self.outbox = StoredOutbox(store)
        self.encoded: list[FeedRecord] = []
        self.changes = ChangeFeed(self.log, self.outbox, self.memories, self._encode)

    def say(self, *events: Event) -> None:
        self.log.append(events).result(TIMEOUT)
        self.changes.wake()

    def keep(self, created: Memory, before: Memory | None = None) -> Memory:
        assert self.memories.write([MemoryChange(before, created, None)]) == [True]
        self.changes.wake()
        return created

    def _encode(self, record: FeedRecord) -> str:
        self.encoded.append(record)
        return name_of(record) + getattr(record, "text", "")


class Reader:
    """Follows, and waits for what it expects."""

    def __init__(self, feed: Feed, wanted: Callable[[FeedRecord], bool] = lambda _: True) -> None:
        self.woken = threading.Event()
        self.follower = feed.changes.follow(wanted, self.woken.set)
        self.taken: list[FeedItem] = []

    @property
    def names(self) -> list[str]:
        return [name_of(change.record) for change in self.taken]

    def wait(self, on_progress: Callable[[], bool]) -> None:
        while not on_progress():
            assert self.woken.wait(TIMEOUT)
            self.woken.clear()
            self.taken += self.follower.take()

    def expect(self, *names: str) -> None:
        self.wait(lambda: len(self.taken) >= len(names))
        assert self.names == list(names)


def name_of(record: FeedRecord) -> str:
    return record.event_id if isinstance(record, Event) else record.summary


@pytest.fixture
def feed(store: OrderedStore) -> Iterator[Feed]:
    created = Feed(store)
    yield created
    created.changes.close()


def test_whoever_follows_is_told_in_the_order_of_commit(feed: Feed) -> None:
    feed.say(event("before"))
    reader = Reader(feed)
    feed.say(event("b"), event("a"))
    feed.keep(memory("Bake on Sundays"))
    feed.say(event("c"))
    reader.expect("b", "a", "Bake on Sundays", "c")
    sequences = [change.sequence for change in reader.taken]
    assert sequences == sorted(set(sequences))


def test_what_has_changed_is_told_as_it_is_now(feed: Feed) -> None:
    reader = Reader(feed)
    created = feed.keep(memory("Bake on Sundays"))
    reader.expect("Bake on Sundays")
    feed.keep(memories.build_tombstone(created, Millis(created.updated_ms + 1)), created)
    reader.wait(lambda: len(reader.taken) == 2)
    last = reader.taken[1].record
    assert isinstance(last, Memory)
    assert last.status is MemoryStatus.TOMBSTONE


def test_what_was_forgotten_is_not_told(feed: Feed) -> None:
    said = event("a")
    feed.say(said)
    start = feed.changes.watermark()
    feed.say(event("gone"))
    feed.log.remove([SessionPosition(session_id=SessionId("s"), at=event("gone").position)])
    feed.say(event("b"))
    found, reached = feed.changes.read_since(start, feed.changes.watermark(), lambda _: True)
    assert [name_of(each.record) for each in found] == ["b"]
    assert reached == feed.changes.watermark()


def test_each_change_is_encoded_once_for_all(feed: Feed) -> None:
    readers = [Reader(feed) for _ in range(20)]
    feed.say(event("a"), event("b"))
    for reader in readers:
        reader.expect("a", "b")
    assert [name_of(record) for record in feed.encoded] == ["a", "b"]


def test_nobody_who_follows_costs_nothing(feed: Feed) -> None:
    reader = Reader(feed)
    feed.changes.leave(reader.follower)
    assert feed.changes.needed is None
    feed.say(event("unheard"))
    again = Reader(feed)
    feed.say(event("heard"))
    again.expect("heard")
    assert [name_of(record) for record in feed.encoded] == ["heard"]


def test_the_outbox_is_needed_as_far_as_it_was_not_read(feed: Feed) -> None:
    feed.say(event("a"))
    reader = Reader(feed)
    assert feed.changes.needed == 1
    feed.say(event("b"), event("c"))
    reader.expect("b", "c")
    assert feed.changes.needed == 3


def test_nothing_is_missed_between_what_is_stored_and_what_comes(feed: Feed) -> None:
    """Who reads what is there, and then follows, misses nothing and is told nothing twice."""
    names = [f"{number:04}" for number in range(400)]
    begun = threading.Event()

    def write() -> None:
        for number, name in enumerate(names):
            feed.say(event(name))
            if number == 50:
                begun.set()

    def follow() -> list[str]:
        assert begun.wait(TIMEOUT)
        reader = Reader(feed)
        stored: list[str] = []
        reached = 0
        while reached < reader.follower.start:
            found, reached = feed.changes.read_since(reached, reader.follower.start, lambda _: True)
            stored += [name_of(change.record) for change in found]
        reader.wait(lambda: len(stored) + len(reader.taken) >= len(names))
        return stored + reader.names

    with ThreadPoolExecutor(5) as threads:
        following = [threads.submit(follow) for _ in range(4)]
        threads.submit(write).result(TIMEOUT)
        for each in following:
            assert each.result(TIMEOUT) == names


@pytest.mark.parametrize("text", ["", "x" * (1 << 19)])
def test_only_the_one_that_is_too_slow_is_dropped(feed: Feed, text: str) -> None:
    slow, quick = Reader(feed), Reader(feed)
    most = change_feed.ROOM_CHARS // len(text) if text else change_feed.ROOM
    for start in range(0, most, 20):
        feed.say(*(event(str(number), text=text) for number in range(start, start + 20)))
        quick.wait(lambda: len(quick.taken) >= start + 20)  # noqa: B023  # it is called at once
    feed.say(event("last"))
    quick.wait(lambda: "last" in quick.names)
    assert slow.follower.dropped
    assert not quick.follower.dropped
    assert slow.follower.take() == []
    assert len(quick.taken) > most


def test_what_is_no_longer_kept_is_known(feed: Feed) -> None:
    assert feed.changes.has_all_after(0)
    feed.say(*(event(str(number)) for number in range(5)))
    assert feed.changes.has_all_after(0)
    feed.outbox.trim(3)
    assert [feed.changes.has_all_after(after) for after in range(6)] == [False] * 3 + [True] * 3
    feed.outbox.trim(5)
    assert [feed.changes.has_all_after(after) for after in (4, 5)] == [False, True]


def test_a_closed_feed_tells_those_who_follow(store: OrderedStore) -> None:
    feed = Feed(store)
    reader = Reader(feed)
    feed.changes.close()
    assert reader.woken.wait(TIMEOUT)
    assert reader.follower.dropped


class TestFilters:
    @pytest.mark.parametrize(
        ("uri", "expected"),
        [
            ("all", {"one", "two", "three", "four"}),
            ("subcog://project:shop/decisions", {"one"}),
            ("subcog://project%3Ashop/decisions", {"one"}),
            ("subcog://project:shop", {"one", "two"}),
            ("subcog://project:shop/", {"one", "two"}),
            ("project:shop", {"one", "two"}),
            ("project", {"one", "two", "three"}),
            ("user", {"four"}),
            ("decisions", {"one", "three", "four"}),
            ("subcog://user/learnings", set()),
        ],
    )
    def test_memories_below_a_uri(self, feed: Feed, uri: str, expected: set[str]) -> None:
        reader = Reader(feed, MemoryFilter(area=memories.parse_area(uri)))
        rest = Reader(feed)
        feed.keep(memory("one"))
        feed.keep(memory("two", namespace="learnings"))
        feed.keep(memory("three", domain=Domain("project:mill")))
        feed.keep(memory("four", domain=USER))
        feed.say(event("five"))
        rest.wait(lambda: len(rest.taken) == 5)
        assert {name_of(each.record) for each in reader.follower.take()} == expected

    def test_one_memory(self, feed: Feed) -> None:
        created = memory("one")
        reader = Reader(feed, MemoryFilter(area=memories.parse_area(created.urn)))
        feed.keep(memory("other"))
        feed.keep(created)
        reader.expect("one")

    def test_events_of_a_session_and_of_a_project(self, feed: Feed) -> None:
        of_session = Reader(feed, EventFilter(session_id="a"))
        of_project = Reader(feed, EventFilter(project="shop"))
        feed.keep(memory("one"))
        feed.say(event("1", session="a"), event("2", session="b", project="shop"))
        feed.say(event("3", session="a", project="shop"))
        of_session.expect("1", "3")
        of_project.expect("2", "3")
