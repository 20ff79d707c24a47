"""What a file needs beyond its own bytes to outlast a crash."""

import contextlib
import os
from pathlib import Path


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
