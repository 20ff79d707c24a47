"""Files by which a daemon is found and guarded: lock, sockets, records."""

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from agent_memory.config import Folders
from agent_memory.kernel.errors import StorageFailed, StorageLocked
from agent_memory.platform import durable

MAX_SOCKET_PATH = 103 if sys.platform == "darwin" else 107
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonRecord:
    """What `daemon.json` tells a program that looks for the daemon."""

    pid: int
    version: str
    grpc_port: int
    http_port: int
    http_scheme: str
    socket: str
    grpc_socket: str
    http_socket: str


def prepare(folder: Path) -> None:
    """A folder of ours that only its owner may enter."""
    try:
        durable.make_folder(folder)
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            folder.chmod(0o700)
    except OSError as exc:
        raise StorageFailed(f"cannot use the folder {folder}: {exc.strerror}") from exc


def socket_folder(folders: Folders) -> Path:
    """Where sockets go: the runtime folder, or a hashed one where its path is too long for them."""
    folder = folders.runtime
    if len(os.fsencode(folder / "daemon.sock")) > MAX_SOCKET_PATH:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"agent-memory-{os.getuid()}-{name}"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        # Anyone may have made it, or a link in its place: looked at before it is touched.
        found = folder.lstat()
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
            raise StorageFailed(
                f"{folder} is not a folder of ours: set XDG_RUNTIME_DIR to one of your own"
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            folder.chmod(0o700)
    except OSError as exc:
        raise StorageFailed(f"cannot use the folder {folder}: {exc.strerror}") from exc
    return folder


def lock_file(folders: Folders) -> Path:
    return folders.data / "daemon.lock"


def lock(folders: Folders, wait_seconds: float, served: Callable[[], bool]) -> int:
    """Hold the data folder for as long as the descriptor is open.

    Waits for a holder that is on its way out, or only looks (see `holder`). Raises StorageLocked
    at once where it is `served`, StorageFailed where the holder stays and serves nobody.
    """
    path = lock_file(folders)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
    except OSError as exc:
        raise StorageFailed(
            f"cannot write to the data folder {folders.data}: {exc.strerror}"
        ) from exc
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if served():
                os.close(descriptor)
                raise StorageLocked(f"a daemon is already running on {folders.data}") from None
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise StorageFailed(f"another process holds {path}, and does not answer") from None
            time.sleep(POLL_SECONDS)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    except OSError as exc:
        os.close(descriptor)
        raise StorageFailed(
            f"cannot write to the data folder {folders.data}: {exc.strerror}"
        ) from exc
    return descriptor


def unlock(descriptor: int) -> None:
    """Let go of the data folder. Emptied first: the next holder shall not be taken for us."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)


def find_lock_holder(folders: Folders) -> int | None:
    """The process that holds the lock, if any does."""
    try:
        descriptor = os.open(lock_file(folders), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)
    return None


def announce(folders: Folders, record: DaemonRecord) -> None:
    """Tell clients where we are: launchers follow the link, and who finds the record may be sure
    of the rest, so it comes last."""
    write_whole(Path(record.socket).with_name("daemon.pid"), f"{record.pid}\n")
    link = folders.data / "daemon.sock"
    draft = link.with_name("daemon.sock.new")
    draft.unlink(missing_ok=True)
    draft.symlink_to(record.socket)
    draft.replace(link)
    write_whole(folders.data / "daemon.json", json.dumps(asdict(record), indent=2) + "\n")


def withdraw(folders: Folders, sockets: Path) -> None:
    """Take all of that back; only the lock's holder may."""
    for path in (
        folders.data / "daemon.json",
        folders.data / "daemon.sock",
        sockets / "daemon.pid",
        sockets / "daemon.sock",
        sockets / "grpc.sock",
        sockets / "http.sock",
    ):
        path.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """The file has the new text or the old one, never a part; readable by its owner only."""
    durable.write_atomic(path, text.encode())
