"""Ports of memories: storage, git repositories with their notes, and a model that merges."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol, TypeVar

from agent_memory.features.memories.model.changes import ChangeEntry
from agent_memory.features.memories.model.consolidations import ConsolidationRun
from agent_memory.features.memories.model.memories import (
    Draft,
    Home,
    Memory,
    MemoryOutline,
    MemoryStatus,
)
from agent_memory.features.memories.model.notes import NotebookContents
from agent_memory.features.memories.model.projects import (
    CloneInfo,
    Project,
    RepositoryInfo,
    SyncState,
)
from agent_memory.features.memories.model.reasoning import Evidence, MergedMemory, ReasonedAnswer
from agent_memory.features.memories.model.tiers import MemoryUse, Tier
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.ports import Ticket


class MemoryChange(NamedTuple):
    """A memory before (None: new) and after a change. `home` has the notes of its domain."""

    before: Memory | None
    after: Memory
    home: Home | None

    @property
    def note_home(self) -> Home | None:
        """The home whose notes change: none without a repository, while a memory awaits review, or
        when it is discarded, because no note has it."""
        discarded = (
            self.before is not None
            and self.before.is_pending
            and self.after.status is MemoryStatus.TOMBSTONE
        )
        return None if self.after.is_pending or discarded else self.home or None


class Memories(Protocol):
    """Memories by domain, namespace and digest."""

    def get(self, key: MemoryKey, /) -> Memory | None: ...

    def find_by_digest(self, domain: Domain, namespace: str, start: str, /) -> list[Memory]:
        """Return those whose digest starts so, tombstones included; at most a hundred."""
        ...

    def list_domain(
        self, domain: Domain, /, *, after: MemoryKey | None, limit: int
    ) -> list[Memory]:
        """List them in the order of their keys, tombstones included."""
        ...

    def list_domains(self) -> list[Domain]: ...

    def write(self, changes: Sequence[MemoryChange], /) -> list[bool]:
        """Write durably. Return False for each memory that no longer equals `before`."""
        ...


class Outlines(Protocol):
    """The outlines of all memories, tombstones included. They are kept in memory, so that counting
    reads nothing."""

    def count_groups(self) -> Mapping[MemoryOutline, int]:
        """Return how many memories each group has, without empty groups."""
        ...

    def find_newest(
        self, admits: Callable[[MemoryOutline], bool], /, *, limit: int
    ) -> list[MemoryKey]:
        """Return the newest that are admitted, newest first."""
        ...

    def find_superseded(self, domain: Domain, /) -> dict[str, list[MemoryKey]]:
        """Return what the memories of a domain superseded, by their ids, without tombstones."""
        ...


class MemoryUses(Protocol):
    """How often memories were recalled on this machine."""

    def add(self, keys: Sequence[MemoryKey], at: Millis, /) -> None: ...

    def get_many(self, keys: Sequence[MemoryKey], /) -> list[MemoryUse]: ...

    def set_tiers(self, tiers: Mapping[MemoryKey, Tier], /) -> None:
        """Record the tier of each memory."""
        ...

    def put(self, uses: Sequence[tuple[MemoryKey, MemoryUse]], /) -> None:
        """Replace the use records of these memories."""
        ...

    def forget(self, key: MemoryKey, /) -> None: ...


class NoteQueue(Protocol):
    """Changed memories not yet in the git notes, added in the same batch as the memory."""

    def list_homes(self) -> list[Home]: ...

    def list_pending(self, home: Home, /, *, limit: int) -> list[tuple[Ticket, MemoryKey]]:
        """Return the oldest entries. They stay until they are marked as done."""
        ...

    def mark_done(self, tickets: Sequence[Ticket], /) -> None: ...


class Projects(Protocol):
    """The known projects, and the last sync state of their repositories."""

    def get(self, project_id: str, /) -> Project | None: ...

    def find_by_home(self, home: Home, /) -> Project | None: ...

    def list_all(self) -> list[Project]: ...

    def save(self, project: Project, /) -> None: ...

    def get_sync_state(self, home: Home, /) -> SyncState:
        """Return the last recorded state of its notes."""
        ...

    def set_sync_state(self, home: Home, state: SyncState, /) -> None: ...


class Repositories(Protocol):
    """Git repositories: which one a folder belongs to, and the notes in each."""

    def locate(self, folder: str, environ: Mapping[str, str], /) -> RepositoryInfo | None:
        """Return None if the folder is in no repository. Raises GitFailed."""
        ...

    def read_mark(self, folder: str, /) -> str:
        """Return what tells a folder from a later one at its path; empty if there is none."""
        ...

    def read_author(self, environ: Mapping[str, str], /) -> str:
        """Return the user's identity outside of any repository; empty if none is configured."""
        ...

    def get_private_home(self, name: str, /) -> Home:
        """Return the path of our own repository; its first notebook creates it."""
        ...

    def exists(self, home: Home, /) -> bool: ...

    def has_commit(self, home: Home, commit: str, /) -> bool:
        """Return whether a repository has a commit. Raises GitFailed."""
        ...

    def find_clone(self, home: Home, remote: str, /) -> CloneInfo | None:
        """Describe a repository of the user, and whether it can be synced with a remote; None for
        one of our own. Raises GitFailed."""
        ...

    def open_notebook(self, home: Home, domain: Domain, /) -> "Notebook":
        """Open the notes. Raises GitFailed if the repository no longer exists."""
        ...


