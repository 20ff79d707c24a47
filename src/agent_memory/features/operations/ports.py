"""What running the daemon needs: jobs, keys, the owners of sockets, traces."""

from collections.abc import Sequence
from typing import Protocol

from agent_memory.kernel.access import AccessKey, Address, SocketOwner
from agent_memory.kernel.jobs import JobState, JobStatus
from agent_memory.kernel.tracing import Span


class JobStore(Protocol):
    """What is kept of background jobs."""

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


class KeyRing(Protocol):
    """The bearer keys, hashed."""

    def add(self, key: AccessKey, /) -> bool:
        """False if a key of this name is there already."""
        ...

    def list_keys(self) -> Sequence[AccessKey]:
        """Once read, out of memory: cheap enough for every request, on any thread."""
        ...

    def remove(self, name: str, /) -> bool:
        """False if there is no such key."""
        ...


class SocketOwners(Protocol):
    """Who holds the other end of a TCP connection within this machine."""

    def find_owner(self, peer: Address, own: Address, /) -> SocketOwner | None:
        """Whose open socket connects `peer` to `own` now; None where that is unproven."""
        ...

    def close(self) -> None: ...


class SpanExporter(Protocol):
    """Keeps traces of what was done, elsewhere. Never blocks."""

    def record(self, span: Span, /) -> None: ...

    def close(self) -> None: ...
