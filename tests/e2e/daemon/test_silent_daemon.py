"""A daemon that is stopped (SIGSTOP): the kernel takes connections for it, and no one answers."""

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from agent_memory.launcher import command_client
from tests.command_runner import SECONDS, Answer, Home, ProgramServer, Running, patch_launcher

IMPATIENT = ("SILENT_SECONDS = 12.0", "SILENT_SECONDS = 1.0")
COMMANDS = (
    ("memory", "recall", "where is the lantern?"),
    ("memory", "status"),
    ("memory-daemon", "status"),
    ("memory", "serve"),
    ("kontekst", "ls"),
)


@pytest.fixture
def stopped() -> Iterator[Home]:
    with Home() as home:
        pid = home.serve()
        os.kill(pid, signal.SIGSTOP)
        try:
            yield home
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_each_command_ends_and_says_why(stopped: Home, tmp_path: Path) -> None:
    launcher = patch_launcher(tmp_path, *IMPATIENT)

    with ThreadPoolExecutor(len(COMMANDS)) as launchers:
        answers = list(launchers.map(lambda words: _ended(stopped, launcher, *words), COMMANDS))

    said = (
        f"error: the daemon (process {stopped.pid()}) has not answered for 1 s:"
        f" if it was stopped, resume it with `kill -CONT {stopped.pid()}`;"
        " `memory-daemon stop` ends it; your command may still take effect then\n"
    )
    assert answers == [Answer(command_client.STORAGE_ERROR, b"", said.encode())] * len(COMMANDS)


def test_it_can_be_told_to_end(stopped: Home) -> None:
    assert stopped.run("memory-daemon", "stop") == Answer(0, b"Daemon stopped\n", b"")


def test_a_command_that_says_nothing_for_long_is_waited_for(tmp_path: Path) -> None:
    """What is waited for is a sign of life, and not the answer."""
    launcher = patch_launcher(tmp_path, *IMPATIENT)
    with Home() as home, ProgramServer(home) as programs:
        answer = programs.run("ponder", "2.5", launcher=launcher)

    assert answer == Answer(0, b"done\n", b"")


def _ended(home: Home, launcher: Path, *words: str) -> Answer:
    """The answer of a command whose input stays open, as that of an MCP client does."""
    with Running(
        home.command(*words, launcher=launcher),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home.environ,
        cwd=home.work,
    ) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        code = command.wait(SECONDS)
        return Answer(code, command.stdout.read(), command.stderr.read())
