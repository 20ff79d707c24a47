"""The caller's terminal: write, ask, page, show progress."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from agent_memory.interfaces.cli import layout
from agent_memory.interfaces.cli.agent_shells import find_agent
from agent_memory.interfaces.cli.progress import ProgressLine
from agent_memory.interfaces.command_socket.calls import EDITED, Channel, CommandCall
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled, InvalidInput

DEFAULT_COLUMNS = 80


class Terminal:
    """A caller's terminal, with its width, colors, pager and progress bars."""

    def __init__(self, call: CommandCall, channel: Channel, cancelled: CancelToken) -> None:
        self.call = call
        self._channel = channel
        self._cancelled = cancelled
        self.color = _color(call, call.output_is_terminal)
        self.error_color = _color(call, call.errors_are_terminal)
        self.progress_bars = call.errors_are_terminal and _has_cursor(call)
        self._waiting: ProgressLine | None = None  # until the first output
        self._bar: ProgressLine | None = None
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
        with self._clear_line():
            self._channel.out(text.encode(errors="surrogateescape"))

    def warn(self, text: str) -> None:
        with self._clear_line():
            self._warn(self._arrange_message(text))

    def inform(self, text: str) -> None:
        """Write lines to standard error, such as what a question is about."""
        self.warn(layout.fit(text, self.columns) if self.call.errors_are_terminal else text)

    def _warn(self, text: str) -> None:
        self._channel.err(text.encode(errors="surrogateescape"))

    def _arrange_message(self, text: str) -> str:
        """Fit a message into the terminal, and colour it."""
        if not layout.is_message(text):
            return text
        if self.call.errors_are_terminal:
            text = layout.fit(text, self.columns)
        return layout.colour_message(text) if self.error_color else text

    def ask(self, question: str, *, hidden: bool = False) -> str:
        """Return the user's answer. Raises Cancelled at the end of input."""
        with self._clear_line():
            line = self._channel.ask(question.encode(errors="surrogateescape"), hidden=hidden)
        self.check_cancelled()
        if not line:
            raise Cancelled
        return line.decode(errors="surrogateescape").rstrip("\r\n")

    def ask_key(self, question: str) -> str:
        """Return the key that the user pressed. Raises Cancelled at the end of input."""
        with self._clear_line():
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
        self.end_waiting()
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
        self.end_waiting()
        if self.pager and self.call.lines and text.count("\n") >= self.call.lines:
            self._channel.page(text.encode(errors="surrogateescape"))
        else:
            self.write(text)

    def begin_waiting(self, title: str) -> None:
        """Show a spinner on standard error, if that is a terminal and nothing is written soon."""
        if self.progress_bars and self._waiting is None:
            self._waiting = ProgressLine(self._warn, self.columns, title)

    def end_waiting(self) -> None:
        """Erase the spinner. All that writes or asks calls this first."""
        if self._waiting is not None:
            self._waiting.end()
            self._waiting = None

    def _clear_line(self) -> AbstractContextManager[None]:
        """Erase spinner and progress bar. The bar comes back after the block."""
        self.end_waiting()
        return nullcontext() if self._bar is None else self._bar.hide()

    @contextmanager
    def progress(self, title: str, total: int | None) -> Iterator["Advance"]:
        """Show a progress bar on standard error, if that is a terminal and the work takes long.

        Call the result with the number done so far.
        """
        self.end_waiting()
        if not self.progress_bars:
            yield Advance(self, None)
            return
        if self._bar is not None:
            self._bar.end()  # this part of its work has a bar of its own
        self._bar = bar = ProgressLine(self._warn, self.columns, title, total)
        try:
            yield Advance(self, bar.advance)
        finally:
            if self._bar is bar:
                self._bar = None
            bar.end()


class Advance:
    """A callback of long work: it shows progress, and raises Cancelled after Ctrl-C."""

    def __init__(self, terminal: Terminal, show: Callable[[int], None] | None) -> None:
        self._terminal = terminal
        self._show = show

    def __call__(self, done: int) -> None:
        self._terminal.check_cancelled()
        if self._show is not None:
            self._show(done)


def _is_color_forced(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("FORCE_COLOR")) or environ.get("CLICOLOR_FORCE", "0") not in ("", "0")


def _color(call: CommandCall, is_terminal: bool) -> bool:
    """Follow https://no-color.org, and FORCE_COLOR for pipes that can show colors. An agent reads
    none."""
    environ = call.environ
    if environ.get("NO_COLOR") or environ.get("FORCE_COLOR") in ("0", "false"):
        return False
    if find_agent(environ):
        return False
    if _is_color_forced(environ):
        return True
    return is_terminal and _has_cursor(call)


def _has_cursor(call: CommandCall) -> bool:
    return call.environ.get("TERM", "dumb") not in ("", "dumb")
