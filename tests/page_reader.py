"""A reader who types what a page says, on a machine of their own: a home with a project, past
sessions of agents, and the product.

It is installed where a page installs something; else it is the tree's, with a forked daemon.
"""

import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import pytest

from tests import past_conversations
from tests.command_runner import Home, wait_until
from tests.home_settings import describe_functions
from tests.installed_product import (
    TOOLS,
    copy_environment,
    copy_sources,
    get_offline_environ,
    get_product,
    load_once,
)
from tests.markdown_pages import Mark, Step, read_steps
from tests.transcript_files import Claude, text, write

SECONDS = 90.0
PROJECT = "my-app"
PIPX_PYTHON = ".local/share/pipx/venvs/agent-memory/bin/python"
SESSION = "7c1f21c8-5f0e-4d5a-9a53-0d2a9a1f5a11"
NEXT_SESSION = "b2f9013c-6c3e-4f0e-8d3e-2a4f5a7b1c0d"
STATEMENT = "We decided to use PostgreSQL for the orders because of JSONB"
_PORTS = ("8000", "8080", "8081", "50051")  # that pages name; here any free ones stand for them
_PORT = re.compile(r"(?<![\w.])(" + "|".join(_PORTS) + r")(?![\w.])")
_AGE = re.compile(r"\([^()]* ago\)")  # only on a terminal
_DATA = re.compile(r"\d|[/~]|^\W+$|^\.\.\.$")  # a word of output that another run has differently

# Runs one file after the other in one namespace, as a reader does who pastes block after block.
_PYTHON = """
import os, sys, traceback
namespace = {"__name__": "page"}
for line in sys.stdin:
    path = line.strip()
    code = 0
    try:
        exec(compile(open(path).read(), path, "exec"), namespace)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush(); sys.stderr.flush()
    os.write(int(sys.argv[1]), b"%d\\n" % code)
"""


class PageFailed(AssertionError):
    """A step of a page does not do what the page says."""

    def __init__(self, step: Step, why: str, output: str) -> None:
        shown = step.code.rstrip().replace("\n", "\n    ")
        super().__init__(
            f"{step.place}: {why}\n  command:\n    {shown}\n  output:\n    "
            + (output.rstrip() or "(nothing)").replace("\n", "\n    ")
        )


