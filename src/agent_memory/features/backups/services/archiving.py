"""Export every record from one consistent view, and import it again."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, TypeAlias

from agent_memory.features.backups.services.imported_names import ImportedNames
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.facts import Fact, Former
from agent_memory.features.knowledge.model.procedures import Chain, Procedure
from agent_memory.features.knowledge.model.run_sessions import Run, RunSession
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.ports import KnowledgeChange, KnowledgeStore
from agent_memory.features.knowledge.services import facts, knowledge
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services import paging
from agent_memory.features.log.services.ingest import Ingest, Refusal
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Home, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import Project
from agent_memory.features.memories.model.tiers import MemoryUse
from agent_memory.features.memories.ports import Memories, MemoryChange, MemoryUses, Projects
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.features.toc.ports import TocReader
from agent_memory.kernel.errors import ContentBlocked, InvalidInput
from agent_memory.kernel.ids import Domain, MemoryKey
from agent_memory.platform.archive_parts import ArchivePart
from agent_memory.platform.ports import OrderedStore

PAGE = 500
HISTORY = 1_000

KNOWLEDGE: tuple[type[Any], ...] = (
    User, Fact, Former, Procedure, Chain, Episode, Session, Run, RunSession,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A memory and its uses."""

    memory: Memory
    use: MemoryUse


ArchiveRecord: TypeAlias = Any  # a memory, an event, a node, a project, of KNOWLEDGE or of a part


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    records: OrderedStore  # what the others are in
    log: EventLog
    memories: Memories
    uses: MemoryUses
    knowledge: KnowledgeStore
    toc: TocReader
    projects: Projects


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """How many records of each type were imported; derived records are skipped."""

    taken: Mapping[type[ArchiveRecord], int]
    known: int
    derived: int
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FullExport:
    open_view: Callable[[], AbstractContextManager[Stores]]
    stores: Stores
    ingest: Ingest
    capture: Capture
    parts: Sequence[ArchivePart]  # of features
    secrets: SecretsFilter
    find_home: Callable[[Domain], Home | None]
    on_change: Callable[[], None]
    # writes the file at the end of the block, whole
    open_whole: Callable[[Path], AbstractContextManager[IO[bytes]]]

    def export_records(self) -> Iterator[ArchiveRecord]:
        """Yield every record as of one moment. Records that learning makes from events come
        before them."""
        with self.open_view() as stores:
            yield from stores.projects.list_all()
            for domain in sorted(stores.memories.list_domains()):
                yield from _memories(stores, domain)
            for kind in KNOWLEDGE:
                yield from _knowledge(stores.knowledge, kind)
            for part in self.parts:
                yield from part.list_all(stores.records)
            for page in paging.iter_between(stores.log):
                yield from page.events
            yield from _nodes(stores.toc)

    def import_records(
        self, records: Iterable[tuple[str, ArchiveRecord]], on_progress: Callable[[int], None]
    ) -> ImportResult:
        """Import records, each with its line in the file. Existing records stay. What was
        imported stays too, wherever the import stops."""
        taken: Counter[type[ArchiveRecord]] = Counter()
        refused: list[str] = []
        known = derived = 0
        pending: list[tuple[str, Event]] = []
        names = ImportedNames(self.stores.projects, self.secrets)

        def settle() -> None:
            nonlocal known
            fresh, blocked = self._import_events(pending)
            pending.clear()
            refused.extend(blocked)
            known += len(fresh) - sum(fresh)
            if sum(fresh):
                taken[Event] += sum(fresh)

        for number, (place, record) in enumerate(records, 1):
            if number % PAGE == 0:
                on_progress(number)
            if isinstance(record, Event):
                pending.append((place, names.rename_event(record)))
                if len(pending) == PAGE:
                    settle()
                continue
            if isinstance(record, TocNode):
                derived += 1
                continue
            try:
                if isinstance(record, Project):
                    derived += 1
                    names.add(record)
                elif self._import_record(_rename(record, names)):
                    taken[type(record)] += 1
                else:
                    known += 1
            except (InvalidInput, ContentBlocked) as exc:
                refused.append(f"{place}: {exc}")
        settle()
        self.on_change()
        return ImportResult(taken=taken, known=known, derived=derived, refused=tuple(refused))

    def _import_events(self, events: list[tuple[str, Event]]) -> tuple[list[bool], list[str]]:
        recording = self.ingest.record_each(events, itemgetter(1))
        refused = [
            f"{place}: {outcome}"
            for (place, _), outcome in zip(events, recording.outcomes, strict=True)
            if isinstance(outcome, Refusal)
        ]
        return recording.stored.result(), refused

    def _import_record(self, record: ArchiveRecord) -> bool:
        """Import a record. Return whether it is new."""
        if isinstance(record, MemoryRecord):
            return self._import_memory(record)
        for part in self.parts:
            if isinstance(record, part.kinds):
                return part.add(record)
        return self._import_knowledge(record)

    def _import_memory(self, record: MemoryRecord) -> bool:
        memory = self._clean_memory(record.memory)
        if self.stores.memories.get(memory.key) is not None:
            return False
        change = MemoryChange(before=None, after=memory, home=self.find_home(memory.domain))
        (written,) = self.stores.memories.write([change])
        if written and record.use != MemoryUse():
            self.stores.uses.put([(memory.key, record.use)])
        return written

    def _clean_memory(self, memory: Memory) -> Memory:
        domain = memory.domain
        if self.secrets.clean_name(domain, limit=len(domain), where="import") != domain:
            raise InvalidInput("its domain holds a secret")
        if memory.status is MemoryStatus.TOMBSTONE:
            return memories.build_tombstone(memory, memory.updated_ms)
        return self.capture.clean_memory(memory)

    def _import_knowledge(self, record: Any) -> bool:
        clean = knowledge.clean(self._clean_fact(record), self.secrets)
        kept = self.stores.knowledge
        if kept.get(type(clean), [clean.id])[0] is not None:
            return False
        return kept.commit([KnowledgeChange(None, clean)])

    def _clean_fact(self, record: Any) -> Any:
        """Clean a fact or an earlier value: its key may mark the value as a secret."""
        match record:
            case Fact():
                return facts.clean(record, self.secrets)
            case Former():
                (fact,) = self.stores.knowledge.get(Fact, [record.fact_id])
                key = "" if fact is None else fact.key
                return replace(record, value=facts.clean_value(key, record.value, self.secrets))
            case _:
                return record


