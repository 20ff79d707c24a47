"""A chat with a program: the question on its standard input, the answer on its standard output.

The errors are those of `chat`. Their messages have the name of the program and its exit code, never
its output, which may repeat the question.
"""

import errno
import math
import os
import re
import selectors
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from agent_memory.kernel.errors import ConfigError, FeatureUnavailable
from agent_memory.platform.llm import programs
from agent_memory.platform.llm.chat import (
    MAX_ANSWER_BYTES,
    ChatAnswer,
    ChatQuestion,
    ChatRefused,
    ChatUnavailable,
    ChatUnusable,
)
from agent_memory.platform.processes.process import SupervisedProcess
from agent_memory.platform.removing import remove_tree

STOP_SECONDS = 1.0  # between SIGTERM and SIGKILL
FIRST_REST = 60.0  # seconds without a question after a failure; each later rest is twice as long
LONGEST_REST = 3600.0
_GLANCE_SECONDS = 0.05
_CHUNK = 1 << 16
_KEPT_ERRORS = 1000  # bytes; some agents write the question there too
_NOTHING_CAN_RUN = 0  # in place of a status: it is none that another question would change

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_]|[ -/]+[0-~])"
)
_KNOWN_CAUSES = (  # what agents write when they fail, in our words
    (
        re.compile(rb"log ?in|authenticat|api.key|unauthorized", re.IGNORECASE),
        "it asks for a login",
    ),
    (re.compile(rb"limit|quota|overloaded|credit", re.IGNORECASE), "a limit is reached"),
    (re.compile(rb"connect|network|resolv", re.IGNORECASE), "it has no connection"),
)


class ProgramMissing(ChatRefused):
    """The program cannot be run."""

    def __init__(self, message: str) -> None:
        super().__init__(_NOTHING_CAN_RUN)
        self.args = (message,)


class ProgramFailed(ChatUnavailable):
    """The program gave no answer."""

    def __init__(self, reason: str, *, sent: bool, retry_after: float | None = None) -> None:
        super().__init__(reason, sent=sent, retry_after=retry_after)
        self.args = (reason,)


