"""What jobs need: their stored state, and a scheduler."""

from typing import Protocol

from agent_memory.kernel.jobs import JobState, JobStatus


class JobStore(Protocol):
    """The stored state of background jobs."""

    def load(self, name: str, /) -> JobState: ...

    def save(self, name: str, state: JobState, /) -> None: ...


class Scheduler(Protocol):
    """The background jobs."""

    @property
    def running(self) -> bool: ...

    def status(self) -> list[JobStatus]: ...

    def pause(self, name: str, /) -> None: ...

    def resume(self, name: str, /) -> None: ...

    def wake(self, name: str, /) -> None: ...

    def run(self, name: str, /) -> JobStatus: ...