class ReaderHome(Home):
    """A home with the default folders, a git project with a remote, and past sessions."""

    def __init__(self, words: str) -> None:
        super().__init__()
        # A page that begins with `pipx install .` is read in a clone.
        self.project = self.folder / ("agent-memory" if "pipx install" in words else PROJECT)
        self.ports = dict(zip(_PORTS, find_free_ports(len(_PORTS)), strict=True))
        self.environ |= get_offline_environ()
        self.programs = self._choose_programs(words)
        # A page that restarts the daemon needs one that was started by a command.
        self._can_fork = self.programs == TOOLS and "memory-daemon restart" not in words
        path = [str(self.programs), str(self.folder / ".local/bin"), self.environ["PATH"]]
        self.environ |= {
            "PATH": os.pathsep.join(path),
            **describe_functions(),
            "USER": "ada",
            "SHELL": "/bin/bash",
            "GIT_CONFIG_SYSTEM": "/dev/null",
        }
        self.settings |= {
            "grpc.port": int(self.ports["50051"]),
            "http.port": int(self.ports["8000"]),
        }
        self._furnish()

    def _choose_programs(self, words: str) -> Path:
        """Return the folder of programs that the reader of a page has before they begin."""
        if "pipx install" in words:
            folder = self.folder / "tools"
            folder.mkdir()
            for name in ("pipx", "uv"):
                (folder / name).symlink_to(TOOLS / name)
            return folder
        if "pip install" in words:
            self.environ["PIP_FIND_LINKS"] += f" {get_product().packages.wheel.parent}"
            return copy_environment(get_product().programs, self.folder / "venv")
        return TOOLS

    def live_a_while(self) -> None:
        """Do what a reader has done before most pages: import, capture, have a session or two."""
        if self._can_fork:
            self.serve()
        (self.folder / "clients/acme").mkdir(parents=True)
        (self.folder / "code/app").mkdir(parents=True)
        hook = ("memory", "hook", "auto", "--agent", "claude-code")
        for words, given in (
            (("memory", "import", "--from", "claude-code"), {}),
            (("memory", "capture", "decisions", "Use PostgreSQL for the data layer"), {}),
            (hook, {"hook_event_name": "UserPromptSubmit", "prompt": STATEMENT}),
            (hook, {"hook_event_name": "SessionEnd"}),
            (hook, {"hook_event_name": "SessionStart", "session_id": NEXT_SESSION}),
        ):
            call = {"session_id": "s-42", "cwd": str(self.project)} | given
            self._call(*words, given=json.dumps(call).encode())
        self.finish_contents()

    def finish_contents(self) -> None:
        """Let the seconds pass in which the table of contents is written after an import, and what
        a page reads next is learned and indexed."""
        for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
            self._call("memory-daemon", "scheduler", "run", job)

    def _call(self, program: str, *arguments: str, given: bytes = b"") -> None:
        if self._can_fork:
            answer = self.run(program, *arguments, given=given, cwd=self.project)
        else:
            words = ["/usr/bin/env", program, "--home", str(self.folder), *arguments]
            answer = self.run_words(words, given=given, cwd=self.project)
        assert answer.code == 0, answer

    def _furnish(self) -> None:
        remote = self.folder / "git" / f"{self.project.name}.git"
        (self.folder / ".gitconfig").write_text(
            "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
        )
        if self.project.name == PROJECT:
            self.project.mkdir()
            (self.project / "README.md").write_text("# Lighthouse\n\nsince 2024\n")
        else:
            copy_sources(self.project)
        for words in (
            ("init", "--quiet", "--bare", str(remote)),
            ("init", "--quiet"),
            ("add", "."),
            ("commit", "--quiet", "--message", "Begin"),
            ("remote", "add", "origin", str(remote)),
            ("push", "--quiet", "--set-upstream", "origin", "main"),
        ):
            answer = self.run_words(["git", *words], cwd=self.project)
            assert answer.code == 0, answer
        # An earlier session, on another day, and one of a few minutes ago.
        past_conversations.write_claude_code(self.folder / ".claude")
        past_conversations.write_gemini(self.folder)
        exported = past_conversations.write_chatgpt(self.folder / "Downloads")
        exported.rename(exported.with_name("chatgpt-export.zip"))
        write_recent_session(self.folder / ".claude/projects/my-app", self.project)


def write_recent_session(folder: Path, project: Path) -> None:
    at_ms = int(time.time() - 300) * 1000
    session = Claude(session=SESSION, cwd=str(project), at_ms=at_ms)
    lines = [
        session.prompt("Why did the release fail?", promptId="p1"),
        session.says(
            "m1",
            text("The release failed because the retry budget of the upload job was used up."),
        ),
        session.prompt("We decided to use a retry budget of 5.", promptId="p2"),
        session.says("m2", text("Raised the retry budget to 5 in `upload.py`. All tests pass.")),
    ]
    write(folder / f"{SESSION}.jsonl", lines)


def find_free_ports(number: int) -> list[str]:
    """Return ports that are free now; all are found before any is given back."""
    with ExitStack() as stack:
        found = []
        for _ in range(number):
            listening = stack.enter_context(socket.socket())
            listening.bind(("127.0.0.1", 0))
            found.append(str(listening.getsockname()[1]))
        return found


