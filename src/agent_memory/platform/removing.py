"""Remove folders with everything in them.

Every removal of a folder goes through here. A path may come from a file that was copied from
another machine, damaged or planted, and a mistake in one costs more than this product is worth.
"""

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path

from agent_memory.launcher.environment import UnknownHome, find_home


class NotRemovable(OSError):
    """The folder is never removed: it is, or holds, more than this product makes."""


def remove_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a folder, if there is one, and follow no link. Of a link, remove only the link.

    Raises NotRemovable, also with `ignore_errors`, for a path that is not whole, for a home, the
    root and what holds them, for a mount point and for a folder of another user.
    """
    _check_path(path)
    with contextlib.ExitStack() as stack:
        try:
            parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, parent)
            status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(path.name, dir_fd=parent)
            return
        if status.st_dev != os.fstat(parent).st_dev:
            raise _refuse(path, "is a mount point")
        if status.st_uid != os.geteuid():
            raise _refuse(path, "belongs to another user")
        shutil.rmtree(path.name, ignore_errors=ignore_errors, dir_fd=parent)


def _check_path(path: Path) -> None:
    if not path.is_absolute() or ".." in path.parts or not path.name:
        raise _refuse(path, "is not a whole path")
    homes = {os.environ.get("HOME") or "/"}
    with contextlib.suppress(UnknownHome):
        homes.add(find_home())
    for home in homes:
        if Path(home).is_relative_to(path) or Path(home).resolve().is_relative_to(path):
            raise _refuse(path, "holds your home")


def _refuse(path: Path, why: str) -> NotRemovable:
    return NotRemovable(errno.EPERM, f"it {why}, and is not removed", str(path))
