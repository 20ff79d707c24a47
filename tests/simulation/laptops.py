"""Laptops of two people and their team's server, hours apart, under faults that a seed decides.

`simulate(seed)` lets the laptops record, edit and forget, online and offline, with lost requests,
lost answers, repeated deliveries, crashes, a trimmed outbox and a server that is restored from an
older copy. At the end everyone is online, and
all sides must have the same:

- the server has each event of a shared project once, under its person, and no other;
- memories and facts of the shared project are equal everywhere, own memories on their person's;
- what was forgotten is nowhere, and is not revived.
"""

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from agent_memory.features.index.model.queries import Query, RecallResult
from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.knowledge.model.facts import Claim, Fact
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, EventRole, EventType, SessionPosition
from agent_memory.features.log.model.metadata import PERSON, REPOSITORY
from agent_memory.features.log.services import paging
from agent_memory.features.log.services.ingest import Clean, Ingest
from agent_memory.features.memories.adapters.memory_store import MemoryOutlines, StoredMemories
from agent_memory.features.memories.model import memories as memory_model
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.features.recall.ports import TeamRecord
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.upstream.adapters.upstream_store import (
    StoredErasures,
    StoredUpstream,
)
from agent_memory.features.upstream.model import names
from agent_memory.features.upstream.model.progress import RemoteSettings, SyncProgress
from agent_memory.features.upstream.model.records import (
    ChangePage,
    RecordBatch,
    RecordRefused,
    SendOutcome,
    ServerProject,
    TeamIdentity,
    decode_change,
    decode_event,
    decode_fact,
    decode_memory,
    decode_tombstone,
    encode_batch,
    encode_change,
)
from agent_memory.features.upstream.model.scopes import SharedProject, SharedScope
from agent_memory.features.upstream.ports import TeamServer
from agent_memory.features.upstream.services.back_off import BackOff
from agent_memory.features.upstream.services.conversations import Conversations
from agent_memory.features.upstream.services.erasing import Erasing
from agent_memory.features.upstream.services.forwarding import Forwarding
from agent_memory.features.upstream.services.merging import FactMerger, MemoryMerger
from agent_memory.features.upstream.services.named_server import NamedServer
from agent_memory.features.upstream.services.outgoing import OutgoingRecords
from agent_memory.features.upstream.services.project_names import ProjectNames
from agent_memory.features.upstream.services.receiving import Receiving, Sender
from agent_memory.kernel.errors import FeatureUnavailable, RemoteUnavailable
from agent_memory.kernel.ids import USER, Domain, EventId, Millis, SessionId
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import unexpected
from tests.memory_engine import MemoryEngine
from tests.simulation.seeds import SimulationFailed

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
LONG_MS = 48 * HOUR_MS  # after which every session counts as over
STEPS = 140
TROUBLE = 0.25  # the chance that a request or an answer is lost
ROUNDS = 12  # within which all must agree once everyone is online
SHOP = Domain("project:shop")
REPOSITORY_OF_SHOP = "git.example/acme/shop"
TEXTS = ("Use PostgreSQL", "Cache for an hour", "Ship on Tuesdays", "Retry three times")
KEYS = ("database", "owner", "region")
# Bob had another project of that name before: his laptop calls it `store`.
LAPTOPS = (("ada-1", "ada", "shop"), ("ada-2", "ada", "shop"), ("bob-1", "bob", "store"))
IMPORTED = 6  # events that more than one machine has, under the same ids


class Disagreement(SimulationFailed):
    """Two sides have different sets."""


class LaptopCrashed(Exception):
    """The laptop's daemon ends here. Its store stays."""


class Stopped(RemoteUnavailable):
    """A request or its answer was lost."""


@dataclass
class SimulatedClock:
    at_ms: int = START_MS
    skew_ms: int = 0
    shared: "SimulatedClock | None" = None

    def now(self) -> Millis:
        base = self.at_ms if self.shared is None else self.shared.at_ms
        return Millis(base + self.skew_ms)


