"""Projects: which memories belong together, and in which repositories they are kept."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Home
from agent_memory.kernel.ids import PROJECT, Domain, Millis

NEVER = Millis(0)
NOWHERE = Home("")  # no repository: only the name of a project is known


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryInfo:
    """What git says about a folder. `home` is where the repository keeps its refs: worktrees and
    subfolders of one repository have one home. `commit` is empty before the first."""

    home: Home
    name: str  # of the repository's folder
    origin: str  # its remote, so spelled that two ways to one repository are equal; or empty
    commit: str
    branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """`origin` is empty where there is no remote. `homes` are its clones on this machine."""

    id: str
    origin: str
    homes: tuple[Home, ...]

    @property
    def domain(self) -> Domain:
        return Domain(f"{PROJECT}:{self.id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLocation:
    """Where a memory goes: its domain, the repository that keeps it, and the commit it is about."""

    domain: Domain
    home: Home
    commit: str = ""
    branch: str = ""

    @property
    def name(self) -> str:
        """Of the project, or the organisation."""
        return self.domain.partition(":")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncState:
    """The state of a repository's notes when store and notes were last the same, and when."""

    state: str = ""
    at_ms: Millis = NEVER


def derive_name(located: RepositoryInfo) -> str:
    """The name that a project has by itself: its origin's, else its folder's."""
    last = located.origin.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return memories.to_project_name(last or located.name)


def unique_id(name: str, identity: str, taken: Collection[str]) -> str:
    """The name, with a hash of what it stands for where another project has it."""
    if name not in taken:
        return name
    digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
    return next(
        each
        for size in range(6, len(digest) + 1)
        if (each := f"{name}-{digest[:size]}") not in taken
    )
