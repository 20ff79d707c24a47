"""Erase here what was forgotten on another machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.memories.ports import Memories
from agent_memory.features.upstream.ports import Eraser, PendingErasures
from agent_memory.features.upstream.services.merging import MemoryMerger
from agent_memory.kernel.ids import USER, EventId

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


@dataclass(frozen=True, slots=True)
class Erasing:
    erasures: PendingErasures
    eraser: Eraser
    log: EventLog
    memories: Memories
    merger: MemoryMerger

    def run(self, check: Callable[[], None]) -> int:
        """Erase what waits, and return how many records that were. Each step may be repeated."""
        count = 0
        while True:
            check()
            events, tombstones = self.erasures.list_pending(limit=_PAGE)
            if not events and not tombstones:
                return count
            present = [name for name in events if self.log.get(name) is not None]
            if present:
                self.eraser.erase_events(present)
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
            self.erasures.drop(events, tombstones)
            count += len(events) + len(tombstones)
