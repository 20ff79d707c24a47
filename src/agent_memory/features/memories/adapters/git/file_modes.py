"""Modes: what we write into a repository is as open to others as what git writes there.

The process keeps its own files to itself by its umask, which is one for all of its threads. So the
modes of what it wrote elsewhere are set afterwards, as the folder of objects shows them.
"""

import contextlib
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent_memory.features.memories.adapters.git import opening

OWNER_ONLY = 0o077  # as a umask

_FOLDER = 0o777
_FILE = 0o666
_OBJECT = 0o444


@dataclass(frozen=True, slots=True, kw_only=True)
class FileModes:
    home: Path
    umask: int

    @classmethod
    def from_home(cls, home: Path) -> "FileModes":
        shown = stat.S_IMODE((home / "objects").stat().st_mode)
        return cls(home=home, umask=~shown & OWNER_ONLY)

    def fix_objects(self, oids: Iterable[str]) -> None:
        for oid in oids:
            path = opening.locate_loose(self.home, oid)
            self._open(path.parent, _FOLDER)
            self._open(path, _OBJECT)

    def fix_ref(self, name: str) -> None:
        """Or removed it, and with it its line in the packed ones."""
        for path in (self.home / name, self.home / "logs" / name):
            for folder in path.parents:
                if folder in (self.home, self.home / "logs"):
                    break
                self._open(folder, _FOLDER)
            self._open(path, _FILE)
        self._open(self.home / "logs", _FOLDER)
        self._open(self.home / "packed-refs", _FILE)

    def _open(self, path: Path, mode: int) -> None:
        # It may be packed by now, or someone else's, and then not new.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            found = path.lstat().st_mode
            present = stat.S_IMODE(found)
            # What a link leads to is nothing that we wrote.
            if not stat.S_ISLNK(found) and mode & ~self.umask & ~present:
                path.chmod(present | (mode & ~self.umask))
