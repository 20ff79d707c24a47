"""The working folders of agents on disk."""

import contextlib
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_memory.features.runs.model.workspaces import (
    CHANGED,
    MAX_FILE_BYTES,
    NOTHING,
    EntryKind,
    Excerpt,
    FileContent,
    FolderEntry,
    Truncated,
    quote_path,
)
from agent_memory.features.runs.services.workspaces import excerpts, safe_paths
from agent_memory.features.runs.services.workspaces.safe_paths import (
    ResolvedPath,
    RootFolder,
    wrap_os_errors,
)
from agent_memory.features.runs.services.workspaces.walks import Walk
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed
from agent_memory.kernel.text import gitignore
from agent_memory.kernel.text.gitignore import IgnoreFile

# The umask of the daemon would make new files private. These are the user's files: like an editor,
# leave them readable for the group and for other programs.
FILE_MODE = 0o644
_PROCESSES = "/proc"  # contains the environment and the open files of this daemon


@dataclass(frozen=True, slots=True)
class GuardedFolders:
    """Opens working folders. `barred` lists folders and files that no agent may access."""

    barred: Sequence[str] = ()

    def open(self, folder: str, /) -> "GuardedFolder":
        """Open a folder. Raises InvalidInput if it is not a folder or not allowed."""
        return GuardedFolder(RootFolder.open(folder, (*self.barred, _PROCESSES)))


