"""Killed while it cuts and rolls up, at many points: the table of contents ends up complete."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event
from agent_memory.features.toc.adapters import toc_codec
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.proto import memory_pb2 as pb
from tests.chosen_store import open_left_store
from tests.command_runner import wait_until
from tests.daemon_process import Daemon
from tests.memory_client import assert_unavailable
from tests.toc_conversations import (
    EVERYTHING,
    MINUTE,
    ROLLUP,
    SECONDS,
    SEGMENTS,
    Toc,
    assert_every_bullet_leads_to_its_events,
    make_event,
    millis,
)

SEED = 20260130
SESSIONS = ("forge", "harbour", "a:b", "seance", "observatory")
EVENTS = 240
ROUNDS = 4
NUMBERS = 10_000

_THINGS = ("pump", "crane", "ledger", "beacon", "kiln", "parser", "turbine", "index", "buoy")
_FAULTS = ("stalls", "overheats", "loses rows", "drifts", "leaks memory", "reboots", "times out")
_DEEDS = ("replace", "recalibrate", "rewrite", "bypass", "isolate", "document", "restart")


def _conversations(dice: random.Random) -> list[pb.Event]:
    """Sessions that go on for weeks with pauses, and arrive a little out of order."""
    events: list[pb.Event] = []
    for session in SESSIONS:
        at = millis("2025-12-20 07:00") + dice.randrange(86_400_000)
        for number in range(EVENTS // len(SESSIONS)):
            at += dice.choice((1, 2, 3, 29, 31, 300, 1500)) * MINUTE
            thing = dice.choice(_THINGS)
            text = (
                f"The {thing} {dice.choice(_FAULTS)} after {dice.randrange(90)} hours."
                f" We decided to {dice.choice(_DEEDS)} the {dice.choice(_THINGS)} first."
            )
            who = dice.choice(("user", "assistant", "tool", "user", "assistant"))
            if dice.random() < 0.03:
                who, text = "end", ""
            events.append(make_event(session, number, at, who, text * dice.choice((1, 1, 1, 20))))
    events.sort(key=lambda event: event.timestamp_ms + dice.randrange(120) * MINUTE)
    return events


Trigger = Callable[[Toc], bool]


def _acknowledged(_: Toc) -> bool:
    return True


def _segmenting(toc: Toc) -> bool:
    return toc.job(SEGMENTS).is_running


def _rolling_up(toc: Toc) -> bool:
    return toc.job(ROLLUP).is_running


class _Grown:
    """The tree is another than it was."""

    def __init__(self, toc: Toc, level: int) -> None:
        self._level = level
        self._before = self._seen(toc)

    def __call__(self, toc: Toc) -> bool:
        return self._seen(toc) != self._before

    def _seen(self, toc: Toc) -> list[tuple[str, int]]:
        nodes = toc.list_years() if self._level == pb.TOC_LEVEL_YEAR else list(toc.walk())
        return [(node.node_id, node.version) for node in nodes]


def _either(one: Trigger, other: Trigger) -> Trigger:
    return lambda toc: one(toc) or other(toc)


@pytest.mark.soak
def test_killed_again_and_again_the_table_of_contents_ends_up_complete(
    daemon: Daemon, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    events = _conversations(dice)
    size = EVENTS // ROUNDS
    parts = [events[n : n + size] for n in range(0, len(events), size)]
    for number, part in enumerate(parts):
        with daemon.client() as client:
            toc = Toc(client)
            grown = _Grown(toc, (pb.TOC_LEVEL_YEAR, pb.TOC_LEVEL_SEGMENT)[number % 2])
            triggers: list[Trigger] = [
                _either(_segmenting, grown),
                grown,
                _either(_rolling_up, grown),
                _acknowledged,
            ]
            if number % 2:
                client.ingest_all(part)
            else:
                for event in part:
                    client.ingest(event)
            trigger = triggers[number % len(triggers)]
            _kill_when(daemon, toc, trigger)
        daemon.start()
        if number % 3 == 2:  # and once more, while it catches up
            with daemon.client() as client:
                toc = Toc(client)
                jobs = _either(_segmenting, _rolling_up)
                for _ in range(dice.randrange(30)):
                    if jobs(toc):
                        break
                daemon.kill()
            daemon.start()
    with daemon.client() as client:
        toc = Toc(client)
        toc.settle()
        tree = toc.tree()
        assert_every_bullet_leads_to_its_events(toc, events)
    daemon.stop()
    _assert_whole(daemon, events)

    fresh_home = tmp_path / "fresh"
    fresh_home.mkdir()
    with Daemon(fresh_home) as fresh, fresh.client() as client:
        client.ingest_all(sorted(events, key=lambda event: event.timestamp_ms))
        other = Toc(client)
        other.settle()
        assert other.tree() == tree


@pytest.mark.parametrize("number", range(3))
def test_killed_once_it_catches_up_by_itself(daemon: Daemon, number: int) -> None:
    moments: list[Trigger] = [
        _acknowledged,
        _segmenting,
        lambda toc: toc.job(SEGMENTS).run_count > 0,
    ]
    with daemon.client() as client:
        toc = Toc(client)
        client.ingest_all(EVERYTHING)
        _kill_when(daemon, toc, _either(moments[number], lambda toc: bool(toc.list_years())))
    daemon.start()
    with daemon.client() as client:
        toc = Toc(client)
        # From the years down, and by their digests: the night's talk has reached the year.
        wait_until(lambda: len(toc.segments()) == 6, "every segment is there", SECONDS)
        daemon.kill()
    _assert_partition(daemon, EVERYTHING)


@pytest.mark.soak
def test_killed_while_told_to_run_its_jobs_nothing_is_torn(daemon: Daemon) -> None:
    """The call itself is cut off: the kill comes from within the job's own time."""
    events = _conversations(random.Random(SEED + 1))[:150]
    with daemon.client() as client:
        Toc(client).pause(SEGMENTS)
        Toc(client).pause(ROLLUP)
        client.ingest_all(events)
    for name in (SEGMENTS, ROLLUP):
        with daemon.client() as one, daemon.client() as two, ThreadPoolExecutor() as threads:
            call = threads.submit(Toc(one).run, name)
            toc = Toc(two)
            _kill_when(daemon, toc, _running_or_done(name))
            with suppress(grpc.RpcError):
                call.result()
        daemon.start()
        with daemon.client() as client:
            Toc(client).run(SEGMENTS)
    with daemon.client() as client:
        toc = Toc(client)
        toc.settle()
        assert_every_bullet_leads_to_its_events(toc, events)
    daemon.stop()
    _assert_whole(daemon, events)


