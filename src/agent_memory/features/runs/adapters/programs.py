"""Programs that agents run: in their folder, with a small environment, ended with the daemon."""

import contextlib
import os
import select
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from agent_memory.features.runs.model.commands import CommandResult, HeadTailBuffer
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed
from agent_memory.platform.processes.process import SupervisedProcess

GLANCE_SECONDS = 0.1
LAST_GLANCE_SECONDS = 0.01  # after it closed its output: most programs end then
LAST_BYTES = 1 << 20  # read at most from the pipe of an ended program
_CHUNK = 1 << 16
# The variables that programs need. No keys, no SSH agent, nothing that leads to this daemon.
_PASSED = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"})
_SET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    # A hostile folder can look like a bare repository, whose configuration names programs.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}
# The daemon's umask would hide new files from other users. The shell does not parse the words.
_WITH_UMASK = ("/bin/sh", "-c", 'umask 022; exec "$@"', "sh")


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    variables = {
        name: value
        for name, value in environ.items()
        if name in _PASSED or (name.startswith("LC_") and name[3:].isalpha())
    }
    variables.setdefault("PATH", os.defpath)
    return variables | _SET


@dataclass(frozen=True, slots=True)
class SupervisedPrograms:
    environ: Mapping[str, str]

    def run(
        self,
        words: Sequence[str],
        folder: int,
        /,
        *,
        seconds: float,
        most: int,
        cancel: CancelToken,
    ) -> CommandResult:
        cancel.check()
        variables = build_environment(self.environ)
        if "/" not in words[0] and shutil.which(words[0], path=variables["PATH"]) is None:
            raise ToolFailed(f"there is no program {words[0]} on the PATH of the daemon")
        deadline = time.monotonic() + seconds
        try:
            process = SupervisedProcess.start(
                (*_WITH_UMASK, *words),
                cwd=folder,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as exc:
            raise ToolFailed(f"{words[0]} cannot be run: {exc.strerror}") from exc
        assert process.stdout is not None  # noqa: S101
        output = HeadTailBuffer(most)
        with process.stdout as stream:
            try:
                code = _follow(process, stream, output, deadline, cancel)
            finally:
                if process.returncode is None:
                    process.stop(grace_seconds=0)
            _drain(stream, output)
        return CommandResult(code=code, output=output.text())


def _follow(
    process: SupervisedProcess,
    stream: IO[bytes],
    output: HeadTailBuffer,
    deadline: float,
    cancel: CancelToken,
) -> int | None:
    """Read the output until the end, and return the exit code, or None after the deadline. Raises
    Cancelled."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    poll = select.poll()  # select.select is limited to descriptors below 1024
    poll.register(stream.fileno(), select.POLLIN)
    poll.register(woken, select.POLLIN)
    glance = GLANCE_SECONDS
    try:
        with cancel.on_cancel(lambda: _wake(waking)):
            while (left := deadline - time.monotonic()) > 0:
                ready = [descriptor for descriptor, _ in poll.poll(1_000 * min(glance, left))]
                cancel.check()
                if stream.fileno() in ready:
                    data = os.read(stream.fileno(), _CHUNK)
                    if data:
                        output.add(data)
                        continue
                    poll.unregister(stream.fileno())
                    glance = LAST_GLANCE_SECONDS
                if (code := process.wait(0)) is not None:
                    return code
        return None
    finally:
        os.close(woken)
        os.close(waking)


def _drain(stream: IO[bytes], output: HeadTailBuffer) -> None:
    """Read the rest of the pipe without waiting: child processes may still hold it open."""
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN)
    taken = 0
    while taken < LAST_BYTES and poll.poll(0):
        data = os.read(stream.fileno(), _CHUNK)
        if not data:
            break
        taken += len(data)
        output.add(data)


def _wake(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, b"\0")
