"""Read what a machine sends of its shared projects: the records that changed, and the past."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.model.outbox import (
    EventChanged,
    FactChanged,
    MemoryChanged,
    OutboxEntry,
)
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.ports import Memories
from agent_memory.features.upstream.model import scopes
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.features.upstream.model.progress import BackfillPhase, ProjectBackfill
from agent_memory.features.upstream.model.records import SharedRecord
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.ports import SentLedger, Tombstones
from agent_memory.features.upstream.services.conversations import Conversations
from agent_memory.kernel.ids import (
    MAX_MILLIS,
    Digest,
    EventId,
    KnowledgeId,
    MemoryKey,
    Millis,
    Position,
)
from agent_memory.platform.ports import Clock

_PAGE = 500


@dataclass(frozen=True, slots=True)
class OutgoingRecords:
    log: EventLog
    memories: Memories
    knowledge: KnowledgeStore
    ledger: SentLedger
    tombstones: Tombstones
    clock: Clock
    conversations: Conversations

    def collect(self, entries: Sequence[OutboxEntry], scope: SharedScope) -> list[SharedRecord]:
        """Return the records behind entries of the outbox as they are now, if they are shared.
        Hold conversations back: they leave as a whole."""
        places = [entry.at for entry in entries if isinstance(entry, EventChanged)]
        self.conversations.hold(self.log.get_at(places), scope)
        records, gone = self._find(entries, scope)
        return [*records, *self._collect_tombstones(gone, scope)]

    def count(self, entries: Sequence[OutboxEntry], scope: SharedScope) -> int:
        """Return how many records are behind these entries that may leave. Nothing changes."""
        records, gone = self._find(entries, scope)
        places = [entry.at for entry in entries if isinstance(entry, EventChanged)]
        said = sum(map(scope.sends_event, self.log.get_at(places)))
        return said + len(records) + len(self.ledger.find_sent_facts(gone))

    def _find(
        self, entries: Sequence[OutboxEntry], scope: SharedScope
    ) -> tuple[list[SharedRecord], list[KnowledgeId]]:
        """Return the shared records behind entries, and the facts that are gone."""
        unique = list(dict.fromkeys(entries))
        records: list[SharedRecord] = []
        for entry in unique:
            if isinstance(entry, MemoryChanged) and scope.admits_domain(entry.key.domain):
                memory = self.memories.get(entry.key)
                records += [] if memory is None or not self._may_leave(memory) else [memory]
        names = [entry.id for entry in unique if isinstance(entry, FactChanged)]
        facts = self.knowledge.get(Fact, names)
        records += (fact for fact in facts if fact is not None and scope.admits_fact(fact))
        gone = [name for name, fact in zip(names, facts, strict=True) if fact is None]
        return records, gone

    def read_past(
        self, step: ProjectBackfill, repositories: frozenset[str]
    ) -> tuple[list[SharedRecord], ProjectBackfill]:
        """Return the next records of a backfill, and the step after them. Conversations of the
        repositories are held back."""
        scope = SharedScope(frozenset({step.name}), repositories)
        found: tuple[Sequence[SharedRecord], str]
        match step.phase:
            case BackfillPhase.EVENTS:
                found = [], self._hold_events(scope, step.after)
            case BackfillPhase.MEMORIES:
                found = self._read_memories(step.name, step.after)
            case BackfillPhase.FACTS:
                found = self._read_facts(scope, step.after)
            case BackfillPhase.REMOVED_FACTS:
                found = self._read_removed_facts(scope, step.after)
            case BackfillPhase.TOMBSTONES:
                found = self._read_tombstones(scope, step.after)
            case BackfillPhase.DONE:
                return [], step
        records, after = found
        if after:
            return list(records), replace(step, after=after)
        return list(records), replace(step, phase=BackfillPhase(step.phase + 1), after="")

    # Each of these returns a page, and after what the next one begins: nothing if it was the last.

    def _hold_events(self, scope: SharedScope, after: str) -> str:
        if not scope.conversations:
            return ""
        page = self.log.list_between(
            Millis(0), Millis(MAX_MILLIS), after=_parse_position(after), limit=_PAGE
        )
        self.conversations.hold(page.events, scope)
        return "" if page.next is None else f"{page.next.at_ms}:{page.next.event_id}"

    def _read_memories(self, name: str, after: str) -> tuple[Sequence[SharedRecord], str]:
        domain = scopes.build_domain(name)
        namespace, _, digest = after.partition(":")
        start = MemoryKey(domain, namespace, Digest(digest)) if digest else None
        found = self.memories.list_domain(domain, after=start, limit=_PAGE)
        last = f"{found[-1].namespace}:{found[-1].digest}" if len(found) == _PAGE else ""
        return list(filter(self._may_leave, found)), last

    def _may_leave(self, memory: Memory) -> bool:
        """Tell whether a memory may leave: not while it awaits review, and if it is a colleague's,
        not to say that this review discarded it."""
        if memory.is_pending:
            return False
        is_gone = memory.status is MemoryStatus.TOMBSTONE
        return not is_gone or not self.ledger.is_unreviewed(memory.key)

    def _read_facts(self, scope: SharedScope, after: str) -> tuple[Sequence[SharedRecord], str]:
        found = self.knowledge.list_after(Fact, after, limit=_PAGE)
        last = found[-1].id if len(found) == _PAGE else ""
        return [fact for fact in found if scope.admits_fact(fact)], last

    def _read_removed_facts(
        self, scope: SharedScope, after: str
    ) -> tuple[Sequence[SharedRecord], str]:
        names = self.ledger.list_sent_facts(after, limit=_PAGE)
        facts = self.knowledge.get(Fact, names)
        gone = [name for name, fact in zip(names, facts, strict=True) if fact is None]
        return list(self._collect_tombstones(gone, scope)), names[-1] if len(names) == _PAGE else ""

    def _read_tombstones(
        self, scope: SharedScope, after: str
    ) -> tuple[Sequence[SharedRecord], str]:
        found = self.tombstones.list_fact_tombstones(after, limit=_PAGE)
        last = found[-1].id if len(found) >= _PAGE else ""
        return [tombstone for tombstone in found if scope.admits_scope(tombstone.scope)], last

    def _collect_tombstones(
        self, gone: Sequence[KnowledgeId], scope: SharedScope
    ) -> Iterator[FactTombstone]:
        """Set tombstones for facts that were sent and are gone, and yield them. One that was set
        before keeps its time: a value that another machine has given the fact since then stays."""
        sent = self.ledger.find_sent_facts(gone)
        for name, known in zip(gone, self.tombstones.get_fact_tombstones(gone), strict=True):
            if name in sent:
                tombstone = sent[name].build_tombstone(name, self.clock.now())
                self.tombstones.put_fact_tombstone(tombstone)
                self.ledger.drop_facts([name])
                yield tombstone
            else:
                yield from (each for each in known if scope.admits_scope(each.scope))


def _parse_position(after: str) -> Position | None:
    at_ms, _, name = after.partition(":")
    return Position(at_ms=Millis(int(at_ms)), event_id=EventId(name)) if at_ms else None
