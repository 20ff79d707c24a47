"""Sync objects and refs to disk, as far as libgit2 and git do not: an object before the ref that
leads to it, and every new folder.

libgit2 syncs each file and its folder, but not the name of a new folder. Git syncs no folder, and
versions before 2.36 no loose object either.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_memory.features.memories.adapters.git.refs import TICK_SECONDS
from agent_memory.platform import durable


def sync_objects_folder(home: Path) -> None:
    """Make the folders of new objects durable."""
    durable.sync_folder(home / "objects")


@contextmanager
def syncing_objects(home: Path) -> Iterator[None]:
    """Sync the objects that git adds in a block, at its end."""
    since = time.time() - TICK_SECONDS
    yield
    objects = home / "objects"
    for folder in (*objects.glob("[0-9a-f][0-9a-f]"), objects / "pack", objects):
        if folder.is_dir() and folder.stat().st_mtime >= since:
            _sync_newer(folder, since)
            durable.sync_folder(folder)


def sync_new_ref(home: Path, name: str) -> None:
    """Sync the folders above a new ref. libgit2 has synced its file."""
    for folder in (home / name).parent.parents:
        durable.sync_folder(folder)
        if folder in (home / "refs", home):
            return


def _sync_newer(folder: Path, since: float) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if (
                entry.is_file(follow_symlinks=False)
                and entry.stat(follow_symlinks=False).st_mtime >= since
            ):
                durable.sync_file(Path(entry.path))