def _rename(record: Any, names: ImportedNames) -> Any:
    match record:
        case MemoryRecord():
            return replace(record, memory=names.rename_memory(record.memory))
        case Fact():
            return names.rename_fact(record)
        case Former():
            return names.rename_former(record)
        case _:
            return record


def _memories(stores: Stores, domain: Domain) -> Iterator[MemoryRecord]:
    after: MemoryKey | None = None
    while found := stores.memories.list_domain(domain, after=after, limit=PAGE):
        uses = stores.uses.get_many([each.key for each in found])
        for memory, use in zip(found, uses, strict=True):
            yield MemoryRecord(memory=memory, use=use)
        after = found[-1].key


def _knowledge(knowledge: KnowledgeStore, kind: type[Any]) -> Iterator[Any]:
    after = ""
    while found := knowledge.list_after(kind, after, limit=PAGE):
        yield from found
        after = found[-1].id


def _nodes(toc: TocReader) -> Iterator[TocNode]:
    """Yield the present version of each node, then its older kept versions."""
    after: NodeId | None = None
    while ids := toc.list_ids("toc:", after=after, limit=PAGE):
        for node in toc.get_nodes(ids):
            if node is not None:
                yield node
                for older in toc.list_versions(node.node_id, limit=HISTORY):
                    if older.version != node.version:
                        yield older
        after = ids[-1]