class Interpreter:
    """A program that reads names of files and runs them: bash, or Python."""

    def __init__(self, words: Sequence[str], home: ReaderHome) -> None:
        self._output = home.folder / f"{Path(words[0]).name}.output"
        self._results, child = os.pipe()
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [*words, str(child)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=home.environ,
                cwd=home.project,
                pass_fds=[child],
                start_new_session=True,
            )
        os.close(child)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        os.close(self._results)

    def clear(self) -> None:
        os.truncate(self._output, 0)

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def ask(self, line: str) -> int:
        """Send a line. Return the number that it answers with."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        ready, _, _ = select.select([self._results], [], [], SECONDS)
        if not ready:
            raise TimeoutError
        answer = b""
        while not answer.endswith(b"\n"):
            piece = os.read(self._results, 1)
            if not piece:
                raise EOFError
            answer += piece
        return int(answer)


class Reader:
    """Runs the steps of one page in order, in one shell and one Python."""

    def __init__(self, page: Path) -> None:
        self._stack = ExitStack()
        run = [step.code for step in read_steps(page) if step.mark is not Mark.NOT_RUN]
        self._home = self._stack.enter_context(ReaderHome("\n".join(run)))
        if (self._home.programs / "memory").exists():
            self._home.live_a_while()
        shell = ["/bin/bash", "--noprofile", "--norc", "-o", "pipefail", "-s"]
        self._shell = self._stack.enter_context(Interpreter(shell, self._home))
        self._python: Interpreter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)  # type: ignore[arg-type]

    def run(self, step: Step) -> None:
        """Run a step. Raises PageFailed if it fails, or prints something else than is shown."""
        step_file = self._home.folder / ("step.py" if step.is_python else "step.sh")
        code = _PORT.sub(lambda found: self._home.ports[found[0]], step.code)
        # Empty lines first, so that a message names the line of the page.
        step_file.write_text("\n" * (step.line - 1) + code)
        interpreter = self._start_python() if step.is_python else self._shell
        interpreter.clear()
        try:
            if step.mark is Mark.UNTIL_INTERRUPT:
                status = self._run_until_interrupt(step_file)
            elif step.is_python:
                status = interpreter.ask(str(step_file))
            else:
                status = interpreter.ask(f". {step_file} </dev/null; echo $? >&$1")
        except (TimeoutError, EOFError, AssertionError) as error:
            raise PageFailed(step, f"does not end: {error!r}", interpreter.output) from error
        if status != 0:
            raise PageFailed(step, f"fails with exit code {status}", interpreter.output)
        if step.mark is not Mark.EXAMPLE_OUTPUT and (
            missing := find_missing(step, interpreter.output)
        ):
            raise PageFailed(step, f"does not print `{missing}`", interpreter.output)
        if not step.is_python and "memory import --from" in code:
            self._home.finish_contents()
        if "pipx install" in code:
            load_once(self._home.folder / PIPX_PYTHON)

    def _start_python(self) -> Interpreter:
        if self._python is None:
            words = [str(self._home.programs / "python"), "-c", _PYTHON]
            self._python = self._stack.enter_context(Interpreter(words, self._home))
        return self._python

    def _run_until_interrupt(self, step_file: Path) -> int:
        pid = self._shell.ask(f"set -m; . {step_file} </dev/null & echo $! >&$1; set +m")
        wait_until(lambda: bool(self._shell.output), "it prints something")
        os.killpg(pid, signal.SIGINT)
        status = self._shell.ask(f"wait {pid}; echo $? >&$1")
        return 0 if status == 128 + signal.SIGINT else status


def find_missing(step: Step, output: str) -> str:
    """Return the first line that the page shows and the output does not have, or nothing.

    Figures, ids, paths and times differ between runs: only the words have to be there, in order.
    """
    lines = [line.split() for line in output.splitlines()]
    for shown in step.shown.splitlines():
        words = [word for word in _AGE.sub("", shown).split() if not _DATA.search(word)]
        if words and not any(has_in_order(words, line) for line in lines):
            return shown.strip()
    return ""


def has_in_order(words: Sequence[str], line: Sequence[str]) -> bool:
    rest = iter(line)
    return all(word in rest for word in words)


def check_page(page: Path) -> int:
    """Run all steps of a page. Return how many are marked as not run."""
    steps = read_steps(page)
    running = [step for step in steps if step.mark is not Mark.NOT_RUN]
    if running:
        problem = ""
        try:
            with Reader(page) as reader:
                for step in running:
                    reader.run(step)
        except PageFailed as failed:
            problem = str(failed)
        if problem:  # it says everything; our own lines would add nothing
            pytest.fail(problem, pytrace=False)
    return len(steps) - len(running)
