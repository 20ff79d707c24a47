"""The warden: a process between daemon and child, so that the child never outlives the daemon.

It runs as `python -I -S supervisor.py DESCRIPTOR NAME`, and imports nothing of the package: a
descriptor of a socket pair is its lifeline. Over it comes what to run; back go the child's pid and
how it ended, each a line. The end of the lifeline is the end of the daemon, and so of the child:
SIGTERM to its group, a grace, SIGKILL. If the warden itself is killed, Linux kills the child (and
the daemon its group).
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
SET_DEATH_SIGNAL = 1  # of prctl
SET_SUBREAPER = 36
REAP_SECONDS = 2.0
TICK_SECONDS = 0.01
MAX_LINE_BYTES = 64

# What to run, its environment, its folder (a path or a descriptor), the seconds between signals.
Order = tuple[list[bytes], dict[bytes, bytes], int | bytes | None, float]


class SupervisedChild:
    """`group` is its pid too. Whatever it leaves behind becomes ours (on Linux), not init's."""

    def __init__(self, group: int) -> None:
        self.group = group
        self.code: int | None = None

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.group, number)
        except OSError:
            pass  # nobody is left, or only what ended

    def reap(self) -> bool:
        """Whether it has; the rest of its group is killed before its number is given back."""
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
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                found = None
            if found is None:
                return False
            if found.si_pid == self.group:
                self.signal(signal.SIGKILL)
            status = os.waitpid(found.si_pid, 0)[1]
            if found.si_pid == self.group:
                self.code = os.waitstatus_to_exitcode(status)
                return True

    def kill_orphans(self) -> None:
        """Kill what left its group: a process that makes itself a daemon is handed on to us."""
        deadline = time.monotonic() + REAP_SECONDS
        while time.monotonic() < deadline:
            for orphan in orphans():
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
    pid, trouble = start(order, libc)
    leave(order[2])
    if trouble:
        send_line(lifeline, f"failed {trouble}")
        return
    child = SupervisedChild(pid)
    send_line(lifeline, f"pid {pid}")
    watch(child, lifeline, signals, order[3])
    child.kill_orphans()
    send_line(lifeline, f"ended {child.code}")


def watch(child: SupervisedChild, lifeline: int, signals: int, grace: float) -> None:
    """Return once the child has ended: by itself, or because it was told to."""
    kill_at: float | None = None  # None until it is told to end
    asked = select.poll()
    asked.register(lifeline, select.POLLIN)
    asked.register(signals, select.POLLIN)
    listening = True
    while not child.reap():
        left = None if kill_at is None else max(kill_at - time.monotonic(), 0.0)
        ready = {found for found, _ in asked.poll(None if left is None else left * 1000 + 1)}
        stop = signals in ready and signal.SIGTERM in os.read(signals, 4096)
        seconds = grace
        if listening and lifeline in ready:
            stop = True
            said = read_lifeline(lifeline)
            if said:
                seconds = min(float(each) for each in said.split())
            else:
                listening = False
                asked.unregister(lifeline)
        if stop:
            child.signal(signal.SIGTERM)
            until = time.monotonic() + seconds
            kill_at = until if kill_at is None else min(kill_at, until)
        if kill_at is not None and time.monotonic() >= kill_at:
            child.signal(signal.SIGKILL)
            kill_at = time.monotonic() + REAP_SECONDS  # and again, for who was just being made


def start(order: Order, libc: ctypes.CDLL | None) -> tuple[int, str]:
    """The child's pid; and what went wrong, with the number of the error."""
    arguments, environ, folder, _ = order
    warden = os.getpid()
    told_by, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        about = "program"
        try:
            if libc is not None:
                libc.prctl(SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
                if os.getppid() != warden:
                    os._exit(127)  # it was killed before we asked
            os.setpgid(0, 0)
            about = "folder"
            if folder is not None:
                os.chdir(folder)
            about = "program"
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execvpe(arguments[0], arguments, environ)
        except (OSError, ValueError) as exc:
            reason = exc.errno if isinstance(exc, OSError) else errno.EINVAL
            os.write(telling, f"{about} {reason}".encode())
        finally:
            os._exit(127)
    os.close(telling)
    trouble = os.read(told_by, MAX_LINE_BYTES).decode()
    os.close(told_by)
    if trouble:
        os.waitpid(pid, 0)
    return pid, trouble


def leave(folder: int | bytes | None) -> None:
    """What the child has is its own: who reads its output sees its end, not ours."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    if isinstance(folder, int):
        os.close(folder)
    os.chdir("/")


def receive_order(lifeline: int) -> Order | None:
    """What to run, or None where the daemon is gone already."""
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
        pass  # there is nobody to tell


def orphans() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    main()
