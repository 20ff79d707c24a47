"""The folder in which the indexes of one store are kept."""

import os
import re
from pathlib import Path

import structlog

from agent_memory.platform import durable
from agent_memory.platform.files import read_regular
from agent_memory.platform.removing import remove_tree

log = structlog.get_logger()

MARK = "store"  # names the store that the indexes were made from
# What the indexes, and a database of theirs, are made of.
OURS = re.compile(
    r"store|anchor|(?:lexical|vectors)(?:\..+)?|CURRENT|IDENTITY|LOCK|LOG.*|MANIFEST-\d+"
    r"|OPTIONS-\d+|\d+\.(?:log|sst|blob)"
)


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
        if folder.is_symlink() and not OURS.fullmatch(path.name):
            continue  # on the other disk, it may be someone else's
        remove_tree(path)


def _holds(path: Path, content: bytes) -> bool:
    """Tell whether a path is a file, and no link, with exactly this content."""
    try:
        return read_regular(path, len(content)) == content
    except OSError:
        return False
