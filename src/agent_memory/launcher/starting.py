"""Start a daemon in the background. The launcher loads this module only when no daemon runs."""

import fcntl
import os
import select
import sys
import time

import _socket

from . import environment
from .command_client import (
    CHUNK,
    POLL_SECONDS,
    STORAGE_ERROR,
    complain,
    connect,
    data_folder,
    reach_daemon,
    read_announcement,
    write,
)

START_MILLIS = 20_000
SPINNER_MILLIS, FRAME_MILLIS = 600, 100
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
CONFIG_ERROR = 3
STARTER_POLL_SECONDS = 0.005
MAX_DESCRIPTORS = 1_024  # more than an agent leaves open for its hooks
LONGEST_WAIT = 60  # seconds between two tries of commands to start a daemon
FAILED_START = "start-failed"  # a file in the data folder: why the last start failed


def start(
    config: str | None,
    by_hand: bool,
    replace: tuple[int, int] | None = None,
    options: tuple[str, ...] = (),
) -> int:
    """Start a daemon and wait until it is ready. Return 0, or an exit code after an error message.

    `replace` is the announcement of an outdated daemon, which is stopping.
    A lock lets one caller start a daemon while the others wait: a hundred commands at once must not
    load a hundred daemons. After a failure, commands wait before they try again; a start by hand
    does not.
    """
    folder = data_folder()
    path = os.path.join(folder, "start.lock")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        complain(f"error: cannot use the data folder {folder}: {exc.strerror}\n", STORAGE_ERROR)
        return STORAGE_ERROR
    try:
        if not acquire_lock(lock):
            seconds = START_MILLIS // 1000
            complain(
                f"error: another command has held {path} for {seconds} s and has started no"
                " daemon; end it and try again\n",
                STORAGE_ERROR,
            )
            return STORAGE_ERROR
        running = None if read_announcement(folder) == replace else connect(folder)
        if running is not None:
            running.close()
            wait_until_ready(folder)
            return 0
        marker = os.path.join(folder, FAILED_START)
        failures, code, message = read_failed_start(marker)
        if message and not by_hand:
            complain(message, code)
            return code
        code, reason = spawn(config, by_hand, replace is not None, options)
        if not code:
            if failures:
                os.unlink(marker)
            return 0
        complain(reason, code)
        if code == CONFIG_ERROR:
            return code  # quick to detect, and perhaps only in this caller's settings
        try:
            if os.path.lexists(marker):  # never write through a link, symbolic or hard
                os.unlink(marker)
            record = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                write(record, f"{failures + 1} {code}\n{reason}".encode())
            finally:
                os.close(record)
        except OSError:
            pass  # a full or read-only disk: every command tries then, and reports the failure
        return code
    finally:
        os.close(lock)


class Starter:
    """Starts a daemon in the background for a hook, which cannot wait until it is ready."""

    def __init__(self, config: str | None) -> None:
        self.config = config
        self.child = 0

    def connect(self, folder: str) -> "_socket.socket | None":
        """Connect to the daemon. If none runs, start one and wait until it accepts connections; the
        caller's alarm limits the time. Return None if none can be started. Raises
        ConnectionForbidden in a sandbox: a daemon may run outside it."""
        while True:
            connection = reach_daemon(folder)
            if connection is not None:
                return connection
            if not self.child and not self.start(folder):
                return None
            if self.child:
                ended, status = os.waitpid(self.child, os.WNOHANG)
                if ended:
                    self.child = 0
                    if status:
                        return None
            time.sleep(STARTER_POLL_SECONDS)

    def start(self, folder: str) -> bool:
        """Start a daemon, unless another process does. Return False after a failed start that
        commands wait for."""
        try:
            if is_starting(folder):
                return True
        except OSError:  # the data folder cannot be used
            return False
        if read_failed_start(os.path.join(folder, FAILED_START))[2]:
            return False
        child = os.fork()
        if child:
            self.child = child
            return True
        code = STORAGE_ERROR
        try:
            leave_caller()
            code = start(self.config, by_hand=False)
        finally:
            os._exit(code)


