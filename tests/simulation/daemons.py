"""Daemons in a simulated world: each takes the lease, writes groups and follows the outbox.

`simulate(seed)` runs them under faults and checks what they were told against what is stored:

- each acknowledged event is stored once, under the number that it was told, and none twice;
- numbers of the outbox and of other sequences run from 1 without a gap;
- every follower sees them in that order, none too early and none missing, whatever wakes it;
- a counter that is only raised from an expected value counts every raise;
- nobody writes with a lease that somebody else has taken.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.adapters.outbox_entries import encode_entry
from agent_memory.features.log.model.outbox import FactChanged
from agent_memory.kernel.errors import StorageLocked
from agent_memory.kernel.ids import KnowledgeId
from agent_memory.platform.store import families, keys
from agent_memory.platform.store.batches import Absent, Append, Batch, Committed, Equals, Put
from agent_memory.platform.store.database import DatabaseLost, LeaseLost, TransactionRefused
from agent_memory.platform.store.group_writer import GroupWriter
from agent_memory.platform.store.leases import DAEMON, HeldLease, take_lease
from agent_memory.platform.store.transacted import StoreView
from tests.memory_database import MemoryDatabase, MemoryServer, RealTime
from tests.simulation.world import Process, World

SECONDS = 240.0  # of the world's clock
DAEMONS = 3
TROUBLE = 0.01
TRIES = 4  # for a group whose fate is unknown

EVENTS, OUTBOX, META, NOTES = families.EVENTS, families.OUTBOX, families.META, families.NOTE_QUEUE
COUNTER = b"counter"


class Violation(AssertionError):
    """A promise of the store was broken."""


@dataclass
class Parts:
    """What daemons are made of; a test may plant a fault in one of these."""

    database: Callable[[MemoryServer, Process], MemoryDatabase] = MemoryDatabase
    writer: type[GroupWriter] = GroupWriter
    leased: bool = True


@dataclass
class Ledger:
    """What the daemons were told, and what their followers have seen."""

    attempted: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)  # of acknowledged events
    raised: Counter[int] = field(default_factory=Counter)  # acknowledged, by the value before
    maybe_raised: int = 0
    seen: dict[str, list[str]] = field(default_factory=dict)
    wake_ups: dict[str, int] = field(default_factory=dict)  # announced numbers not yet looked for


class _Daemon:
    """One daemon: it writes until its lease is lost or its world ends it."""

    def __init__(
        self, process: Process, server: MemoryServer, parts: Parts, ledger: Ledger
    ) -> None:
        self._process, self._parts = process, parts
        self._ledger, self._world = ledger, process.world
        self._database = parts.database(server, process)
        self._tokens = 0
        self._name = process.name.partition("/")[0]
        self._sent: list[str] = []

    def run(self) -> None:
        lease = self._take_lease() if self._parts.leased else None
        epoch = 0 if lease is None else lease.epoch

        def new_token() -> bytes:
            self._tokens += 1
            return b"%d:%s:%d" % (epoch, self._process.name.encode(), self._tokens)

        writer = self._parts.writer(
            self._database, writer=self._name, lease=lease, new_token=new_token
        )
        try:
            while True:
                self._write(writer)
                self._process.sleep(3_000)
        except LeaseLost:
            self._world.count("fenced")
            self._world.record(f"{self._process.name} has lost its lease")

    def _take_lease(self) -> HeldLease:
        while True:
            try:
                lease = take_lease(
                    self._database, DAEMON, holder=self._name, label=self._process.name
                )
            except (StorageLocked, TransactionRefused, DatabaseLost):
                self._process.sleep(5_000)
            else:
                self._world.count("lease")
                self._world.record(f"{self._process.name} takes epoch {lease.epoch}")
                return lease

    def _write(self, writer: GroupWriter) -> None:
        dice, ledger = self._world.dice, self._ledger
        names = [self._choose_event() for _ in range(dice.randrange(1, 4))]
        expected = self._read_counter()
        batches = [_record(name) for name in names] + [_raise_counter(expected)]
        ledger.attempted.update(names)
        ledger.maybe_raised += 1
        for _ in range(TRIES):
            try:
                *outcomes, raised = writer.commit(batches)
            except DatabaseLost:
                self._world.count("unknown")
                self._process.sleep(2_000)
            except TransactionRefused:
                self._process.sleep(500)
            else:
                break
        else:
            return
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
            self._announce(number)

    def _choose_event(self) -> str:
        """Return a new event, or one that may be stored already: its sender asks again."""
        dice = self._world.dice
        if self._sent and dice.random() < 0.3:
            return dice.choice(self._sent)
        name = f"{self._process.name}-{len(self._sent)}"
        self._sent.append(name)
        return name

    def _read_counter(self) -> int:
        (stored,) = self._database.get_many(META, [COUNTER])
        return int(stored or 0)

    def _announce(self, number: int) -> None:
        """Tell the followers, each at a time of its own: in another order, or never."""
        for name in sorted(self._ledger.seen):
            if self._world.dice.random() < 0.8:
                self._world.call_later(_Wake(self._ledger, name, number))


@dataclass(frozen=True)
class _Wake:
    ledger: Ledger
    name: str
    number: int

    def __call__(self) -> None:
        self.ledger.wake_ups[self.name] = self.number


def _follow(process: Process, server: MemoryServer, parts: Parts, ledger: Ledger) -> None:
    """Read the outbox from where this follower has got to, when it is told to or from time to
    time."""
    outbox = StoredOutbox(StoreView(parts.database(server, process)))
    seen = ledger.seen[process.name]
    while True:
        ledger.wake_ups.pop(process.name, None)
        while found := outbox.read(len(seen), limit=process.world.dice.randrange(1, 6)):
            for number, entry in found:
                if number != len(seen) + 1:
                    raise Violation(f"{process.name} sees {number} after {len(seen)}")
                seen.append(str(entry.id) if isinstance(entry, FactChanged) else "")
        process.wait_until(lambda: process.name in ledger.wake_ups, 5_000)


def simulate(seed: int, parts: Parts | None = None) -> World:
    """Run one history. Raises Violation if a promise is broken."""
    parts = parts or Parts(leased=seed % 3 != 0)
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

    def follow(process: Process) -> None:
        try:
            _follow(process, server, parts, ledger)
        finally:
            world.call_later(lambda: spawn_follower(process.name), 10_000)

    def spawn_follower(name: str) -> None:
        world.spawn(name, follow)

    for number in range(DAEMONS):
        spawn_daemon(f"daemon{number}")
        ledger.seen[f"follower{number}"] = []
        spawn_follower(f"follower{number}")
    world.run(SECONDS)
    _check(server, ledger, leased=parts.leased)
    return world


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


def _check(server: MemoryServer, ledger: Ledger, *, leased: bool) -> None:
    store = StoreView(MemoryDatabase(server, RealTime()))
    outbox = StoredOutbox(store).read(0, limit=1_000_000)
    names = [str(entry.id) if isinstance(entry, FactChanged) else "" for _, entry in outbox]
    _expect([number for number, _ in outbox] == list(range(1, len(outbox) + 1)), "outbox: a gap")
    _expect(store.get_sequence(OUTBOX, keys.OUTBOX_PREFIX) == len(outbox), "outbox: its number")
    _expect(len(set(names)) == len(names), "outbox: an event is in it twice")
    stored = {key.decode() for key, _ in store.scan(EVENTS, b"", b"\xff", limit=1_000_000)}
    _expect(stored == set(names), "the events and the outbox differ")
    _expect(stored <= ledger.attempted, "an event that nobody sent")
    told = {name: names.index(name) + 1 if name in stored else 0 for name in ledger.numbers}
    _expect(told == ledger.numbers, "an acknowledged event is lost, or has another number")
    notes = [int(key[-20:]) for key, _ in store.scan(NOTES, b"", b"\xff", limit=1_000_000)]
    _expect(notes == list(range(1, len(notes) + 1)), "another sequence has a gap")
    for name, seen in ledger.seen.items():
        _expect(seen == names[: len(seen)], f"{name} has seen another outbox")
    _check_counter(int(store.get(META, COUNTER) or 0), ledger)
    if leased:
        _check_leases(server)


def _check_counter(value: int, ledger: Ledger) -> None:
    acknowledged = sum(ledger.raised.values())
    _expect(max(ledger.raised.values(), default=0) <= 1, "two have raised the counter from a value")
    _expect(acknowledged <= value <= acknowledged + ledger.maybe_raised, "the counter")


def _check_leases(server: MemoryServer) -> None:
    """Compare the epoch in each token with the one that was stored when its group was written."""
    for commit in server.commits:
        lease = commit.leases.get(b"lease:daemon")
        for operation in commit.operations:
            if isinstance(operation, Put) and operation.key.startswith(b"commit:"):
                epoch, writer, _ = operation.value.split(b":")
                expected = lease is not None and writer in lease and _epoch(lease) == int(epoch)
                _expect(expected, f"{writer.decode()} wrote with the ended lease {epoch.decode()}")


def _epoch(lease: bytes) -> int:
    """Read the number of a stored lease: after the version and the head of an array."""
    number: int = msgspec.msgpack.decode(lease[1:])[0]
    return number


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise Violation(promise)