@dataclass(slots=True)
class GuardedFolder:
    """A working folder. Nothing outside is read or changed, even if links lead out or another
    process changes them meanwhile. Paths are relative, or absolute and inside. Raises ToolFailed.

    Its descriptor is closed after the last use: the next opened file gets the same number, and a
    tool that still runs would work in that one."""

    _root: RootFolder
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _users: int = 0
    _closed: bool = False

    def resolve(self, path: str, /) -> str:
        """Follow links and return the path from the folder. The file need not exist."""
        with self._resolve_path(path) as spot:
            return spot.path

    def read(self, path: str, /, *, most: int) -> FileContent:
        """Read at most this many bytes from the start of a file."""
        try:
            with self._resolve_path(path) as spot:
                return _content(spot, most)
        except safe_paths.FolderMissing as exc:
            if ".." in exc.path.split("/"):
                raise
            return FileContent(path=exc.path, data=None)

    def read_lines(
        self, path: str, /, *, first: int, lines: int, chars: int, cancel: CancelToken
    ) -> Excerpt:
        """Read lines of a text file, at most this many characters."""
        with self._resolve_path(path) as spot:
            descriptor = safe_paths.open_file(spot)
            if descriptor is None:
                raise ToolFailed(f"there is no file {quote_path(spot.path)}")
            with os.fdopen(descriptor, "rb") as file, wrap_os_errors(spot.path):
                return excerpts.read_excerpt(
                    file,
                    quote_path(spot.path),
                    first=first,
                    lines=lines,
                    chars=chars,
                    cancel=cancel,
                )

    def replace(self, path: str, data: bytes, before: str, /) -> None:
        """Replace a file atomically and durably, if its digest is still `before`. The path is the
        one that `read` returned, so a link on it is new and refused."""
        with self._resolve_path(path, making=before == NOTHING, writing=True) as spot:
            if spot.path != path:
                raise ToolFailed(f"{quote_path(path)}: {CHANGED}")
            mode = _mode(spot, before)
            with wrap_os_errors(spot.path):
                _replace(spot, data, before, mode)

    def walk(
        self, path: str, /, *, deep: bool, most: int, seconds: float, cancel: CancelToken
    ) -> Iterator[FolderEntry | Truncated]:
        """Yield the entries of a folder, sorted. If `deep`, include those of its folders, except
        what git ignores. Do not follow links. Stop after `most` entries or `seconds`."""
        with self._resolve_path(path) as spot:
            if _is_file(spot):
                yield FolderEntry(path=spot.path, kind=EntryKind.FILE)
                return
            parts = [part for part in spot.path.split("/") if part]
            walk = Walk(
                forbidden=self._root.list_forbidden(),
                cancel_token=cancel,
                left=most,
                until=time.monotonic() + seconds,
                deep=deep,
            )
            descriptor = safe_paths.open_folder(spot, walk.forbidden)
            try:
                yield from walk.entries(descriptor, parts, self._rules(parts) if deep else [])
            finally:
                os.close(descriptor)

    @contextmanager
    def hold_descriptor(self) -> Iterator[int]:
        """Hold the descriptor of the folder open during the context."""
        with self._lock:
            if self._closed:
                raise ToolFailed("the run has ended: its folder is closed")
            self._users += 1
        try:
            yield self._root.descriptor
        finally:
            with self._lock:
                self._users -= 1
                self._release()

    def close(self) -> None:
        """Release the folder after its last use."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._release()

    def _release(self) -> None:
        if self._closed and not self._users:
            self._root.close()

    @contextmanager
    def _resolve_path(
        self, path: str, *, making: bool = False, writing: bool = False
    ) -> Iterator[ResolvedPath]:
        with (
            self.hold_descriptor(),
            self._root.resolve_path(path, making=making, writing=writing) as spot,
        ):
            yield spot

    def _rules(self, parts: Sequence[str]) -> list[IgnoreFile]:
        """Return the ignore rules of the folders above this one."""
        rules: list[IgnoreFile] = []
        for depth in range(len(parts)):
            content = FileContent(path="", data=None)
            with contextlib.suppress(ToolFailed):
                content = self.read(
                    "/".join((*parts[:depth], gitignore.NAME)), most=gitignore.MAX_BYTES
                )
            rules.append(IgnoreFile.parse((content.data or b"").decode("utf-8", "replace")))
        return rules


def _is_file(spot: ResolvedPath) -> bool:
    if not spot.name:
        return False
    with wrap_os_errors(spot.path):
        mode = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False).st_mode
    return stat.S_ISREG(mode)


def _content(spot: ResolvedPath, most: int) -> FileContent:
    descriptor = safe_paths.open_file(spot)
    if descriptor is None:
        return FileContent(path=spot.path, data=None)
    with os.fdopen(descriptor, "rb", buffering=0) as file, wrap_os_errors(spot.path):
        data = bytearray()
        while len(data) <= most:
            more = file.read(min(1 << 20, most + 1 - len(data)))
            if more is None:
                raise ToolFailed(
                    f"{quote_path(spot.path)} has no data now: it is not a regular file"
                )
            if not more:
                break
            data += more
    return FileContent(path=spot.path, data=bytes(data[:most]), whole=len(data) <= most)


def _mode(spot: ResolvedPath, before: str) -> int:
    """Return the permissions for the new file: those of the file that it replaces."""
    if before == NOTHING:
        return FILE_MODE
    with wrap_os_errors(spot.path):
        mode = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False).st_mode
    if not mode & 0o222:
        raise ToolFailed(f"{quote_path(spot.path)} is read-only")
    return stat.S_IMODE(mode) & 0o777


def _replace(spot: ResolvedPath, data: bytes, before: str, mode: int) -> None:
    draft = f".{secrets.token_hex(8)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600, dir_fd=spot.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        # As late as possible, so that no change by another process is lost.
        content = _content(spot, MAX_FILE_BYTES)
        if not content.whole or content.digest != before:
            raise ToolFailed(f"{quote_path(spot.path)}: {CHANGED}")
        if before == NOTHING:
            _link_new(spot, draft)
        else:
            os.rename(draft, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=spot.folder)
        raise
    os.fsync(spot.folder)


def _link_new(spot: ResolvedPath, draft: str) -> None:
    """Create the file with a link, which fails if the name is taken; a rename would replace it."""
    try:
        os.link(
            draft,
            spot.name,
            src_dir_fd=spot.folder,
            dst_dir_fd=spot.folder,
            follow_symlinks=False,
        )
    except FileExistsError as exc:
        raise ToolFailed(f"{quote_path(spot.path)}: {CHANGED}") from exc
    except OSError:  # some file systems have no links
        os.rename(draft, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
    else:
        os.unlink(draft, dir_fd=spot.folder)
