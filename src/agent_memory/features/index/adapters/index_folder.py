"""The folder in which the indexes of one store are kept."""

import os
from pathlib import Path

import structlog

from agent_memory.platform import durable
from agent_memory.platform.files import read_regular
from agent_memory.platform.removing import remove_tree

log = structlog.get_logger()

MARK = "store"  # names the store that the indexes were made from


def prepare(folder: Path, identity: str) -> None:
    """Create the folder, or empty it where its indexes were made from another store.

    It may be a link to a folder on another disk, one that is empty or has the mark of this store.
    """
    mark, content = folder / MARK, identity.encode()
    if _holds(mark, content):
        _remove_links(folder)
        return
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        log.warning("index.of_another_store", path=str(folder))
        empty(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    durable.write_atomic(mark, content)


def empty(folder: Path) -> None:
    """Remove what is in a folder. Of a link only the link is removed, because anything may be
    behind it, and a path that is no folder is removed itself."""
    if folder.is_symlink():
        _remove_link(folder)
    elif not folder.is_dir():
        folder.unlink()
    else:
        for path in folder.iterdir():
            remove_tree(path)


def _remove_links(folder: Path) -> None:
    """Remove links in a folder of ours: no index makes one, and each removes what it finds in its
    own folder."""
    for path in folder.iterdir():
        if path.is_symlink():
            _remove_link(path)


def _remove_link(link: Path) -> None:
    target = link.readlink()
    link.unlink()
    log.warning(
        "index.link_removed",
        path=str(link),
        target=str(target),
        advice="the index is made again here, and nothing was removed behind the link; to keep it"
        " there, stop the daemon and link an empty folder",
    )


def _holds(path: Path, content: bytes) -> bool:
    """Tell whether a path is a file, and no link, with exactly this content."""
    try:
        return read_regular(path, len(content)) == content
    except OSError:
        return False
