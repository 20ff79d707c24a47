"""The contract of the EventLog port, over every store."""

from collections.abc import Callable, Sequence

import pytest

from agent_memory.features.log.adapters.event_log import PAGE_BYTES, StoredEventLog
from agent_memory.features.log.model.events import (
    MAX_TEXT_BYTES,
    Event,
    EventPage,
    EventRole,
    EventType,
    SessionPosition,
)
from agent_memory.features.log.ports import EventLog
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from tests.contract.stores import TIMEOUT, everything

ALL_TIME = Millis(0), Millis(MAX_MILLIS)


@pytest.fixture
def log(store: OrderedStore) -> StoredEventLog:
    return StoredEventLog(store)


def event(name: str, at_ms: int = 1, *, session: str = "s", text: str = "") -> Event:
    return Event(
        event_id=EventId(name),
        session_id=SessionId(session),
        at_ms=Millis(at_ms),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=text,
        metadata={"from": name},
    )


def append(log: EventLog, *events: Event) -> list[bool]:
    return log.append(events).result(TIMEOUT)


def names(events: Sequence[Event]) -> list[str]:
    return [event.event_id for event in events]


def between(log: EventLog, start: int, end: int) -> list[str]:
    page = log.list_between(Millis(start), Millis(end), after=None, limit=1_000)
    assert page.next is None
    return names(page.events)


def of_session(log: EventLog, session: str) -> list[str]:
    page = log.list_session(SessionId(session), after=None, limit=1_000)
    assert page.next is None
    return names(page.events)


ReadPage = Callable[[Position | None], EventPage]


def pages(read: ReadPage) -> list[EventPage]:
    """Read all pages, each after the `next` of the one before."""
    found = [read(None)]
    while (after := found[-1].next) is not None:
        page = read(after)
        assert page.next != after, "a page leads back to itself"
        found.append(page)
    return found


def by_time(log: EventLog, limit: int) -> ReadPage:
    return lambda after: log.list_between(*ALL_TIME, after=after, limit=limit)


def by_session(log: EventLog, limit: int) -> ReadPage:
    return lambda after: log.list_session(SessionId("s"), after=after, limit=limit)


both_ways = pytest.mark.parametrize("way", [by_time, by_session])


class TestAppending:
    def test_a_new_event_is_new_and_comes_back_as_it_was(self, log: EventLog) -> None:
        given = event("e", 5, text="Grüße 😀\n")
        assert append(log, given) == [True]
        assert log.get(EventId("e")) == given
        assert log.list_between(*ALL_TIME, after=None, limit=9) == EventPage(events=(given,))
        assert log.list_session(SessionId("s"), after=None, limit=9) == EventPage(events=(given,))

    def test_an_event_sent_again_is_not_new(self, log: EventLog) -> None:
        append(log, event("e"))
        assert append(log, event("e")) == [False]
        assert between(log, *ALL_TIME) == ["e"]

    def test_an_event_sent_twice_in_one_call_is_new_once(self, log: EventLog) -> None:
        assert append(log, event("a"), event("a"), event("b")) == [True, False, True]

    def test_of_two_events_with_one_id_the_first_stands(self, log: EventLog) -> None:
        first = event("e", 5, text="first")
        append(log, first)
        assert append(log, event("e", 6, session="other", text="second")) == [False]
        assert log.get(EventId("e")) == first
        assert between(log, 6, 6) == []
        assert of_session(log, "other") == []

    def test_appending_no_events_gives_no_answers(self, log: EventLog) -> None:
        assert append(log) == []

    def test_an_unknown_event_gives_none(self, log: EventLog) -> None:
        append(log, event("e"), event("e:1"))
        assert log.get(EventId("e:")) is None


class TestFinding:
    def test_events_by_the_beginning_of_their_id(self, log: StoredEventLog) -> None:
        append(log, *(event(name) for name in ("ab:1", "ab:2", "abc", "a", "b", "ä:1")))
        for prefix, found in {
            "ab": ["ab:1", "ab:2", "abc"],
            "ab:": ["ab:1", "ab:2"],
            "abc": ["abc"],
            "ä": ["ä:1"],
            "abcd": [],
        }.items():
            assert names(log.find_events(prefix, limit=9)) == found
        assert names(log.find_events("ab", limit=2)) == ["ab:1", "ab:2"]

    def test_no_removed_events_and_no_aliases(self, log: StoredEventLog) -> None:
        gone = [event(f"ab:{n:03}", n) for n in range(50)]
        append(log, *gone, event("ab:kept", 60))
        log.remove([SessionPosition(each.session_id, each.position) for each in gone])
        log.add_aliases([(EventId("ab:alias"), Millis(60))]).result(TIMEOUT)
        assert names(log.find_events("ab", limit=3)) == ["ab:kept"]

    def test_sessions_by_the_beginning_of_their_id(self, log: StoredEventLog) -> None:
        sessions = ["run", "run-2", "run/a", "run:1", "run%", "ruin", "rüm"]
        append(log, *(event(f"{s}{n}", n, session=s) for s in sessions for n in range(3)))
        found = log.find_sessions("run", limit=9)
        assert sorted(found) == sorted(["run", "run-2", "run/a", "run:1", "run%"])
        assert log.find_sessions("run:", limit=9) == ["run:1"]
        assert log.find_sessions("run%", limit=9) == ["run%"]
        assert log.find_sessions("rü", limit=9) == ["rüm"]
        assert log.find_sessions("run%3A", limit=9) == []
        assert len(log.find_sessions("ru", limit=2)) == 2

    def test_a_session_is_counted_alone(self, log: StoredEventLog) -> None:
        append(log, *(event(f"e{n}", n) for n in range(7)), event("x", session="s:2"))
        assert log.count_session(SessionId("s")) == 7
        assert log.count_session(SessionId("none")) == 0


class TestBetween:
    def test_both_ends_are_included(self, log: EventLog) -> None:
        append(log, *(event(str(at), at) for at in range(5)))
        assert between(log, 1, 3) == ["1", "2", "3"]
        assert between(log, 2, 2) == ["2"]

    def test_the_first_and_the_last_millisecond_are_included(self, log: EventLog) -> None:
        append(log, event("last", MAX_MILLIS), event("~", MAX_MILLIS), event("first", 0))
        assert between(log, 0, MAX_MILLIS) == ["first", "last", "~"]
        assert between(log, 0, 0) == ["first"]
        assert between(log, MAX_MILLIS, MAX_MILLIS) == ["last", "~"]
        assert between(log, 1, MAX_MILLIS - 1) == []

    def test_order_is_time_then_id_whatever_the_order_of_arrival(self, log: EventLog) -> None:
        append(log, event("b", 10), event("z", 9), event("a", 10), event("é", 10), event("c", 100))
        assert between(log, 0, MAX_MILLIS) == ["z", "a", "b", "é", "c"]

    def test_a_page_before_the_range_starts_at_the_range(self, log: EventLog) -> None:
        append(log, *(event(str(at), at) for at in range(5)))
        early = Position(at_ms=Millis(0), event_id=EventId("0"))
        page = log.list_between(Millis(2), Millis(3), after=early, limit=9)
        assert names(page.events) == ["2", "3"]

    def test_a_page_after_the_range_is_empty(self, log: EventLog) -> None:
        append(log, *(event(str(at), at) for at in range(5)))
        late = Position(at_ms=Millis(4), event_id=EventId("4"))
        page = log.list_between(Millis(2), Millis(3), after=late, limit=9)
        assert page == EventPage(events=())


class TestSessions:
    def test_sessions_with_similar_names_are_apart(self, log: EventLog) -> None:
        similar = ["a", "a:b", "a%3Ab", "a%", "a:"]
        append(log, *(event(f"in {name}", session=name) for name in similar))
        assert {name: of_session(log, name) for name in similar} == {
            name: [f"in {name}"] for name in similar
        }

    def test_order_is_time_then_id(self, log: EventLog) -> None:
        append(log, event("b", 10), event("z", 9), event("a", 10), event("other", 9, session="t"))
        assert of_session(log, "s") == ["z", "a", "b"]

    def test_an_unknown_session_is_empty(self, log: EventLog) -> None:
        append(log, event("e", session="ab"))
        assert of_session(log, "a") == []


