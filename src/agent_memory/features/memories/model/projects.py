"""Projects: which memories belong together, and which repositories store them."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Home
from agent_memory.kernel.ids import PROJECT, Domain, Millis

NEVER = Millis(0)
GIT = "/.git"  # the end of a home that is a user's repository, after its folder
_MARKED = re.compile(r"(?P<path>/.*)#[0-9a-f]+-[0-9a-f]+(?:\.[0-9]+)?", re.ASCII)
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
    # Of the folder that its identity names, if it has no address: `home`, or a remote's folder.
    mark: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneInfo:
    """A repository of the user that stores memories. `folder` is its main worktree; it is empty for
    a bare repository, and if that folder belongs to another one."""

    folder: str = ""
    has_remote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project. `origin` is empty without a remote. `homes` are its clones on this machine.
    `folder` is where it was seen last, `commit` one that it had at first, and `mark` what tells its
    folder from a later one: records of earlier versions have none of them."""

    id: str
    origin: str
    homes: tuple[Home, ...]
    folder: str = ""
    commit: str = ""
    mark: str = ""

    @property
    def repository(self) -> str:
        """The identity of its repository, which no other project has: the address of its remote,
        or else the path and mark of its folder. Empty if neither is known."""
        identity = self.origin or self.folder
        if identity.startswith("/"):
            identity = f"{identity}#{self.mark}" if self.mark else ""
        return identity if identity.isprintable() else ""  # no setting can name such a path

    @property
    def domain(self) -> Domain:
        return Domain(f"{PROJECT}:{self.id}")

    def remark(self, mark: str) -> str:
        """Return its mark now that its folder has this one. A mark that it had before does not come
        back: what was recorded in between may be another folder's."""
        had, _, changes = self.mark.partition(".")
        if not mark or mark == had:
            return self.mark
        return f"{mark}.{int(changes or 0) + 1}" if had else mark


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


def split_mark(repository: str) -> tuple[str, bool]:
    """Return an identity without its folder's mark, and whether it is the bare path of a folder, as
    earlier versions had it."""
    marked = _MARKED.fullmatch(repository)
    return (marked["path"], False) if marked else (repository, repository.startswith("/"))


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
