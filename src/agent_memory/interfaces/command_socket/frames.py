"""Read frames of the command socket: kind (1 byte), length (4 bytes, big-endian), payload.

The launcher defines the kinds and writes frames (`command_client.frame`). The format of the first
frame never changes: through it, launcher and daemon compare versions.
"""

import asyncio
import os
from pathlib import Path

from agent_memory.interfaces.command_socket.calls import CommandCall
from agent_memory.kernel.errors import InvalidInput

MAX_PAYLOAD = 16 << 20


async def read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
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
