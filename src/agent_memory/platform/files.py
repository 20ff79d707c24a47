"""Open and read regular files at paths that other programs may have changed."""

import errno
import os
import stat
from pathlib import Path
from typing import IO

# Opening a FIFO would otherwise wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class NotRegularFile(OSError):
    """The path is a device, a pipe or a socket."""


class FileTooLarge(OSError):
    """The file has more bytes than the limit."""


def open_regular(path: Path, *, follow_link: bool = False) -> IO[bytes]:
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


def read_regular(path: Path, limit: int, *, follow_link: bool = False) -> bytes:
    """Read a regular file whole. Raise FileTooLarge if it has more than `limit` bytes."""
    with open_regular(path, follow_link=follow_link) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FileTooLarge(errno.EFBIG, f"it is longer than {limit} bytes", str(path))
    return data