class CommandChat:
    """A client that runs a program for each question, one at a time.

    The program runs in a folder of its own, which is emptied before, and ends with the daemon. With
    `rests`, it has low priority, and a failure is followed by a time in which every question fails
    at once: jobs that retry with each event must not start it again and again.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        passed: str = "",
        rests: bool = False,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = tuple(command)
        self._folder = folder
        self._environ = environ
        self._passed = passed
        self._rests = rests
        self._timer = timer
        self._failures = 0
        self._resting_until = 0.0
        self._asking = threading.Lock()
        self._closed = threading.Event()
        self._process: SupervisedProcess | None = None

    @property
    def model(self) -> str:
        return Path(self._command[0]).name if self._command else ""

    def ask(self, question: ChatQuestion, /, *, seconds: float) -> ChatAnswer:
        deadline = self._timer() + seconds
        if not self._asking.acquire(timeout=seconds):
            raise ProgramFailed(f"{self.model} is still busy", sent=False)
        try:
            self._check_rest()
            try:
                text = self._run(_render(question), deadline)
            except ChatUnavailable as exc:
                self._rest(exc)
                raise
            self._failures = 0
        finally:
            self._asking.release()
        return ChatAnswer(text=text, whole=True, prompt_tokens=None, completion_tokens=None)

    def close(self) -> None:
        """End the program that runs, with its children, and run none again."""
        self._closed.set()
        process = self._process
        if process is not None:
            process.stop(STOP_SECONDS)

    def _check_rest(self) -> None:
        left = self._resting_until - self._timer()
        if left > 0:
            reason = f"{self.model} failed before: the next try is in {left:.0f} s"
            raise ProgramFailed(reason, sent=False, retry_after=left)

    def _rest(self, failure: ChatUnavailable) -> None:
        if not self._rests:
            return
        seconds = min(FIRST_REST * 2.0**self._failures, LONGEST_REST)
        self._failures += 1
        self._resting_until = self._timer() + seconds
        if failure.retry_after is None:
            failure.retry_after = seconds

    def _run(self, prompt: bytes, deadline: float) -> str:
        with ExitStack() as ending:
            process = self._start()
            self._process = process
            ending.callback(self._forget_process)
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream is not None  # noqa: S101
                ending.callback(stream.close)
            ending.callback(_stop_if_running, process)
            exchange = _Exchange(process, prompt)
            ending.callback(exchange.close)
            while (code := exchange.step()) is None:
                if self._closed.is_set():
                    break
                if self._timer() >= deadline:
                    raise ProgramFailed(f"{self.model} took too long", sent=True)
        if code is None or self._closed.is_set():
            raise ProgramFailed("closed", sent=True, retry_after=math.inf)
        if code:
            raise ProgramFailed(_describe_failure(self.model, code, exchange), sent=True)
        text = _ESCAPES.sub("", exchange.answer.decode(errors="replace")).strip()
        if not text:
            raise ChatUnusable("the answer has no content")
        return text

    def _start(self) -> SupervisedProcess:
        if self._closed.is_set():
            raise ProgramFailed("closed", sent=False, retry_after=math.inf)
        try:
            program = programs.find_program(self._command, self._environ)
        except (ConfigError, FeatureUnavailable) as exc:
            raise ProgramMissing(str(exc)) from exc
        try:
            _prepare_folder(self._folder)
            return SupervisedProcess.start(
                (str(program), *self._command[1:]),
                cwd=self._folder,
                env=programs.build_environment(self._environ, self._passed, program),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                grace_seconds=STOP_SECONDS,
                is_background=self._rests,
            )
        except PermissionError as exc:
            raise ProgramMissing(f"{self.model} cannot be run: {exc.strerror}") from exc
        except OSError as exc:
            reason = f"{self.model} cannot be run: {exc.strerror}"
            raise ProgramFailed(reason, sent=False) from exc

    def _forget_process(self) -> None:
        self._process = None


class _Exchange:
    """The streams of a running program. Writing must not wait for a program that writes itself."""

    def __init__(self, process: SupervisedProcess, prompt: bytes) -> None:
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        self.answer = bytearray()
        self.errors = bytearray()  # the last ones
        self._process = process
        self._left = memoryview(prompt)
        self._stdin = process.stdin
        os.set_blocking(self._stdin.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdin, selectors.EVENT_WRITE, self._write)
        self._selector.register(process.stdout, selectors.EVENT_READ, self._read_answer)
        self._selector.register(process.stderr, selectors.EVENT_READ, self._read_errors)

    def step(self) -> int | None:
        """Pass on what waits, or wait a moment. Return the exit code once all is read."""
        code = self._process.wait(0)
        if not self._selector.get_map():
            return self._process.wait(_GLANCE_SECONDS)
        ready = self._selector.select(_GLANCE_SECONDS if code is None else 0)
        for key, _ in ready:
            if not key.data(key.fd):
                self._selector.unregister(key.fileobj)
                if key.fileobj is self._stdin:
                    self._stdin.close()
        # Its children may hold the streams open: what they write after its end is no answer.
        return code if not ready or self._has_only_stdin() else None

    def close(self) -> None:
        self._selector.close()

    def _has_only_stdin(self) -> bool:
        return all(key.fileobj is self._stdin for key in self._selector.get_map().values())

    def _write(self, descriptor: int) -> bool:
        """Write what fits. Return whether more is left."""
        try:
            self._left = self._left[os.write(descriptor, self._left[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except OSError:
            return False  # it reads no further
        return bool(self._left)

    def _read_answer(self, descriptor: int) -> bool:
        data = os.read(descriptor, _CHUNK)
        self.answer += data
        if len(self.answer) > MAX_ANSWER_BYTES:
            raise ChatUnusable("the answer is too long")
        return bool(data)

    def _read_errors(self, descriptor: int) -> bool:
        data = os.read(descriptor, _CHUNK)
        self.errors += data
        del self.errors[:-_KEPT_ERRORS]
        return bool(data)


def _render(question: ChatQuestion) -> bytes:
    """Render the prompt. Our instruction comes last: the text before it is not ours."""
    schema = msgspec.json.encode(question.schema).decode()
    return (
        f"{question.system}\n\n{question.text}\n\n"
        "Use no tools. Answer with one JSON object that is valid by this JSON schema, and with"
        f" nothing else:\n{schema}\n"
    ).encode(errors="replace")


def _describe_failure(name: str, code: int, exchange: _Exchange) -> str:
    """Describe a failure in our own words: the output may repeat the question."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    written = bytes(exchange.errors) + b"\n" + bytes(exchange.answer[:_KEPT_ERRORS])
    causes = [cause for pattern, cause in _KNOWN_CAUSES if pattern.search(written)]
    return f"{name} {how}" + (f": {causes[0]}, it seems" if causes else "")


def _prepare_folder(folder: Path) -> None:
    """Make the folder, or empty it: a file that an agent left there could instruct the next one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "its folder is a link", str(folder))
    folder.chmod(0o700)
    for path in folder.iterdir():
        remove_tree(path, ignore_errors=True)  # a folder that cannot be removed does no harm


def _stop_if_running(process: SupervisedProcess) -> None:
    if process.returncode is None:
        process.stop(STOP_SECONDS)
