"""Torn objects: files of loose objects that a power cut left incomplete.

They do harm even where no ref leads to them: git takes an object that has a file for written, so
it never writes the same object again. libgit2 reads a truncated one forever, and blocks the whole
process meanwhile. So they are moved to a folder of ours. Nothing of them is deleted, and nothing is
moved through a link: a repository may come from anybody.
"""

import contextlib
import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from agent_memory.features.memories.adapters.git import control_files, opening
from agent_memory.platform import durable, files

MAX_FILE_BYTES = 64 << 20  # of a loose object to check: ours are smaller
MAX_LOOSE = 20_000  # objects to check
CHUNK = 1 << 16

_REST = re.compile(r"[0-9a-f]{38}", re.ASCII)  # of an object's name, after its folder


class TornObjects:
    """The torn objects of one repository, and the folder that gets them."""

    def __init__(self, home: Path, aside: Path) -> None:
        self._home = home
        self._aside = aside

    def find(self) -> list[str]:
        """Return the names of those among the newest loose objects."""
        newest = sorted(_list_loose(self._home), reverse=True)[:MAX_LOOSE]
        return [_name(path) for _, path in newest if _is_torn(path)]

    def move(self, names: Iterable[str]) -> list[str]:
        """Move those of these objects that are torn, and return their names."""
        return [name for name in names if self._move(opening.locate_loose(self._home, name))]

    def _move(self, path: Path) -> bool:
        if control_files.is_linked(self._home, path) or not _is_torn(path):
            return False
        durable.make_folder(self._aside)
        shutil.move(path, self._find_free_path(_name(path)))
        return True

    def _find_free_path(self, name: str) -> Path:
        """Return a path that no earlier file has: the same object may be torn twice."""
        names = (f"{name}-{number}" if number else name for number in count())
        return next(path for path in map(self._aside.joinpath, names) if not path.exists())


def _list_loose(home: Path) -> Iterator[tuple[int, Path]]:
    """Yield the regular files of loose objects, each with its time."""
    for folder in (home / "objects").glob("[0-9a-f][0-9a-f]"):
        if not control_files.is_linked(home, folder):
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False) and _REST.fullmatch(entry.name):
                        with contextlib.suppress(FileNotFoundError):  # it was packed just now
                            yield entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path)


def _name(path: Path) -> str:
    return path.parent.name + path.name


def _is_torn(path: Path) -> bool:
    """Return whether the file does not hold the object of its name, whole. A larger file passes."""
    try:
        packed = files.read_regular(path, MAX_FILE_BYTES)
    except (FileNotFoundError, files.FileTooLarge, files.NotRegularFile, IsADirectoryError):
        return False  # it may be packed by now
    digest = hashlib.sha1()  # noqa: S324  git's own hash
    unpacked, size = zlib.decompressobj(), 0
    try:
        while packed and size <= MAX_FILE_BYTES:
            part = unpacked.decompress(packed, CHUNK)
            packed = unpacked.unconsumed_tail
            digest.update(part)
            size += len(part)
    except zlib.error:
        return True
    if size > MAX_FILE_BYTES:
        return False
    return not unpacked.eof or digest.hexdigest() != _name(path)
