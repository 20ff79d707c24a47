"""The way from a folder's descriptor to a name below it, one part at a time.

No path is ever handed to the kernel, which would follow what it finds there: each part is opened in
the folder before it, never through a link. Links are read and followed by hand, so that whoever
swaps a folder for a link between two steps gains nothing: the step fails, or it was inside.
"""

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agent_memory.features.runs.model.workspaces import MAX_PATH_CHARS, check_writable, quote_path
from agent_memory.kernel.errors import InvalidInput, ToolFailed

MAX_LINKS = 40  # as Linux has it
MAX_PARTS = 255
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not waiting for who may write to a pipe one day, nor taking a terminal for ours.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER_MODE = 0o755

Identity = tuple[int, int]


class FolderMissing(ToolFailed):
    """A folder on the way is not there. `path` is where it would lead."""

    def __init__(self, folder: str, path: str) -> None:
        super().__init__(f"there is no folder {quote_path(folder)}")
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """A name in an open folder, which is the folder itself where the name is empty. `path` is from
    the root, with all links followed."""

    folder: int
    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RootFolder:
    """A folder that was opened once, whatever its path leads to later. `names` are the paths that
    it is known by; `barred` those of folders and files that are closed to all."""

    descriptor: int
    names: tuple[tuple[str, ...], ...]
    barred: tuple[str, ...] = ()

    @classmethod
    def open(cls, folder: str, barred: Sequence[str]) -> Self:
        """Raises InvalidInput."""
        if not Path(folder).is_absolute() or "\0" in folder:
            raise InvalidInput(f"the folder to work in must be an absolute path, not {folder!r}")
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as exc:
            raise InvalidInput(f"there is no folder {folder} to work in") from exc
        except NotADirectoryError as exc:
            raise InvalidInput(f"{folder} is no folder to work in") from exc
        except UnicodeEncodeError as exc:
            raise InvalidInput(f"the folder to work in has no such name: {folder!r}") from exc
        except OSError as exc:
            raise InvalidInput(f"the folder {folder} cannot be opened: {exc.strerror}") from exc
        root = cls(descriptor=descriptor, names=_names(folder, descriptor), barred=tuple(barred))
        try:
            inside = any(each in root.list_forbidden() for each in _parents(descriptor))
        except OSError as exc:
            root.close()
            raise InvalidInput(f"the folder {folder} cannot be opened: {exc.strerror}") from exc
        if inside:
            root.close()
            raise InvalidInput(f"{folder} is closed to agents: none works in there")
        return root

    def list_forbidden(self) -> frozenset[Identity]:
        """By what they are, not by name; looked at anew, since one may come to be."""
        found: set[Identity] = set()
        for each in self.barred:
            with contextlib.suppress(OSError):
                found.add(identity(Path(each).stat()))
        return frozenset(found)

    @contextmanager
    def resolve_path(
        self, path: str, *, making: bool = False, writing: bool = False
    ) -> Iterator[ResolvedPath]:
        """Where a path leads. `making`: folders on the way that are not there are made. Raises
        ToolFailed."""
        trail = _SafePath(self, making=making, writing=writing)
        try:
            spot = trail.follow(path)
            trail.check(spot)
            yield spot
        finally:
            trail.close()

    def split_inside(self, path: str) -> list[str]:
        """The parts of a path below the root. Raises ToolFailed."""
        if "\0" in path:
            raise ToolFailed("a path must not hold a zero byte")
        if len(path) > MAX_PATH_CHARS:
            raise ToolFailed(f"the path has more than {MAX_PATH_CHARS:,} characters")
        parts = _parts(path)
        if not path.startswith("/"):
            return parts
        for name in self.names:
            if tuple(parts[: len(name)]) == name:
                return parts[len(name) :]
        raise escape_error(path)

    def close(self) -> None:
        os.close(self.descriptor)


