"""The folders of projects on disk: their names, their roots, and their `.memoryignore` files.

Hooks ask at every call. Nothing is opened except a `.git` file, which only a worktree or submodule
has, and a `.memoryignore` that has changed.
"""

import os
import stat
from pathlib import Path

from agent_memory.features.hooks.model import consent
from agent_memory.features.hooks.model.consent import FolderNames, IgnoreRules
from agent_memory.kernel.text import gitignore
from agent_memory.platform.files import read_regular

_GIT = ".git"
_LINK = "gitdir:"  # begins the `.git` file of a worktree
_WORKTREES = "worktrees"
_MAX_LINK_BYTES = 8_192
_MAX_CACHED = 1_000

_Identity = tuple[int, int, int]  # of a file's content: inode, size, time of the last change


class ProjectFolders:
    def __init__(self) -> None:
        self._read: dict[str, tuple[_Identity, IgnoreRules]] = {}

    def find_existing(self, *folders: str) -> str:
        return next(filter(os.path.isdir, folders), "/")

    def list_names(self, folder: str, /) -> FolderNames:
        given, real = _normalize(folder), _resolve(folder)
        own = {given: None, real: None}
        claimed: tuple[str, ...] = ()
        root = _find_repository(real)
        if root and (main := _find_main(root)):
            path, is_linked_back = main
            inner = real[len(root) :].strip("/")
            path = f"{path}/{inner}" if inner else path
            if is_linked_back:
                own[path] = None
            else:
                claimed = (path,)
        return FolderNames(own=tuple(own), claimed=claimed)

    def find_root(self, folder: str, /) -> str:
        real = _resolve(folder)
        root = _find_repository(real)
        main = _find_main(root) if root else None
        if main is not None and main[1]:
            return main[0]
        return root or real

    def resolve(self, path: str, folder: str, /) -> tuple[str, ...]:
        joined = os.path.join(folder, path)  # noqa: PTH118  a plain text, whatever it holds
        return tuple(dict.fromkeys((_normalize(joined), _resolve(joined))))

    def read_ignore_rules(self, folder: str, /) -> list[IgnoreRules]:
        stack = []
        path = _normalize(folder)
        while True:
            if (rules := self._read_rules(path)) is not None:
                stack.append(rules)
            above = os.path.dirname(path)  # noqa: PTH120  Path takes ten times as long
            if above == path:
                return stack[::-1]
            path = above

    def _read_rules(self, folder: str) -> IgnoreRules | None:
        file = f"{folder.rstrip('/')}/{consent.IGNORE_FILE}"
        if not _exists(file):
            return None
        try:
            status = os.lstat(file)
        except (OSError, ValueError):
            return None
        if stat.S_ISDIR(status.st_mode):
            return None
        identity = (status.st_ino, status.st_size, status.st_mtime_ns)
        known = self._read.get(file)
        if known is not None and known[0] == identity:
            return known[1]
        try:
            data = read_regular(Path(file), gitignore.MAX_BYTES)
            rules = consent.parse_ignore_rules(folder, file, data.decode("utf-8", "replace"))
        except OSError as exc:
            problem = "it is a link" if stat.S_ISLNK(status.st_mode) else str(exc.strerror)
            rules = consent.build_unusable(folder, file, problem)
        if len(self._read) >= _MAX_CACHED:
            self._read.clear()
        self._read[file] = identity, rules
        return rules


def _normalize(path: str) -> str:
    path = os.path.normpath(path or "/")
    return "/" + path.lstrip("/")


def _resolve(path: str) -> str:
    try:
        return os.path.realpath(path or "/")
    except (OSError, ValueError):  # a null byte
        return _normalize(path)


def _find_repository(folder: str) -> str:
    """Return the nearest folder with a `.git`, or an empty text."""
    path = folder
    while not _exists(f"{path.rstrip('/')}/{_GIT}"):
        above = os.path.dirname(path)  # noqa: PTH120
        if above == path:
            return ""
        path = above
    return path


def _exists(path: str) -> bool:
    """Return whether there is something, also a link that leads nowhere. Most often there is not,
    and an exception takes several times as long as the answer."""
    try:
        return os.access(path, os.F_OK, follow_symlinks=False)
    except (OSError, ValueError, NotImplementedError):
        return os.path.lexists(path)


def _find_main(root: str) -> tuple[str, bool] | None:
    """Return the main worktree of a linked one, and whether it knows of it; else None.

    A repository without a worktree of its own (bare) counts as the folder that it is.
    """
    entry = f"{root}/{_GIT}"
    if os.path.isdir(entry):  # noqa: PTH112  most repositories
        return None
    link = _read_line(entry)
    if not link.startswith(_LINK):
        return None
    own = _resolve(os.path.join(root, link.removeprefix(_LINK).strip()))  # noqa: PTH118
    common, kind = os.path.split(os.path.dirname(own))  # noqa: PTH120
    if kind != _WORKTREES:
        return None
    back = _read_line(f"{own}/gitdir")
    is_linked_back = bool(back) and _resolve(os.path.join(own, back)) == _resolve(entry)  # noqa: PTH118
    parent, name = os.path.split(common)
    return (parent if name == _GIT else common), is_linked_back


def _read_line(path: str) -> str:
    """Return the text of a small file; empty if it is a folder or cannot be read."""
    try:
        return os.fsdecode(read_regular(Path(path), _MAX_LINK_BYTES)).strip()
    except OSError:
        return ""
