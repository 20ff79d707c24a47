"""Follow what other daemons write to the same memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_memory.features.log.model.outbox import EventChanged, MemoryChanged
from agent_memory.features.log.ports import Outbox
from agent_memory.kernel.ids import MemoryKey

PAGE = 1_000


@dataclass(slots=True)
class OutboxFollower:
    """Reads the outbox for what this daemon keeps of memories, and wakes its jobs.

    `reached` is the last entry that was read.
    """

    outbox: Outbox
    reached: int
    on_memories: Callable[[Sequence[MemoryKey]], None]  # these have changed
    on_gap: Callable[[], None]  # any memory may have changed
    on_change: Callable[[bool], None]  # gets whether there are events

    def follow(self, newest: int) -> None:
        """Read on to the newest entry."""
        has_events = False
        while self.reached < newest:
            entries = self.outbox.read(self.reached, limit=PAGE)
            if not entries or entries[0][0] > self.reached + 1:
                self.on_gap()
            self.reached = entries[-1][0] if entries else newest
            has_events = has_events or any(isinstance(each, EventChanged) for _, each in entries)
            changed = [each.key for _, each in entries if isinstance(each, MemoryChanged)]
            if changed:
                self.on_memories(changed)
        self.on_change(has_events)
