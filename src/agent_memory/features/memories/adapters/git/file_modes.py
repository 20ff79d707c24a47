"""File modes: give files written into a repository the permissions that git would give them.

The umask of the process, one for all threads, keeps its files private. So modes are fixed
afterwards, after the example of the objects folder.
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
        mode = stat.S_IMODE((home / "objects").stat().st_mode)
        return cls(home=home, umask=~mode & OWNER_ONLY)

    def fix_objects(self, oids: Iterable[str]) -> None:
        for oid in oids:
            path = opening.locate_loose(self.home, oid)
            self._open(path.parent, _FOLDER)
            self._open(path, _OBJECT)

    def fix_ref(self, name: str) -> None:
        """Fix the files of a ref that was written, or removed with its line in packed-refs."""
        for path in (self.home / name, self.home / "logs" / name):
            for folder in path.parents:
                if folder in (self.home, self.home / "logs"):
                    break
                self._open(folder, _FOLDER)
            self._open(path, _FILE)
        self._open(self.home / "logs", _FOLDER)
        self._open(self.home / "packed-refs", _FILE)

    def _open(self, path: Path, mode: int) -> None:
        # It may be packed by now, or belong to another user, and then is not new.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            status = path.lstat().st_mode
            permissions = stat.S_IMODE(status)
            # We never write the target of a link.
            if not stat.S_ISLNK(status) and mode & ~self.umask & ~permissions:
                path.chmod(permissions | (mode & ~self.umask))
