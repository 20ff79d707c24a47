"""What a file needs beyond its own bytes to outlast a crash."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """The names in it, as they are now, are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
