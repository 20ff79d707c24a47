"""Archiving: everything that is kept, record by record, out of one consistent view; and back."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from agent_memory.domain import graphs
from agent_memory.domain.episodes import Episode
from agent_memory.domain.errors import (
    ContentBlocked,
    InvalidInput,
    StorageFailed,
)
from agent_memory.domain.events import MAX_MILLIS, Event, Millis
from agent_memory.domain.facts import Fact, Former
from agent_memory.domain.graphs import GraphCheckpoint, PendingWrite
from agent_memory.domain.memories import Domain, Home, Memory, MemoryKey, Status, digest_of
from agent_memory.domain.periods import NodeId
from agent_memory.domain.ports import (
    EventLog,
    GraphCheckpoints,
    KnowledgeChange,
    KnowledgeStore,
    Memories,
    MemoryChange,
    MemoryUses,
    Projects,
    SecretsFilter,
    TocReader,
)
from agent_memory.domain.procedures import Chain, Procedure
from agent_memory.domain.projects import Project
from agent_memory.domain.sessions import Session
from agent_memory.domain.tiers import Use
from agent_memory.domain.toc import TocNode
from agent_memory.domain.users import User
from agent_memory.domain.work import Run, RunSession
from agent_memory.services.ingest import Ingest

PAGE = 500
WRITE_BYTES = 4 << 20
HISTORY = 1_000

KNOWLEDGE: tuple[type[Any], ...] = (
    User, Fact, Former, Procedure, Chain, Episode, Session, Run, RunSession,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMemory:
    """A memory, and how it was used."""

    memory: Memory
    use: Use


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWrite:
    """What was written after a checkpoint, and after which."""

    place: graphs.Place
    write: PendingWrite


Kept = (
    KeptMemory | User | Fact | Former | Procedure | Chain | Episode | Session | Run | RunSession
    | GraphCheckpoint | KeptWrite | Event | TocNode | Project
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    log: EventLog
    memories: Memories
    uses: MemoryUses
    knowledge: KnowledgeStore
    checkpoints: GraphCheckpoints
    toc: TocReader
    projects: Projects


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """How many records of each type were taken over; what is derived is passed by."""

    taken: Mapping[str, int]
    known: int
    derived: int
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Archiving:
    view: Callable[[], AbstractContextManager[Stores]]
    stores: Stores
    ingest: Ingest
    secrets: SecretsFilter
    home_of: Callable[[Domain], Home | None]
    changed: Callable[[], None]

    def everything(self) -> Iterator[Kept]:
        """Every record as it was at one moment. What events are learned into comes before them."""
        with self.view() as stores:
            yield from stores.projects.all()
            for domain in sorted(stores.memories.domains()):
                yield from _memories(stores, domain)
            for kind in KNOWLEDGE:
                yield from _knowledge(stores.knowledge, kind)
            yield from _checkpoints(stores.checkpoints)
            yield from _events(stores.log)
            yield from _nodes(stores.toc)

    def bring(self, records: Iterable[tuple[str, Kept]], done: Callable[[int], None]) -> Imported:
        """Take over each record, with the place where it stands. What is there already stays.
        What was taken over stays too, wherever it is stopped."""
        taken: dict[str, int] = {}
        refused: list[str] = []
        known = derived = 0
        pending: list[tuple[str, Event]] = []

        def settle() -> None:
            nonlocal known
            fresh, blocked = self._bring_events(pending)
            pending.clear()
            refused.extend(blocked)
            known += len(fresh) - sum(fresh)
            if sum(fresh):
                taken["event"] = taken.get("event", 0) + sum(fresh)

        for number, (place, record) in enumerate(records, 1):
            if number % PAGE == 0:
                done(number)
            if isinstance(record, Event):
                pending.append((place, record))
                if len(pending) == PAGE:
                    settle()
                continue
            if isinstance(record, TocNode | Project):
                derived += 1
                continue
            try:
                if self._bring(record):
                    name = type(record).__name__.removeprefix("Kept").lower()
                    taken[name] = taken.get(name, 0) + 1
                else:
                    known += 1
            except (InvalidInput, ContentBlocked) as exc:
                refused.append(f"{place}: {exc}")
        settle()
        self.changed()
        return Imported(taken=taken, known=known, derived=derived, refused=tuple(refused))

    def _bring_events(self, events: Iterable[tuple[str, Event]]) -> tuple[list[bool], list[str]]:
        clean, refused = [], []
        for place, event in events:
            try:
                clean.append(self.ingest.clean(event))
            except (InvalidInput, ContentBlocked) as exc:
                refused.append(f"{place}: {exc}")
        return (self.ingest.submit(clean).result() if clean else []), refused

    def _bring(self, record: Kept) -> bool:
        """Whether it was not there."""
        match record:
            case KeptMemory():
                return self._bring_memory(record)
            case GraphCheckpoint(place=place):
                if self.stores.checkpoints.get(*place) is not None:
                    return False
                self.stores.checkpoints.put(record).result()
                return True
            case KeptWrite():
                self.stores.checkpoints.put_writes(record.place, [record.write]).result()
                return True
            case _:
                return self._bring_knowledge(record)

    def _bring_memory(self, record: KeptMemory) -> bool:
        memory = record.memory
        if memory.status is not Status.TOMBSTONE:
            said = [self._clean(each) for each in (memory.summary, memory.content, memory.spec)]
            memory = replace(
                memory,
                summary=said[0],
                content=said[1],
                spec=said[2],
                tags=frozenset(map(self._clean, memory.tags)),
                digest=digest_of(memory.namespace, *said),
            )
        if self.stores.memories.get(memory.key) is not None:
            return False
        change = MemoryChange(before=None, after=memory, home=self.home_of(memory.domain))
        (written,) = self.stores.memories.write([change])
        if written and record.use != Use():
            self.stores.uses.put([(memory.key, record.use)])
        return written

    def _bring_knowledge(self, record: Any) -> bool:
        knowledge = self.stores.knowledge
        kind = type(record)
        if knowledge.get(kind, [record.id])[0] is not None:
            return False
        texts = {
            name: self._clean(text)
            for name in ("value", "summary", "description", "display_name")
            if isinstance(text := getattr(record, name, None), str)
        }
        return knowledge.commit([KnowledgeChange(None, replace(record, **texts))])

    def _clean(self, text: str) -> str:
        return self.secrets.clean(text, where="import") if text else text


def _memories(stores: Stores, domain: Domain) -> Iterator[KeptMemory]:
    after: MemoryKey | None = None
    while found := stores.memories.of_domain(domain, after=after, limit=PAGE):
        uses = stores.uses.of([each.key for each in found])
        for memory, use in zip(found, uses, strict=True):
            yield KeptMemory(memory=memory, use=use)
        after = found[-1].key


def _knowledge(knowledge: KnowledgeStore, kind: type[Any]) -> Iterator[Any]:
    after = ""
    while found := knowledge.after(kind, after, limit=PAGE):
        yield from found
        after = found[-1].id


def _checkpoints(checkpoints: GraphCheckpoints) -> Iterator[GraphCheckpoint | KeptWrite]:
    after: graphs.Place | None = None
    scope = graphs.Scope()
    while infos := checkpoints.infos(scope, after=after, before=None, limit=PAGE):
        for info in infos:
            found = checkpoints.get(*info.place)
            if found is None:
                raise StorageFailed(f"the checkpoint {info.place.checkpoint_id!r} has no state")
            yield found
            yield from _writes(checkpoints, info.place)
        after = infos[-1].place


def _writes(checkpoints: GraphCheckpoints, place: graphs.Place) -> Iterator[KeptWrite]:
    after = None
    while True:
        page = checkpoints.writes(place, after=after, max_bytes=WRITE_BYTES, at_least_one=True)
        for write in page.writes:
            yield KeptWrite(place=place, write=write)
        if page.next is None:
            return
        after = page.next


def _events(log: EventLog) -> Iterator[Event]:
    after = None
    while True:
        page = log.between(Millis(0), Millis(MAX_MILLIS), after=after, limit=PAGE)
        yield from page.events
        if page.next is None:
            return
        after = page.next


def _nodes(toc: TocReader) -> Iterator[TocNode]:
    """The present version of each node, and after it the kept ones that are older."""
    after: NodeId | None = None
    while ids := toc.below("toc:", after=after, limit=PAGE):
        for node in toc.nodes(ids):
            if node is not None:
                yield node
                for older in toc.history(node.node_id, limit=HISTORY):
                    if older.version != node.version:
                        yield older
        after = ids[-1]
