"""Hooks in a storm: each event arrives once, whatever happens to the daemon; nothing is left."""

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.command_runner import LAUNCHER, Answer, Home, Running, patch_launcher, wait_until
from tests.hook_inputs import encode_claude
from tests.memory_client import Client

AT_ONCE = 6
SESSIONS = 7
WITHOUT_DAEMON = 30
HANGING = 4
SECONDS = 120.0


class TestStorm:
    # A short one may be over before the next daemon is there to be killed too.
    @pytest.mark.parametrize(
        ("calls", "kills"), [(36, 1), pytest.param(1_000, 2, marks=pytest.mark.soak)]
    )
    def test_loses_and_doubles_nothing_where_the_daemon_is_killed_in_it(
        self, home: Home, calls: int, kills: int
    ) -> None:
        home.serve()
        storm = Storm(home, kill_at=[calls * number // 3 for number in range(1, kills + 1)])

        storm.rage(calls, at_once=AT_ONCE)

        storm.check_calm()
        assert storm.kills == kills

    @pytest.mark.soak  # of ten the tests of hooks tell the same
    def test_without_a_daemon_starts_one(self, home: Home) -> None:
        storm = Storm(home)

        storm.rage(WITHOUT_DAEMON, at_once=WITHOUT_DAEMON)

        storm.check_calm()
        assert home.ready_count() == 1

    def test_is_answered_where_the_daemon_hangs_and_recorded_when_it_goes_on(
        self, home: Home
    ) -> None:
        pid = home.serve()
        storm = Storm(home)
        os.kill(pid, signal.SIGSTOP)
        try:
            storm.rage(HANGING, at_once=HANGING)

            assert storm.by_daemon == 0
            wait_until(lambda: len(storm.spooled()) == HANGING, "each has been left in the spool")
        finally:
            os.kill(pid, signal.SIGCONT)

        storm.check_calm()
        assert home.pid() == pid


class TestLateness:
    """A launcher that gets no time at all, as on an overloaded machine."""

    def test_keeps_no_hook_from_being_recorded(self, home: Home, tmp_path: Path) -> None:
        storm = Storm(home, launcher=hurried(tmp_path, "HOOK_SECONDS = (1.0, 3.0)"))

        storm.rage(HANGING, at_once=HANGING)

        assert storm.by_daemon == 0
        storm.check_calm()

    def test_is_no_reason_to_leave_out_what_has_been_written(
        self, home: Home, tmp_path: Path
    ) -> None:
        home.serve()
        storm = Storm(home, launcher=hurried(tmp_path, "HOOK_READ_SECONDS = 2.0"), by_file=True)

        storm.rage(HANGING, at_once=HANGING)

        storm.check_calm()

    def test_of_one_who_never_closes_the_input_is_waited_for_only_so_long(
        self, home: Home, tmp_path: Path
    ) -> None:
        home.serve()
        launcher = patch_launcher(tmp_path, "HOOK_READ_SECONDS = 2.0", "HOOK_READ_SECONDS = 0.2")
        storm = Storm(home, launcher=launcher, closing=False)

        storm.rage(HANGING, at_once=HANGING)

        storm.check_calm()

    def test_of_the_input_is_answered_in_time_and_all_of_it_recorded(
        self, home: Home, tmp_path: Path
    ) -> None:
        home.serve()
        launcher = patch_launcher(tmp_path, "HOOK_READ_SECONDS = 2.0", "HOOK_READ_SECONDS = 0.2")
        storm = Storm(home, launcher=launcher, late=True)

        storm.rage(HANGING, at_once=HANGING)

        assert storm.by_daemon == 0
        storm.check_calm()

    def test_of_the_daemon_loses_no_hook_that_its_agent_ends(
        self, home: Home, tmp_path: Path
    ) -> None:
        launcher = patch_launcher(tmp_path, "HOOK_SECONDS = (1.0, 3.0)", "HOOK_SECONDS = (60, 60)")
        storm = Storm(home, launcher=launcher, ended=True)
        pid = home.serve()
        os.kill(pid, signal.SIGSTOP)
        try:
            storm.rage(HANGING, at_once=HANGING)
        finally:
            os.kill(pid, signal.SIGCONT)

        storm.check_calm()


def hurried(folder: Path, line: str) -> Path:
    """A launcher whose deadline passes before it starts."""
    name, value = line.split(" = ")
    short = "(0.000001, 0.000001)" if value.startswith("(") else "0.000001"
    return patch_launcher(folder, line, f"{name} = {short}")


class Storm:
    """Prompts of launchers. A daemon is killed at its first answer after `kill_at` calls."""

    def __init__(
        self,
        home: Home,
        kill_at: Sequence[int] = (),
        *,
        launcher: Path = LAUNCHER,
        by_file: bool = False,
        closing: bool = True,
        late: bool = False,
        ended: bool = False,
    ) -> None:
        """`late`: input comes, in part or at all, once the hook has answered. `ended`: the agent
        ends each hook that waits for the daemon."""
        self._launcher = launcher
        self._by_file = by_file
        self._closing = closing
        self._late = late
        self._ended = ended
        self.by_daemon = 0
        self.kills = 0
        self._home = home
        self._kill_at = list(kill_at)
        self._prompts: list[str] = []
        self._answered = 0
        self._lock = threading.Lock()

    def rage(self, calls: int, *, at_once: int) -> None:
        # A daemon suggests to capture it; without one, the answer is empty.
        self._prompts = [f"[decision] berth {n} is for ship {n:x}" for n in range(calls)]
        with ThreadPoolExecutor(at_once) as launchers:
            list(launchers.map(self._call, range(calls)))

    def check_calm(self) -> None:
        """Check that all events are there once, one daemon runs, and no other process is left."""
        wait_until(self._is_calm, "the spool is empty, and no one but a daemon is left", SECONDS)
        with Client(f"unix:{self._record()['grpc_socket']}") as client:
            said = Counter(event.text for event in client.all_events(limit=333))
        assert said == Counter(self._prompts)
        assert self._is_calm()

    def _is_calm(self) -> bool:
        pid = self._home.pid()
        others = [each for each in self._home.processes() if each != pid and _parent(each) != pid]
        return pid is not None and not others and not self.spooled()

    def spooled(self) -> list[str]:
        folder = self._home.data / "spool"
        return [each.name for each in folder.iterdir()] if folder.exists() else []

    def _call(self, number: int) -> None:
        given = encode_claude(
            "UserPromptSubmit",
            session=f"storm-{number % SESSIONS}",
            folder=self._home.work,
            prompt=self._prompts[number],
        )
        answered = _check(self._tell(number, given))
        with self._lock:
            self._answered += 1
            self.by_daemon += answered
            if answered and self._kill_at and self._answered >= self._kill_at[0]:
                del self._kill_at[0]
                self._kill()

    def _tell(self, number: int, given: bytes) -> Answer:
        words = ["hook", "user-prompt"]
        if self._by_file:
            path = self._home.work / f"{number}.json"
            path.write_bytes(given)
            words += ["--input", str(path)]
        if self._closing and not self._late and not self._ended:
            return self._home.run("memory", *words, given=given, launcher=self._launcher)
        with Running(
            self._home.command("memory", *words, launcher=self._launcher),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._home.environ,
            cwd=self._home.work,
        ) as hook:
            assert hook.stdin
            assert hook.stdout
            assert hook.stderr
            early = (number % 2) * len(given) // 2 if self._late else len(given)
            hook.stdin.write(given[:early])
            hook.stdin.flush()
            if self._ended:
                hook.stdin.close()
                wait_until(lambda: _catches(hook.pid, signal.SIGTERM), "it has read its input")
                hook.terminate()
            out, err = hook.stdout.read(), hook.stderr.read()  # until it ends
            answer = Answer(hook.wait(SECONDS), out, err)
            if self._late:
                hook.stdin.write(given[early:])
                hook.stdin.close()
            return answer

    def _kill(self) -> None:
        """Only a daemon that serves: one that is killed as it starts is not tried again at once."""
        with suppress(ProcessLookupError):
            os.kill(self._record()["pid"], signal.SIGKILL)
            self.kills += 1

    def _record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._home.data / "daemon.json").read_text())
        return found


def _check(answer: Answer) -> bool:
    """Return whether a daemon has answered."""
    assert answer.code == 0, answer
    assert answer.err == b"", answer
    found = answer.json()
    assert found == {} or list(found) == ["hookSpecificOutput"], answer
    return bool(found)


def _catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process handles this signal by itself."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as created:
        yield created
