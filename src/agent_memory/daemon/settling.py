"""Give back the memory that only the start of a daemon needs."""

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent_memory.platform.foreground import Foreground

SETTLE_SECONDS = 5.0  # after the start: by then the first jobs have run
QUIET_SECONDS = 1.0
MADV_DONTNEED = 4  # of mman.h
_MAPPINGS = Path("/proc/self/smaps")
_DELETED = " (deleted)"  # on a network drive, its pages may be gone


class Mapping(NamedTuple):
    """A range of memory that shows a file."""

    first: int
    size: int
    path: str
    executable: bool
    clean: bool  # it was never written to, and cannot be


def settle_soon(foreground: Foreground) -> None:
    """Give memory back at the first quiet moment, in a thread of its own."""

    def settle() -> None:
        waiting = threading.Event()
        waiting.wait(SETTLE_SECONDS)
        while foreground.is_busy(QUIET_SECONDS):
            waiting.wait(QUIET_SECONDS)
        release_memory()

    threading.Thread(target=settle, name="settle", daemon=True).start()


def release_memory() -> None:
    """Return free heap to the system, and unmap the pages of libraries.

    To load a library, the system reads its tables of symbols and maps the pages around them; most
    of these are not read again. They stay in the page cache, and what is used is mapped again
    within microseconds.
    """
    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):  # another libc
        libc.malloc_trim(0)
    with contextlib.suppress(OSError):  # another system
        text = _MAPPINGS.read_text(errors="surrogateescape")
        for each in list_library_mappings(text):
            libc.madvise(
                ctypes.c_void_p(each.first), ctypes.c_size_t(each.size), ctypes.c_int(MADV_DONTNEED)
            )


def list_library_mappings(smaps: str) -> list[Mapping]:
    """Return the clean mappings of programs and libraries. A mapping that holds anything of its own
    would lose it: relocated tables, for instance."""
    mappings = list(_parse(smaps))
    libraries = {each.path for each in mappings if each.executable}
    return [each for each in mappings if each.clean and each.path in libraries]


def _parse(smaps: str) -> Iterator[Mapping]:
    span, access, path = "", "", ""
    for line in smaps.splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            span, access = name, rest[:4]
            path = rest.split(maxsplit=4)[4] if rest.count("/") else ""
        elif name == "Anonymous:" and path.startswith("/") and not path.endswith(_DELETED):
            first, last = (int(end, 16) for end in span.split("-"))
            yield Mapping(
                first,
                last - first,
                path,
                executable="x" in access,
                clean="w" not in access and access.endswith("p") and rest.split()[0] == "0",
            )
