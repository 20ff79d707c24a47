"""Daemons in a simulated world: they share a memory, write groups, index and lead in turn.

`simulate(seed)` runs them under faults and checks what they were told against what was stored:

- each acknowledged event is stored once, under the number that it was told, and none twice;
- numbers of the outbox and of other sequences run from 1 without a gap;
- every index sees changes in that order, whatever wakes it, and holds all events in the end, also
  if the outbox was trimmed while its daemon was away;
- a counter that is only raised from an expected value counts every raise;
- a job that reads, thinks and writes without expectations of its own loses no step: only one daemon
  leads at a time;
- nobody writes with a lease that somebody else has taken or removed.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import msgspec

from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.adapters.outbox_entries import decode_entry, encode_entry
from agent_memory.features.log.model.outbox import FactChanged
from agent_memory.kernel.errors import Overloaded, StorageLocked, StorageUnwritable
from agent_memory.kernel.ids import KnowledgeId
from agent_memory.platform.leadership import LeasedLeadership
from agent_memory.platform.store import codec, families, fences, keys, leases
from agent_memory.platform.store.batches import (
    Absent,
    Append,
    Batch,
    CommitOutcome,
    Committed,
    Equals,
    Put,
)
from agent_memory.platform.store.database import DatabaseLost, LeaseLost, TransactionRefused
from agent_memory.platform.store.group_writer import GroupWriter
from agent_memory.platform.store.leases import JOBS, HeldLease, StoreLease, name_daemon, take_lease
from agent_memory.platform.store.transacted import StoreView
from tests.memory_database import MemoryDatabase, MemoryServer, RealTime
from tests.simulation.seeds import SimulationFailed
from tests.simulation.world import Process, World

SECONDS = 240.0  # of the world's clock
DAEMONS = 3
TROUBLE = 0.01
TRIES = 4  # for a group whose fate is unknown
RETAINED = 15  # entries of the outbox that are not trimmed

EVENTS, OUTBOX, META, NOTES = families.EVENTS, families.OUTBOX, families.META, families.NOTE_QUEUE
COUNTER, JOB = b"counter", b"job"


class Violation(SimulationFailed):
    """A promise of the store was broken."""


@dataclass
class Index:
    """What a daemon derives from the outbox, in files that survive it."""

    cursor: int = 0
    events: set[str] = field(default_factory=set)


def has_gap(index: Index, first: int | None, newest: int) -> bool:
    """Tell whether entries were trimmed that an index has not read."""
    return newest > index.cursor if first is None else first > index.cursor + 1


@dataclass
class Parts:
    """What daemons are made of; a test may plant a fault in one of these."""

    database: Callable[[MemoryServer, Process], MemoryDatabase] = MemoryDatabase
    writer: type[GroupWriter] = GroupWriter
    leadership: type[LeasedLeadership] = LeasedLeadership
    has_gap: Callable[[Index, int | None, int], bool] = has_gap


@dataclass
class Ledger:
    """What the daemons were told, and what their indexes hold."""

    attempted: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)  # of acknowledged events
    raised: Counter[int] = field(default_factory=Counter)  # acknowledged, by the value before
    maybe_raised: int = 0
    job_steps: int = 0  # acknowledged
    maybe_job_steps: int = 0
    indexes: dict[str, Index] = field(default_factory=dict)
    wake_ups: set[str] = field(default_factory=set)  # daemons that were told of a change


class _Store(StoreView):
    """An OrderedStore over a GroupWriter, without threads."""

    def __init__(self, database: MemoryDatabase, writer: GroupWriter, process: Process) -> None:
        super().__init__(database)
        self._writer, self._process = writer, process

    def submit(self, batches: Sequence[Batch], /) -> "Future[list[CommitOutcome]]":
        fence = fences.find_fence()
        group = tuple(batches) if fence is None else fences.fence(batches, fence)
        outcomes = self.commit(group)
        if fence is not None and fences.is_fenced_off(outcomes, fence):
            raise LeaseLost("another daemon does this work now")
        future: Future[list[CommitOutcome]] = Future()
        future.set_result(outcomes)
        return future

    def commit(self, group: Sequence[Batch]) -> list[CommitOutcome]:
        """Commit a group. Raises StorageUnwritable if its fate stays unknown."""
        for _ in range(TRIES):
            try:
                return self._writer.commit(group)
            except DatabaseLost:
                self._process.world.count("unknown")
                self._process.sleep(2_000)
            except TransactionRefused:
                self._process.sleep(500)
        raise StorageUnwritable("its fate is unknown")


class _Daemon:
    """One daemon: it writes, indexes and leads until it counts as gone or its world ends it."""

    def __init__(
        self, process: Process, server: MemoryServer, parts: Parts, ledger: Ledger
    ) -> None:
        self._process, self._parts = process, parts
        self._ledger, self._world = ledger, process.world
        self._database = parts.database(server, process)
        self._tokens = 0
        self._name = process.name.partition("/")[0]
        self._index = ledger.indexes[self._name]
        self._sent: list[str] = []

    def run(self) -> None:
        lease = self._take_lease()

        def new_token() -> bytes:
            self._tokens += 1
            return b"%d:%s:%d" % (lease.epoch, self._process.name.encode(), self._tokens)

        writer = self._parts.writer(
            self._database, writer=self._name, lease=lease, new_token=new_token
        )
        writer.get_reached = lambda: self._index.cursor
        store = _Store(self._database, writer, self._process)
        leadership = self._build_leadership(store)
        try:
            while True:
                self._take_turn(store, writer, leadership)
        except LeaseLost:
            self._world.count("fenced")
            self._world.record(f"{self._process.name} counts as gone")

    def _take_turn(self, store: _Store, writer: GroupWriter, leadership: LeasedLeadership) -> None:
        try:
            self._write(store)
            self._follow(store)
            leadership.keep_up()
            with leadership.lead() as leads:
                if leads:
                    self._do_job(store)
                    self._trim(store)
            if self._world.dice.random() < 0.02:
                with leadership.take_over():
                    self._world.count("take over")
                    self._do_job(store)
            writer.renew()
        except (Overloaded, StorageUnwritable, DatabaseLost, TransactionRefused):
            self._world.count("trouble")
        self._process.wait_until(lambda: self._name in self._ledger.wake_ups, 3_000)
        self._ledger.wake_ups.discard(self._name)

    def _build_leadership(self, store: _Store) -> LeasedLeadership:
        lease = StoreLease(
            store,
            JOBS,
            lambda: self._database.read_head().now_ms,
            holder=self._name,
            label=self._process.name,
        )
        return self._parts.leadership(
            lease,
            monotonic=lambda: self._world.now_ms / 1000,
            sleep=lambda seconds: self._process.sleep(int(seconds * 1000)),
        )

    def _take_lease(self) -> HeldLease:
        while True:
            try:
                lease = take_lease(
                    self._database,
                    name_daemon(self._name),
                    holder=self._name,
                    label=self._process.name,
                )
            except (StorageLocked, TransactionRefused, DatabaseLost):
                self._process.sleep(5_000)
            else:
                self._world.count("lease")
                self._world.record(f"{self._process.name} takes epoch {lease.epoch}")
                return lease

    def _write(self, store: _Store) -> None:
        dice, ledger = self._world.dice, self._ledger
        names = [self._choose_event() for _ in range(dice.randrange(1, 4))]
        expected = self._read_number(COUNTER)
        batches = [_record(name) for name in names] + [_raise_counter(expected)]
        ledger.attempted.update(names)
        ledger.maybe_raised += 1
        *outcomes, raised = store.commit(batches)
        ledger.maybe_raised -= 1
        if isinstance(raised, Committed):
            ledger.raised[expected] += 1
        for name, outcome in zip(names, outcomes, strict=True):
            if not isinstance(outcome, Committed):
                continue
            number = outcome.sequences[0]
            self._world.record(f"{self._process.name}: {name} is {number}")
            if name in ledger.numbers:
                raise Violation(f"{name} was acknowledged twice")
            ledger.numbers[name] = number
            self._announce()

    def _choose_event(self) -> str:
        """Return a new event, or one that may be stored already: its sender asks again."""
        dice = self._world.dice
        if self._sent and dice.random() < 0.3:
            return dice.choice(self._sent)
        name = f"{self._process.name}-{len(self._sent)}"
        self._sent.append(name)
        return name

    def _read_number(self, key: bytes) -> int:
        (stored,) = self._database.get_many(META, [key])
        return int(stored or 0)

    def _announce(self) -> None:
        """Tell the others, each at a time of its own: in another order, or never."""
        for name in sorted(self._ledger.indexes):
            if self._world.dice.random() < 0.8:
                self._world.call_later(_Wake(self._ledger, name))

    def _follow(self, store: _Store) -> None:
        """Bring the index up to date, or make it again if it has missed something."""
        index, outbox = self._index, StoredOutbox(store)
        while True:
            newest = self._database.read_head().outbox
            found = outbox.read(index.cursor, limit=self._world.dice.randrange(1, 6))
            if self._parts.has_gap(index, found[0][0] if found else None, newest):
                self._world.count("rebuilt")
                rows = store.scan(EVENTS, b"", b"\xff", limit=1_000_000)
                index.events = {key.decode() for key, _ in rows}
                index.cursor = newest
                continue
            if not found:
                return
            for number, entry in found:
                if number <= index.cursor:
                    raise Violation(f"{self._name} sees {number} after {index.cursor}")
                index.events.add(_get_name(entry))
                index.cursor = number

    def _do_job(self, store: _Store) -> None:
        """Read, take time and write: whoever does this at the same time loses a step."""
        value = self._read_number(JOB)
        self._process.sleep(4_000)
        self._ledger.maybe_job_steps += 1
        store.submit([Batch((Put(META, JOB, b"%d" % (value + 1)),))]).result()
        self._ledger.maybe_job_steps -= 1
        self._ledger.job_steps += 1
        self._world.count("job")

    def _trim(self, store: _Store) -> None:
        now_ms = self._database.read_head().now_ms
        slowest = leases.find_slowest(store, now_ms, own=self._name)
        end = min(slowest or 0, self._index.cursor - RETAINED)
        if end > 0:
            StoredOutbox(store).trim(end)
            self._world.count("trim")


@dataclass(frozen=True)
class _Wake:
    ledger: Ledger
    name: str

    def __call__(self) -> None:
        self.ledger.wake_ups.add(self.name)


def simulate(seed: int, parts: Parts | None = None) -> World:
    """Run one history. Raises Violation if a promise is broken."""
    parts = parts or Parts()
    world, server, ledger = World(seed, TROUBLE), MemoryServer(), Ledger()
    lives = 0

    def live(process: Process) -> None:
        try:
            _Daemon(process, server, parts, ledger).run()
        finally:
            world.call_later(lambda: spawn_daemon(process.name.partition("/")[0]), 10_000)

    def spawn_daemon(name: str) -> None:
        nonlocal lives
        lives += 1
        world.spawn(f"{name}/{lives}", live)

    for number in range(DAEMONS):
        ledger.indexes[f"daemon{number}"] = Index()
        spawn_daemon(f"daemon{number}")
    world.run(SECONDS)
    _check(server, ledger, parts)
    return world


def _get_name(entry: object) -> str:
    return str(entry.id) if isinstance(entry, FactChanged) else ""


def _record(name: str) -> Batch:
    key = name.encode()
    entry = encode_entry(FactChanged(id=KnowledgeId(name)))
    return Batch(
        (
            Put(EVENTS, key, b"v"),
            Append(OUTBOX, keys.OUTBOX_PREFIX, entry),
            Append(NOTES, b"note:", key),
        ),
        (Absent(EVENTS, key),),
    )


def _raise_counter(expected: int) -> Batch:
    held = Equals(META, COUNTER, b"%d" % expected) if expected else Absent(META, COUNTER)
    return Batch((Put(META, COUNTER, b"%d" % (expected + 1)),), (held,))


def _check(server: MemoryServer, ledger: Ledger, parts: Parts) -> None:
    store = StoreView(MemoryDatabase(server, RealTime()))
    names = _list_outbox(server)
    _expect(store.get_sequence(OUTBOX, keys.OUTBOX_PREFIX) == len(names), "outbox: its number")
    left = [number for number, _ in StoredOutbox(store).read(0, limit=1_000_000)]
    _expect(left == list(range(len(names) - len(left) + 1, len(names) + 1)), "outbox: a gap")
    _expect(len(set(names)) == len(names), "outbox: an event is in it twice")
    stored = {key.decode() for key, _ in store.scan(EVENTS, b"", b"\xff", limit=1_000_000)}
    _expect(stored == set(names), "the events and the outbox differ")
    _expect(stored <= ledger.attempted, "an event that nobody sent")
    told = {name: names.index(name) + 1 if name in stored else 0 for name in ledger.numbers}
    _expect(told == ledger.numbers, "an acknowledged event is lost, or has another number")
    notes = [int(key[-20:]) for key, _ in store.scan(NOTES, b"", b"\xff", limit=1_000_000)]
    _expect(notes == list(range(1, len(notes) + 1)), "another sequence has a gap")
    for name, index in ledger.indexes.items():
        first = left[0] if left else None
        following = next((number for number in left if number > index.cursor), first)
        if parts.has_gap(index, following, len(names)):
            continue  # its next start makes it again
        expected = set(names[: index.cursor])
        _expect(index.events >= expected, f"the index of {name} has missed an event")
        _expect(index.events <= stored, f"the index of {name} has an event that is not stored")
    _check_counter(int(store.get(META, COUNTER) or 0), ledger)
    steps = int(store.get(META, JOB) or 0)
    _expect(
        ledger.job_steps <= steps <= ledger.job_steps + ledger.maybe_job_steps,
        f"{ledger.job_steps} steps of a job were acknowledged, and {steps} are there",
    )
    _check_leases(server)


def _list_outbox(server: MemoryServer) -> list[str]:
    """Return the names of all entries that the outbox ever had, in the order of their numbers."""
    names: list[str] = []
    for commit in server.commits:
        for operation in commit.operations:
            if isinstance(operation, Put) and operation.family == OUTBOX:
                number = int(operation.key.removeprefix(keys.OUTBOX_PREFIX))
                _expect(number == len(names) + 1, f"outbox: {number} after {len(names)}")
                names.append(_get_name(decode_entry(codec.decode_key(operation.value))))
    return names


def _check_counter(value: int, ledger: Ledger) -> None:
    acknowledged = sum(ledger.raised.values())
    _expect(max(ledger.raised.values(), default=0) <= 1, "two have raised the counter from a value")
    _expect(acknowledged <= value <= acknowledged + ledger.maybe_raised, "the counter")


def _check_leases(server: MemoryServer) -> None:
    """Compare the epoch in each token with the one that was stored when its group was written."""
    for commit in server.commits:
        for operation in commit.operations:
            if isinstance(operation, Put) and operation.key.startswith(b"commit:"):
                epoch, writer, _ = operation.value.split(b":")
                name = operation.key.removeprefix(b"commit:")
                lease = commit.leases.get(b"lease:daemon:" + name)
                expected = lease is not None and writer in lease and _epoch(lease) == int(epoch)
                _expect(expected, f"{writer.decode()} wrote with the ended lease {epoch.decode()}")


def _epoch(lease: bytes) -> int:
    """Read the number of a stored lease: after the version and the head of an array."""
    number: int = msgspec.msgpack.decode(lease[1:])[0]
    return number


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise Violation(promise)
