"""Resolution of paths below a folder, one part at a time from its descriptor.

The kernel never gets a whole path, because it would follow links. Each part is opened in the folder
before it, without following links; links are read and followed here. So replacing a folder by a
link between two steps does no harm: the step fails, or it stays inside.
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

MAX_LINKS = 40  # the limit of Linux
MAX_PARTS = 255
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Do not wait for the writer of a pipe, and do not acquire a controlling terminal.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER_MODE = 0o755

Identity = tuple[int, int]


class FolderMissing(ToolFailed):
    """A folder of the path does not exist. `path` is the resolved path."""

    def __init__(self, folder: str, path: str) -> None:
        super().__init__(f"there is no folder {quote_path(folder)}")
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """A name in an open folder, or the folder itself if the name is empty. `path` is relative to
    the root, with all links resolved."""

    folder: int
    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RootFolder:
    """A folder held by its descriptor, even if its path changes later. `names` are the paths that
    lead to it; `barred` are the paths of forbidden folders and files."""

    descriptor: int
    names: tuple[tuple[str, ...], ...]
    barred: tuple[str, ...] = ()

    @classmethod
    def open(cls, folder: str, barred: Sequence[str]) -> Self:
        """Open a working folder. Raises InvalidInput."""
        if not Path(folder).is_absolute() or "\0" in folder:
            raise InvalidInput(f"the working folder must be an absolute path, not {folder!r}")
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as exc:
            raise InvalidInput(f"the working folder {folder} does not exist") from exc
        except NotADirectoryError as exc:
            raise InvalidInput(f"the working folder {folder} is not a folder") from exc
        except UnicodeEncodeError as exc:
            raise InvalidInput(f"the working folder has an invalid name: {folder!r}") from exc
        except OSError as exc:
            raise InvalidInput(f"the folder {folder} cannot be opened: {exc.strerror}") from exc
        root = cls(descriptor=descriptor, names=_names(folder, descriptor), barred=tuple(barred))
        try:
            inside = any(parent in root.list_forbidden() for parent in _parents(descriptor))
        except OSError as exc:
            root.close()
            raise InvalidInput(f"the folder {folder} cannot be opened: {exc.strerror}") from exc
        if inside:
            root.close()
            raise InvalidInput(f"{folder} is closed to agents: choose another working folder")
        return root

    def list_forbidden(self) -> frozenset[Identity]:
        """Return the identities of barred files. Read each time, since one may be created later."""
        forbidden: set[Identity] = set()
        for path in self.barred:
            with contextlib.suppress(OSError):
                forbidden.add(identity(Path(path).stat()))
        return frozenset(forbidden)

    @contextmanager
    def resolve_path(
        self, path: str, *, making: bool = False, writing: bool = False
    ) -> Iterator[ResolvedPath]:
        """Resolve a path. `making` creates missing folders. Raises ToolFailed."""
        resolver = _PathResolver(self, making=making, writing=writing)
        try:
            spot = resolver.follow(path)
            resolver.check(spot)
            yield spot
        finally:
            resolver.close()

    def split_inside(self, path: str) -> list[str]:
        """Return the parts of a path below the root. Raises ToolFailed."""
        if "\0" in path:
            raise ToolFailed("a path must not contain a zero byte")
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


class _PathResolver:
    """Resolves one path. Entered folders stay open, since `..` may return to them."""

    def __init__(self, root: RootFolder, *, making: bool, writing: bool) -> None:
        self._root = root
        self._forbidden = root.list_forbidden()
        self._making = making
        self._writing = writing
        self._entered: list[tuple[str, int]] = []

    def check(self, spot: ResolvedPath) -> None:
        """Refuse a barred file, whatever its name here."""
        with contextlib.suppress(OSError):
            status = os.stat(spot.name or ".", dir_fd=spot.folder, follow_symlinks=False)
            if identity(status) in self._forbidden:
                raise access_error(spot.path)

    def follow(self, path: str) -> ResolvedPath:
        pending = deque(self._root.split_inside(path))
        links = 0
        while pending:
            name = pending.popleft()
            if name == "..":
                if not self._entered:
                    raise escape_error(path)
                os.close(self._entered.pop()[1])
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
        created = True
        try:
            os.mkdir(name, _FOLDER_MODE, dir_fd=self._top)
        except FileExistsError:
            created = False
        descriptor = os.open(name, FOLDER, dir_fd=self._top)
        if created:
            os.fchmod(descriptor, _FOLDER_MODE)  # independent of the daemon's umask
        return descriptor


def open_folder(spot: ResolvedPath, forbidden: frozenset[Identity]) -> int:
    """Open the folder again: reading its names moves the position of a descriptor."""
    with wrap_os_errors(spot.path):
        descriptor = os.open(spot.name or ".", FOLDER, dir_fd=spot.folder)
    if identity(os.fstat(descriptor)) in forbidden:
        os.close(descriptor)
        raise access_error(spot.path)
    return descriptor


def open_file(spot: ResolvedPath) -> int | None:
    """Open a regular file, or return None if it does not exist. Nothing else is opened: opening a
    device may already use it."""
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


def _check_regular(status: os.stat_result, spot: ResolvedPath) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailed(f"{quote_path(spot.path)} is a folder")
    if stat.S_ISLNK(status.st_mode):  # replaced since it was resolved
        raise ToolFailed(f"{quote_path(spot.path)} has just been changed into a link")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed(
            f"{quote_path(spot.path)} is not a regular file, but a device, a pipe or a socket"
        )


@contextmanager
def wrap_os_errors(path: str) -> Iterator[None]:
    """Turn OSError into ToolFailed."""
    try:
        yield
    except OSError as exc:
        reason = "has just been changed into a link" if exc.errno == errno.ELOOP else exc.strerror
        raise ToolFailed(f"{quote_path(path)}: {reason}") from exc


def escape_error(path: str) -> ToolFailed:
    return ToolFailed(f"{quote_path(path)} leads outside of the working folder")


def access_error(path: str) -> ToolFailed:
    return ToolFailed(f"{quote_path(path)} is closed to agents")


def identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _link(name: str, folder: int) -> str | None:
    """Return the target of a link, or None if it is not a link or does not exist."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as exc:
        if exc.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _names(folder: str, descriptor: int) -> tuple[tuple[str, ...], ...]:
    """Return the path as given and the real path, if they still lead to the folder."""
    here = identity(os.fstat(descriptor))
    names: dict[tuple[str, ...], None] = {}
    for path in (folder, os.path.realpath(folder)):
        parts = tuple(_parts(path))
        with contextlib.suppress(OSError):
            if ".." not in parts and identity(Path(path).stat()) == here:
                names[parts] = None
    return tuple(names)


def _parents(descriptor: int) -> Iterator[Identity]:
    """Yield the folder and its parents. They are not opened: some may be unreadable."""
    path, before = ".", None
    while (here := identity(os.stat(path, dir_fd=descriptor))) != before:
        yield here
        path, before = f"{path}/..", here
