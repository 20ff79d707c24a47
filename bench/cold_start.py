"""The first answer after a crash or a boot: `python -m bench.cold_start`, each in turn with a bare
interpreter.

A command and the start of a session, both after `kill -9`; the last known context, when no daemon
can start; and how long a daemon takes to load what hooks need, and the rest.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from agent_memory import launch
from bench import results
from bench.launch import BARE, FAST, isolated, run, verdict
from bench.processes import at_home
from bench.results import Table

HOOK = (sys.executable, "-I", "-S", launch.__file__, "memory", "hook", "auto", "--agent", "codex")
IMPORT = (sys.executable, "-I", "-c")
LOADS = {
    "load what hooks need": (*IMPORT, "import agent_memory.daemon.__main__"),
    "load everything": (
        *IMPORT,
        "import agent_memory.daemon.__main__, agent_memory.daemon.serving",
    ),
}
FIRST_ANSWER_SECONDS = 0.8
TICK = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = results.parse_options(parser, rounds=2)
    with isolated() as folder:
        bench = ColdStart(folder)
        measured: dict[str, Callable[[], float | None]] = {
            "bare": lambda: measure(BARE),
            "command after kill -9": bench.ask,
            "session start after kill -9": bench.begin_session,
            "session start, none can start": bench.begin_session_alone,
            **{name: partial(measure, words) for name, words in LOADS.items()},
        }
        times: dict[str, list[float]] = {name: [] for name in measured}
        others = 0
        bench.keep_context()
        for _ in range(options.rounds):
            for name, take in measured.items():
                seconds = take()
                if seconds is None:
                    others += 1
                else:
                    times[name].append(seconds)
        bench.kill()
    bare = statistics.median(times["bare"])
    rows: list[Sequence[str]] = []
    for name, values in times.items():
        median = statistics.median(values) if values else float("nan")
        goal = ""
        if name == "session start after kill -9":
            goal = verdict(f"<= {FIRST_ANSWER_SECONDS} s", median <= FIRST_ANSWER_SECONDS)
        rows.append(
            [
                name,
                f"{median * 1000:.0f}",
                f"{min(values, default=0) * 1000:.0f}",
                f"{median / bare:.1f}",
                goal,
            ]
        )
    rows.append(["sessions with the other of both contexts", str(others), "", "", ""])
    head = ["", "median ms", "least ms", "x bare", "goal"]
    title = f"bench.cold_start, {options.rounds} rounds"
    results.report(options, "cold_start", [Table(title, head, rows)])


class ColdStart:
    """A user without a running daemon, and a repository."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / ".local/share/agent-memory"
        self.project = folder / "project"
        run(["git", "init", "-q", str(self.project)])
        call = {"hook_event_name": "SessionStart", "session_id": "cold", "cwd": str(self.project)}
        self.call = json.dumps(call).encode()

    def keep_context(self) -> None:
        """Start a daemon by hand, and a session with it."""
        run([str(Path(sys.executable).with_name("memory-daemon")), "start"])
        kept = self.data / "last-contexts"
        while not kept.exists() or not any(kept.glob("*.json")):
            self._start_session()

    def ask(self) -> float:
        self.kill()
        return measure(FAST)

    def begin_session(self) -> float | None:
        """Return the seconds to the context, or None if it was the last known one."""
        self.kill()
        seconds, answer = self._start_session()
        return None if b"as_of" in answer else seconds

    def begin_session_alone(self) -> float | None:
        """Return the seconds to the last known context, or None if a daemon has answered."""
        self.kill()
        failed = self.data / "start-failed"
        failed.write_text("5 4\nerror: the last start has failed\n")
        seconds, answer = self._start_session()
        failed.unlink(missing_ok=True)
        return seconds if b"as_of" in answer else None

    def kill(self) -> None:
        """End the daemon once it is ready: a start that is cut off counts as failed."""
        pid = int((self.data / "daemon.lock").read_text() or 0)
        if not _is_alive(pid):
            return
        while not (self.data / "daemon.json").exists():
            time.sleep(TICK)
        os.kill(pid, signal.SIGKILL)
        while _is_alive(pid):
            time.sleep(TICK)

    def _start_session(self) -> tuple[float, bytes]:
        started = time.perf_counter()
        words = at_home(HOOK, os.environ["HOME"])
        answer = subprocess.run(words, input=self.call, capture_output=True, check=True).stdout
        return time.perf_counter() - started, answer


def measure(command: Sequence[str]) -> float:
    started = time.perf_counter()
    run(command)
    return time.perf_counter() - started


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    main()
