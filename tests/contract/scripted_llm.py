"""A model's server on loopback that follows a script: one step a request, in order."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT = 20.0  # for what must happen: it is only ever waited out by a failing test


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


Step = Reply | Hang


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    headers: Mapping[str, str]
    payload: Any


@dataclass(slots=True)
class ScriptedLlm:
    url: str
    script: list[Step]
    received: list[Received] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def next(self, received: Received) -> Step:
        self.received.append(received)
        return self.script[len(self.received) - 1]


@contextmanager
def scripted(*script: Step) -> Iterator[ScriptedLlm]:
    """A request that the script does not foresee ends without an answer, and is counted."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    told = ScriptedLlm(f"http://127.0.0.1:{server.server_address[1]}", list(script))
    server.told = told  # type: ignore[attr-defined]
    server.daemon_threads = False
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

    def do_POST(self) -> None:
        told: ScriptedLlm = self.server.told  # type: ignore[attr-defined]
        payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            step = told.next(Received(self.path, headers, payload))
        except IndexError:
            self.close_connection = True
            return
        if isinstance(step, Hang):
            if step.begun:
                self._head(200, {}, 10)
                self.wfile.write(b"{")
            told.ended.wait(TIMEOUT)
            self.close_connection = True
            return
        self._head(step.status, step.headers, len(step.body) + step.promised)
        self.wfile.write(step.body)
        self.close_connection = bool(step.promised)

    def _head(self, status: int, headers: Mapping[str, str], length: int) -> None:
        self.send_response_only(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(length))
        self.end_headers()

    log_message: Callable[..., None] = lambda *_: None