class TestPaging:
    @both_ways
    @pytest.mark.parametrize("limit", [1, 7, 63, 64, 65, 128, 129, 130, 131])
    def test_pages_neither_repeat_nor_lose_events_of_one_millisecond(
        self, log: EventLog, way: Callable[[EventLog, int], ReadPage], limit: int
    ) -> None:
        expected = [f"{n:03}" for n in range(130)]
        append(log, *(event(name, 7) for name in reversed(expected)))
        found = pages(way(log, limit))
        assert [name for page in found for name in names(page.events)] == expected
        assert {len(page.events) for page in found[:-1]} <= {limit}
        assert found[-1].events

    @both_ways
    def test_an_id_that_continues_another_is_not_skipped(
        self, log: EventLog, way: Callable[[EventLog, int], ReadPage]
    ) -> None:
        append(log, event("a"), event("a "), event("a:"), event("aa"))
        found = pages(way(log, 1))
        assert [names(page.events) for page in found] == [["a"], ["a "], ["a:"], ["aa"]]

    @both_ways
    def test_events_that_arrive_after_a_page_are_on_the_next(
        self, log: EventLog, way: Callable[[EventLog, int], ReadPage]
    ) -> None:
        append(log, event("1", 1), event("3", 3), event("5", 5))
        read = way(log, 2)
        first = read(None)
        append(log, event("2", 2), event("4", 4))
        second = read(first.next)
        assert names(first.events) == ["1", "3"]
        assert names(second.events) == ["4", "5"]

    @both_ways
    def test_long_texts_end_a_page_early_and_none_is_lost(
        self, log: EventLog, way: Callable[[EventLog, int], ReadPage]
    ) -> None:
        long = "a" * MAX_TEXT_BYTES
        for n in range(7):
            append(log, event(str(n), n, text=long))
        found = pages(way(log, 1_000))
        assert [name for page in found for name in names(page.events)] == list("0123456")
        assert all(page.events for page in found)
        assert all(sum(len(e.text) for e in page.events) <= PAGE_BYTES for page in found)
        assert len(found) < 7, "a page holds as much as fits"

    @both_ways
    def test_an_empty_log_is_one_empty_page(
        self, log: EventLog, way: Callable[[EventLog, int], ReadPage]
    ) -> None:
        assert pages(way(log, 1)) == [EventPage(events=())]


class TestOutbox:
    def test_every_new_event_has_one_entry_that_leads_to_it(
        self, log: EventLog, store: OrderedStore
    ) -> None:
        append(log, event("b", 2), event("a", 1))
        append(log, event("c", 3))
        entries = [codec.decode_key(value) for _, value in everything(store, families.OUTBOX)]
        assert entries == [
            keys.event(Millis(at), EventId(name)) for name, at in [("b", 2), ("a", 1), ("c", 3)]
        ]
        assert all(store.get_many(families.EVENTS, entries))

    def test_entries_are_numbered_from_1(self, log: EventLog, store: OrderedStore) -> None:
        append(log, event("a"), event("b"))
        found = [key for key, _ in everything(store, families.OUTBOX)]
        assert found == [b"outbox:00000000000000000001", b"outbox:00000000000000000002"]

    def test_a_duplicate_has_none(self, log: EventLog, store: OrderedStore) -> None:
        append(log, event("a"), event("a"))
        append(log, event("a", 9, text="other"))
        assert len(everything(store, families.OUTBOX)) == 1

    def test_the_watermark_counts_new_events(self, log: EventLog) -> None:
        assert log.watermark() == 0
        append(log, event("a"), event("b"), event("a"))
        assert log.watermark() == 2
        append(log, event("b"))
        assert log.watermark() == 2
        append(log, event("c"))
        assert log.watermark() == 3


class TestOtherNames:
    def test_an_event_is_not_taken_under_another_name_of_it(self, log: EventLog) -> None:
        assert append(log, event("told", 1)) == [True]
        log.add_aliases([(EventId("imported"), Millis(1))]).result(TIMEOUT)
        assert append(log, event("imported", 1)) == [False]
        assert log.get(EventId("imported")) is None
        assert between(log, 0, 9) == ["told"]

    def test_nor_are_names_twice(self, log: EventLog) -> None:
        append(log, event("told", 1, text="words"))
        log.add_aliases([(EventId("told"), Millis(7))] * 2).result(TIMEOUT)
        found = log.get(EventId("told"))
        assert found is not None
        assert (found.at_ms, found.text) == (1, "words")
