"""Find the repository of a folder, and manage our own repositories."""

import re
import threading
from collections.abc import Mapping
from pathlib import Path

import pygit2
import structlog

from agent_memory.features.memories.adapters.git import (
    addresses,
    commits,
    control_files,
    file_modes,
    folder_marks,
    opening,
    own,
    remotes,
)
from agent_memory.features.memories.adapters.git.file_modes import FileModes
from agent_memory.features.memories.adapters.git.index import NoteIndexes
from agent_memory.features.memories.adapters.git.notebook import GitNotebook
from agent_memory.features.memories.adapters.git.remotes import Remotes
from agent_memory.features.memories.adapters.git.torn_objects import TornObjects
from agent_memory.features.memories.model.memories import Home
from agent_memory.features.memories.model.projects import CloneInfo, RepositoryInfo
from agent_memory.kernel.errors import GitFailed, InvalidInput
from agent_memory.kernel.ids import Domain
from agent_memory.platform.ports import Worker
from agent_memory.platform.removing import remove_tree

SCRATCH = "scratch"
TORN = "torn-objects"  # in the data folder: git objects that a crash left incomplete

log = structlog.get_logger()

_NAME = re.compile(r"(?:[a-z]+/)?[A-Za-z0-9][A-Za-z0-9._-]{0,150}\.git", re.ASCII)
_BRANCHES = "refs/heads/"


class GitRepositories:
    def __init__(
        self,
        data_folder: Path,
        worker: Worker | None = None,
        *,
        remote_seconds: float = remotes.SECONDS,
    ) -> None:
        self._data_folder = data_folder
        self._worker = worker
        self._remotes = Remotes(scratch=data_folder / SCRATCH, seconds=remote_seconds)
        self._indexes = NoteIndexes()
        self._making = threading.Lock()
        self._checked: set[Home] = set()
        # Both apply to the whole process. A finished capture must be on disk, and partial clones
        # can be read as far as they go.
        pygit2.settings.enable_fsync_gitdir(True)
        pygit2.settings.set_extensions(["partialclone"])

    def locate(self, folder: str, environ: Mapping[str, str], /) -> RepositoryInfo | None:
        path = _find_repository(folder, environ)
        if path is None:
            return None
        with opening.open_repository(path) as repository:
            try:
                home = opening.common_folder(repository)
                worktree = _main_worktree(repository, home)
                origin = addresses.read_config(repository).origin(worktree or home)
                return RepositoryInfo(
                    home=Home(str(home)),
                    name=(worktree or _bare_name(home)).name,
                    origin=origin,
                    commit=opening.head_commit(repository),
                    branch=_branch(repository),
                    author=commits.format_author(
                        lambda key: commits.get_setting(repository.config, key), environ
                    ),
                    mark=folder_marks.read_mark(origin if origin.startswith("/") else str(home)),
                )
            except (pygit2.GitError, KeyError, OSError, ValueError) as exc:
                raise GitFailed(f"{path} cannot be read: {exc}") from exc

    def read_mark(self, folder: str, /) -> str:
        return folder_marks.read_mark(folder)

    def read_author(self, environ: Mapping[str, str], /) -> str:
        def read(key: str) -> str:
            try:
                return commits.get_setting(pygit2.Config.get_global_config(), key)
            except (OSError, pygit2.GitError):  # there is no such file
                return ""

        return commits.format_author(read, environ)

    def get_private_home(self, name: str, /) -> Home:
        if not _NAME.fullmatch(name) or ".." in name:
            raise InvalidInput(f"{name!r} is not a valid name for a repository")
        return Home(str(self._data_folder.resolve() / name))

    def exists(self, home: Home, /) -> bool:
        return (Path(home) / "HEAD").exists() and (Path(home) / "objects").is_dir()

    def has_commit(self, home: Home, commit: str, /) -> bool:
        with opening.open_repository(home) as repository:
            try:
                return isinstance(repository.get(commit), pygit2.Commit)
            except (pygit2.GitError, ValueError) as exc:
                raise GitFailed(f"{home} cannot be read: {exc}") from exc

    def find_clone(self, home: Home, remote: str, /) -> CloneInfo | None:
        if self._is_own(home):
            return None
        with opening.open_repository(home) as repository:
            try:
                worktree = _worktree(repository)
                is_linked = worktree is not None and _is_repository_of(repository, worktree)
                return CloneInfo(
                    folder=str(worktree) if is_linked else "",
                    has_remote=remotes.has_remote(addresses.read_config(repository), remote),
                )
            except (pygit2.GitError, KeyError, OSError, ValueError) as exc:
                raise GitFailed(f"{home} cannot be read: {exc}") from exc

    def open_notebook(self, home: Home, domain: Domain, /) -> GitNotebook:
        torn = TornObjects(Path(home), self._data_folder / TORN)
        self._check_once(home, torn)
        if self._is_own(home):
            self._make(Path(home), torn)
            modes = FileModes(home=Path(home), umask=file_modes.OWNER_ONLY)
        elif self.exists(home):
            modes = FileModes.from_home(Path(home))
        else:
            raise GitFailed(f"there is no repository at {home} any more")
        return GitNotebook(
            home,
            domain,
            modes=modes,
            indexes=self._indexes,
            remotes=self._remotes,
            torn=torn,
            worker=self._worker,
        )

    def tidy(self) -> None:
        """Remove the working files of git that a killed process left. Only for a process that has
        the data folder to itself."""
        remove_tree(self._remotes.scratch, ignore_errors=True)

    def close(self) -> None:
        """Stop git processes that wait for a remote."""
        self._remotes.close()

    def _is_own(self, home: Home) -> bool:
        return Path(home).is_relative_to(self._data_folder.resolve())

    def _check_once(self, home: Home, torn: TornObjects) -> None:
        """Move torn objects aside, once per process: a crash left them before this start."""
        with self._making:
            if home in self._checked:
                return
            try:
                moved = torn.move(torn.find())
            except OSError as exc:
                raise GitFailed(f"the objects of {home} cannot be checked: {exc}") from exc
            self._checked.add(home)
        if moved:
            log.warning("notes.torn_objects_set_aside", home=home, objects=moved[:20])

    def _make(self, path: Path, torn: TornObjects) -> None:
        with self._making:
            try:
                own.make(path, torn)
            except (pygit2.GitError, KeyError, OSError, ValueError) as exc:
                raise GitFailed(f"our own repository {path} cannot be created: {exc}") from exc


