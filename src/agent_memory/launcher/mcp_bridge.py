"""`memory serve`: copy bytes between an MCP client and the daemon."""

import _socket
import os
import select

from .command_client import (
    BRIDGE,
    CHUNK,
    ERR,
    EXIT,
    SILENT_SECONDS,
    UPGRADE,
    CallUnread,
    ConnectionLost,
    converse,
    data_folder,
    hello,
    read_announcement,
    receive,
    send,
    try_write_error,
    wait_for_frame,
)

MCP = "mcp"  # in place of a program's name
PIECE = 4096  # bytes that a writable pipe always accepts in one write


def serve(arguments: list[str]) -> int:
    """Connect an MCP client with the daemon until one of them ends. Return the exit code."""
    if os.isatty(0):
        try_write_error(b"note: an MCP client runs this command and sends JSON; Ctrl-D ends it\n")
    call = hello(MCP, arguments, by_agent=True)
    return converse(arguments, lambda connection: bridge(connection, call), lambda: None)


def bridge(connection: _socket.socket, call: bytes) -> int | None:
    """Send the call, and copy bytes after the daemon's BRIDGE. Return the exit code, or None if the
    daemon makes way for this version."""
    folder = data_folder()
    seen = read_announcement(folder)
    bridged = False
    connection.settimeout(SILENT_SECONDS)
    try:
        send(connection, call)
        wait_for_frame(connection)
        while True:
            kind, payload = receive(connection)
            if kind == ERR:
                try_write_error(payload)
            elif kind == EXIT:
                return payload[0]
            elif kind == UPGRADE:
                return None
            elif kind == BRIDGE:
                connection.settimeout(None)
                bridged = True
                break
    except ConnectionLost as exc:
        if isinstance(exc, CallUnread) and not bridged:
            raise
    # A daemon that stops withdraws its announcement first; one that crashes cannot.
    if not bridged or (not copy_both_ways(connection) and read_announcement(folder) == seen):
        try_write_error(b"error: the connection to the daemon was lost\n")
        return 1
    return 0


def copy_both_ways(connection: _socket.socket) -> bool:
    """Copy bytes in both directions, each as fast as its receiver reads. Return whether the client
    ended the connection."""
    ended = select.POLLERR | select.POLLHUP | select.POLLNVAL
    line = connection.fileno()
    up = down = b""  # to the daemon, to the client
    more, client_ended = True, False  # `more`: the client may send more
    while True:
        poll = select.poll()
        if more and not up:
            poll.register(0, select.POLLIN)
        # A closed connection wakes every poll, so it is polled only when there is something to do.
        if up or not down:
            poll.register(line, (select.POLLOUT if up else 0) | (0 if down else select.POLLIN))
        # poll reports a closed output even without an event to wait for.
        poll.register(1, select.POLLOUT if down else 0)
        ready = dict(poll.poll())
        try:
            if ready.get(1, 0) & ended:
                raise BrokenPipeError
            if down and 1 in ready:
                down = down[os.write(1, down[:PIECE]) :]
            if more and not up and 0 in ready:
                up = os.read(0, CHUNK)
                if not up:
                    more, client_ended = False, True
                    connection.shutdown(_socket.SHUT_WR)
        except BlockingIOError:  # the client has made its end non-blocking
            pass
        try:
            if up and line in ready:
                up = up[connection.send(up, _socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            pass
        except OSError:  # the daemon reads no more, but bytes that it sent may still wait
            up, more = b"", False
        try:
            if not down and line in ready:
                down = connection.recv(CHUNK, _socket.MSG_DONTWAIT)
                if not down:
                    return client_ended
        except BlockingIOError:
            pass
        except OSError:
            return client_ended
