"""A model's server on loopback that follows a script: one step a request, in order.

Or it decides by what it is asked, for many who ask at once: `scripted(lambda received: ...)`.
Beside conversations it has what a llama-server has: /health, /props, /tokenize and /v1/models.
"""

import json
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT = 20.0  # for what must happen: it is only ever waited out by a failing test
TICK = 0.01


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `promised`: more bytes than are sent before the connection is closed."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    promised: int = 0


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until the test ends; after the headers if `begun`."""

    begun: bool = False


class Gate:
    """Holds back the pieces of a streamed answer until the test lets them through."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = False
        self._let = 0
        self._held = 0

    def let(self, pieces: int = 1) -> None:
        with self._changed:
            self._let += pieces
            self._changed.notify_all()

    def open(self) -> None:
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def wait_until_held(self, answers: int = 1) -> None:
        """Until that many answers wait here."""
        with self._changed:
            held = self._changed.wait_for(lambda: self._held >= answers, TIMEOUT)
            assert held, "nobody waits at the gate"

    def passed(self, given_up: Callable[[], bool]) -> bool:
        """For the server: whether it may go on; not where it is given up meanwhile."""
        with self._changed:
            self._held += 1
            self._changed.notify_all()
            try:
                while not self._open and not self._let:
                    if given_up():
                        return False
                    self._changed.wait(TICK)
                self._let -= not self._open
                return True
            finally:
                self._held -= 1


@dataclass(frozen=True, slots=True)
class Streamed:
    """Pieces of an answer, each behind the gate if there is one. `cut`: its end never comes."""

    pieces: tuple[bytes, ...]
    gate: Gate | None = None
    cut: bool = False
    content_type: str = "text/event-stream"


Step = Reply | Hang | Streamed


@dataclass(frozen=True, slots=True)
class Received:
    """`gone` is set when the client goes before its answer is there."""

    path: str
    headers: Mapping[str, str]
    payload: Any
    gone: threading.Event = field(default_factory=threading.Event, compare=False)
    pieces: list[int] = field(default_factory=list, compare=False)  # the sizes of what was sent

    @property
    def sent(self) -> int:
        return len(self.pieces)


Deciding = Callable[[Received], Step]


@dataclass(slots=True)
class ScriptedLlm:
    """`tokens` is how many a text has, None where the server does not know; so for `n_ctx`.
    `asides` are the paths that were asked beside the conversations."""

    url: str
    script: list[Step]
    deciding: Deciding | None = None  # in place of the script
    received: list[Received] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    asides: list[str] = field(default_factory=list)
    tokens: Callable[[str], int] | None = lambda text: len(re.findall(r"\w+|[^\w\s]", text))
    n_ctx: int | None = None
    health: int = 200
    models: int = 200
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plays(self, *script: Step) -> None:
        """From now on, to those who ask from now on."""
        self.script, self.deciding = list(script), None
        self.received.clear()

    def answers(self, deciding: Deciding) -> None:
        self.deciding = deciding
        self.received.clear()

    def next(self, received: Received) -> Step:
        with self.lock:
            self.received.append(received)
            number = len(self.received)
        return self.deciding(received) if self.deciding else self.script[number - 1]

    def aside(self, path: str, payload: Any) -> Reply:
        self.asides.append(path)
        if path == "/tokenize" and self.tokens is not None:
            return Reply(json.dumps({"tokens": [7] * self.tokens(payload["content"])}).encode())
        if path == "/props" and self.n_ctx is not None:
            settings = {"n_ctx": self.n_ctx, "params": {}}
            return Reply(json.dumps({"default_generation_settings": settings}).encode())
        if path == "/health":
            return Reply(b'{"status":"ok"}', self.health)
        if path == "/v1/models":
            return Reply(b'{"object":"list","data":[]}', self.models)
        return error(404, "no such page")

    def wait_for_requests(self, count: int) -> None:
        deadline = time.monotonic() + TIMEOUT
        while len(self.received) < count:
            assert time.monotonic() < deadline, f"{len(self.received)} requests"
            threading.Event().wait(TICK)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False


@contextmanager
def scripted(*script: Step | Deciding) -> Iterator[ScriptedLlm]:
    """A request that the script does not foresee ends without an answer, and is counted."""
    server = _Server(("127.0.0.1", 0), _Handler)
    steps = [step for step in script if not callable(step)]
    deciding = [step for step in script if callable(step)]
    url = f"http://127.0.0.1:{server.server_address[1]}"
    told = ScriptedLlm(url, steps, next(iter(deciding), None))
    server.told = told  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield told
    finally:
        told.ended.set()
        server.shutdown()
        thread.join(TIMEOUT)
        server.server_close()  # waits for the threads of the requests


