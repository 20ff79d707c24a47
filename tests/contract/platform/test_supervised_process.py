"""Children that never outlive who started them, over real processes that are really killed."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from agent_memory.platform.processes.process import SupervisedProcess
from tests.processes import LONG, is_running, wait_for_end, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

PYTHON = sys.executable
SOON = 0.2

# Says its pid and that of a process that it starts, then sleeps; each may turn a deaf ear.
FAMILY = """
import os, signal, sys, time
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    if "apart" in sys.argv: os.setsid()
    time.sleep(1000)
print(os.getpid(), pid, flush=True)
if "leave" in sys.argv: sys.exit(7)
time.sleep(1000)
"""

PARENT = f"""
import subprocess, sys
from agent_memory.platform.processes.process import SupervisedProcess
child = SupervisedProcess.start(
    [sys.executable, "-c", {FAMILY!r}, *sys.argv[1:]], env={{}}, stdout=subprocess.PIPE,
    grace_seconds={SOON},
)
print(child.stdout.readline().decode(), end="", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def started() -> Iterator[list[SupervisedProcess]]:
    """Those of a test, ended with it."""
    stored: list[SupervisedProcess] = []
    yield stored
    for each in stored:
        each.stop(0)
        for stream in (each.stdin, each.stdout, each.stderr):
            if stream is not None:
                stream.close()


def run(
    started: list[SupervisedProcess],
    code: str,
    *arguments: str,
    cwd: int | Path | None = None,
    env: dict[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> SupervisedProcess:
    started.append(
        SupervisedProcess.start(
            [PYTHON, "-I", "-c", code, *arguments],
            cwd=cwd,
            env=env or {},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    )
    return started[-1]


def family(process: SupervisedProcess) -> tuple[int, int]:
    first, second = output(process).readline().split()
    assert int(first) == process.pid
    return int(first), int(second)


def output(process: SupervisedProcess) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class TestRunning:
    def test_its_streams_are_those_given_and_end_with_it(
        self, started: list[SupervisedProcess]
    ) -> None:
        code = "import sys; print(sys.stdin.read().upper()); sys.stderr.write('trouble')"
        process = run(started, code, stdin=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"quiet")
        process.stdin.close()
        assert output(process).read() == b"QUIET\n"
        assert process.stderr.read() == b"trouble"
        assert process.wait(LONG) == process.returncode == 0

    @pytest.mark.parametrize(
        ("code", "told"),
        [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)],
        ids=["exit", "signal"],
    )
    def test_how_it_ends_is_told(
        self, started: list[SupervisedProcess], code: str, told: int
    ) -> None:
        process = run(started, code)
        assert process.wait(LONG) == told
        assert process.stop() == told

    def test_waiting_ends_after_the_time_given(self, started: list[SupervisedProcess]) -> None:
        process = run(started, FAMILY)
        assert process.wait(0) is None
        assert process.returncode is None

    def test_it_has_the_environment_and_arguments_given_and_no_others(
        self, started: list[SupervisedProcess]
    ) -> None:
        code = "import os, sys; print(sys.argv[1:], sorted(os.environ.items()))"
        odd = os.fsdecode(b"\xff $HOME")
        process = run(started, code, odd, "", env={"B": "é", "LC_ALL": "C.UTF-8"})
        assert output(process).read().decode() == (
            f"{[odd, '']!r} {[('B', 'é'), ('LC_ALL', 'C.UTF-8')]!r}\n"
        )

    def test_it_has_no_descriptors_but_its_own(self, started: list[SupervisedProcess]) -> None:
        run(started, FAMILY)
        process = run(started, "import os; print(sorted(os.listdir('/proc/self/fd')))")
        assert output(process).read() == b"['0', '1', '2', '3']\n"  # the last is of the listing

    def test_signals_do_to_it_what_they_do_to_any_program(
        self, started: list[SupervisedProcess]
    ) -> None:
        code = (
            "import signal as s; print([int(s.getsignal(n)) for n in (s.SIGTERM, s.SIGHUP)],"
            " s.pthread_sigmask(s.SIG_BLOCK, ()))"
        )
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        try:
            process = run(started, code)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        assert output(process).read() == b"[0, 0] set()\n"

    def test_a_folder_may_be_a_descriptor_that_keeps_it_when_its_name_is_given_away(
        self, started: list[SupervisedProcess], tmp_path: Path
    ) -> None:
        meant = tmp_path / "meant"
        meant.mkdir()
        (meant / "here").touch()
        descriptor = os.open(meant, os.O_RDONLY | os.O_DIRECTORY)
        meant.rename(tmp_path / "moved")
        meant.mkdir()
        code = "import os; print(os.listdir('.'), sorted(os.listdir('/proc/self/fd')))"
        process = run(started, code, cwd=descriptor)
        os.close(descriptor)
        assert output(process).read() == b"['here'] ['0', '1', '2', '3']\n"
        by_path = run(started, code, cwd=tmp_path / "moved")
        assert output(by_path).read().startswith(b"['here']")

    def test_the_program_may_be_looked_for_on_its_path(self, tmp_path: Path) -> None:
        program = tmp_path / "say"
        program.write_text("#!/bin/sh\nexit 3\n")
        program.chmod(0o700)
        process = SupervisedProcess.start(["say"], env={"PATH": str(tmp_path)})
        assert process.wait(LONG) == 3


class TestNotRunning:
    def test_a_program_that_is_not_there_is_named(self) -> None:
        with pytest.raises(FileNotFoundError) as error:
            SupervisedProcess.start(["/no/such/program"], env={})
        assert error.value.filename == "/no/such/program"

    def test_so_is_one_that_may_not_be_run(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("text")
        with pytest.raises(PermissionError, match="text"):
            SupervisedProcess.start([str(tmp_path / "text")], env={}, stdout=subprocess.PIPE)

    def test_so_is_a_folder_that_is_not_there(self) -> None:
        with pytest.raises(FileNotFoundError, match="/no/such/folder"):
            SupervisedProcess.start(["/bin/true"], env={}, cwd="/no/such/folder")

    def test_an_argument_that_no_program_can_be_given_is_an_error_too(self) -> None:
        with pytest.raises(OSError, match="Invalid argument"):
            SupervisedProcess.start(["/bin/true", "a\0b"], env={})


class TestStopping:
    @pytest.mark.parametrize("manner", ["obedient", "deaf"])
    def test_it_ends_with_all_that_it_started(
        self, started: list[SupervisedProcess], manner: str
    ) -> None:
        process = run(started, FAMILY, manner)
        pids = family(process)
        code = process.stop(SOON if manner == "deaf" else LONG)
        assert code == (-signal.SIGKILL if manner == "deaf" else -signal.SIGTERM)
        assert not any(is_running(pid) for pid in pids)
        assert output(process).read() == b""

    def test_what_left_its_group_ends_too(self, started: list[SupervisedProcess]) -> None:
        process = run(started, FAMILY, "apart")
        _, apart = family(process)
        wait_until(lambda: os.getpgid(apart) == apart)
        process.stop(LONG)
        assert not is_running(apart)

    @pytest.mark.parametrize("where", ["", "apart"])
    def test_what_it_leaves_behind_at_its_own_end_ends(
        self, started: list[SupervisedProcess], where: str
    ) -> None:
        process = run(started, FAMILY, "leave", where)
        _, left = family(process)
        assert process.wait(LONG) == 7
        assert not is_running(left)

    def test_many_may_stop_it_at_once_and_again(self, started: list[SupervisedProcess]) -> None:
        process = run(started, FAMILY)
        family(process)
        with ThreadPoolExecutor(8) as threads:
            codes = list(threads.map(lambda _: process.stop(LONG), range(16)))
        assert set(codes) == {-signal.SIGTERM}
        assert process.stop() == -signal.SIGTERM

    def test_a_shorter_grace_counts_when_it_comes_later(
        self, started: list[SupervisedProcess]
    ) -> None:
        process = run(started, FAMILY, "deaf")
        family(process)
        patient = threading.Thread(target=process.stop, args=(LONG,))
        patient.start()
        assert process.stop(0) == -signal.SIGKILL
        patient.join(LONG)


class TestOrphans:
    @pytest.mark.parametrize("manner", ["obedient", "deaf"])
    def test_none_is_left_when_the_parent_is_killed(self, manner: str) -> None:
        with subprocess.Popen(
            [PYTHON, "-c", PARENT, manner], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as parent:
            try:
                assert parent.stdout is not None
                pids = [int(pid) for pid in parent.stdout.readline().split()]
                supervisor = parent_of(pids[0])
                assert all(is_running(pid) for pid in (*pids, supervisor))
            finally:
                parent.kill()
        for pid in (*pids, supervisor):
            wait_for_end(pid)

    def test_none_is_left_when_the_supervisor_is_killed(
        self, started: list[SupervisedProcess]
    ) -> None:
        process = run(started, FAMILY, "deaf")
        pids = family(process)
        os.kill(parent_of(process.pid), signal.SIGKILL)
        assert process.wait(LONG) == -signal.SIGKILL
        for pid in pids:
            wait_for_end(pid)
        assert process.stop() == -signal.SIGKILL

    def test_the_child_is_not_left_when_both_are_killed(self) -> None:
        with subprocess.Popen(
            [PYTHON, "-c", PARENT, "deaf"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as parent:
            assert parent.stdout is not None
            child, grandchild = (int(pid) for pid in parent.stdout.readline().split())
            supervisor = parent_of(child)
            parent.send_signal(signal.SIGSTOP)
            os.kill(supervisor, signal.SIGKILL)
            parent.kill()
        wait_for_end(child)
        os.kill(grandchild, signal.SIGKILL)  # nobody is left who would

    def test_children_do_not_keep_each_other_alive(self, started: list[SupervisedProcess]) -> None:
        """A lifeline that another child had too would not end with its daemon."""
        first = run(started, FAMILY)
        heir = subprocess.Popen(
            [PYTHON, "-c", "print(flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            close_fds=False,
        )
        second = run(started, FAMILY)
        with heir:
            assert heir.stdout is not None
            heir.stdout.readline()
            held = [sockets_of(pid) for pid in (parent_of(first.pid), parent_of(second.pid))]
            assert all(len(each) == 1 for each in held)
            assert not held[0] & held[1]
            assert not sockets_of(heir.pid)


def sockets_of(pid: int) -> set[str]:
    folder = Path(f"/proc/{pid}/fd")
    return {
        name
        for name in (str(each.readlink()) for each in folder.iterdir())
        if name.startswith("socket:")
    }
