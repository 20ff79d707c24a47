"""What memories need: storage, git repositories with their notes, and a model that merges."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from agent_memory.features.memories.model.consolidations import ConsolidationRun
from agent_memory.features.memories.model.memories import Draft, Home, Memory
from agent_memory.features.memories.model.notes import NotebookContents
from agent_memory.features.memories.model.projects import Project, RepositoryInfo, SyncState
from agent_memory.features.memories.model.reasoning import Evidence, MergedMemory, ReasonedAnswer
from agent_memory.features.memories.model.tiers import MemoryUse, Tier
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.ports import Ticket


class MemoryChange(NamedTuple):
    """A memory as it was, if it was, and as it is to be; `home` is whose notes must follow."""

    before: Memory | None
    after: Memory
    home: Home | None


class Memories(Protocol):
    """The memories, by domain, namespace and digest."""

    def get(self, key: MemoryKey, /) -> Memory | None: ...

    def find_by_digest(self, domain: Domain, namespace: str, start: str, /) -> list[Memory]:
        """Those whose digest starts so, tombstones too; at most a hundred."""
        ...

    def list_domain(
        self, domain: Domain, /, *, after: MemoryKey | None, limit: int
    ) -> list[Memory]:
        """In the order of their keys, tombstones too."""
        ...

    def list_domains(self) -> list[Domain]: ...

    def write(self, changes: Sequence[MemoryChange], /) -> list[bool]:
        """Durable on return. False for each that was not written because the memory is not, or no
        longer, as it was."""
        ...


class MemoryUses(Protocol):
    """How often memories were recalled on this machine."""

    def add(self, keys: Sequence[MemoryKey], at: Millis, /) -> None: ...

    def get_many(self, keys: Sequence[MemoryKey], /) -> list[MemoryUse]: ...

    def set_tiers(self, tiers: Mapping[MemoryKey, Tier], /) -> None:
        """Remember which tier each was found in."""
        ...

    def put(self, uses: Sequence[tuple[MemoryKey, MemoryUse]], /) -> None:
        """These take the place of what is known of them."""
        ...

    def forget(self, key: MemoryKey, /) -> None: ...


class NoteQueue(Protocol):
    """The changes of memories that the notes of a repository have yet to follow. Whoever writes a
    memory adds to it in the same batch."""

    def list_homes(self) -> list[Home]: ...

    def list_pending(self, home: Home, /, *, limit: int) -> list[tuple[Ticket, MemoryKey]]:
        """The oldest; they stay until they are done."""
        ...

    def mark_done(self, tickets: Sequence[Ticket], /) -> None: ...


class Projects(Protocol):
    """The projects that are known, and what was last seen in their repositories."""

    def get(self, project_id: str, /) -> Project | None: ...

    def find_by_home(self, home: Home, /) -> Project | None: ...

    def list_all(self) -> list[Project]: ...

    def save(self, project: Project, /) -> None: ...

    def get_sync_state(self, home: Home, /) -> SyncState:
        """What was last seen in its notes."""
        ...

    def set_sync_state(self, home: Home, seen: SyncState, /) -> None: ...


class Repositories(Protocol):
    """Git repositories: which one a folder belongs to, and the notes in each."""

    def locate(self, folder: str, environ: Mapping[str, str], /) -> RepositoryInfo | None:
        """None where the folder is in no repository. Raises GitFailed."""
        ...

    def get_private_home(self, name: str, /) -> Home:
        """Our own repository of this name. It is made with its first notebook."""
        ...

    def exists(self, home: Home, /) -> bool: ...

    def open_notebook(self, home: Home, domain: Domain, /) -> "SharedNotebook":
        """Raises GitFailed where there is no repository any more."""
        ...


class Notebook(Protocol):
    """The memories of one domain as git notes of one repository. Everything here merges memory by
    memory; what is no memory stays as it is. Raises GitFailed."""

    def read_state(self) -> str:
        """It changes whenever the notes do."""
        ...

    def read(self) -> NotebookContents: ...

    def write(self, memories: Sequence[Memory], /) -> None:
        """Each on the commit it was captured at, or on the present one where that is not there."""
        ...

    def rehome(self) -> int:
        """Move what is on commits that no branch or tag leads to onto the present one. How many."""
        ...

    def repair(self) -> int:
        """Take notes that a crash has damaged back to the last state that can be read whole; how
        many. What the store has is written again by the next sync."""
        ...

    def read_legacy(self) -> list[Draft]:
        """What was written into the notes in layouts of earlier tools."""
        ...

    def erase(self, keys: Sequence[MemoryKey], /) -> int:
        """Remove these from the notes and from all their history here; how many refs changed."""
        ...


class SharedNotebook(Notebook, Protocol):
    """One with a remote, which is reached with the user's own git and credentials. Raises
    RemoteUnavailable."""

    def fetch(self, remote: str, environ: Mapping[str, str], /) -> bool:
        """Get the remote's notes and merge them into ours. Whether ours changed."""
        ...

    def push(self, remote: str, environ: Mapping[str, str], /) -> bool | None:
        """Whether there was anything to push. None: it was refused, because the remote has what we
        have yet to fetch."""
        ...


class Journal(Protocol):
    """The consolidations that can be undone, and up to when each domain was looked at."""

    def add(self, run: ConsolidationRun, /) -> None: ...

    def get_last(self) -> ConsolidationRun | None:
        """The newest one that was not removed."""
        ...

    def remove(self, run: ConsolidationRun, /) -> None: ...

    def get_review_times(self) -> dict[Domain, Millis]: ...

    def set_review_time(self, domains: Sequence[Domain], at: Millis, /) -> None:
        """These were looked at, up to then."""
        ...

    def forget(self, keys: AbstractSet[MemoryKey], /) -> None:
        """Nothing of these memories is to be undone."""
        ...


class Reasoner(Protocol):
    """A model that reads and writes. Raises LlmFailed."""

    def answer(
        self, question: str, dates: Sequence[str], evidence: Sequence[Evidence], now: Millis, /
    ) -> ReasonedAnswer:
        """An answer from the evidence, and only from it."""
        ...

    def merge(self, memories: Sequence[Memory], /) -> MergedMemory:
        """What these say, as one."""
        ...
