"""Commands: what a model may have run, and what is kept of what they print."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_memory.kernel.errors import ToolFailed

MAX_CHARS = 8_000
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "&>", "|&"})


def split_command(command: str, allowed: Sequence[str]) -> list[str]:
    """The words of a command, if it begins with all words of one that is allowed. Raises
    ToolFailed."""
    if "\0" in command:
        raise ToolFailed("a command must not hold a zero byte")
    try:
        found = shlex.split(command)
    except ValueError as exc:
        raise ToolFailed(f"the command cannot be read: {exc}") from exc
    if not found:
        raise ToolFailed("the command is empty")
    if not any(_begins(found, each) for each in allowed):
        raise ToolFailed(
            f"{shlex.join(found[:2])} is not allowed; it may run: {', '.join(allowed)}"
        )
    if operators := sorted(_OPERATORS.intersection(_split_raw(command))):
        raise ToolFailed(
            f"there is no shell: one program and its arguments, without {operators[0]}"
        )
    return found


def _split_raw(command: str) -> list[str]:
    """The words with their quotes: what is quoted is meant for the program."""
    try:
        return shlex.split(command, posix=False)
    except ValueError:  # quotes within quotes, which only shells know
        return []


def _begins(found: Sequence[str], allowed: str) -> bool:
    try:
        wanted = shlex.split(allowed)
    except ValueError:  # a setting that nobody can mean
        return False
    return bool(wanted) and list(found[: len(wanted)]) == wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a program ended. `code` is None where it was ended, because it took too long."""

    code: int | None
    output: str


def format_result(ran: CommandResult, seconds: float) -> str:
    """What it printed, and how it ended where that was not well: a command that fails is a result
    to be read. Raises ToolFailed where it did not end."""
    output = ran.output.rstrip("\n")
    if ran.code is None:
        lead = f"{output}\n" if output else ""
        raise ToolFailed(f"{lead}ended: it took longer than {seconds:g} s")
    if not ran.code:
        return output or "(no output)"
    number = ran.code if ran.code > 0 else 128 - ran.code  # as shells tell of signals
    how = f"exit code {number}" if ran.code > 0 else f"exit code {number} (signal {-ran.code})"
    return f"{output}\n{how}" if output else how


@dataclass(slots=True)
class HeadTailBuffer:
    """The beginning and the end of a stream of bytes, of which the middle may be left out."""

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
        head, tail = (each.decode("utf-8", "replace") for each in (self.head, self.tail))
        return f"{head}\n[{self.left_out:,} bytes are left out here]\n{tail}"
