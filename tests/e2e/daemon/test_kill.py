"""Killed at any moment, the server has lost nothing that it acknowledged, and doubled nothing."""

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import grpc
import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event
from agent_memory.kernel.ids import MAX_MILLIS, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Row
from agent_memory.proto import memory_pb2 as pb
from tests.chosen_store import describe_store, open_left_store
from tests.contract.stores import unexpected
from tests.daemon_process import Daemon
from tests.memory_client import Client, assert_unavailable, message

SEED = 20260130
ACKNOWLEDGEMENTS = range(20, 900)
EVENTS_PER_MESSAGE = 16
START_MS = 1_738_281_600_000
SESSIONS = ("session-001", "a:b", "a%3Ab", "a", "s\u00e9ance")


STORES = (pytest.param("rocks", marks=pytest.mark.rocksdb("the other is PostgreSQL")), "postgres")


@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.soak)])
def test_killed_again_and_again_it_keeps_each_acknowledged_event_exactly_once(
    daemon: Daemon, rounds: int
) -> None:
    moments = random.Random(SEED)
    acknowledged: set[str] = set()
    attempted: set[str] = set()
    for number in range(rounds):
        tally = _Tally(daemon, kill_at=moments.choice(ACKNOWLEDGEMENTS))
        _ingest_until_killed(daemon, tally, f"round{number}")
        acknowledged |= {event_id for event_id, _ in tally.answers}
        attempted |= tally.attempted

        daemon.start()

        with daemon.client() as client:
            stored = _ids_of_intact_events(client)
            assert acknowledged <= stored
            assert stored <= attempted
            # A client that got no answer sends again, and is told the truth.
            unanswered = sorted(attempted - acknowledged)
            for first in range(0, len(unanswered), 500):
                again = unanswered[first : first + 500]
                for outcome in client.ingest_all(map(_event, again)):
                    assert outcome.created == (outcome.event_id not in stored)
            acknowledged |= set(unanswered)
            assert _ids_of_intact_events(client) == acknowledged
    daemon.kill()
    _assert_indexes_agree(open_left_store(daemon.data_dir, unexpected), acknowledged)


@pytest.fixture(params=STORES)
def daemon(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """Without background jobs, which would trim the outbox: all of it is looked at here."""
    storage = ""
    if request.param == "postgres":
        storage = describe_store(tmp_path / ".local/share/agent-memory")
    folder = tmp_path / ".config/agent-memory"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f"{storage}[scheduler]\nenabled = false\n")
    with Daemon(tmp_path) as running:
        yield running


class _Tally:
    """What was sent and answered in one round. The answer number `kill_at` kills the server."""

    def __init__(self, daemon: Daemon, kill_at: int) -> None:
        self.attempted: set[str] = set()
        self.answers: list[tuple[str, bool]] = []
        self._daemon = daemon
        self._kill_at = kill_at
        self._lock = threading.Lock()

    def attempt(self, event_id: str) -> pb.Event:
        with self._lock:
            self.attempted.add(event_id)
        return _event(event_id)

    def answered(self, event_id: str, created: bool) -> None:
        with self._lock:
            self.answers.append((event_id, created))
            if len(self.answers) == self._kill_at:
                self._daemon.kill()

    def check(self) -> None:
        assert len(self.answers) >= self._kill_at, "the clients gave up before the kill"
        created = Counter(event_id for event_id, created in self.answers if created)
        assert set(created.values()) <= {1}, "an id was created twice"


class _Twice:
    """Hands out every id two times in a row: two threads that share it send the same events."""

    def __init__(self, prefix: str) -> None:
        self._ids = (f"{prefix}-{n // 2}" for n in count())
        self._lock = threading.Lock()

    def next(self) -> str:
        with self._lock:
            return next(self._ids)


def _ingest_until_killed(daemon: Daemon, tally: _Tally, prefix: str) -> None:
    contested, streamed = _Twice(f"{prefix}-unary"), _Twice(f"{prefix}-stream")
    alone = count()
    with (
        daemon.client() as one,
        daemon.unix_client() as two,
        daemon.client() as three,
        daemon.client() as four,
        daemon.unix_client() as five,
        ThreadPoolExecutor() as threads,
    ):
        calls = [
            threads.submit(_unary, one, tally, contested.next),
            threads.submit(_unary, two, tally, contested.next),
            threads.submit(_unary, three, tally, lambda: f"{prefix}-alone-{next(alone)}"),
            threads.submit(_stream, four, tally, streamed.next),
            threads.submit(_stream, five, tally, streamed.next),
        ]
        for call in calls:
            call.result()
    tally.check()


