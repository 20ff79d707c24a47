"""Projects: which memories belong together, and which repositories store them."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Home
from agent_memory.kernel.ids import PROJECT, Domain, Millis

NEVER = Millis(0)
GIT = "/.git"  # the end of a home that is a user's repository, after its folder
NOWHERE = Home("")  # no repository: only the project name is known


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryInfo:
    """What git says about a folder. `home` is the folder with the refs: worktrees and subfolders of
    one repository share it. `commit` is empty before the first commit."""

    home: Home
    name: str  # of the repository's folder
    origin: str  # the normalized address of its remote, or empty
    commit: str
    branch: str
    author: str = field(default="", compare=False)  # with whose identity the user commits there


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneInfo:
    """A repository of the user that stores memories. `folder` is its main worktree; it is empty for
    a bare repository, and if that folder belongs to another one."""

    folder: str = ""
    has_remote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project. `origin` is empty without a remote. `homes` are its clones on this machine.
    `folder` is where it was seen last, and `commit` one that it had at first: records of earlier
    versions have neither."""

    id: str
    origin: str
    homes: tuple[Home, ...]
    folder: str = ""
    commit: str = ""

    @property
    def repository(self) -> str:
        """The identity of its repository, which no other project has: the address of its remote,
        or else its folder. Empty if neither is known."""
        clones = (home for home in reversed(self.homes) if home.endswith(GIT))
        identity = self.origin or self.folder or next(clones, "").removesuffix(GIT)
        return identity if identity.isprintable() else ""  # no setting can name such a path

    @property
    def domain(self) -> Domain:
        return Domain(f"{PROJECT}:{self.id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLocation:
    """Where a memory is stored: its domain, its repository, the commit that it is about, and the
    identity with which the user commits there."""

    domain: Domain
    home: Home
    commit: str = ""
    branch: str = ""
    author: str = field(default="", compare=False)  # of the caller: it makes no other place
    # The identity of its repository; empty if the project was guessed or named.
    repository: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """The name of the project or organisation."""
        return self.domain.partition(":")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncState:
    """The state of a repository's notes when store and notes were last equal, and that time."""

    state: str = ""
    at_ms: Millis = NEVER


def derive_name(repository: RepositoryInfo) -> str:
    """Return the default name of a project: that of its origin, or else of its folder."""
    last = repository.origin.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return memories.to_project_name(last or repository.name)


def unique_id(name: str, identity: str, taken: Collection[str]) -> str:
    """Return the name, with a hash of `identity` appended if another project has it."""
    if name not in taken:
        return name
    digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
    return next(
        candidate
        for size in range(6, len(digest) + 1)
        if (candidate := f"{name}-{digest[:size]}") not in taken
    )
