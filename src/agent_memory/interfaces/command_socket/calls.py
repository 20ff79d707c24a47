"""Calls over the command socket: a command or a hook, the streams of its caller, and the answer to
a hook."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from agent_memory.launcher.command_client import PROTOCOL

EDITED = b"1"  # begins the answer to EDIT: the text follows; after any other byte, the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCall:
    """A command line, with the caller's folder, environment and terminal."""

    program: str
    arguments: tuple[str, ...]
    cwd: Path
    environ: dict[str, str] = field(repr=False)
    input_is_terminal: bool
    output_is_terminal: bool
    errors_are_terminal: bool
    columns: int = 0
    lines: int = 0
    nonce: str = ""
    version: str = ""
    protocol: str = PROTOCOL.decode()


class Channel(Protocol):
    """The streams of a caller: frames to a launcher, or the descriptors of this process."""

    def out(self, data: bytes, /) -> None: ...

    def err(self, data: bytes, /) -> None: ...

    def ask(self, prompt: bytes, /, *, hidden: bool) -> bytes:
        """Return one line with its newline, or nothing at the end of input."""
        ...

    def ask_key(self, prompt: bytes, /) -> bytes:
        """Return one key, or nothing at the end of input."""
        ...

    def read(self) -> bytes:
        """Return some of standard input, or nothing at its end."""
        ...

    def page(self, data: bytes, /) -> None: ...

    def edit(self, data: bytes, /) -> bytes:
        """Open the user's editor. Return EDITED and the new text, or another byte and the reason
        why there is none."""
        ...


def _ignore() -> None: ...


class HookAnswer(NamedTuple):
    """What to send to the agent, and the problem or an empty text. `on_delivered` is called once it
    was sent; it does not wait."""

    output: bytes
    problem: str = ""
    on_delivered: Callable[[], None] = _ignore
