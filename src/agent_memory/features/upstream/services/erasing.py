"""Erase here what was forgotten on another machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.log.model.metadata import PERSON
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model import memories as memory_model
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.memories.ports import Memories
from agent_memory.features.upstream.model.erasures import (
    HOUR_MS,
    MAX_COUNTED,
    AskedErasure,
    PendingErasure,
)
from agent_memory.features.upstream.model.records import ErasureNotice
from agent_memory.features.upstream.ports import Eraser, PendingErasures, TakenRecords, Tombstones
from agent_memory.features.upstream.services.merging import FactMerger, MemoryMerger
from agent_memory.kernel import access
from agent_memory.kernel.ids import USER, EventId, Millis, Position
from agent_memory.platform.ports import Clock

MAX_LISTED = 100_000
_PAGE = 500


@dataclass(frozen=True, slots=True)
class ForgettingEraser:
    """An Eraser that forgets, with all that this removes."""

    forgetting: Forgetting
    memory_forgetting: MemoryForgetting

    def erase_events(self, names: Sequence[EventId], /) -> None:
        self.forgetting.forget_listed(names, lambda _phase, _count: None)

    def erase_memories(self, memories: Sequence[Memory], /) -> None:
        here = MemoryLocation(domain=USER, home=NOWHERE)
        self.memory_forgetting.forget(
            memories,
            here,
            rewrite_notes=False,
            by_user=True,  # a person has, elsewhere
            on_progress=lambda _phase, _count: None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineErasures:
    """An ErasureQueue of a team server: what a key of a person asks for waits. The owner's commands
    on this machine, and a daemon of one's own, erase at once."""

    erasures: PendingErasures
    log: EventLog
    taken: TakenRecords
    read_hours: Callable[[], int]
    clock: Clock

    def hold_events(self, places: Sequence[Position], /) -> Millis | None:
        asked = self._find_asked()
        if asked is None:
            return None
        owners = {
            event.event_id: event.metadata.get(PERSON, "")
            for start in range(0, len(places), _PAGE)
            for event in self.log.get_at(places[start : start + _PAGE])
        }
        names = [at.event_id for at in places]
        return self._add(
            [PendingErasure(asked=asked, owner=owners.get(name), event=name) for name in names]
        )

    def hold_memories(self, memories: Sequence[Memory], /) -> Millis | None:
        asked = self._find_asked()
        if asked is None:
            return None
        stones = [memory_model.build_tombstone(each, self.clock.now()) for each in memories]
        owners = self.taken.find_people(memories)
        return self._add(
            [
                PendingErasure(asked=asked, owner=owner, memory=stone)
                for stone, owner in zip(stones, owners, strict=True)
            ]
        )

    def _find_asked(self) -> AskedErasure | None:
        caller = access.get_caller()
        if caller is None or not caller.person or not self.read_hours():
            return None
        return AskedErasure(caller.person, self.clock.now())

    def _add(self, pending: Sequence[PendingErasure]) -> Millis | None:
        if not pending:
            return None
        self.erasures.add(pending)
        return Millis(self.clock.now() + self.read_hours() * HOUR_MS)


@dataclass(frozen=True, slots=True)
class Erasing:
    """Erases what other machines ask for, once it has waited: a key in the wrong hands could erase
    everything with one request, so its owner can keep it until then."""

    erasures: PendingErasures
    eraser: Eraser
    log: EventLog
    memories: Memories
    merger: MemoryMerger
    fact_merger: FactMerger
    tombstones: Tombstones
    read_hours: Callable[[], int]
    clock: Clock

    def run(self, check: Callable[[], None]) -> int:
        """Erase what has waited, and return how many records that were. Each step may be
        repeated."""
        count = 0
        while True:
            check()
            until = Millis(max(0, self.clock.now() - self.get_wait_ms()))
            due = self.erasures.list_pending(limit=_PAGE, asked_until=until)
            if not due:
                return count
            self.erase(due)
            count += len(due)

    def get_wait_ms(self) -> int:
        return self.read_hours() * HOUR_MS

    def list_waiting(self, *, limit: int) -> list[PendingErasure]:
        """Return what waits, what was asked first at first."""
        found = self.erasures.list_pending(limit=MAX_LISTED)
        return sorted(found, key=lambda each: each.asked.at_ms)[:limit]

    def list_of(self, person: str) -> list[PendingErasure]:
        """Return what waits that is a person's, or that they asked for."""
        found = self._find_of(person, limit=MAX_LISTED)
        return sorted(found, key=lambda each: each.asked.at_ms)

    def count_of(self, person: str) -> int:
        """Count the same, up to MAX_COUNTED: every machine asks for it each minute."""
        return len(self._find_of(person, limit=MAX_COUNTED))

    def _find_of(self, person: str, *, limit: int) -> list[PendingErasure]:
        return self.erasures.list_pending(
            limit=limit,
            is_wanted=lambda each: person == each.asked.person or person == self._find_owner(each),
        )

    def list_notices(self, person: str | None = None) -> list[ErasureNotice]:
        """Return what waits, or what of it concerns a person."""
        found = self.list_waiting(limit=MAX_LISTED) if person is None else self.list_of(person)
        wait = self.get_wait_ms()
        return [
            ErasureNotice(
                kind=each.kind,
                name=each.name,
                asked_by=each.asked.person,
                asked_ms=each.asked.at_ms,
                due_ms=Millis(each.asked.at_ms + wait),
            )
            for each in found
        ]

    def choose(self, names: Sequence[str], person: str | None = None) -> list[PendingErasure]:
        """Return what waits under these names, and concerns a person if one is given."""
        found = self.list_waiting(limit=MAX_LISTED) if person is None else self.list_of(person)
        wanted = set(names)
        return [each for each in found if each.name in wanted]

    def _find_owner(self, pending: PendingErasure) -> str:
        """Return whose record it is. What an earlier version noted is read for it."""
        if pending.owner is not None:
            return pending.owner
        if pending.event is not None:
            event = self.log.get(pending.event)
            return "" if event is None else event.metadata.get(PERSON, "")
        if pending.fact is not None:
            (origin,) = self.fact_merger.taken.get_fact_origins([pending.fact.id])
            return "" if origin is None else origin.person
        memory = None if pending.memory is None else self.memories.get(pending.memory.key)
        return "" if memory is None else self.fact_merger.taken.find_people([memory])[0]

    def keep(self, chosen: Sequence[PendingErasure]) -> None:
        """Do not erase these. If they are asked for again, they wait again."""
        self.tombstones.drop_forgotten_notes([e.event for e in chosen if e.event is not None])
        self.erasures.drop(chosen)

    def erase(self, chosen: Sequence[PendingErasure]) -> None:
        """Erase these at once."""
        events = [each.event for each in chosen if each.event is not None]
        present = [name for name in events if self.log.get(name) is not None]
        if present:
            self.eraser.erase_events(present)
        tombstones = [each.memory for each in chosen if each.memory is not None]
        stored = (self.memories.get(tombstone.key) for tombstone in tombstones)
        live = [
            memory
            for memory in stored
            if memory is not None and memory.status is not MemoryStatus.TOMBSTONE
        ]
        if live:
            self.eraser.erase_memories(live)
        for tombstone in tombstones:
            self.merger.write(tombstone)
        for each in chosen:
            if each.fact is not None:
                self.fact_merger.remove(each.fact)
        self.erasures.drop(chosen)