def is_starting(folder: str) -> bool:
    """Tell whether a process holds the lock of starts."""
    os.makedirs(folder, 0o700, exist_ok=True)
    path = os.path.join(folder, "start.lock")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def leave_caller() -> None:
    """Keep nothing of the caller: it may wait for the end of its streams, or end our group."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.closerange(3, MAX_DESCRIPTORS)


def acquire_lock(lock: int) -> bool:
    """Wait for the lock as long as a start may take. Return whether we hold it."""
    deadline = time.monotonic() + START_MILLIS / 1000
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)


def wait_until_ready(folder: str) -> None:
    """Wait for the record that a daemon writes when all of it is loaded, as long as a start may
    take."""
    deadline = time.monotonic() + START_MILLIS / 1000
    record = os.path.join(folder, "daemon.json")
    while not os.path.exists(record) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def read_failed_start(marker: str) -> tuple[int, int, str]:
    """Return how many starts have failed in a row, the last exit code, and the message for commands
    that must still wait, or an empty one."""
    try:
        with open(marker, encoding="utf-8") as record:
            failures, code = (int(number) for number in record.readline().split())
            reason = record.read()
        wait = os.stat(marker).st_mtime + min(2**failures, LONGEST_WAIT) - time.time()
    except (OSError, ValueError):
        return 0, 0, ""
    # More than the longest wait means that the clock was set back.
    if not 0 < wait <= LONGEST_WAIT:
        return failures, code, ""
    return failures, code, f"{reason}(next try in {wait:.0f} s; by hand: memory-daemon start)\n"


def wait_quietly(poll: "select.poll") -> bool:
    """Wait for the daemon's output, as long as a start may take."""
    return bool(poll.poll(START_MILLIS))


def wait_visibly(poll: "select.poll") -> bool:
    """Wait for the daemon's output, and show a spinner on the terminal if that takes long."""
    if poll.poll(SPINNER_MILLIS):
        return True
    try:
        for frame in range(START_MILLIS // FRAME_MILLIS):
            spinner = SPINNER[frame % len(SPINNER)]
            write(2, f"\r\x1b[K{spinner} Starting the daemon".encode())
            if poll.poll(FRAME_MILLIS):
                return True
        return False
    finally:
        write(2, b"\r\x1b[K")


def spawn(
    config: str | None, by_hand: bool, replace: bool, options: tuple[str, ...]
) -> tuple[int, str]:
    """Start a daemon process. Return 0 when it is ready, or its exit code and its message."""
    readable, writable = os.pipe()
    words = [*environment.home_option(), "--ready-fd", "3", *options]
    arguments = [sys.executable, "-I", "-m", "agent_memory.daemon", *words]
    if config:
        arguments += ["--config", config]
    if not by_hand:
        arguments += ["--auto"]
    if replace:
        arguments += ["--replace"]
    null = os.open(os.devnull, os.O_RDWR)
    if writable == 3:
        os.set_inheritable(3, True)
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1)]
    actions += [(os.POSIX_SPAWN_DUP2, writable, fd) for fd in (2, 3) if fd != writable]
    variables = environment.build_daemon_environment(os.environ, by_hand=by_hand)
    # Without GRPC_VERBOSITY, gRPC writes its own message about a busy port.
    variables["GRPC_VERBOSITY"] = "NONE"
    child = os.posix_spawn(
        sys.executable, arguments, variables, file_actions=actions, setsigmask=()
    )
    os.close(writable)
    os.close(null)
    output = b""
    poll = select.poll()
    poll.register(readable, select.POLLIN)
    shows = not by_hand and os.isatty(2) and os.environ.get("TERM", "dumb") not in ("", "dumb")
    wait = wait_visibly if shows else wait_quietly
    try:
        while wait(poll):
            part = os.read(readable, CHUNK)
            output += part
            if b"\0" in output:  # the daemon is ready; warnings come before the NUL
                write(2, output.partition(b"\0")[0])
                return 0, ""
            if not part:
                _, status = os.waitpid(child, 0)
                code = os.waitstatus_to_exitcode(status)
                text = output.decode(errors="replace") or "error: the daemon ended at its start\n"
                return code if code > 0 else 1, text
        return 1, f"error: the daemon was not ready within {START_MILLIS // 1000} s\n"
    finally:
        os.close(readable)
