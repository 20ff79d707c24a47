"""Frames between launcher and daemon: kind (1 byte), length (4 bytes, big-endian), payload.

The launcher repeats these constants, because it imports nothing; a test keeps them equal. The
format of the first frame never changes: through it, launcher and daemon compare versions.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent_memory.kernel.errors import InvalidInput

if TYPE_CHECKING:
    import asyncio  # late: a command without a daemon needs none

PROTOCOL = b"1"
HELLO, INPUT, LINE, CANCEL, HOOK_INPUT = b"H", b"I", b"L", b"C", b"G"
OUT, ERR, ASK, ASK_HIDDEN, ASK_KEY, READ, PAGE, EDIT, EXIT, UPGRADE, BRIDGE, BEAT = (
    b"O", b"E", b"A", b"S", b"K", b"R", b"P", b"D", b"X", b"U", b"B", b"T",
)  # fmt: skip

MAX_PAYLOAD = 16 << 20
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


def encode(kind: bytes, payload: bytes = b"") -> bytes:
    return kind + len(payload).to_bytes(4, "big") + payload


async def read(reader: "asyncio.StreamReader") -> tuple[bytes, bytes]:
    """Read the next frame. Raises IncompleteReadError after the other side has closed."""
    head = await reader.readexactly(5)
    size = int.from_bytes(head[1:], "big")
    if size > MAX_PAYLOAD:
        raise InvalidInput(f"a frame has {size:,} bytes; the limit is {MAX_PAYLOAD:,}")
    return head[:1], await reader.readexactly(size)


def parse_call(payload: bytes) -> CommandCall:
    """Parse the payload of a HELLO frame."""
    try:
        protocol, version, program, cwd, terminals, columns, lines, nonce, count, *rest = (
            os.fsdecode(part) for part in _fields(payload)
        )
        if not 0 <= int(count) <= len(rest):
            raise ValueError("arguments are missing")
        arguments, environment = rest[: int(count)], rest[int(count) :]
        return CommandCall(
            program=program,
            arguments=tuple(arguments),
            cwd=Path(cwd),
            environ=dict(variable.split("=", 1) for variable in environment),
            input_is_terminal=terminals[0] == "1",
            output_is_terminal=terminals[1] == "1",
            errors_are_terminal=terminals[2] == "1",
            columns=int(columns),
            lines=int(lines),
            nonce=nonce,
            version=version,
            protocol=protocol,
        )
    except (ValueError, IndexError) as exc:
        raise InvalidInput("the first frame is not a call") from exc


def _fields(payload: bytes) -> list[bytes]:
    fields, position = [], 0
    while position < len(payload):
        size = int.from_bytes(payload[position : position + 4], "big")
        position += 4
        if position + size > len(payload):
            raise ValueError("a field is cut short")
        fields.append(payload[position : position + size])
        position += size
    return fields
