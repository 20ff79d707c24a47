"""Load on a team: threads that write events until they are acknowledged, threads that race for the
same records, and readers that follow the outbox, one of each for every daemon.

Whatever they see goes into lists that are examined later. What a reader sees in a wrong order is
recorded at once.
"""

import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from itertools import count

import grpc

from agent_memory.features.knowledge.model.facts import Claim
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.outbox import EventChanged
from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.transacted import StoreView
from agent_memory.proto import memory_pb2 as pb
from tests.faults.ledger import Unacknowledged
from tests.faults.linearizability import ABSENT, NEVER, CallRecord
from tests.faults.team import TENANT, Member, Team
from tests.faults.work import START_MS, WORDS, shown
from tests.memory_client import Client, message

WRITERS = 3
RACERS = 3
GROUP = 20
SESSION = 60  # events
STRETCH = 15  # events between two breaks, each of which ends a segment
BREAK_MS = 7_200_000
SCOPE = "project:team"
CLAIMS = 36  # calls on one fact
VALUES = ("red", "green", "blue")
RACES = 8  # calls on one event id
MOST_UNKNOWN = 6  # calls without an answer on one record: each doubles what the checker looks at
UNKNOWN_SECONDS = 0.5  # before the next call, after one without an answer
PAGE = 1_000
FACTS_PATH = "/api/v1/memories/facts/"
EVENTS_PATH = "/stream/events"
_WRITER_SPAN = 10**10  # milliseconds between the events of two writers
_FAILURES = (grpc.RpcError, HTTPException, OSError, ValueError)


class Refused(Exception):
    """A call that was answered with a refusal: it has changed nothing."""


@dataclass
class Seen:
    """What callers were told, and what readers have read."""

    sent: dict[str, str] = field(default_factory=dict)  # digests of events, by id
    acknowledged: set[str] = field(default_factory=set)
    calls: dict[str, list[CallRecord]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)
    tries: int = 0
    last_acknowledged: float = field(default_factory=time.monotonic)
    longest_silence: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledge(self, names: list[str]) -> None:
        now = time.monotonic()
        with self._lock:
            self.acknowledged.update(names)
            self.longest_silence = max(self.longest_silence, now - self.last_acknowledged)
            self.last_acknowledged = now


