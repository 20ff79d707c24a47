"""Killed while it indexes and embeds, at many points: everything is found afterwards, and once."""

import signal
from collections.abc import Callable, Iterator

import pytest

from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Home, wait_until
from tests.search_client import (
    SECONDS,
    Search,
    assert_everything_is_found_once,
    connect,
    read_indexes,
    settle,
)
from tests.toc_conversations import MINUTE, OUTBOX, Toc, make_event, millis

START = millis("2025-06-01 09:00")
PART = 20

_THINGS = ("pump", "crane", "ledger", "beacon", "kiln", "parser", "turbine", "buoy")

Trigger = Callable[[], bool]


@pytest.fixture
def home() -> Iterator[Home]:
    with Home(embedder="bge") as found:
        found.serve()
        yield found


def _word(number: int) -> str:
    """One that stands in a single event."""
    return f"zq{number:04}x"


def _part(number: int) -> list[pb.Event]:
    """Some events of two sessions, in segments of their own."""
    return [
        make_event(
            ("forge", "harbour")[n % 2],
            n,
            START + (n + 400 * number) * MINUTE,
            ("user", "assistant")[n // 2 % 2],
            f"The {_THINGS[n % 8]} {_word(n)} broke and we decided to mend it.",
        )
        for n in range(number * PART, (number + 1) * PART)
    ]


def _kill_when(home: Home, trigger: Trigger) -> None:
    wait_until(trigger, "the moment to kill", SECONDS)
    home.stop(signal.SIGKILL)


def _assert_complete(home: Home, events: list[pb.Event]) -> None:
    with connect(home) as client:
        search, toc = Search(client), Toc(client)
        settle(home, toc)
        total = assert_everything_is_found_once(search, toc, events)
        stats = read_indexes(home)
        assert (stats["words"]["documents"], stats["vectors"]["documents"]) == (total, total)
        assert stats["trouble"] == ""
        for event in events:
            word = event.text.split()[2]
            assert search.ids(word, kinds=["event"], mode="bm25")[:1] == [event.event_id]
        by_meaning = [hit.id for hit in search("mend", mode="vector", limit=100).hits]
        assert len(by_meaning) == len(set(by_meaning)) > 0


@pytest.mark.soak
def test_killed_again_and_again_everything_is_found_once(home: Home) -> None:
    events: list[pb.Event] = []
    for number in range(2):
        part = _part(number)
        events += part
        with connect(home) as client:
            toc = Toc(client)
            before = read_indexes(home)

            def more(name: str, before: dict[str, dict[str, int]] = before) -> bool:
                present: int = read_indexes(home)[name]["documents"]
                return present > before[name]["documents"]

            def running(toc: Toc = toc) -> bool:
                return toc.job(OUTBOX).is_running or toc.job(OUTBOX).run_count > 0

            triggers: list[Trigger] = [
                lambda: True,
                running,
                lambda more=more: more("words"),  # type: ignore[misc]
                lambda more=more: more("vectors"),  # type: ignore[misc]
                lambda: True,
                lambda more=more: more("vectors"),  # type: ignore[misc]
            ]
            if number % 2:
                client.ingest_all(part)
            else:
                for event in part:
                    client.ingest(event)
            _kill_when(home, triggers[number])
        home.serve()
        if number == 4:  # and once more, while it catches up
            home.stop(signal.SIGKILL)
            home.serve()
    _assert_complete(home, events)


@pytest.mark.soak
def test_killed_while_the_indexes_are_rebuilt_they_are_complete_afterwards(home: Home) -> None:
    events = [*_part(0), *_part(1)]
    with connect(home) as client:
        client.ingest_all(events)
        settle(home, Toc(client))
    for words in (("--vectors",), (), ("--words",)):
        with home.begin("memory-daemon", "admin", "rebuild-index", *words):
            _kill_when(home, _rebuilding(home, words, len(events)))
        home.serve()
    _assert_complete(home, events)


def _rebuilding(home: Home, words: tuple[str, ...], count: int) -> Trigger:
    """Vectors have been removed; of the words, which are replaced in one go, nothing is seen."""
    if words == ("--words",):
        return lambda: True
    return lambda: read_indexes(home)["vectors"]["documents"] < count
