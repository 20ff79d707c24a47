"""Open, read and measure files at paths that other programs may have changed."""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Opening a FIFO would otherwise wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class NotRegularFile(OSError):
    """The path is a device, a pipe or a socket."""


class FileTooLarge(OSError):
    """The file has more bytes than the limit."""


def open_regular(path: Path, *, follow_link: bool = False) -> io.BufferedReader:
    """Open a regular file for reading. Raise OSError for anything else, and for a link unless
    `follow_link`."""
    descriptor = os.open(path, _FLAGS if follow_link else _FLAGS | os.O_NOFOLLOW)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise NotRegularFile(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def iter_lines(file: io.BufferedReader, most: int) -> Iterator[bytes]:
    """Yield lines, a longer one in pieces of `most` bytes. Empty lines after an empty one come
    together, a buffer at a time: one by one, a file of line ends would take a step for each byte.
    """
    while data := file.readline(most):
        yield data
        if data.isspace():
            while blank := _read_empty_lines(file):
                yield blank


def _read_empty_lines(file: io.BufferedReader) -> bytes:
    ahead = file.peek()
    return file.read(ahead.rfind(b"\n", 0, len(ahead) - len(ahead.lstrip())) + 1)


def read_regular(path: Path, limit: int, *, follow_link: bool = False) -> bytes:
    """Read a regular file whole. Raise FileTooLarge if it has more than `limit` bytes."""
    with open_regular(path, follow_link=follow_link) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FileTooLarge(errno.EFBIG, f"it is longer than {limit} bytes", str(path))
    return data


def measure_size(path: Path) -> int:
    """Return the bytes of all files below a folder, or of a file; 0 if it does not exist."""
    files = [str(path)]
    if path.is_dir() and not path.is_symlink():
        files = [f"{folder}/{name}" for folder, _, names in os.walk(path) for name in names]
    size = 0
    for file in files:
        with suppress(OSError):  # removed meanwhile
            size += os.lstat(file).st_size
    return size
