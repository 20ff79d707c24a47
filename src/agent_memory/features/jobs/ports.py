"""What jobs need: their stored state."""

from typing import Protocol

from agent_memory.kernel.jobs import JobState


class JobStore(Protocol):
    """The stored state of background jobs."""

    def load(self, name: str, /) -> JobState: ...

    def save(self, name: str, state: JobState, /) -> None: ...
