"""A process of another user of this machine, that calls, reads and connects as it is told.

`python -m tests.other_users UID` is that process. It loads everything first, because the user it
becomes may not be able to read the program's files.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import grpc

CALL_SECONDS = 30.0
NOBODY, SOMEBODY = 65534, 54321
_ROOT = Path(__file__).parents[1]
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: an end that leaves nothing behind


class Reply(NamedTuple):
    """How a call ended."""

    code: str
    details: str
    messages: tuple[bytes, ...]


class OtherUser:
    """Someone with this uid and no privileges. Needs root."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.other_users", str(uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asking, self._answering = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=CALL_SECONDS)

    def call(self, target: str, path: str, request: bytes = b"", key: str | None = None) -> Reply:
        """A gRPC call with one message, over a connection of its own."""
        header = [] if key is None else [("authorization", key)]
        found = self._ask(call=[target, path, request.hex(), header])
        return Reply(found[0], found[1], tuple(bytes.fromhex(each) for each in found[2]))

    def get(self, port: int, path: str) -> int:
        """The status of an HTTP request without a key."""
        status: int = self._ask(get=[port, path])
        return status

    def find_refusal(self, path: Path) -> str | None:
        """The error of opening, listing or connecting to this path; None where it works."""
        error: str | None = self._ask(path=str(path))
        return error

    def forward(self, port: int, source_port: int = 0) -> tuple[int, int]:
        """Forward a port of their own to this one, for one connection, from this source port:
        their port, and the source port."""
        own, source = self._ask(forward=[port, source_port])
        return own, source

    def begin_calls(self, port: int, path: str, requests: Sequence[bytes]) -> list[int]:
        """Begin a call on a connection of its own for each request: their source ports."""
        ports: list[int] = self._ask(begin=[port, path, [each.hex() for each in requests]])
        return ports

    def abandon_calls(self) -> None:
        """Send what the calls lack, and reset their connections at once."""
        self._ask(abandon=True)

    def end_forwarding(self) -> None:
        """Reset the forwarded connection, so that its port is free at once."""
        self._ask(reset=True)

    def _ask(self, **request: Any) -> Any:
        self._asking.write(json.dumps(request).encode() + b"\n")
        self._asking.flush()
        answer = self._answering.readline()
        assert answer, f"the process of uid {self.uid} ended"
        return json.loads(answer)


class _Forwarder:
    def __init__(self, port: int, source_port: int) -> None:
        self._away = socket.socket()
        self._away.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._away.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._away.bind(("127.0.0.1", source_port))
        self._away.connect(("127.0.0.1", port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.ports = self._listener.getsockname()[1], self._away.getsockname()[1]
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def _serve(self) -> None:
        try:
            here, _ = self._listener.accept()
        except OSError:
            return  # closed before anyone came
        back = threading.Thread(target=_copy, args=(self._away, here), daemon=True)
        back.start()
        _copy(here, self._away)
        back.join()
        here.close()

    def close(self) -> None:
        for each in (self._away, self._listener):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RD)
        self._serving.join(CALL_SECONDS)
        self._listener.close()
        self._away.close()


class _AbandonedCalls:
    """Calls that are received whole, and whose connections then are gone."""

    def __init__(self, port: int, path: str, requests: Sequence[str]) -> None:
        self._rest: list[tuple[socket.socket, bytes]] = []
        for each in requests:
            request = bytes.fromhex(each)
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            connection.bind(("127.0.0.1", 0))
            connection.connect(("127.0.0.1", port))
            connection.sendall(_PREFACE + _frame(4) + _frame(1, 4, 1, _headers(path)))
            message = b"\0" + struct.pack(">I", len(request)) + request
            self._rest.append((connection, _frame(0, 1, 1, message)))
        self.ports = [connection.getsockname()[1] for connection, _ in self._rest]

    def close(self) -> None:
        for connection, rest in self._rest:
            connection.sendall(rest)
        for connection, _ in self._rest:
            connection.close()


def _frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """Of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _headers(path: str) -> bytes:
    """Of a gRPC call, each written out in full."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    words = [each.encode() for field in fields.items() for each in field]
    sized = [bytes([len(word)]) + word for word in words]
    return b"".join(b"\0" + sized[at] + sized[at + 1] for at in range(0, len(sized), 2))


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    with suppress(OSError):
        source.shutdown(socket.SHUT_RD)


def _call(
    target: str, path: str, request: str, metadata: Sequence[Sequence[str]]
) -> tuple[str, str, list[str]]:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(target, options=options) as channel:
        send = channel.stream_stream(path, None, None)
        messages: list[str] = []
        try:
            answers = send(
                iter([bytes.fromhex(request)]),
                timeout=CALL_SECONDS,
                metadata=tuple((name, value) for name, value in metadata),
            )
            messages.extend(each.hex() for each in answers)
        except grpc.RpcError as exc:
            return exc.code().name, exc.details() or "", messages
        return "OK", "", messages


def _get(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=CALL_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def _refusal(path: str) -> str | None:
    try:
        if path.endswith(".sock"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
        elif Path(path).is_dir():
            list(Path(path).iterdir())
        else:
            Path(path).read_bytes()
    except OSError as exc:
        return type(exc).__name__
    return None


def main(uid: int) -> None:
    _call("127.0.0.1:1", "/nothing/Answers", "", [])  # loads what gRPC loads late
    socket.getaddrinfo("localhost", 1)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    opened: _Forwarder | _AbandonedCalls | None = None
    for line in sys.stdin.buffer:
        request: Mapping[str, Any] = json.loads(line)
        answer: Any = None
        if "call" in request:
            answer = _call(*request["call"])
        elif "get" in request:
            answer = _get(*request["get"])
        elif "path" in request:
            answer = _refusal(request["path"])
        elif "forward" in request:
            opened = _Forwarder(*request["forward"])
            answer = opened.ports
        elif "begin" in request:
            opened = _AbandonedCalls(*request["begin"])
            answer = opened.ports
        elif opened is not None:
            opened.close()
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