class _SafePath:
    """The folders that were entered, each open as long as one may go back to it."""

    def __init__(self, root: RootFolder, *, making: bool, writing: bool) -> None:
        self._root = root
        self._forbidden = root.list_forbidden()
        self._making = making
        self._writing = writing
        self._entered: list[tuple[str, int]] = []

    def check(self, spot: ResolvedPath) -> None:
        """A single file may be barred too, by whatever name it is known here."""
        with contextlib.suppress(OSError):
            found = os.stat(spot.name or ".", dir_fd=spot.folder, follow_symlinks=False)
            if identity(found) in self._forbidden:
                raise access_error(spot.path)

    def follow(self, path: str) -> ResolvedPath:
        pending = deque(self._root.split_inside(path))
        links = 0
        while pending:
            name = pending.popleft()
            if name == "..":
                self._up(path)
                continue
            if self._writing:
                check_writable(name)
            with wrap_os_errors(path):
                target = _link(name, self._top)
            if target is None:
                if not pending:
                    return ResolvedPath(folder=self._top, name=name, path=self._path(name))
                with wrap_os_errors(path):
                    self._enter(name, pending)
                continue
            links += 1
            if links > MAX_LINKS:
                raise ToolFailed(f"{quote_path(path)}: too many links")
            try:
                parts = self._root.split_inside(target)
            except ToolFailed as exc:
                raise escape_error(path) from exc
            if target.startswith("/"):
                self.close()
            pending.extendleft(reversed(parts))
            if len(pending) > MAX_PARTS:
                raise ToolFailed(f"{quote_path(path)}: too many folders")
        return ResolvedPath(folder=self._top, name="", path=self._path())

    def close(self) -> None:
        while self._entered:
            os.close(self._entered.pop()[1])

    @property
    def _top(self) -> int:
        return self._entered[-1][1] if self._entered else self._root.descriptor

    def _path(self, *more: str) -> str:
        return "/".join((*(name for name, _ in self._entered), *more))

    def _up(self, path: str) -> None:
        if not self._entered:
            raise escape_error(path)
        os.close(self._entered.pop()[1])

    def _enter(self, name: str, following: Sequence[str]) -> None:
        if len(self._entered) >= MAX_PARTS:
            raise ToolFailed("the path has too many folders")
        descriptor = self._open_folder(name, following)
        self._entered.append((name, descriptor))
        if identity(os.fstat(descriptor)) in self._forbidden:
            raise access_error(self._path())

    def _open_folder(self, name: str, following: Sequence[str]) -> int:
        with contextlib.suppress(FileNotFoundError):
            return os.open(name, FOLDER, dir_fd=self._top)
        if not self._making or ".." in following:
            raise FolderMissing(self._path(name), self._path(name, *following))
        made = True
        try:
            os.mkdir(name, _FOLDER_MODE, dir_fd=self._top)
        except FileExistsError:
            made = False
        descriptor = os.open(name, FOLDER, dir_fd=self._top)
        if made:
            os.fchmod(descriptor, _FOLDER_MODE)  # whatever the daemon's umask
        return descriptor


def open_folder(spot: ResolvedPath, forbidden: frozenset[Identity]) -> int:
    """The folder that is there, anew: who reads the names in it moves a place in the descriptor."""
    with wrap_os_errors(spot.path):
        descriptor = os.open(spot.name or ".", FOLDER, dir_fd=spot.folder)
    if identity(os.fstat(descriptor)) in forbidden:
        os.close(descriptor)
        raise access_error(spot.path)
    return descriptor


def open_file(spot: ResolvedPath) -> int | None:
    """The regular file that is there; None where nothing is. All else is not so much as opened:
    to open a device may be to use it."""
    if not spot.name:
        raise ToolFailed(f"{quote_path(spot.path) or 'this'} is a folder")
    with wrap_os_errors(spot.path):
        try:
            _check_regular(os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False), spot)
            descriptor = os.open(spot.name, FILE, dir_fd=spot.folder)
        except FileNotFoundError:
            return None
    try:
        _check_regular(os.fstat(descriptor), spot)
    except ToolFailed:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(found: os.stat_result, spot: ResolvedPath) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailed(f"{quote_path(spot.path)} is a folder")
    if stat.S_ISLNK(found.st_mode):  # it was none a moment ago
        raise ToolFailed(f"{quote_path(spot.path)} has just been changed into a link")
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailed(
            f"{quote_path(spot.path)} is no regular file: a device, a pipe or a socket"
        )


@contextmanager
def wrap_os_errors(path: str) -> Iterator[None]:
    """What the system says, as a failure of the tool."""
    try:
        yield
    except OSError as exc:
        reason = "has just been changed into a link" if exc.errno == errno.ELOOP else exc.strerror
        raise ToolFailed(f"{quote_path(path)}: {reason}") from exc


def escape_error(path: str) -> ToolFailed:
    return ToolFailed(f"{quote_path(path)} leads outside of the folder to work in")


def access_error(path: str) -> ToolFailed:
    return ToolFailed(f"{quote_path(path)} is closed to agents: no tool goes in there")


def identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _link(name: str, folder: int) -> str | None:
    """What a link says; None where it is none, or nothing."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as exc:
        if exc.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _parts(path: str) -> list[str]:
    return [each for each in path.split("/") if each not in ("", ".")]


def _names(folder: str, descriptor: int) -> tuple[tuple[str, ...], ...]:
    """The path that was given, and the one without links, as long as it leads there."""
    here = identity(os.fstat(descriptor))
    found: dict[tuple[str, ...], None] = {}
    for path in (folder, os.path.realpath(folder)):
        parts = tuple(_parts(path))
        with contextlib.suppress(OSError):
            if ".." not in parts and identity(Path(path).stat()) == here:
                found[parts] = None
    return tuple(found)


def _parents(descriptor: int) -> Iterator[Identity]:
    """The folder itself, and all that it is in. They are not opened: many may be gone through and
    not be read."""
    path, before = ".", None
    while (here := identity(os.stat(path, dir_fd=descriptor))) != before:
        yield here
        path, before = f"{path}/..", here
