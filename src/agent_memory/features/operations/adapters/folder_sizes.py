"""Sizes of folders on disk."""

import os
from collections.abc import Iterator
from pathlib import Path


def measure(path: Path) -> int:
    """Return the bytes of all files of a folder, or of a file; 0 if it does not exist."""
    return sum(_sizes(path))


def _sizes(path: Path) -> Iterator[int]:
    try:
        status = path.lstat()
    except OSError:
        return
    if not path.is_dir() or path.is_symlink():
        yield status.st_size
        return
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                yield os.lstat(f"{folder}/{name}").st_size
            except OSError:
                continue  # removed meanwhile