@dataclass
class TeamParts:
    """What the sides are made of; a test may plant a fault in one of these."""

    forwarding: type[Forwarding] = Forwarding
    outgoing: type[OutgoingRecords] = OutgoingRecords
    receiving: type[Receiving] = Receiving
    merger: type[MemoryMerger] = MemoryMerger
    state: type[StoredUpstream] = StoredUpstream
    ahead_ms: int = 0  # of the clock of the first laptop


class SimpleEraser:
    """Erases records without the indexes that they are in."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine

    def erase_events(self, event_ids: Sequence[EventId], /) -> None:
        machine = self._machine
        found = [event for name in event_ids if (event := machine.log.get(name)) is not None]
        machine.state.note_events(found)
        machine.log.remove([SessionPosition(each.session_id, each.position) for each in found])

    def erase_memories(self, memories: Sequence[Memory], /) -> None:
        machine = self._machine
        machine.state.note_memories([memory.key for memory in memories])
        for memory in memories:
            tombstone = memory_model.build_tombstone(memory, machine.clock.now())
            machine.store_memory(memory, tombstone)


class Machine:
    """The store of a laptop or of the server, with the services of the exchange."""

    def __init__(self, clock: SimulatedClock, parts: TeamParts) -> None:
        self.clock, self.parts = clock, parts
        self.start(MemoryEngine())

    def start(self, engine: MemoryEngine) -> None:
        clock, parts = self.clock, self.parts
        self.engine = engine
        self.store = CommittedStore(engine, watch=unexpected)
        self.log = StoredEventLog(self.store)
        self.outbox = StoredOutbox(self.store)
        self.memories = StoredMemories(self.store)
        self.outlines = MemoryOutlines(self.store)
        self.knowledge = StoredKnowledge(self.store)
        self.state = parts.state(self.store)
        self.erasures = StoredErasures(self.store)
        secrets = PassThrough()
        self.ingest = Ingest(self.log, secrets, lambda: None)
        self.facts = Facts(
            self.knowledge, secrets, clock, lambda: None, find_removal=self.state.find_removal
        )
        self.memory_merger = parts.merger(
            self.memories, self.erasures, secrets, lambda _domain: None, lambda: None
        )
        self.fact_merger = FactMerger(
            *(self.knowledge, self.facts, self.state, self.state, self.state, self.erasures),
            *(secrets, lambda: None),
        )
        self.eraser = SimpleEraser(self)
        self.erasing = Erasing(
            *(self.erasures, self.eraser, self.log, self.memories, self.memory_merger),
            *(self.fact_merger, self.state, lambda: 0, clock),
        )

    def store_memory(self, before: Memory | None, after: Memory) -> None:
        assert self.memories.write([MemoryChange(before, after, None)]) == [True]

    def list_memories(self, domain: Domain) -> dict[str, Memory]:
        found = self.memories.list_domain(domain, after=None, limit=1_000)
        return {memory.digest: replace(memory, index=0) for memory in found}

    def list_facts(self, scope: str = SHOP) -> list[Fact]:
        found = self.knowledge.list_after(Fact, "", limit=1_000)
        return [fact for fact in found if fact.scope == scope]

    def list_events(self) -> Iterator[Event]:
        for page in paging.iter_between(self.log):
            yield from page.events

    def trim(self, up_to: int) -> None:
        self.outbox.trim(up_to)


class TeamHub(Machine):
    """The server."""

    backup: MemoryEngine | None = None

    def start(self, engine: MemoryEngine) -> None:
        super().start(engine)
        self.names = ProjectNames(self.state)
        self.receiving = self.parts.receiving(
            self.ingest,
            self.log,
            self.outbox,
            self.memories,
            self.knowledge,
            self.memory_merger,
            self.fact_merger,
            self.state,
            self.state,
            self.state,
            self.erasures,
            self.clock,
            lambda: None,
            self.names.check,
        )

    def back_up(self) -> None:
        self.backup = deepcopy(self.engine)

    def restore(self, backup: MemoryEngine) -> None:
        """Start again on a backup, as a server whose database was lost."""
        self.store.close()
        self.start(deepcopy(backup))


@dataclass
class Delivery:
    batch: RecordBatch
    person: str


@dataclass
class TeamWorld:
    """One clock, one dice and the network between the laptops and the server."""

    seed: int
    dice: random.Random
    clock: SimulatedClock
    trouble: float = TROUBLE
    history: list[str] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    forgotten: set[tuple[str, str]] = field(default_factory=set)
    recorded: dict[tuple[str, str], str] = field(default_factory=dict)  # texts of shared events

    def count(self, what: str) -> None:
        self.events[what] = self.events.get(what, 0) + 1

    def note(self, what: str) -> None:
        self.history.append(f"{self.clock.at_ms - START_MS}: {what}")

    def is_trouble(self) -> bool:
        return self.dice.random() < self.trouble


class Wire:
    """The server as a laptop sees it: over a network that loses and repeats messages, in the form
    that they have on the wire."""

    def __init__(self, world: TeamWorld, hub: TeamHub, person: str, online: Callable[[], bool]):
        self._world, self._hub, self._person, self._online = world, hub, person, online

    def identify(self, client: str = "", /) -> TeamIdentity:
        self._lose_request()
        receipt = self._hub.receiving.get_receipt(Sender(person=self._person, client=client))
        return TeamIdentity(person=self._person, receipt=receipt)

    def send(self, batch: RecordBatch, /) -> SendOutcome:
        self._lose_request()
        copy = _copy_batch(batch)
        self._world.deliveries.append(Delivery(copy, self._person))
        sender = Sender(person=self._person, client=batch.client)
        outcome = self._hub.receiving.take(copy, sender)
        self._lose_answer()
        return outcome

    def list_changes(
        self, after: str, scope: SharedScope, /, *, client: str = "", limit: int
    ) -> ChangePage:
        self._lose_request()
        few = min(limit, self._world.dice.randrange(1, 6))
        sender = Sender(person=self._person, client=client)
        page = self._hub.receiving.list_changes(after, scope, sender, limit=few)
        self._lose_answer()
        decoded = [decode_change(encode_change(change, page.people)) for change in page.changes]
        return replace(page, changes=tuple(each for each in decoded if each is not None))

    def find_project(self, repository: str, name: str, /) -> ServerProject:
        self._lose_request()
        return self._hub.names.find(repository, name, Sender(person=self._person))

    def claim_project(self, repository: str, name: str, /, *, join: bool = False) -> str:
        self._lose_request()
        agreed = self._hub.names.claim(repository, name, Sender(person=self._person), join=join)
        self._lose_answer()
        return agreed

    def search(self, _query: Query, _scope: SharedScope, /) -> RecallResult:
        raise FeatureUnavailable("nobody asks here")

    def open(self, _uri: str, _scope: SharedScope, /, *, around: int) -> TeamRecord:
        raise FeatureUnavailable(f"nobody asks here, nor for {around} turns")

    def _lose_request(self) -> None:
        if not self._online():
            raise Stopped("offline")
        if self._world.is_trouble():
            self._world.count("lost request")
            raise Stopped("the request was lost")

    def _lose_answer(self) -> None:
        if self._world.is_trouble():
            self._world.count("lost answer")
            raise Stopped("the answer was lost")


class CrashingState:
    """The state of a laptop whose daemon may end at every write of its progress."""

    def __init__(self, inner: StoredUpstream, world: TeamWorld) -> None:
        self._inner, self._world = inner, world

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def save(self, progress: SyncProgress, /) -> None:
        if self._world.dice.random() < self._world.trouble / 8:
            self._world.count("crash")
            raise LaptopCrashed
        self._inner.save(progress)


class SimulatedLaptop(Machine):
    def __init__(
        self,
        world: TeamWorld,
        hub: TeamHub,
        name: str,
        person: str,
        project: str,
        parts: TeamParts,
    ) -> None:
        skew = world.dice.randrange(-90_000, 90_000)
        skew = parts.ahead_ms if parts.ahead_ms and name == LAPTOPS[0][0] else skew
        super().__init__(SimulatedClock(skew_ms=skew, shared=world.clock), parts)
        self.world, self.name, self.person = world, name, person
        self.project, self.shop = project, Domain(f"project:{project}")
        self.shared = SharedScope(
            frozenset({project, USER}), conversations=frozenset({REPOSITORY_OF_SHOP})
        )
        self.online, self.scope = True, self.shared
        self.number = 0
        self._wire = Wire(world, hub, person, lambda: self.online)
        self.forwarding = self._build()

    def _build(self) -> Forwarding:
        """Build what does not survive a crash."""
        state = CrashingState(self.state, self.world)
        return self.parts.forwarding(
            self._read_settings,
            lambda settings: NamedServer(self._wire, settings.agreed, self.state),
            self.name,
            state,  # type: ignore[arg-type]  # by __getattr__
            self.state,
            self.log,
            self.outbox,
            self.memories,
            self.parts.outgoing(
                self.log,
                self.memories,
                self.knowledge,
                self.state,
                self.state,
                self.clock,
                Conversations(self.state, self.log, self.memories, self.outlines, self.clock),
            ),
            self.state,
            self.memory_merger,
            self.fact_merger,
            self.erasures,
            self.clock,
            BackOff(lambda: 0.0, lambda: 0.0),
            lambda refused: self.world.note(f"{self.name}: refused {refused}"),
            lambda: self.world.count("restoration noticed"),
            self._agree,
            threading.Lock(),
        )

    def _read_settings(self) -> RemoteSettings:
        there = self.state.list_agreed_names().get(REPOSITORY_OF_SHOP, "")
        return RemoteSettings(
            url="https://hub",
            key="k",
            scope=self.scope if there else SharedScope(frozenset({USER})),
            agreed=(SharedProject(REPOSITORY_OF_SHOP, self.project, there),) if there else (),
        )

    def _agree(
        self, _settings: RemoteSettings, server: TeamServer, /, *, is_reader: bool
    ) -> Sequence[RecordRefused]:
        assert not is_reader
        if not self.state.list_agreed_names().get(REPOSITORY_OF_SHOP, ""):
            agreed = server.claim_project(REPOSITORY_OF_SHOP, "shop")
            self.state.put_agreed_name(REPOSITORY_OF_SHOP, agreed)
        return []

    def sync(self) -> None:
        try:
            self.erasing.run(lambda: None)
            self.forwarding.back_off.reset()
            self.forwarding.run(lambda: None)
            self.erasing.run(lambda: None)
        except LaptopCrashed:
            self.forwarding = self._build()

    def act(self) -> None:
        dice = self.world.dice
        action = dice.choice(
            [
                *([self.record] * 4),
                *([self.capture, self.edit, self.claim] * 2),
                *(self.forget_event, self.forget_memory, self.remove_fact, self.trim_outbox),
            ]
        )
        action()

    def record(self) -> None:
        dice = self.world.dice
        if dice.random() < 0.3:
            name, text = (f"imported-{dice.randrange(IMPORTED)}", "")
            # Two people may have the same id for different words.
            text = f"{self.person} said this in {name}"
        else:
            self.number += 1
            name = f"{self.name}-{self.number}"
            text = f"words of {name}"
        is_shared = name.startswith("imported") or dice.choice([True, True, False])
        # Nobody must believe the person. The name of the project alone shares nothing either.
        metadata = {"project": self.project, PERSON: "mallory"}
        if is_shared:
            metadata[REPOSITORY] = REPOSITORY_OF_SHOP
        event = Event(
            event_id=EventId(name),
            session_id=SessionId(f"session-{name.rpartition('-')[0]}"),
            at_ms=Millis(START_MS - HOUR_MS) if name.startswith("imp") else self.clock.now(),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text=text,
            metadata=metadata,
        )
        (created,) = self.ingest.submit([Clean(event)]).result()
        if created and is_shared:
            self.world.recorded[self.person, name] = text
            self.world.note(f"{self.name} records {name}")

    def capture(self) -> None:
        dice = self.world.dice
        text, domain = dice.choice(TEXTS), dice.choice([self.shop, self.shop, USER])
        now = self.clock.now()
        memory = Memory(
            digest=memory_model.compute_digest("decisions", text, "", ""),
            namespace="decisions",
            domain=domain,
            summary=text,
            created_ms=now,
            updated_ms=now,
            author=self.person,
        )
        if self.memories.get(memory.key) is None:
            self.store_memory(None, memory)
            self.world.note(f"{self.name} captures {text} in {domain}")

    def _choose_memory(self) -> Memory | None:
        dice = self.world.dice
        found = [*self.list_memories(self.shop).values(), *self.list_memories(USER).values()]
        live = [memory for memory in found if memory.status is not MemoryStatus.TOMBSTONE]
        return self.memories.get(dice.choice(live).key) if live else None

    def edit(self) -> None:
        memory, dice = self._choose_memory(), self.world.dice
        if memory is None:
            return
        tags = frozenset(dice.sample(["api", "db", "ops"], dice.randrange(3)))
        status = dice.choice([MemoryStatus.ACTIVE, MemoryStatus.RESOLVED, MemoryStatus.ARCHIVED])
        now = self.clock.now()
        self.store_memory(memory, memory_model.update_fields(memory, now, tags=tags, status=status))
        self.world.note(f"{self.name} edits {memory.summary}")

    def forget_memory(self) -> None:
        memory = self._choose_memory()
        if memory is not None and self.world.dice.random() < 0.5:
            self.eraser.erase_memories([memory])
            self.world.count("forgotten memory")
            self.world.note(f"{self.name} forgets {memory.summary}")

    def claim(self) -> None:
        key, value = self.world.dice.choice(KEYS), str(self.world.dice.randrange(5))
        self.facts.claim(Claim(scope=self.shop, key=key, value=value))

    def remove_fact(self) -> None:
        found = sorted(fact.id for fact in self.list_facts(self.shop))
        if found:
            self.facts.remove([self.world.dice.choice(found)])
            self.world.count("removed fact")

    def forget_event(self) -> None:
        own = [event for event in self.list_events() if REPOSITORY in event.metadata]
        if own:
            event = self.world.dice.choice(own)
            self.eraser.erase_events([event.event_id])
            self.world.count("forgotten event")
            self.world.note(f"{self.name} forgets {event.event_id}")
            self.world.forgotten.add((self.person, event.event_id))

    def trim_outbox(self) -> None:
        """Trim the outbox behind the cursor, or, after very long offline, beyond it."""
        needed = self.forwarding.get_needed()
        if self.world.dice.random() < 0.2:
            self.world.count("gap")
            self.trim(self.log.watermark())
        elif needed is not None:
            self.trim(needed)


def simulate(seed: int, parts: TeamParts | None = None) -> TeamWorld:
    """Run one history. Raises Disagreement if the sides differ at its end."""
    parts = parts or TeamParts()
    dice = random.Random(seed)
    world = TeamWorld(seed, dice, SimulatedClock())
    with ExitStack() as closing:
        hub = TeamHub(SimulatedClock(shared=world.clock), parts)
        closing.callback(lambda: hub.store.close())  # noqa: PLW0108  # it may change
        laptops = [SimulatedLaptop(world, hub, *each, parts) for each in LAPTOPS]
        for laptop in laptops:
            closing.callback(laptop.store.close)
        _settle(world, hub, laptops)
        world.trouble = TROUBLE
        for _ in range(STEPS):
            _step(world, hub, laptops)
        _settle(world, hub, laptops)
        _check(world, hub, laptops)
    return world


def _step(world: TeamWorld, hub: TeamHub, laptops: Sequence[SimulatedLaptop]) -> None:
    dice = world.dice
    world.clock.at_ms += dice.randrange(1, 60_000)
    laptop = dice.choice(laptops)
    chance = dice.random()
    if chance < 0.55:
        laptop.act()
    elif chance < 0.85:
        laptop.sync()
    elif chance < 0.89:
        laptop.online = not laptop.online
        world.clock.at_ms += dice.randrange(6) * HOUR_MS
        world.count("offline")
    elif chance < 0.92:
        hub.erasing.run(lambda: None)
    elif chance < 0.94:
        only_own = SharedScope(frozenset({USER}))
        laptop.scope = laptop.shared if laptop.scope == only_own else only_own
        world.count("scope changed")
    elif chance < 0.965:
        if hub.backup is not None and dice.random() < 0.5:
            hub.restore(hub.backup)
            world.count("restored")
        else:
            hub.back_up()
    elif chance < 0.98:
        needed = hub.receiving.get_cursor()
        hub.trim(hub.log.watermark() if dice.random() < 0.3 else needed or 0)
    elif world.deliveries:
        old = dice.choice(world.deliveries)
        world.count("repeated")
        hub.receiving.take(old.batch, Sender(person=old.person))


def _settle(world: TeamWorld, hub: TeamHub, laptops: Sequence[SimulatedLaptop]) -> None:
    """Let everyone be online, without faults, until nothing changes any more."""
    world.trouble = 0.0
    world.clock.at_ms += LONG_MS
    for laptop in laptops:
        laptop.online, laptop.scope = True, laptop.shared
    for _ in range(ROUNDS):
        before = [machine.log.watermark() for machine in (hub, *laptops)]
        world.clock.at_ms += 1_000
        for laptop in laptops:
            laptop.sync()
            hub.erasing.run(lambda: None)
        if before == [machine.log.watermark() for machine in (hub, *laptops)]:
            return
    raise Disagreement("the sides do not come to rest")


def _check(world: TeamWorld, hub: TeamHub, laptops: Sequence[SimulatedLaptop]) -> None:
    _check_events(world, hub, laptops)
    shared, facts = hub.list_memories(SHOP), _value_facts(hub.list_facts())
    for laptop in laptops:
        here = {
            digest: replace(memory, domain=SHOP)
            for digest, memory in laptop.list_memories(laptop.shop).items()
        }
        _compare(f"memories of {laptop.name}", here, shared)
        _compare(f"facts of {laptop.name}", _value_facts(laptop.list_facts(laptop.shop)), facts)
        domain = names.build_private_domain(laptop.person)
        own = {
            digest: replace(memory, domain=USER)
            for digest, memory in hub.list_memories(domain).items()
        }
        _compare(f"own memories of {laptop.name}", laptop.list_memories(USER), own)


def _check_events(world: TeamWorld, hub: TeamHub, laptops: Sequence[SimulatedLaptop]) -> None:
    stored = list(hub.list_events())
    found = {}
    for event in stored:
        name, person = names.split_event(event.event_id)
        if event.metadata[PERSON] != person or event.metadata["project"] != "shop":
            raise Disagreement(f"{event.event_id} has the wrong person or project")
        found[person, str(name)] = event.text
    expected = {key: text for key, text in world.recorded.items() if key not in world.forgotten}
    _compare("events of the server", found, expected)
    if len(stored) != len(found):
        raise Disagreement("the server has an event twice")
    for laptop in laptops:
        for event in laptop.list_events():
            if (laptop.person, event.event_id) in world.forgotten:
                raise Disagreement(f"{laptop.name} still has {event.event_id}")


def _value_facts(facts: Sequence[Fact]) -> dict[str, tuple[str, int]]:
    return {fact.key: (fact.value, fact.valued_ms) for fact in facts}


def _compare(what: str, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> None:
    for key in {**one, **other}:
        if one.get(key) != other.get(key):
            raise Disagreement(f"{what} differ in {key}: {one.get(key)} and {other.get(key)}")


def _copy_batch(batch: RecordBatch) -> RecordBatch:
    """Return a batch as it comes out of the wire."""
    sent = encode_batch(batch)
    return RecordBatch(
        machine=sent["machine"],
        events=tuple(map(decode_event, sent["events"])),
        memories=tuple(map(decode_memory, sent["memories"])),
        facts=tuple(map(decode_fact, sent["facts"])),
        removed_facts=tuple(map(decode_tombstone, sent["removed_facts"])),
        forgotten=tuple(map(EventId, sent["forgotten"])),
        projects=sent.get("projects", {}),
    )
