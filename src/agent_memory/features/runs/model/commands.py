"""Commands of a model: which ones are allowed, and how much of their output is returned."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import ToolFailed

MAX_CHARS = 8_000
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "&>", "|&"})


def split_command(command: str, allowed: Sequence[str]) -> list[str]:
    """Split a command into words, if it begins with all words of an allowed one. Raises
    ToolFailed."""
    if "\0" in command:
        raise ToolFailed("a command must not contain a zero byte")
    try:
        words = shlex.split(command)
    except ValueError as exc:
        raise ToolFailed(f"the command cannot be parsed: {exc}") from exc
    if not words:
        raise ToolFailed("the command is empty")
    if not any(_begins(words, prefix) for prefix in allowed):
        raise ToolFailed(
            f"{shlex.join(words[:2])} is not allowed; allowed are: {', '.join(allowed)}"
        )
    if operators := sorted(_OPERATORS.intersection(_split_raw(command))):
        raise ToolFailed(
            f"there is no shell: give one program and its arguments, without {operators[0]}"
        )
    return words


def _split_raw(command: str) -> list[str]:
    """Split into words that keep their quotes: a quoted operator is meant for the program."""
    try:
        return shlex.split(command, posix=False)
    except ValueError:  # nested quotes, which only a shell understands
        return []


def _begins(words: Sequence[str], allowed: str) -> bool:
    try:
        prefix = shlex.split(allowed)
    except ValueError:  # an invalid setting allows nothing
        return False
    return bool(prefix) and list(words[: len(prefix)]) == prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a program. `code` is None if it was stopped because it took too long."""

    code: int | None
    output: str


def format_result(ran: CommandResult, seconds: float) -> str:
    """Return the output, with the exit code of a failed command. A failure is a normal result for
    the model. Raises ToolFailed if the program was stopped."""
    output = ran.output.rstrip("\n")
    if ran.code is None:
        lead = f"{output}\n" if output else ""
        raise ToolFailed(f"{lead}stopped: it took longer than {seconds:g} s")
    if not ran.code:
        return output or "(no output)"
    number = ran.code if ran.code > 0 else 128 - ran.code  # the convention of shells for signals
    how = f"exit code {number}" if ran.code > 0 else f"exit code {number} (signal {-ran.code})"
    return f"{output}\n{how}" if output else how


@dataclass(slots=True)
class HeadTailBuffer:
    """A buffer for the start and the end of a byte stream. It drops the middle if needed."""

    most: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    left_out: int = 0

    def add(self, data: bytes) -> None:
        room = self.most // 2 - len(self.head)
        self.head += data[: max(0, room)]
        self.tail += data[max(0, room) :]
        over = len(self.tail) - (self.most - self.most // 2)
        if over > 0:
            del self.tail[:over]
            self.left_out += over

    def text(self) -> str:
        if not self.left_out:
            return (self.head + self.tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self.head, self.tail))
        return f"{head}\n[{format_count(self.left_out, 'byte')} omitted here]\n{tail}"
