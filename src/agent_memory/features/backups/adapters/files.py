"""Files of a backup: copied, hashed and synced, readable by their owner only."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.durable import sync_folder

CHUNK = 1 << 20

Check = Callable[[], None]
"""Called between chunks; raises to stop."""


def digest(path: Path, check: Check) -> tuple[int, str]:
    """Return the size and SHA-256 of a regular file. No link is followed."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise StorageFailed(f"{path} is no regular file")
        return digest_stream(file, check)


def digest_stream(file: IO[bytes], check: Check) -> tuple[int, str]:
    size, found = 0, hashlib.sha256()
    while part := file.read(CHUNK):
        check()
        size += len(part)
        found.update(part)
    return size, found.hexdigest()


def copy(source: Path, target: Path, check: Check) -> tuple[int, str]:
    """Copy a regular file to a new one and sync it. Return the size and SHA-256 of what was
    read."""
    with os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise StorageFailed(f"{source} is no regular file")
        return write(file, target, check)


def write(file: IO[bytes], target: Path, check: Check) -> tuple[int, str]:
    """Write an open file to a new one and sync it. Return its size and SHA-256."""
    size, found = 0, hashlib.sha256()
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
        while part := file.read(CHUNK):
            check()
            size += len(part)
            found.update(part)
            made.write(part)
        made.flush()
        os.fsync(made.fileno())
    return size, found.hexdigest()


def make_folders(root: Path, path: str) -> Path:
    """Create the folders that a file below the root needs. Return the file's path."""
    folder = root
    for step in path.split("/")[:-1]:
        folder = folder / step
        folder.mkdir(mode=0o700, exist_ok=True)
    return root / path


def regular_files(root: Path, part: str) -> Iterator[str]:
    """Yield the paths, from the root, of the regular files of a part: itself, or all below it."""
    place = root / part
    if place.is_file() and not place.is_symlink():
        yield part
    elif place.is_dir() and not place.is_symlink():
        for folder, _, names in os.walk(place):
            for name in sorted(names):
                path = Path(folder) / name
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path.relative_to(root).as_posix()


def sync_folders(root: Path) -> None:
    """Sync all folders below the root, so that every name is on disk."""
    for folder, _, _ in os.walk(root, topdown=False):
        sync_folder(Path(folder))
