"""Writing files and folders so that they survive a crash."""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

PART = ".part"
_PART_SECONDS = 60.0
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file: after a crash it has the old bytes or the new ones, never a mixture.

    Once this returns, the new bytes are on disk.
    """
    with open_atomic(path, mode=mode) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomic(path: Path, *, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Open a draft that replaces the file at the end of the block, unless the block raises.

    The draft has a random name and must not exist, so that nothing is written through a link that
    someone has planted. A link at the path itself is replaced.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")
    descriptor = os.open(draft, _NEW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            yield file
            file.flush()
            os.fsync(descriptor)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    with contextlib.suppress(OSError):
        remove_abandoned(path.parent, f".{path.name}.")


def remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove the drafts of killed processes: those older than a minute."""
    oldest = time.time() - _PART_SECONDS
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(PART):
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime < oldest:
                        Path(entry).unlink()


def sync_file(path: Path) -> None:
    """Sync the content of a file to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder that only its owner may enter, with its missing parents, and sync its name.

    An existing folder is synced too: the process that created it may have been killed before.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing or [folder]:
        with contextlib.suppress(PermissionError):  # a parent that we may not read
            sync_folder(path.parent)


def list_missing(folder: Path) -> tuple[str, ...]:
    """Return the folder and its parents that do not exist, innermost first."""
    return tuple(str(path) for path in (folder, *folder.parents) if not path.exists())


def sync_tree(folder: Path) -> None:
    """Sync everything below a folder to disk, names and contents."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync_file(Path(parent) / name)
        sync_folder(Path(parent))
