"""The processes a benchmark talks to: started in a folder of their own, measured, stopped."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from agent_memory import launch
from agent_memory.client import MemoryClient
from agent_memory.launcher.command_client import PROGRAMS

CALL_SECONDS = 7200.0  # jobs are calls too
READY_SECONDS = 30.0
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class Cpu(NamedTuple):
    """Seconds of CPU since a process began; `background` is what RocksDB's own threads took."""

    total: float
    background: float

    def __sub__(self, earlier: "Cpu") -> "Cpu":
        return Cpu(self.total - earlier.total, self.background - earlier.background)


class Process:
    """One child in the repository's Python. Leaving the block ends it and waits."""

    def __init__(
        self, module: str, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, **(environ or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if environ is None else subprocess.DEVNULL,
            text=True,
        )
        self.pid = self._child.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """One line of JSON in, one out."""
        if self._child.stdin is None or self._child.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"process {self.pid} ended with {self._child.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def wait_for(self, read: Callable[[], int | None]) -> int:
        """Return what `read` gives once it gives something."""
        deadline = time.monotonic() + READY_SECONDS
        while (found := read()) is None:
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"process {self.pid} did not get ready")
            time.sleep(0.02)
        return found

    def cpu(self) -> Cpu:
        background = 0.0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
                if (task / "comm").read_text().startswith("rocksdb"):
                    background += cpu_seconds(task / "stat")
        return Cpu(cpu_seconds(Path(f"/proc/{self.pid}/stat")), background)

    def resident(self) -> float:
        """Megabytes."""
        return resident_megabytes(self.pid)

    def children(self) -> list[int]:
        """Return the processes that this one has started, and those that they have."""
        found: list[int] = []
        parents = [self.pid]
        while parents:
            tasks = Path(f"/proc/{parents.pop()}/task")
            with contextlib.suppress(OSError):  # it has ended meanwhile
                for task in tasks.iterdir():
                    started = [int(pid) for pid in (task / "children").read_text().split()]
                    found += started
                    parents += started
        return found

    def pin(self, cores: Collection[int]) -> None:
        """Let it run on these only. Threads to come inherit it from those there are."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)

    def is_running(self) -> bool:
        return self._child.poll() is None

    def freeze(self) -> None:
        """Stop it and its children until `thaw`: others are measured without their work."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def stop(self) -> None:
        if self.is_running():
            self.thaw()
            self._child.send_signal(signal.SIGTERM)
            self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()

    def _signal_all(self, number: signal.Signals) -> None:
        # A parent before its children: it starts no others meanwhile.
        pids = [self.pid]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            pids += list_children(pid)


class Daemon(Process):
    """The real server, with all that it writes under `folder`. Commands reach it in `environ`."""

    def __init__(self, folder: Path, settings: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        self.db = folder / ".local/share/agent-memory/db"
        self.index = folder / ".local/share/agent-memory/index"
        announced = folder / ".local/share/agent-memory/daemon.json"
        self.environ = {"HOME": str(folder)}
        # Without the scheduler, nothing runs but what is measured.
        write_settings(folder, {"scheduler.enabled": False, **(settings or {})})
        super().__init__("agent_memory.daemon", "--home", str(folder), environ=self.environ)
        self.port = self.wait_for(
            lambda: json.loads(announced.read_text())["grpc_port"] if announced.exists() else None
        )
        found = json.loads(announced.read_text())
        self.socket, self.http_port = found["grpc_socket"], int(found["http_port"])
        self.key = announced.with_name("key").read_text().strip()

    def connect(self) -> MemoryClient:
        endpoint = f"http://127.0.0.1:{self.port}"
        return MemoryClient.connect(endpoint, timeout_seconds=CALL_SECONDS)

    def output(self, *command: str, cwd: Path | None = None) -> str:
        """Return what a command of ours writes: `memory` or `memory-daemon`, with arguments."""
        return subprocess.run(
            at_home((sys.executable, "-I", "-S", launch.__file__, *command), self.folder),
            cwd=cwd,
            env={**os.environ, **self.environ},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def index_stats(self) -> dict[str, Any]:
        command = ("memory-daemon", "admin", "index-stats", "--format", "json")
        stats: dict[str, Any] = json.loads(self.output(*command))
        return stats


def at_home(command: Sequence[str], home: Path | str) -> list[str]:
    """Return a command for another home, if it runs a program of ours."""
    names = [Path(word).name for word in command]
    place = next((n for n, name in enumerate(names, 1) if name in PROGRAMS), None)
    if place is None:
        return list(command)
    return [*command[:place], "--home", str(home), *command[place:]]


def write_settings(home: Path, settings: Mapping[str, object]) -> None:
    """Write settings into the config.toml of a home, before what it has, and free ports."""
    file = home / ".config/agent-memory/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_text().splitlines() if file.exists() else []
    chosen = {"grpc.port": 0, "http.port": 0, **settings}
    kept = [line for line in lines if line.partition(" = ")[0] not in chosen]
    own = [f"{name} = {json.dumps(value)}" for name, value in chosen.items()]
    file.write_text("\n".join([*own, *kept, ""]))


def resident_megabytes(pid: int, kind: str = "VmRSS") -> float:
    """Return the memory of a process: all that is resident, or `RssFile`, the mapped files of
    it."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = next(line for line in status.splitlines() if line.startswith(kind))
    return int(found.split()[1]) / 1024


def serve_lines(answer: Callable[[dict[str, Any]], Mapping[str, object]]) -> None:
    """Answer `Process.ask` until stdin ends."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def list_children(pid: int) -> list[int]:
    """Read the parent of every process: few kernels list the children of one."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                children.append(int(stat.parent.name))
    return children


def cpu_seconds(stat: Path) -> float:
    """Return the seconds of CPU of a process or thread, from its `stat`."""
    # After the name, which may hold spaces and brackets: utime and stime are fields 14 and 15.
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK
