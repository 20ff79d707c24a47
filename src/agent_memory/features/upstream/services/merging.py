"""Merge copies of memories and facts that came from another machine into the store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.knowledge.model import facts as fact_model
from agent_memory.features.knowledge.model.facts import Fact, Former
from agent_memory.features.knowledge.ports import KnowledgeChange, KnowledgeStore
from agent_memory.features.knowledge.services import facts as fact_service
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.memories.model import memories as memory_model
from agent_memory.features.memories.model.memories import Home, Memory, MemoryStatus
from agent_memory.features.memories.ports import Memories, MemoryChange
from agent_memory.features.memories.services.capture import has_secret
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.features.upstream.model import merging
from agent_memory.features.upstream.model.erasures import AskedErasure, PendingErasure
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.features.upstream.ports import (
    PendingErasures,
    SentLedger,
    TakenRecords,
    Tombstones,
)
from agent_memory.kernel.errors import ContentBlocked, InvalidInput, Overloaded
from agent_memory.kernel.ids import Domain

TRIES = 100  # if others write the same record at the same time


@dataclass(frozen=True, slots=True)
class MemoryMerger:
    memories: Memories
    erasures: PendingErasures
    secrets: SecretsFilter
    find_home: Callable[[Domain], Home | None]
    on_change: Callable[[], None]

    def merge(self, copy: Memory, asked: AskedErasure, owner: str | None = None) -> bool:
        """Merge a copy; return whether something changed, or will: a memory that another machine
        forgot is erased later. Raises InvalidInput for a copy with a secret."""
        stored = self.memories.get(copy.key)
        is_tombstone = copy.status is MemoryStatus.TOMBSTONE
        if is_tombstone and stored is not None and stored.is_pending:
            return False  # it was never shared, so nobody else can forget it
        if is_tombstone and stored is not None and stored.status is not MemoryStatus.TOMBSTONE:
            self.erasures.add([PendingErasure(asked=asked, owner=owner, memory=copy)])
            return True
        if not is_tombstone and has_secret(copy, self.secrets, where="team"):
            raise InvalidInput(f"{copy.id} holds a secret")
        return self.write(copy)

    def write(self, copy: Memory) -> bool:
        """Write the merged memory; return whether that changed it. Notes get what was forgotten,
        and the rest with the next sync."""
        for _ in range(TRIES):
            stored = self.memories.get(copy.key)
            merged = copy if stored is None else memory_model.merge_copies(stored, copy)
            if stored is not None and replace(stored, index=0) == replace(merged, index=0):
                return False
            is_tombstone = merged.status is MemoryStatus.TOMBSTONE
            home = self.find_home(copy.domain) if is_tombstone and stored is not None else None
            (written,) = self.memories.write([MemoryChange(stored, merged, home)])
            if written:
                self.on_change()
                return True
        raise Overloaded(f"the memory {copy.id} is being changed by others: try again")


@dataclass(frozen=True, slots=True)
class FactMerger:
    knowledge: KnowledgeStore
    facts: Facts
    tombstones: Tombstones
    ledger: SentLedger
    taken: TakenRecords
    erasures: PendingErasures
    secrets: SecretsFilter
    on_change: Callable[[], None]

    def check(self, copy: Fact) -> None:
        """Raise InvalidInput for a copy that must not be merged, nor noted: its id would stand for
        a fact of another scope, or it holds a secret."""
        if merging.derive_fact_id(copy) != copy.id:
            raise InvalidInput(f"the id of the fact {copy.key!r} does not fit its name")
        try:
            is_clean = fact_service.clean(copy, self.secrets) == copy
        except ContentBlocked:
            is_clean = False
        if not is_clean:
            raise InvalidInput(f"the fact {copy.id} holds a secret")

    def merge(self, copy: Fact) -> bool:
        """Merge a copy that was checked; return whether something changed."""
        (known,) = self.tombstones.get_fact_tombstones([copy.id])
        if any(tombstone.outweighs(copy) for tombstone in known):
            return False
        for _ in range(TRIES):
            (stored,) = self.knowledge.get(Fact, [copy.id])
            merged = replace(copy, access_count=0)
            if stored is not None:
                merged = merging.merge_facts(stored, copy)
                if merging.is_same_fact(stored, merged):
                    return False
                # Earlier values are numbered on each machine.
                numbers = copy.contradictions, stored.contradictions + 1
                merged = replace(merged, contradictions=max(numbers))
            if self.knowledge.commit(self._build_changes(stored, merged)):
                self.on_change()
                return True
        raise Overloaded(f"the fact {copy.id} is being changed by others: try again")

    def forget(self, tombstone: FactTombstone, asked: AskedErasure) -> bool:
        """Have a fact removed later that was removed elsewhere, unless it has a later value."""
        (stored,) = self.knowledge.get(Fact, [tombstone.id])
        if stored is None or not tombstone.outweighs(stored):
            return self.remove(tombstone)
        (origin,) = self.taken.get_fact_origins([tombstone.id])
        owner = "" if origin is None else origin.person
        self.erasures.add([PendingErasure(asked=asked, owner=owner, fact=tombstone)])
        return True

    def remove(self, tombstone: FactTombstone) -> bool:
        """Remove a fact that was removed elsewhere, unless it has a later value. Its tombstone
        keeps the time of that removal: the notes that would give it a later one go first."""
        name = tombstone.id
        if (note := self.ledger.find_sent_facts([name]).get(name)) and tombstone.outweighs(note):
            self.ledger.drop_facts([name])
        if (note := self.taken.find_taken_facts([name]).get(name)) and tombstone.outweighs(note):
            self.taken.drop_taken_facts([name])
        changed = self.tombstones.put_fact_tombstone(tombstone)
        (stored,) = self.knowledge.get(Fact, [tombstone.id])
        if stored is not None and tombstone.outweighs(stored):
            self.facts.remove([tombstone.id])
        return changed

    def _build_changes(self, before: Fact | None, after: Fact) -> Sequence[KnowledgeChange]:
        """Return the change, with the value that it replaces as an earlier one."""
        changes = [KnowledgeChange(before, after)]
        if before is not None and before.value != after.value:
            at = max(after.valued_ms, before.valued_ms)
            _, former = fact_model.replace_value(before, after.value, at, after.fact_type, None)
            (known,) = self.knowledge.get(Former, [former.id])
            if known is None:
                changes.append(KnowledgeChange(None, former))
        return changes