def test_while_it_is_killed_a_client_is_told_to_try_again(daemon: Daemon) -> None:
    with daemon.client() as client:
        toc = Toc(client)
        client.ingest_all(EVERYTHING)
        daemon.kill()
        with pytest.raises(grpc.RpcError) as gone:
            toc.list_years()
        assert_unavailable(gone.value)


def _kill_when(daemon: Daemon, toc: Toc, trigger: Trigger) -> None:
    wait_until(lambda: trigger(toc), "the moment to kill", SECONDS)
    daemon.kill()


def _running_or_done(name: str) -> Trigger:
    return lambda toc: toc.job(name).is_running or toc.job(name).run_count > 0


@contextmanager
def _opened(daemon: Daemon) -> Iterator[tuple[OrderedStore, StoredToc, StoredEventLog]]:
    """The store that the daemon has left."""
    failures: list[StoreHealth] = []
    store = open_left_store(daemon.data_dir, failures.append)
    try:
        yield store, StoredToc(store), StoredEventLog(store)
    finally:
        store.close()
    assert not failures


def _assert_partition(daemon: Daemon, events: list[pb.Event]) -> None:
    with _opened(daemon) as (_, toc, log):
        _check_partition(toc, log, events)


def _assert_whole(daemon: Daemon, events: list[pb.Event]) -> None:
    with _opened(daemon) as (store, toc, log):
        _check_partition(toc, log, events)
        _check_versions(store, toc)
        for level in (Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR):
            assert toc.list_dirty(level, limit=10) == []


def _check_partition(toc: StoredToc, log: StoredEventLog, events: list[pb.Event]) -> None:
    """Every event lies in exactly one segment, and every segment is a leaf of its day."""
    stored = _all(log)
    assert {event.event_id for event in stored} == {event.event_id for event in events}
    held: Counter[str] = Counter()
    leaves: set[NodeId] = set()
    for session in {event.session_id for event in stored}:
        members = [event for event in stored if event.session_id == session]
        beginning = Position(at_ms=Millis(0), event_id=EventId(""))
        for segment in toc.list_segments(SessionId(session), beginning, limit=NUMBERS):
            inside = [
                event.event_id
                for event in members
                if _order(segment.first) <= (event.at_ms, event.event_id) <= _order(segment.last)
            ]
            assert len(inside) == segment.count
            held.update(inside)
            leaves.add(segment.node_id)
    assert held == Counter(event.event_id for event in stored)
    assert set(toc.list_ids("toc:segment:", after=None, limit=NUMBERS)) == leaves
    days = toc.get_nodes(toc.list_ids("toc:day:", after=None, limit=NUMBERS))
    listed = Counter(child for day in days if day is not None for child in day.child_ids)
    assert listed == Counter(leaves)


def _check_versions(store: OrderedStore, toc: StoredToc) -> None:
    """What is stored decodes, and what is pointed to is there; nothing else lies about."""
    rows = dict(store.scan(families.TOC_NODES, b"", b"\xff", limit=NUMBERS))
    pointers = dict(store.scan(families.TOC_LATEST, b"", b"\xff", limit=NUMBERS))
    assert pointers
    for key in rows:
        name, mark, number = key.decode().partition(":v")
        if mark:
            node = toc.get_version(NodeId(name), int(number))
            assert node is not None
            assert (node.node_id, node.version) == (name, int(number))
        else:
            assert not toc_codec.decode_pointer(pointers[key])[1]
    for key, value in pointers.items():
        version, saved = toc_codec.decode_pointer(value)
        (present,) = toc.get_nodes([NodeId(key.decode())])
        assert present is not None
        assert present.version == version
        history = [node.version for node in toc.list_versions(present.node_id, limit=NUMBERS)]
        assert history == sorted(set(history), reverse=True)
        assert max([*history, version]) == version
        assert (version in history) == saved
        for grip_id in present.grip_ids():
            grip = toc.get_grips([grip_id])[0]
            assert grip is not None
            assert toc.get_nodes([grip.node_id]) != [None]


def _all(log: StoredEventLog) -> list[Event]:
    events: list[Event] = []
    after: Position | None = None
    while True:
        page = log.list_between(Millis(0), Millis(MAX_MILLIS), after=after, limit=1000)
        events += page.events
        if page.next is None:
            return events
        after = page.next


def _order(at: Position) -> tuple[int, str]:
    return at.at_ms, at.event_id
