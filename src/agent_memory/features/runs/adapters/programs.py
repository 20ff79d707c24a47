"""Programs that agents have run: in their folder, with little of ours, and never longer than us."""

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
from agent_memory.features.runs.ports import Workspace
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed
from agent_memory.platform.processes.process import SupervisedProcess

GLANCE_SECONDS = 0.1
LAST_GLANCE_SECONDS = 0.01  # once it has closed its output: it ends with that, as a rule
LAST_BYTES = 1 << 20  # that are read of what a program has left in its pipe
_CHUNK = 1 << 16
# What programs need to run at all. No key, no agent of keys, nothing that leads to this daemon.
_PASSED = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"})
_SET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    # A folder may be made to look like a bare repository, whose configuration names programs.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}
# The daemon's umask would keep what they write from all others. No word is part of the script.
_WITH_UMASK = ("/bin/sh", "-c", 'umask 022; exec "$@"', "sh")


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environ.items()
        if name in _PASSED or (name.startswith("LC_") and name[3:].isalpha())
    }
    kept.setdefault("PATH", os.defpath)
    return kept | _SET


@dataclass(frozen=True, slots=True)
class SupervisedPrograms:
    environ: Mapping[str, str]

    def run(
        self,
        words: Sequence[str],
        folder: Workspace,
        /,
        *,
        seconds: float,
        most: int,
        halt: CancelToken,
    ) -> CommandResult:
        halt.check()
        variables = environment(self.environ)
        if "/" not in words[0] and shutil.which(words[0], path=variables["PATH"]) is None:
            raise ToolFailed(f"there is no program {words[0]} on the daemon's PATH")
        deadline = time.monotonic() + seconds
        with folder.hold_descriptor() as descriptor:
            try:
                process = SupervisedProcess.start(
                    (*_WITH_UMASK, *words),
                    cwd=descriptor,
                    env=variables,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
            except OSError as exc:
                raise ToolFailed(f"{words[0]} cannot be run: {exc.strerror}") from exc
            assert process.stdout is not None  # noqa: S101
            kept = HeadTailBuffer(most)
            with process.stdout as stream:
                try:
                    code = _follow(process, stream, kept, deadline, halt)
                finally:
                    if process.returncode is None:
                        process.stop(grace_seconds=0)
                _drain(stream, kept)
        return CommandResult(code=code, output=kept.text())


def _follow(
    process: SupervisedProcess,
    stream: IO[bytes],
    kept: HeadTailBuffer,
    deadline: float,
    halt: CancelToken,
) -> int | None:
    """How it ended, or None after the deadline. Raises Cancelled."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    poll = select.poll()  # which takes descriptors of any number
    poll.register(stream.fileno(), select.POLLIN)
    poll.register(woken, select.POLLIN)
    glance = GLANCE_SECONDS
    try:
        with halt.on_cancel(lambda: _wake(waking)):
            while (left := deadline - time.monotonic()) > 0:
                ready = [each for each, _ in poll.poll(1_000 * min(glance, left))]
                halt.check()
                if stream.fileno() in ready:
                    data = os.read(stream.fileno(), _CHUNK)
                    if data:
                        kept.add(data)
                        continue
                    poll.unregister(stream.fileno())
                    glance = LAST_GLANCE_SECONDS
                if (code := process.wait(0)) is not None:
                    return code
        return None
    finally:
        os.close(woken)
        os.close(waking)


def _drain(stream: IO[bytes], kept: HeadTailBuffer) -> None:
    """What it had written when it ended. Others may have the pipe still."""
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN)
    taken = 0
    while taken < LAST_BYTES and poll.poll(0):
        data = os.read(stream.fileno(), _CHUNK)
        if not data:
            break
        taken += len(data)
        kept.add(data)


def _wake(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, b"\0")
