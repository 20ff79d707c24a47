"""Messages between daemon and worker: 4 bytes of length, then a pickle.

Pickle is safe here: no other process can reach the socket pair.
"""

import pickle
import socket
import time
from typing import Any


def send(channel: socket.socket, message: Any, deadline: float | None = None) -> None:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    _limit(channel, deadline)
    channel.sendall(len(data).to_bytes(4, "big") + data)


def receive(channel: socket.socket, deadline: float | None = None) -> Any:
    """Receive a message. Raises EOFError if the other end is closed, TimeoutError after the
    deadline."""
    size = int.from_bytes(_exactly(channel, 4, deadline), "big")
    return pickle.loads(_exactly(channel, size, deadline))


def _exactly(channel: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        _limit(channel, deadline)
        part = channel.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _limit(channel: socket.socket, deadline: float | None) -> None:
    if deadline is None:
        channel.settimeout(None)
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    channel.settimeout(left)