def _find_repository(folder: str, environ: Mapping[str, str]) -> str | None:
    git_dir = environ.get("GIT_DIR", "")
    if git_dir and (Path(folder) / git_dir).is_dir():
        return str(Path(folder) / git_dir)
    _check_pointer(Path(folder))
    try:
        return _discover(folder)
    except (pygit2.GitError, KeyError, OSError, ValueError) as exc:
        raise GitFailed(f"cannot tell whether {folder} is in a repository: {exc}") from exc


def _discover(folder: str) -> str | None:
    """Return the repository around a folder. A bare repository inside another's worktree came with
    the clone, and counts as a folder of that worktree."""
    path = pygit2.discover_repository(folder)
    if path is None or Path(path).name == ".git":
        return path
    if Path(path).resolve() not in _ancestors(Path(folder).resolve()):
        return path
    return _discover(str(Path(path).parent)) or path


def _ancestors(folder: Path) -> tuple[Path, ...]:
    return (folder, *folder.parents)


def _check_pointer(folder: Path) -> None:
    """Reject a worktree or submodule whose repository is gone: an outer one would match."""
    for candidate in _ancestors(folder):
        pointer = candidate / ".git"
        if pointer.is_dir():
            control_files.read_common_folder(pointer)  # discovery reads this file
            return
        if pointer.is_file():
            target = candidate / control_files.read(pointer).removeprefix("gitdir:").strip()
            if not target.exists():
                raise GitFailed(
                    f"{pointer} names {target}, which does not exist: try git worktree repair, or"
                    " git submodule update --init"
                )
            return


def _main_worktree(repository: pygit2.Repository, home: Path) -> Path | None:
    """Return the main worktree, whose name linked worktrees share; None for a bare repository."""
    if Path(repository.path).resolve() == home:
        return _worktree(repository)
    with opening.open_repository(str(home)) as main:
        return _worktree(main)


def _worktree(repository: pygit2.Repository) -> Path | None:
    return None if repository.is_bare else Path(repository.workdir)


def _is_repository_of(repository: pygit2.Repository, worktree: Path) -> bool:
    """Tell whether a worktree names the repository too: `core.worktree` may name any folder."""
    found = pygit2.discover_repository(str(worktree))
    return found is not None and Path(found).resolve() == Path(repository.path).resolve()


def _bare_name(home: Path) -> Path:
    """Return the path that names a bare repository: `app.git` is app, and `app/.bare` is app."""
    folder = home.parent if home.name.startswith(".") else home
    return folder.with_name(folder.name.removesuffix(".git") or folder.name)


def _branch(repository: pygit2.Repository) -> str:
    target = repository.lookup_reference("HEAD").target
    if isinstance(target, str) and target.startswith(_BRANCHES):
        return target.removeprefix(_BRANCHES)
    return ""