class Lines:
    """The connections of one thread to the daemons. One that fails is made again."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self._clients: dict[int, Client] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    @contextmanager
    def open(self, member: Member) -> Iterator[Client]:
        """Lend a connection. Raises Unacknowledged for whatever goes wrong inside."""
        try:
            if member.number not in self._clients:
                self._clients[member.number] = member.connect()
            yield self._clients[member.number]
        except _FAILURES as exc:
            client = self._clients.pop(member.number, None)
            if client is not None:
                client.close()
            raise Unacknowledged(repr(exc)[:300]) from exc

    def ask_web(self, member: Member, method: str, path: str, body: object = None) -> object:
        """Ask for JSON; None if there is no such record. Raises Unacknowledged and Refused."""
        try:
            with closing(member.connect_web()) as web:
                text = None if body is None else json.dumps(body)
                web.request(method, path, text, {"content-type": "application/json"})
                answer = web.getresponse()
                data = answer.read()
                status = answer.status
                found = json.loads(data) if status < HTTPStatus.BAD_REQUEST else None
        except _FAILURES as exc:
            raise Unacknowledged(repr(exc)[:300]) from exc
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Unacknowledged(f"{status}: {data[:200]!r}")
        if status >= HTTPStatus.BAD_REQUEST and status != HTTPStatus.NOT_FOUND:
            raise Refused(f"{status}: {data[:200]!r}")
        return found


class Load:
    """Threads that run until `stop`."""

    def __init__(self, team: Team, seed: int) -> None:
        self.team = team
        self.seen = Seen()
        self.outboxes = [OutboxReader(team) for _ in team.members]
        self.feeds = [FeedReader(member) for member in team.members]
        self._seed = seed
        self._stopped, self._read_enough = threading.Event(), threading.Event()
        self._written = [0] * WRITERS
        self._probes = count()
        self._turn = threading.Lock()
        self._race_number = self._fact_number = 0
        self._writing = [
            *(self._build_thread(self._write, number) for number in range(WRITERS)),
            *(self._build_thread(self._race, number) for number in range(RACERS)),
            *(self._build_thread(self._claim, number) for number in range(RACERS)),
        ]
        self._reading = [
            threading.Thread(target=read, args=(self._read_enough, self.seen.problems))
            for read in (*(r.run for r in self.outboxes), *(r.run for r in self.feeds))
        ]
        for thread in (*self._writing, *self._reading):
            thread.start()

    def stop_writing(self) -> None:
        self._stopped.set()
        for thread in self._writing:
            thread.join()

    def stop_reading(self) -> None:
        self._read_enough.set()
        for thread in self._reading:
            thread.join()
        for reader in self.outboxes:
            reader.close()

    def probe(self, member: Member, seconds: float) -> bool:
        """Send an event to a daemon until it acknowledges it. Return False if it never does."""
        number = next(self._probes)
        event = self._build_event(WRITERS, number, "probe")
        until = time.monotonic() + seconds
        lines = Lines(self.team)
        try:
            while time.monotonic() < until:
                with suppress(Unacknowledged):
                    self._send(lines, member, [event])
                    return True
                time.sleep(0.1)
            return False
        finally:
            lines.close()

    def record(self, key: str, name: str, argument: str, call: Callable[[], Hashable]) -> None:
        """Make a call on a key, and keep what came of it. Raises Unacknowledged."""
        calls = self.seen.calls[key]
        begin = time.monotonic()
        try:
            answer = call()
        except Refused:
            return
        except Unacknowledged:
            if name not in ("read", "list"):  # which change nothing
                calls.append(CallRecord(name, argument, None, begin, NEVER))
            raise
        calls.append(CallRecord(name, argument, answer, begin, time.monotonic()))

    def read_fact(self, lines: Lines, member: Member, name: str) -> Hashable:
        found = lines.ask_web(member, "GET", f"{FACTS_PATH}{_fact_id(name)}/")
        return ("", 0) if found is None else _show_fact(found)

    def list_former(self, lines: Lines, member: Member, name: str) -> Hashable:
        found = lines.ask_web(member, "GET", f"{FACTS_PATH}{_fact_id(name)}/history/?limit=100")
        if found is None:
            return ()
        assert isinstance(found, dict)
        return tuple(str(former["value"]) for former in reversed(found["items"]))

    def read_event(self, lines: Lines, member: Member, name: str) -> str:
        at_ms = _race_ms(int(name.removeprefix("race-")))
        with lines.open(member) as client:
            events = client.get_events(at_ms, at_ms).events
        return events[0].text if events else ABSENT

    def _build_thread(
        self, work: Callable[[int, random.Random, Lines], None], number: int
    ) -> threading.Thread:
        def run() -> None:
            dice = random.Random(f"{self._seed} {work.__name__} {number}")
            lines = Lines(self.team)
            try:
                while not self._stopped.is_set():
                    work(number, dice, lines)
            except Exception as exc:
                self.seen.problems.append(f"a caller has failed: {exc!r}")
                raise
            finally:
                lines.close()

        return threading.Thread(target=run)

    def _choose_key(self, kind: str, number: int, most: int) -> int:
        """Return the number of the record to use: another one if this has seen enough."""
        calls = self.seen.calls[f"{kind}-{number}"]
        unknown = sum(call.end == NEVER for call in calls)
        return number + (len(calls) >= most or unknown >= MOST_UNKNOWN)

    def _choose(self, dice: random.Random) -> Member:
        return dice.choice(self.team.members)

    def _write(self, writer: int, dice: random.Random, lines: Lines) -> None:
        """Send the next events until they are acknowledged, each time to any daemon."""
        size = dice.choice((1, 1, 1, GROUP))
        numbers = range(self._written[writer], self._written[writer] + size)
        self._written[writer] += size
        events = [self._build_event(writer, number, "said") for number in numbers]
        while not self._stopped.is_set():
            try:
                self._send(lines, self._choose(dice), events)
            except Unacknowledged:
                self._stopped.wait(0.05)
            else:
                break
        self._stopped.wait(dice.uniform(0.05, 0.3))

    def _send(self, lines: Lines, member: Member, events: list[pb.Event]) -> None:
        self.seen.sent.update((event.event_id, shown(event)) for event in events)
        self.seen.tries += 1
        with lines.open(member) as client:
            if len(events) == 1:
                client.ingest(events[0])
            else:
                outcomes = client.ingest_all(events)
                if any(outcome.HasField("error") for outcome in outcomes):
                    raise Unacknowledged(str(outcomes))
        self.seen.acknowledge([event.event_id for event in events])

    def _build_event(self, writer: int, number: int, what: str) -> pb.Event:
        at_ms = START_MS + writer * _WRITER_SPAN + number * 60_000 + number // STRETCH * BREAK_MS
        words = " ".join(random.Random(number).choices(WORDS, k=8))
        return message(
            f"e-{writer}-{number}",
            at_ms,
            f"{what} {words} mark{writer}x{number}",
            session_id=f"session-{writer}-{number // SESSION}",
        )

    def _race(self, racer: int, dice: random.Random, lines: Lines) -> None:
        """Create an event that others create too, or read it."""
        with self._turn:
            self._race_number = self._choose_key("race", self._race_number, RACES)
            number = self._race_number
        name, text = f"race-{number}", f"racer{racer} {dice.choice(WORDS)} {dice.random()}"
        member = self._choose(dice)

        def create() -> bool:
            event = message(name, _race_ms(number), text, session_id=f"races-{number // SESSION}")
            with lines.open(member) as client:
                return client.ingest(event).created

        try:
            if dice.random() < 0.4:
                self.record(name, "read", "", lambda: self.read_event(lines, member, name))
            else:
                self.record(name, "create", text, create)
        except Unacknowledged:
            self._stopped.wait(UNKNOWN_SECONDS)
        self._stopped.wait(dice.uniform(0.02, 0.2))

    def _claim(self, _racer: int, dice: random.Random, lines: Lines) -> None:
        """Claim a fact that others claim too, or read it."""
        with self._turn:
            self._fact_number = self._choose_key("fact", self._fact_number, CLAIMS)
            name = f"fact-{self._fact_number}"
        value, member = dice.choice(VALUES), self._choose(dice)

        def claim() -> Hashable:
            body = {"scope": SCOPE, "key": name, "value": value}
            return _show_fact(lines.ask_web(member, "POST", FACTS_PATH, body))

        try:
            if dice.random() < 0.3:
                self.record(name, "read", "", lambda: self.read_fact(lines, member, name))
            else:
                self.record(name, "claim", value, claim)
        except Unacknowledged:
            self._stopped.wait(UNKNOWN_SECONDS)
        self._stopped.wait(dice.uniform(0.02, 0.2))


class OutboxReader:
    """Reads the outbox in the database from its first entry on."""

    def __init__(self, team: Team) -> None:
        self._database = PostgresDatabase(team.server.url, TENANT)
        self._outbox = StoredOutbox(StoreView(self._database))
        self.reached = 0
        self.events: list[str] = []

    def run(self, ended: threading.Event, problems: list[str]) -> None:
        while not ended.wait(0.2):
            try:
                while entries := self._outbox.read(self.reached, limit=PAGE):
                    for number, entry in entries:
                        if number != self.reached + 1:
                            problems.append(f"outbox: {number} after {self.reached}")
                        self.reached = number
                        if isinstance(entry, EventChanged):
                            self.events.append(entry.at.event_id)
            except StorageFailed:
                continue

    def close(self) -> None:
        self._database.close()


class FeedReader:
    """Follows the events of one daemon over HTTP, and resumes when it is back."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.reached = 0
        self.events: list[str] = []
        self.breaks = 0

    def run(self, ended: threading.Event, problems: list[str]) -> None:
        while not ended.is_set():
            path = f"{EVENTS_PATH}?timeout=2&since={self.reached}"
            try:
                with closing(self._member.connect_web()) as web:
                    web.request("GET", path)
                    answer = web.getresponse()
                    data = answer.read()
            except (*_FAILURES, Unacknowledged):
                self.breaks += 1
                ended.wait(0.3)
                continue
            if answer.status != HTTPStatus.OK:
                self.breaks += 1
                if answer.status == HTTPStatus.GONE:
                    problems.append(f"daemon {self._member.number} cannot resume: {data!r}")
                    return
                ended.wait(0.3)
                continue
            found = json.loads(data)
            following = int(found["next"] or self.reached)
            if following < self.reached:
                problems.append(f"feed: {following} after {self.reached}")
            self.reached = following
            self.events += [event["event_id"] for event in found["events"]]


def _fact_id(name: str) -> str:
    return Claim(scope=SCOPE, key=name, value=VALUES[0]).fact_id


def _show_fact(found: object) -> tuple[str, int]:
    assert isinstance(found, dict), found
    return found["value"], found["times_confirmed"]


def _race_ms(number: int) -> int:
    """Return the time of an event that is raced for: no other event has it."""
    return START_MS - _WRITER_SPAN + number * 60_000 + number // STRETCH * BREAK_MS
