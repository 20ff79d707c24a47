"""Errors and kills at the n-th system call of a daemon: `strace` injects them into its threads.

strace counts the calls of every thread for itself, so a fault may hit several threads, each at its
own n-th call.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

STRACE = shutil.which("strace")
INSTALL = "strace is not installed: apt-get install strace, dnf install strace"
CALLS = (
    *("fsync", "fdatasync", "rename", "renameat", "renameat2", "write", "pwrite64"),
    *("openat", "ftruncate"),
)
_SECONDS = 10.0
_CALL = re.compile(r"^(?:\[pid +)?(\d+)\]? +(\w+)\(")


class Fault(NamedTuple):
    """What happens at a call: an error of the system, or KILL."""

    call: str
    number: int
    effect: str

    def __str__(self) -> str:
        return f"{self.effect} at {self.call} {self.number}"

    @property
    def option(self) -> str:
        kill = self.effect == "KILL"
        what = "signal=KILL" if kill else f"error={self.effect}"
        return f"--inject={self.call}:{what}:when={self.number}"


class Traced:
    """strace on a running process and its threads, from entry to exit. Without a fault it only
    counts."""

    def __init__(self, pid: int, fault: Fault | None, log: Path) -> None:
        self._pid = pid
        self._fault = fault
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        assert STRACE is not None, INSTALL
        calls = ",".join(CALLS) if self._fault is None else self._fault.call
        options = [] if self._fault is None else [self._fault.option]
        words = [STRACE, "-f", "-s", "0", "-e", f"trace={calls}", *options]
        self._process = subprocess.Popen(
            [*words, "-o", str(self._log), "-p", str(self._pid)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        assert "attached" in line, line
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)  # it lets go of the daemon, and ends
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_SECONDS)
        process.kill()  # what it still holds, it lets go
        process.communicate()

    def calls(self) -> Counter[tuple[str, str]]:
        """How often each thread has made each call."""
        return Counter(
            (match[2], match[1])
            for line in self._log.read_text(errors="replace").splitlines()
            if (match := _CALL.match(line))
        )

    def injected(self) -> int:
        """How often the fault has happened; of a kill, strace sees only that the process ended."""
        text = self._log.read_text(errors="replace")
        return text.count("(INJECTED)") + ("killed by SIGKILL" in text)


def most_calls(calls: Counter[tuple[str, str]]) -> dict[str, int]:
    """By call, how often the thread has made it that makes it most: any n up to that happens."""
    most: dict[str, int] = {}
    for (call, _), number in calls.items():
        most[call] = max(number, most.get(call, 0))
    return most
