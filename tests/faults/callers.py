"""Calling a daemon as its users do, without processes of their own, and without starting one.

Whatever goes wrong is Unacknowledged: after a fault that is all a caller knows.
"""

import http.client
import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import grpc

from agent_memory.launcher import command_client
from agent_memory.proto import checkpoints_pb2 as checkpoints
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Home
from tests.faults.ledger import Unacknowledged
from tests.memory_client import Client

PATIENT = 60.0
FACTS = "/api/v1/memories/facts/"
_CHECKPOINTS = "memory.CheckpointService"

T = TypeVar("T")

_FAILURES = (
    grpc.RpcError,
    http.client.HTTPException,
    OSError,
    command_client.ConnectionLost,
    AssertionError,
    ValueError,
)


class Callers:
    """Connections to the daemon that serves this home now."""

    def __init__(self, home: Home, folder: Path, seconds: float = PATIENT) -> None:
        """`seconds`: how long an answer may take. `gave_up` once one has taken longer."""
        self.gave_up = False
        self._seconds = seconds
        self._home = home
        self._folder = folder
        record = json.loads((home.data / "daemon.json").read_text())
        self.client = Client(f"unix:{record['grpc_socket']}", seconds=seconds)
        self._http_socket = record["http_socket"]

    def close(self) -> None:
        self.client.close()

    def ingest(self, events: Sequence[pb.Event]) -> None:
        def call() -> None:
            if len(events) == 1:
                self.client.ingest(events[0])
                return
            for outcome in self.client.ingest_all(events):
                assert not outcome.HasField("error"), outcome

        self._attempt(call)

    def put_checkpoint(self, thread: str, checkpoint: str, blob: bytes) -> None:
        request = checkpoints.PutCheckpointRequest(
            checkpoint=checkpoints.GraphCheckpoint(
                thread_id=thread, checkpoint_id=checkpoint, metadata="{}", type="x", blob=blob
            )
        )
        path = f"/{_CHECKPOINTS}/PutCheckpoint"
        self._attempt(lambda: self.client.unary(path, request, checkpoints.PutCheckpointResponse))

    def checkpoint(self, thread: str, checkpoint: str) -> bytes | None:
        request = checkpoints.GetCheckpointRequest(thread_id=thread, checkpoint_id=checkpoint)
        path = f"/{_CHECKPOINTS}/GetCheckpoint"
        found: Any = self._attempt(
            lambda: self.client.unary(path, request, checkpoints.GetCheckpointResponse)
        )
        return bytes(found.snapshot.checkpoint.blob) if found.HasField("snapshot") else None

    def claim(self, scope: str, key: str, value: str) -> None:
        fact = {"scope": scope, "key": key, "value": value}
        self._attempt(lambda: self._web("POST", FACTS, 201, fact))

    def facts(self, scope: str) -> dict[str, str]:
        query = urlencode({"scope": scope, "limit": 500})
        found = self._attempt(lambda: self._web("GET", f"{FACTS}?{query}", 200))
        return {each["key"]: each["value"] for each in found["items"]}

    def memory(self, *words: str) -> Any:
        return self._command("memory", *words)

    def daemon(self, *words: str) -> Any:
        return self._command("memory-daemon", *words)

    def hook(self, given: bytes, nonce: str, at_ms: int) -> bool:
        """Whether the daemon has answered; a launcher leaves it in the spool if not."""
        call = self._hello("hook", ["hook", "user-prompt"], nonce)
        call += command_client.frame(command_client.HOOK_INPUT, b"%d\n" % at_ms + given)
        with suppress(Unacknowledged):
            return self._converse(call)[1] != b""
        return False

    def drain(self) -> None:
        """Tell the daemon that something was left in the spool."""
        call = self._hello("hook", ["hook", "drain"]) + command_client.frame(
            command_client.HOOK_INPUT, b"0\n"
        )
        with suppress(Unacknowledged):
            self._converse(call)

    def _web(self, method: str, path: str, wanted: int, body: Any = None) -> Any:
        with closing(SocketConnection(self._http_socket, self._seconds)) as web:
            headers = {"content-type": "application/json"}
            web.request(method, path, None if body is None else json.dumps(body), headers)
            answer = web.getresponse()
            text = answer.read()
            assert answer.status == wanted, text
            return json.loads(text)

    def _command(self, program: str, *words: str) -> Any:
        """What it answers, as JSON."""
        call = self._hello(program, [*words, "--format", "json"])
        code, out, err = self._converse(call)
        if code:
            raise Unacknowledged(f"{program} {words}: {code}, {err!r}")
        return json.loads(out) if out.strip() else None

    def _converse(self, call: bytes) -> tuple[int, bytes, bytes]:
        said = {command_client.OUT: b"", command_client.ERR: b""}

        def exchange() -> tuple[int, bytes, bytes]:
            connection = command_client.connect(str(self._home.data))
            if connection is None:
                raise Unacknowledged("no daemon")
            with closing(connection):
                connection.settimeout(self._seconds)
                connection.sendall(call)
                while True:
                    kind, payload = command_client.receive(connection)
                    if kind == command_client.EXIT:
                        return payload[0], said[command_client.OUT], said[command_client.ERR]
                    if kind == command_client.READ:
                        connection.sendall(command_client.frame(command_client.INPUT, b""))
                    elif kind in said:
                        said[kind] += payload

        return self._attempt(exchange)

    def _hello(self, program: str, words: Sequence[str], nonce: str = "") -> bytes:
        """The first frame of a launcher in the project's folder, without a terminal."""
        environ = [f"{name}={value}" for name, value in self._home.environ.items()]
        fields = ["1", command_client.VERSION, program, str(self._folder), "000", "0", "0"]
        fields += [nonce or os.urandom(16).hex(), str(len(words)), *words, *environ]
        encoded = [os.fsencode(each) for each in fields]
        return command_client.frame(
            command_client.HELLO, b"".join(len(each).to_bytes(4, "big") + each for each in encoded)
        )

    def _attempt(self, call: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return call()
        except _FAILURES as exc:
            self.gave_up |= time.monotonic() - began >= self._seconds
            raise Unacknowledged(repr(exc)[:500]) from exc


class SocketConnection(http.client.HTTPConnection):
    """Over a Unix socket. Closed as a whole, also where nothing listens: httpx leaves that socket
    to the garbage collector, which complains."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("memory", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
