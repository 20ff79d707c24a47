"""The folder in which the indexes of one store are kept."""

import os
import shutil
from pathlib import Path

import structlog

from agent_memory.platform import durable

log = structlog.get_logger()

MARK = "store"  # names the store that the indexes were made from


def prepare(folder: Path, identity: str) -> None:
    """Create the folder, or empty it where its indexes were made from another store."""
    mark, content = folder / MARK, identity.encode()
    if _holds(mark, content):
        return
    if os.path.lexists(folder):
        log.warning("index.of_another_store", path=str(folder))
        empty(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    durable.write_atomic(mark, content)


def empty(folder: Path) -> None:
    """Remove what is in a folder, which may be a link to one on another disk. A path that is no
    folder is removed itself."""
    if not folder.is_dir():
        folder.unlink()
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _holds(path: Path, content: bytes) -> bool:
    """Tell whether a path is a file, and no link, with exactly this content."""
    try:  # O_NONBLOCK: opening a pipe would wait for its writer
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(descriptor, len(content) + 1) == content
    except OSError:  # a folder, for one
        return False
    finally:
        os.close(descriptor)