def _unary(client: Client, tally: _Tally, next_id: Callable[[], str]) -> None:
    try:
        while True:
            answer = client.ingest(tally.attempt(next_id()))
            tally.answered(answer.event_id, answer.created)
    except grpc.RpcError as exc:
        assert_unavailable(exc)


def _stream(client: Client, tally: _Tally, next_id: Callable[[], str]) -> None:
    def requests() -> Iterator[pb.IngestEventsRequest]:
        while True:
            yield pb.IngestEventsRequest(
                events=[tally.attempt(next_id()) for _ in range(EVENTS_PER_MESSAGE)]
            )

    try:
        for answer in client.stream(requests()):
            assert len(answer.outcomes) == EVENTS_PER_MESSAGE
            for outcome in answer.outcomes:
                assert not outcome.HasField("error"), outcome
                tally.answered(outcome.event_id, outcome.created)
    except grpc.RpcError as exc:
        assert_unavailable(exc)


def _event(event_id: str) -> pb.Event:
    """The one content of this id, so that whoever reads it back knows what it must be."""
    dice = random.Random(event_id)
    return message(
        event_id,
        START_MS + dice.randrange(40),
        "\u00e9\U0001f980 ".join([event_id] * dice.choice((0, 1, 9, 90, 900))),
        session_id=dice.choice(SESSIONS),
        event_type=dice.choice(pb.EventType.values()[1:]),
        role=dice.choice(pb.EventRole.values()[1:]),
        metadata={f"key{n}": event_id for n in range(dice.randrange(3))},
    )


def _ids_of_intact_events(client: Client) -> set[str]:
    events = client.all_events(limit=333)
    ids = [event.event_id for event in events]
    assert len(ids) == len(set(ids)), "an event was read twice"
    for event in events:
        assert event == _event(event.event_id)
    order = [(event.timestamp_ms, event.event_id.encode()) for event in events]
    assert order == sorted(order)
    return set(ids)


def _assert_indexes_agree(store: OrderedStore, expected: set[str]) -> None:
    """Each event has one entry in every index, and no more."""
    try:
        log = StoredEventLog(store)
        events = _read_all(log)
        assert {event.event_id for event in events} == expected
        assert len(events) == len(expected)

        outbox = _rows(store, families.OUTBOX)
        numbers = [int(key.removeprefix(keys.OUTBOX_PREFIX)) for key, _ in outbox]
        assert numbers == list(range(1, len(events) + 1))
        assert log.watermark() == len(events)
        event_keys = [keys.event(event.at_ms, event.event_id) for event in events]
        assert sorted(codec.decode_key(value) for _, value in outbox) == sorted(event_keys)

        ids = {keys.event_id(event.event_id): event.at_ms for event in events}
        found = [(k, codec.decode_millis(v)) for k, v in _rows(store, families.EVENT_IDS)]
        assert sorted(found) == sorted(ids.items())

        session_keys = [keys.session_event(e.session_id, e.at_ms, e.event_id) for e in events]
        assert [key for key, _ in _rows(store, families.SESSION_EVENTS)] == sorted(session_keys)
        by_session = defaultdict(list)
        for event in events:
            by_session[event.session_id].append(event)
        for session_id, members in by_session.items():
            assert _read_session(log, session_id) == members
    finally:
        store.close()


def _rows(store: OrderedStore, family: str) -> list[Row]:
    return store.scan(family, b"", b"\xff", limit=1_000_000)


def _read_all(log: StoredEventLog) -> list[Event]:
    events: list[Event] = []
    after: Position | None = None
    while True:
        page = log.list_between(Millis(0), Millis(MAX_MILLIS), after=after, limit=1000)
        events += page.events
        if page.next is None:
            return events
        after = page.next


def _read_session(log: StoredEventLog, session_id: SessionId) -> list[Event]:
    events: list[Event] = []
    after: Position | None = None
    while True:
        page = log.list_session(session_id, after=after, limit=100)
        events += page.events
        if page.next is None:
            return events
        after = page.next
