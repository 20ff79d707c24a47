"""Tell a folder from another one that takes its place later."""

import ctypes
import os
import sys
from pathlib import Path

_BORN = 0x800  # ask statx for the time of birth, and see whether it is known
_MASK, _SECONDS, _NANOSECONDS = 0, 80, 88  # where `struct statx` of Linux has them
_SIZE = 256


def read_mark(path: str) -> str:
    """Return a mark that moves with the folder, and that no copy has; empty if it is not there.
    The number of a removed folder is given again, so the time of birth is in it where the file
    system knows that. The device is not: its number may change at a start."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return ""
    return f"{status.st_ino:x}-{_read_birth(path, status):x}"


def _read_birth(path: str, status: os.stat_result) -> int:
    """Return when the folder was made, or 0. Python asks only macOS for it."""
    if sys.platform != "linux":
        return int(getattr(status, "st_birthtime", 0) * 1_000_000)
    statx = getattr(ctypes.CDLL(None), "statx", None)
    buffer = ctypes.create_string_buffer(_SIZE)
    at_working_folder = -100
    if statx is None or statx(at_working_folder, os.fsencode(path), 0, _BORN, buffer) != 0:
        return 0

    def read(start: int, size: int) -> int:
        return int.from_bytes(buffer.raw[start : start + size], sys.byteorder)

    if not read(_MASK, 4) & _BORN:
        return 0
    return read(_SECONDS, 8) * 1_000_000_000 + read(_NANOSECONDS, 4)