class Notebook(Protocol):
    """The memories of one domain as git notes of one repository. Writes merge memory by memory and
    leave other text alone. A remote is used with the user's git and credentials. Raises
    GitFailed."""

    def read_state(self) -> str:
        """Return a string that changes whenever the notes do."""
        ...

    def read(self) -> NotebookContents: ...

    def write(self, memories: Sequence[Memory], /) -> None:
        """Write each memory on its commit, or on the current one if its commit is missing."""
        ...

    def rehome(self) -> int:
        """Move notes from unreachable commits to the current one. Return their number."""
        ...

    def find_torn(self) -> list[str]:
        """Return the names of objects that a crash left incomplete. They may stop a write."""
        ...

    def repair(self) -> int:
        """Move torn objects aside, and reset notes that a crash damaged to their last readable
        state. Return how many there were. The next sync writes again what the store has."""
        ...

    def read_legacy(self) -> list[Draft]:
        """Return the memories in notes that earlier tools wrote in their own formats."""
        ...

    def erase(self, keys: Sequence[MemoryKey], /) -> int:
        """Remove these from the notes and their local history. Return how many refs changed."""
        ...

    def fetch(self, remote: str, environ: Mapping[str, str], /) -> bool:
        """Fetch the remote's notes and merge them into ours. Return whether ours changed. Raises
        RemoteUnavailable."""
        ...

    def push(self, remote: str, environ: Mapping[str, str], /) -> bool | None:
        """Return whether there was anything to push; None if a fetch is needed first. Raises
        RemoteUnavailable."""
        ...


E = TypeVar("E")


class UndoLog(Protocol[E]):
    """What was changed, in numbered entries, for undo. Old entries are dropped."""

    def add(self, entry: E, /) -> E:
        """Add an entry, and return it with its number."""
        ...

    def get_last(self, *, before: E | None = None) -> E | None:
        """Return the newest entry that was not removed, or the newest before another."""
        ...

    def remove(self, entry: E, /) -> None: ...

    def forget(self, keys: AbstractSet[MemoryKey], /) -> None:
        """Remove these memories from all entries, so that undo leaves them alone."""
        ...

    def retime(self, undone: Mapping[tuple[MemoryKey, Millis], Millis], /) -> None:
        """Give the changes of a memory at a time another time: a later change was undone, so the
        memory is as they left it."""
        ...


ChangeLog = UndoLog[ChangeEntry]


class Journal(UndoLog[ConsolidationRun], Protocol):
    """Consolidation runs that can be undone, and the time of the last review of each domain."""

    def get_review_times(self) -> dict[Domain, Millis]: ...

    def set_review_time(self, domains: Sequence[Domain], at: Millis, /) -> None:
        """Record that these domains were reviewed up to `at`."""
        ...


class Reasoner(Protocol):
    """A model that reads and writes text. Raises LlmFailed."""

    def answer(
        self, question: str, dates: Sequence[str], evidence: Sequence[Evidence], now: Millis, /
    ) -> ReasonedAnswer:
        """Answer from the evidence alone."""
        ...

    def merge(self, memories: Sequence[Memory], /) -> MergedMemory:
        """Merge the text of these memories into one."""
        ...


class MemoryFollower(Protocol):
    """Follows the changes of memories until `leave`, or until it is dropped."""

    @property
    def dropped(self) -> bool:
        """Whether it gets nothing more."""
        ...

    def take(self) -> Sequence[Memory]:
        """Return the memories that have changed since the last call."""
        ...

    def leave(self) -> None: ...


class MemoryFeed(Protocol):
    """Begins to follow memories. `wake` is called on another thread when there is something to
    take. Raises StorageClosed."""

    def __call__(self, wake: Callable[[], None], /) -> MemoryFollower: ...
