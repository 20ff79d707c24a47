"""The supervisor: a process between daemon and child, so that the child never outlives the daemon.

It runs as `python -I -S supervisor.py DESCRIPTOR NAME` and imports nothing of the package. The
descriptor is one end of a socket pair, the lifeline. The supervisor reads from it what to run, and
writes back the pid of the child and its exit code, one line each. The lifeline closes when the
daemon ends; then the supervisor ends the child: SIGTERM to its group, a grace time, SIGKILL. If the
supervisor itself is killed, Linux kills the child, and the daemon kills its group.
"""

import ctypes
import errno
import marshal
import os
import select
import signal
import sys
import time

LINUX = sys.platform == "linux"
SET_DEATH_SIGNAL = 1  # options of prctl
SET_SUBREAPER = 36
REAP_SECONDS = 2.0
TICK_SECONDS = 0.01
MAX_LINE_BYTES = 64

# Arguments, environment, folder (a path or a descriptor), seconds between the signals.
Order = tuple[list[bytes], dict[bytes, bytes], int | bytes | None, float]


class SupervisedChild:
    """The child. `group` is its pid too. On Linux its orphans become children of the supervisor."""

    def __init__(self, group: int) -> None:
        self.group = group
        self.code: int | None = None

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.group, number)
        except OSError:
            pass  # the group has ended

    def reap(self) -> bool:
        """Return whether the child has ended. Before, kill the rest of its group."""
        if self.code is not None:
            return True
        if not hasattr(os, "waitid"):
            pid, status = os.waitpid(self.group, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                self.signal(signal.SIGKILL)
            return pid != 0
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                ended = None
            if ended is None:
                return False
            if ended.si_pid == self.group:
                self.signal(signal.SIGKILL)
            status = os.waitpid(ended.si_pid, 0)[1]
            if ended.si_pid == self.group:
                self.code = os.waitstatus_to_exitcode(status)
                return True

    def kill_orphans(self) -> None:
        """Kill processes that left the group: daemons become children of the supervisor."""
        deadline = time.monotonic() + REAP_SECONDS
        while time.monotonic() < deadline:
            for orphan in list_orphans():
                try:
                    os.kill(orphan, signal.SIGKILL)
                except OSError:
                    pass
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(TICK_SECONDS)
            except ChildProcessError:
                return


def main() -> None:
    lifeline = int(sys.argv[1])
    os.set_inheritable(lifeline, False)
    signals, written = os.pipe()
    os.set_blocking(signals, False)
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None) if LINUX else None
    if libc is not None:
        libc.prctl(SET_SUBREAPER, 1, 0, 0, 0)
    order = receive_order(lifeline)
    if order is None:
        return
    pid, failure = start(order, libc)
    detach(order[2])
    if failure:
        send_line(lifeline, f"failed {failure}")
        return
    child = SupervisedChild(pid)
    send_line(lifeline, f"pid {pid}")
    watch(child, lifeline, signals, order[3])
    child.kill_orphans()
    send_line(lifeline, f"ended {child.code}")


def watch(child: SupervisedChild, lifeline: int, signals: int, grace: float) -> None:
    """Wait until the child ends, by itself or after a signal."""
    kill_at: float | None = None  # None until SIGTERM was sent
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(signals, select.POLLIN)
    listening = True
    while not child.reap():
        left = None if kill_at is None else max(kill_at - time.monotonic(), 0.0)
        events = poll.poll(None if left is None else left * 1000 + 1)
        ready = {descriptor for descriptor, _ in events}
        stop = signals in ready and signal.SIGTERM in os.read(signals, 4096)
        seconds = grace
        if listening and lifeline in ready:
            stop = True
            request = read_lifeline(lifeline)
            if request:
                seconds = min(float(line) for line in request.split())
            else:
                listening = False
                poll.unregister(lifeline)
        if stop:
            child.signal(signal.SIGTERM)
            until = time.monotonic() + seconds
            kill_at = until if kill_at is None else min(kill_at, until)
        if kill_at is not None and time.monotonic() >= kill_at:
            child.signal(signal.SIGKILL)
            kill_at = time.monotonic() + REAP_SECONDS  # and again, for processes forked meanwhile


def start(order: Order, libc: ctypes.CDLL | None) -> tuple[int, str]:
    """Start the child. Return its pid, and on failure what failed and the errno."""
    arguments, environ, folder, _ = order
    supervisor = os.getpid()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        step = "program"
        try:
            if libc is not None:
                libc.prctl(SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
                if os.getppid() != supervisor:
                    os._exit(127)  # it was killed before prctl
            os.setpgid(0, 0)
            step = "folder"
            if folder is not None:
                os.chdir(folder)
            step = "program"
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execvpe(arguments[0], arguments, environ)
        except (OSError, ValueError) as exc:
            reason = exc.errno if isinstance(exc, OSError) else errno.EINVAL
            os.write(writing, f"{step} {reason}".encode())
        finally:
            os._exit(127)
    os.close(writing)
    failure = os.read(reading, MAX_LINE_BYTES).decode()
    os.close(reading)
    if failure:
        os.waitpid(pid, 0)
    return pid, failure


def detach(folder: int | bytes | None) -> None:
    """Close the streams of the child, so that its pipes close when it ends."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    if isinstance(folder, int):
        os.close(folder)
    os.chdir("/")


def receive_order(lifeline: int) -> Order | None:
    """Read what to run, or return None if the daemon has ended."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        part = read_lifeline(lifeline)
        if not part:
            return None
        data += part
    order: Order = marshal.loads(data[4:])
    if isinstance(order[2], int):
        os.set_inheritable(order[2], False)
    return order


def read_lifeline(lifeline: int, size: int = 1 << 16) -> bytes:
    try:
        return os.read(lifeline, size)
    except OSError:
        return b""


def send_line(lifeline: int, line: str) -> None:
    try:
        os.write(lifeline, f"{line}\n".encode())
    except OSError:
        pass  # the daemon has ended


def list_orphans() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    main()