def completion(
    content: str | Mapping[str, Any],
    *,
    usage: tuple[int, int] | None = (100, 20),
    whole: bool = True,
) -> Reply:
    """An answer of `/v1/chat/completions`."""
    text = content if isinstance(content, str) else json.dumps(content)
    body: dict[str, Any] = {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop" if whole else "length",
            }
        ],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return Reply(json.dumps(body).encode())


def say(
    text: str = "",
    *,
    reasoning: str = "",
    calls: Sequence[tuple[str, Mapping[str, Any] | str] | tuple[str, Mapping[str, Any], str]] = (),
    finish: str | None = None,
    usage: int | None = 100,
    gate: Gate | None = None,
    cut: bool = False,
) -> Streamed:
    """A streamed answer, a word each piece. `calls` are names and arguments, and ids if need be;
    `cut`: the connection ends before the answer does."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"reasoning_content": word} for word in re.findall(r"\S+\s*|\s+", reasoning)]
    deltas += [{"content": word} for word in re.findall(r"\S+\s*|\s+", text)]
    for index, (name, arguments, *ids) in enumerate(calls):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        named = {"name": name, "arguments": ""}
        call_id = ids[0] if ids else f"call-{index}"
        deltas.append(
            {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": named}]}
        )
        half = len(written) // 2
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
            for part in (written[:half], written[half:])
            if part
        ]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": each}]} for each in deltas]
    if not cut:
        finish = finish or ("tool_calls" if calls else "stop")
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    pieces = [data(chunk) for chunk in chunks]
    if not cut:
        if usage is not None:
            pieces[-1] += data({"choices": [], "usage": {"prompt_tokens": usage}})
        pieces[-1] += b"data: [DONE]\n\n"
    return Streamed(tuple(pieces), gate=gate, cut=cut)


def data(chunk: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def message(content: Sequence[Mapping[str, Any]], *, stop_reason: str = "tool_use") -> Reply:
    """An answer of `/v1/messages`."""
    body = {
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": stop_reason,
        "usage": {"input_tokens": 90, "output_tokens": 20, "cache_read_input_tokens": 10},
    }
    return Reply(json.dumps(body).encode())


def error(status: int, text: str = "no", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(json.dumps({"error": {"message": text}}).encode(), status, named)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply(self._told.aside(self.path.partition("?")[0], None))

    def do_POST(self) -> None:
        told = self._told
        payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/tokenize":
            self._reply(told.aside(self.path, payload))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.path, headers, payload)
        try:
            step = told.next(received)
        except IndexError:
            self.close_connection = True
            return
        if isinstance(step, Hang):
            if step.begun:
                self._head(200, {}, 10)
                self.wfile.write(b"{")
            deadline = time.monotonic() + TIMEOUT
            while not self._given_up(received) and time.monotonic() < deadline:
                told.ended.wait(TICK)
            self.close_connection = True
        elif isinstance(step, Streamed):
            self._stream(step, received)
        else:
            self._reply(step)

    @property
    def _told(self) -> ScriptedLlm:
        told: ScriptedLlm = self.server.told  # type: ignore[attr-defined]
        return told

    def _reply(self, step: Reply) -> None:
        self._head(step.status, step.headers, len(step.body) + step.promised)
        self.wfile.write(step.body)
        self.close_connection = bool(step.promised)

    def _stream(self, step: Streamed, received: Received) -> None:
        self.close_connection = True
        self.send_response_only(200)
        self.send_header("content-type", step.content_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for piece in step.pieces:
                if step.gate and not step.gate.passed(lambda: self._given_up(received)):
                    return
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                received.pieces.append(len(piece))
            if not step.cut:
                self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            received.gone.set()

    def _given_up(self, received: Received) -> bool:
        """Whether the client is gone, or the test at its end."""
        if select.select([self.connection], [], [], 0)[0]:
            try:
                gone = not self.connection.recv(1, socket.MSG_PEEK)
            except ConnectionError:
                gone = True
            if gone:
                received.gone.set()
        return received.gone.is_set() or self._told.ended.is_set()

    def _head(self, status: int, headers: Mapping[str, str], length: int) -> None:
        self.send_response_only(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(length))
        self.end_headers()

    log_message: Callable[..., None] = lambda *_: None
