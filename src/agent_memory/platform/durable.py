"""What a file needs beyond its own bytes to outlast a crash."""

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
    """Replace a file: it has the new bytes or the old ones, and the new ones once this returns."""
    with open_atomic(path, mode=mode) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomic(path: Path, *, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """A file to write to, which takes its place at the end of the block, unless that raises.

    The draft has a name that no one can guess and that must be new, so that nothing is written
    through a link that someone has put in its place. A link at the path itself is replaced.
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
    """Remove the drafts that a killed process has left."""
    oldest = time.time() - _PART_SECONDS
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(PART):
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime < oldest:
                        Path(entry).unlink()


def sync_folder(folder: Path) -> None:
    """The names in it, as they are now, are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, and those above it that are missing. Its name
    is on disk once this returns, also where it was there before: whoever made it may have been
    killed before it was synced."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in made or [folder]:
        with contextlib.suppress(PermissionError):  # a folder of others, which may not be read
            sync_folder(each.parent)


def sync_tree(folder: Path) -> None:
    """Everything below it is on disk, names and contents."""
    for parent, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(Path(parent) / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(parent))
