"""Files of a running daemon: its lock, its sockets, and the records that clients read."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent_memory.config import Folders
from agent_memory.kernel.errors import StorageFailed, StorageLocked
from agent_memory.launcher.command_client import SERVED
from agent_memory.platform import durable
from agent_memory.platform.files import open_regular

MAX_SOCKET_PATH = 103 if sys.platform == "darwin" else 107
POLL_SECONDS = 0.02
_REDIRECTS = "open-page-*.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """How a daemon was started, so that a restart can repeat it: `start` in `daemon.json`."""

    settings_file: str = ""  # may not exist
    config_file: str = ""  # of -c
    flags: dict[str, Any] = field(default_factory=dict)  # settings that options of the start set
    foreground: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonRecord:
    """The content of `daemon.json`, for programs that connect to the daemon."""

    pid: int
    version: str
    grpc_port: int
    http_port: int
    http_scheme: str
    socket: str
    grpc_socket: str
    http_socket: str


def prepare(folder: Path) -> None:
    """Make a folder, and let only its owner enter it."""
    try:
        durable.make_folder(folder)
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            folder.chmod(0o700)
    except OSError as exc:
        raise StorageFailed(f"cannot use the folder {folder}: {exc.strerror}") from exc


def socket_folder(folders: Folders) -> Path:
    """Make and return the folder of the sockets: the runtime folder, or one with a hashed name if
    the path of a socket there would be too long."""
    folder = folders.runtime
    if len(os.fsencode(folder / "daemon.sock")) > MAX_SOCKET_PATH:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"agent-memory-{os.getuid()}-{name}"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        # Another user may have made the folder, or a link in its place.
        status = folder.lstat()
        if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
            raise StorageFailed(
                f"{folder} is not a folder of this user: remove it, or have its owner do so"
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)
    except OSError as exc:
        raise StorageFailed(f"cannot use the folder {folder}: {exc.strerror}") from exc
    return folder


def lock_file(folders: Folders) -> Path:
    return folders.data / "daemon.lock"


def lock(folders: Folders, wait_seconds: float, served: Callable[[], bool]) -> int:
    """Lock the data folder for as long as the returned descriptor is open.

    Wait for a holder that is stopping, or that only looks (`find_lock_holder`). Raise StorageLocked
    at once if a daemon is serving, StorageFailed if the holder stays and serves nothing.
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
                raise StorageFailed(f"another process holds {path} and does not answer") from None
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
    """Release the data folder. Empty the file first, so that our number is not taken for the next
    holder's."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)


def find_lock_holder(folders: Folders) -> int | None:
    """Return the number of the process that holds the lock, or None."""
    try:
        file = open_regular(lock_file(folders))
    except OSError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = file.read(32).strip()
            return int(text) if text.isdigit() else None
    return None


def announce_socket(folders: Folders, socket: Path) -> None:
    """Publish the command socket: launchers follow the link. Hooks are answered from then on, and
    other commands wait until the daemon is ready. A link back tells them whose socket it is."""
    _link(socket.with_name(SERVED), folders.data)
    _link(folders.data / "daemon.sock", socket)


def _link(path: Path, target: Path) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(path)


def announce(folders: Folders, record: DaemonRecord, start: StartRecord) -> None:
    """Publish the addresses of a daemon that is ready. The record comes last, so that a client that
    finds it finds the rest."""
    content = asdict(record) | {"start": asdict(start)}
    write_whole(Path(record.socket).with_name("daemon.pid"), f"{record.pid}\n")
    write_whole(folders.data / "daemon.json", json.dumps(content, indent=2) + "\n")


def read_start(folders: Folders) -> StartRecord:
    """Return how the running daemon was started, as far as it says so: older ones do not."""
    try:
        start = json.loads((folders.data / "daemon.json").read_bytes()).get("start", {})
        return StartRecord(**start)
    except (OSError, ValueError, TypeError, AttributeError):
        return StartRecord()


def name_redirect(sockets: Path) -> Path:
    """Return a new name for a file that opens the page."""
    return sockets / _REDIRECTS.replace("*", secrets.token_hex(16))


def withdraw(folders: Folders, sockets: Path) -> None:
    """Remove everything that a daemon has published. Only the holder of the lock may call this."""
    for path in (
        folders.data / "daemon.json",
        folders.data / "daemon.sock",
        sockets / "daemon.pid",
        sockets / "daemon.sock",
        sockets / SERVED,
        sockets / "grpc.sock",
        sockets / "http.sock",
        *sockets.glob(_REDIRECTS),
    ):
        path.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Replace the file in one step, readable by its owner only."""
    durable.write_atomic(path, text.encode())
