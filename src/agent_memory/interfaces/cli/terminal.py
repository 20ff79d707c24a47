"""What a command may do with its caller: write, ask, page, show progress. One Console factory."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from agent_memory.interfaces.cli.frames import CommandCall
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled, InvalidInput

DEFAULT_COLUMNS = 80


class Channel(Protocol):
    """The way to a caller: frames to a launcher, or this process's own descriptors."""

    def out(self, data: bytes, /) -> None: ...

    def err(self, data: bytes, /) -> None: ...

    def ask(self, prompt: bytes, /, *, hidden: bool) -> bytes:
        """One line with its newline; empty at the end of input."""
        ...

    def read(self) -> bytes:
        """Some of standard input; empty at its end."""
        ...

    def page(self, data: bytes, /) -> None: ...


class Terminal:
    """A caller's terminal, with the width, colour and manners that are due to it."""

    def __init__(self, call: CommandCall, channel: Channel, cancelled: CancelToken) -> None:
        self.call = call
        self._channel = channel
        self._cancelled = cancelled
        self.color = _color(call)
        self.progress_bars = call.errors_are_terminal
        self.pager = call.output_is_terminal and call.input_is_terminal

    @property
    def columns(self) -> int:
        given = self.call.environ.get("COLUMNS", "")
        return (
            int(given) if given.isdecimal() and int(given) else self.call.columns or DEFAULT_COLUMNS
        )

    def check_cancelled(self) -> None:
        """Long work calls this once per batch: a thread cannot be stopped from outside."""
        self._cancelled.check()

    @property
    def cancelled(self) -> CancelToken:
        """Set once the caller pressed Ctrl-C or went away."""
        return self._cancelled

    def write(self, text: str) -> None:
        self.check_cancelled()
        self._channel.out(text.encode(errors="surrogateescape"))

    def warn(self, text: str) -> None:
        self._channel.err(text.encode(errors="surrogateescape"))

    def ask(self, question: str, *, hidden: bool = False) -> str:
        """The user's answer. Raises Cancelled where input has ended."""
        line = self._channel.ask(question.encode(errors="surrogateescape"), hidden=hidden)
        self.check_cancelled()
        if not line:
            raise Cancelled
        return line.decode(errors="surrogateescape").rstrip("\r\n")

    def confirm(self, question: str) -> bool:
        """Yes or no; no is the default."""
        while True:
            answer = self.ask(f"{question} [y/N] ").strip().lower()
            if answer in ("", "n", "no"):
                return False
            if answer in ("y", "yes"):
                return True

    def read(self, *, limit: int) -> bytes:
        """All of standard input. Raises InvalidInput where it is longer than that many bytes."""
        parts: list[bytes] = []
        size = 0
        while part := self._channel.read():
            self.check_cancelled()
            parts.append(part)
            size += len(part)
            if size > limit:
                raise InvalidInput(f"standard input has more than {limit:,} bytes, the limit")
        return b"".join(parts)

    def page(self, text: str) -> None:
        """Through the caller's pager if it is longer than the screen."""
        self.check_cancelled()
        if self.pager and self.call.lines and text.count("\n") >= self.call.lines:
            self._channel.page(text.encode(errors="surrogateescape"))
        else:
            self.write(text)

    def console(self, *, errors: bool = False) -> Console:
        """The only place where a Console is made: nothing is asked of the daemon's own terminal."""
        terminal = self.call.errors_are_terminal if errors else self.call.output_is_terminal
        return Console(
            file=_TerminalStream(self.warn if errors else self.write),  # type: ignore[arg-type]  # enough of one
            force_terminal=terminal,
            color_system="standard"
            if self.color and (terminal or _is_color_forced(self.call))
            else None,
            no_color=not self.color,
            width=self.columns,
            legacy_windows=False,
            highlight=False,
            _environ=self.call.environ,
        )

    @contextmanager
    def progress(self, title: str, total: int | None) -> Iterator["Advance"]:
        """A progress bar on standard error, on a terminal only. Call the result with a number."""
        if not self.progress_bars:
            yield Advance(self, None)
            return
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console(errors=True),
            redirect_stdout=False,  # those of the daemon are not this caller's
            redirect_stderr=False,
        )
        with bar:
            task = bar.add_task(title, total=total)
            yield Advance(self, lambda done: bar.update(task, completed=done))


class Advance:
    """Reports how far long work has come, and stops it when the caller has gone."""

    def __init__(self, terminal: Terminal, show: "_Show | None") -> None:
        self._terminal = terminal
        self._show = show

    def __call__(self, done: int) -> None:
        self._terminal.check_cancelled()
        if self._show is not None:
            self._show(done)


class _Show(Protocol):
    def __call__(self, done: int, /) -> None: ...


class _TerminalStream(io.TextIOBase):
    """A text file whose writes go to a caller."""

    def __init__(self, target: "_Write") -> None:
        self._target = target

    def write(self, text: str, /) -> int:
        self._target(text)
        return len(text)

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a constant here
        return "utf-8"


class _Write(Protocol):
    def __call__(self, text: str, /) -> None: ...


def _is_color_forced(call: CommandCall) -> bool:
    environ = call.environ
    return bool(environ.get("FORCE_COLOR")) or environ.get("CLICOLOR_FORCE", "0") != "0"


def _color(call: CommandCall) -> bool:
    """https://no-color.org, and FORCE_COLOR for those who pipe into something that can show it."""
    environ = call.environ
    if environ.get("NO_COLOR"):
        return False
    if _is_color_forced(call):
        return True
    return call.output_is_terminal and environ.get("TERM", "dumb") != "dumb"
