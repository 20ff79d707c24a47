"""Copy, hash and sync the files of a backup. Only their owner can read them."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from agent_memory.platform.files import open_regular

CHUNK = 1 << 20

Check = Callable[[], None]
"""Called between chunks; raises to stop."""


def digest(path: Path, check: Check) -> tuple[int, str]:
    """Return the size and SHA-256 of a regular file. Follow no link."""
    with open_regular(path) as file:
        return digest_stream(file, check)


def digest_stream(file: IO[bytes], check: Check, out: IO[bytes] | None = None) -> tuple[int, str]:
    """Return the size and SHA-256 of an open file, and copy it to `out`, if there is one."""
    size, sha256 = 0, hashlib.sha256()
    while part := file.read(CHUNK):
        check()
        size += len(part)
        sha256.update(part)
        if out is not None:
            out.write(part)
    return size, sha256.hexdigest()


def copy(source: Path, target: Path, check: Check) -> tuple[int, str]:
    """Copy a regular file to a new one. Return the size and SHA-256 of the bytes read. The
    caller syncs the folder afterwards."""
    with open_regular(source) as file:
        return write(file, target, check)


def write(file: IO[bytes], target: Path, check: Check) -> tuple[int, str]:
    """Copy an open file to a new one, as `copy` does."""
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        return digest_stream(file, check, out)


def make_folders(root: Path, path: str) -> Path:
    """Make the folders of a file below the root. Return the file's path."""
    folder = root
    for step in path.split("/")[:-1]:
        folder = folder / step
        folder.mkdir(mode=0o700, exist_ok=True)
    return root / path


def regular_files(root: Path, part: str) -> Iterator[str]:
    """Yield the paths, from the root, of a part's regular files: the part itself, or all below
    it."""
    place = root / part
    if place.is_file() and not place.is_symlink():
        yield part
    elif place.is_dir() and not place.is_symlink():
        for folder, _, names in os.walk(place):
            for name in sorted(names):
                path = Path(folder) / name
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path.relative_to(root).as_posix()
