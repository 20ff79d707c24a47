"""The caller's terminal: write, ask, page, show progress."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from agent_memory.interfaces.cli.frames import EDITED, Channel, CommandCall
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled, InvalidInput

DEFAULT_COLUMNS = 80


class Terminal:
    """A caller's terminal, with its width, colors, pager and progress bars."""

    def __init__(self, call: CommandCall, channel: Channel, cancelled: CancelToken) -> None:
        self.call = call
        self._channel = channel
        self._cancelled = cancelled
        self.color = _color(call)
        self.progress_bars = call.errors_are_terminal
        self.pager = call.output_is_terminal and call.input_is_terminal

    @property
    def columns(self) -> int:
        text = self.call.environ.get("COLUMNS", "")
        columns = int(text) if text.isdecimal() else 0
        return columns or self.call.columns or DEFAULT_COLUMNS

    def check_cancelled(self) -> None:
        """Raise Cancelled after Ctrl-C. Call it once per batch: a thread cannot be interrupted."""
        self._cancelled.check()

    @property
    def cancelled(self) -> CancelToken:
        """A token that is set when the caller presses Ctrl-C or disconnects."""
        return self._cancelled

    def write(self, text: str) -> None:
        self.check_cancelled()
        self._channel.out(text.encode(errors="surrogateescape"))

    def warn(self, text: str) -> None:
        self._channel.err(text.encode(errors="surrogateescape"))

    def ask(self, question: str, *, hidden: bool = False) -> str:
        """Return the user's answer. Raises Cancelled at the end of input."""
        line = self._channel.ask(question.encode(errors="surrogateescape"), hidden=hidden)
        self.check_cancelled()
        if not line:
            raise Cancelled
        return line.decode(errors="surrogateescape").rstrip("\r\n")

    def ask_key(self, question: str) -> str:
        """Return the key that the user pressed. Raises Cancelled at the end of input."""
        key = self._channel.ask_key(question.encode(errors="surrogateescape"))
        self.check_cancelled()
        if not key:
            raise Cancelled
        return key.decode(errors="replace")

    def confirm(self, question: str) -> bool:
        """Ask for yes or no; no is the default."""
        while True:
            answer = self.ask(f"{question} [y/N] ").strip().lower()
            if answer in ("", "n", "no"):
                return False
            if answer in ("y", "yes"):
                return True

    def read(self, *, limit: int) -> bytes:
        """Return all of standard input. Raises InvalidInput if it has more than `limit` bytes."""
        parts: list[bytes] = []
        size = 0
        while part := self._channel.read():
            self.check_cancelled()
            parts.append(part)
            size += len(part)
            if size > limit:
                raise InvalidInput(f"standard input is longer than {limit:,} bytes, the limit")
        return b"".join(parts)

    def edit(self, text: str) -> str:
        """Return the text as the user saved it in an editor. Raises InvalidInput."""
        answer = self._channel.edit(text.encode(errors="surrogateescape"))
        self.check_cancelled()
        if not answer.startswith(EDITED):
            raise InvalidInput(answer[1:].decode(errors="replace"))
        try:
            return answer[len(EDITED) :].decode()
        except UnicodeDecodeError as exc:
            raise InvalidInput(f"the text is not valid UTF-8 (byte {exc.start})") from exc

    def page(self, text: str) -> None:
        """Write a text, through the caller's pager if it is longer than the screen."""
        self.check_cancelled()
        if self.pager and self.call.lines and text.count("\n") >= self.call.lines:
            self._channel.page(text.encode(errors="surrogateescape"))
        else:
            self.write(text)

    def console(self, *, errors: bool = False) -> Console:
        """Return a Console that depends only on the caller, never on the daemon's own terminal."""
        terminal = self.call.errors_are_terminal if errors else self.call.output_is_terminal
        return Console(
            file=_TerminalStream(self.warn if errors else self.write),  # type: ignore[arg-type]  # all that rich uses
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
        """Show a progress bar on standard error, if that is a terminal.

        Call the result with the number done so far.
        """
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
            redirect_stdout=False,  # these are the streams of the daemon
            redirect_stderr=False,
        )
        with bar:
            task = bar.add_task(title, total=total)
            yield Advance(self, lambda done: bar.update(task, completed=done))


class Advance:
    """A callback of long work: it shows progress, and raises Cancelled after Ctrl-C."""

    def __init__(self, terminal: Terminal, show: Callable[[int], None] | None) -> None:
        self._terminal = terminal
        self._show = show

    def __call__(self, done: int) -> None:
        self._terminal.check_cancelled()
        if self._show is not None:
            self._show(done)


class _TerminalStream(io.TextIOBase):
    """A text stream that writes to a caller."""

    def __init__(self, target: Callable[[str], None]) -> None:
        self._target = target

    def write(self, text: str, /) -> int:
        self._target(text)
        return len(text)

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a constant here
        return "utf-8"


def _is_color_forced(call: CommandCall) -> bool:
    environ = call.environ
    return bool(environ.get("FORCE_COLOR")) or environ.get("CLICOLOR_FORCE", "0") != "0"


def _color(call: CommandCall) -> bool:
    """Follow https://no-color.org, and FORCE_COLOR for pipes that can show colors."""
    environ = call.environ
    if environ.get("NO_COLOR"):
        return False
    if _is_color_forced(call):
        return True
    return call.output_is_terminal and environ.get("TERM", "dumb") != "dumb"
