"""Conversations with a model over `/v1/chat/completions`, as it streams its answers.

No failure tells anything of a conversation or a key.
"""

import hashlib
import re
import socket
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import msgspec
import structlog

from agent_memory.features.runs.adapters import event_stream
from agent_memory.features.runs.adapters.tool_calls import CallAssembler, CallDelta, TooManyCalls
from agent_memory.features.runs.model.chats import (
    ChatRequest,
    Message,
    ReasoningDelta,
    Role,
    StreamEnd,
    StreamPart,
    TextDelta,
    ToolSpec,
)
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ConfigError, ContextTooLong, FeatureUnavailable, LlmFailed
from agent_memory.platform.llm import chat
from agent_memory.platform.llm.leases import LeasableServer, Lease

log = structlog.get_logger()

CONNECT_SECONDS = 5.0
ASIDE_SECONDS = 5.0  # for what is asked beside the conversation
AGAIN_SECONDS = 60.0  # until a server that did not know is asked again
MAX_ANSWER_BYTES = chat.MAX_ANSWER_BYTES
MAX_STREAM_BYTES = 64 << 20  # a piece of one token comes in 300 bytes
MAX_COUNTS = 4096
_MAX_ERROR_BYTES = 64 << 10
_MAX_ERROR_CHARS = 300
_ECHO = 40  # characters that stand in both by no accident
_WHOLE = 8
_ENDLESS = "the model's answer has no end"
_TOO_LONG = "the conversation does not fit into the model's context"
_NO_ANSWER = (
    "the model's server answered something that is no answer: is llama.endpoint the address of an"
    " OpenAI-compatible API?"
)

# What not every server knows, by which other name it may (see chat.Options).
_OPTIONAL = {"max_tokens": "max_completion_tokens", "temperature": ""}
_NO_TOOLS = re.compile(
    r"(?=.*\btools?\b).*(?:not\s+support|unsupported|requires?\s+--\w)", re.IGNORECASE
)


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CallDelta] | None = None


class _StreamChoice(msgspec.Struct, frozen=True):
    delta: _Delta | None = None
    message: _Delta | None = None  # in an answer that is not streamed
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, frozen=True):
    choices: list[_StreamChoice] | None = None
    error: Any = None


class _Tokens(msgspec.Struct, frozen=True):
    tokens: list[msgspec.Raw]


class _Generation(msgspec.Struct, frozen=True):
    n_ctx: int = 0


class _Props(msgspec.Struct, frozen=True):
    default_generation_settings: _Generation


class Completions:
    """A ChatModel on a server that is leased for each question."""

    def __init__(
        self,
        lessor: LeasableServer,
        *,
        model: str = "",
        context_size: int,
        turn_seconds: float,
        max_counts: int = MAX_COUNTS,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = lessor
        self._model = model
        self._context_size = context_size
        self._turn_seconds = turn_seconds
        self._max_counts = max_counts
        self._timer = timer
        self._lock = threading.Lock()
        self._connections: dict[tuple[str, str], _ModelConnection] = {}
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._window: tuple[int, float, int] | None = None

    def get_context_size(self, halt: CancelToken, /) -> int:
        with self._server.lease(halt) as lease:
            known = self._window
            if known is None or known[0] != lease.serial or self._timer() >= known[1]:
                size = self._connect(lease).get_context_size(self._model)
                if not 0 < size < self._context_size:
                    size = self._context_size
                known = self._window = lease.serial, self._timer() + AGAIN_SECONDS, size
            return known[2]

    def count_tokens(self, texts: Sequence[str], halt: CancelToken, /) -> list[int]:
        digests = [
            hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
            for text in texts
        ]
        found = [self._get_count(digest) for digest in digests]
        if None not in found:
            return [each for each in found if each is not None]
        counts: list[int] = []
        with self._server.lease(halt) as lease:
            wire = self._connect(lease)
            for text, digest, known in zip(texts, digests, found, strict=True):
                halt.check()
                counts.append(self._count(wire, text, digest) if known is None else known)
        return counts

    def stream(self, request: ChatRequest, halt: CancelToken, /) -> Iterator[StreamPart]:
        with self._server.lease(halt) as lease:
            try:
                yield from self._connect(lease).stream(
                    _payload(request, self._model), request, halt, self._turn_seconds
                )
            except _ConnectionLost as exc:
                halt.check()
                ended = lease.get_exit_reason()
                halt.check()
                raise LlmFailed(ended or str(exc)) from exc

    def close(self) -> None:
        """Keep no connection for later. Answers that go on end with those who hear them."""
        with self._lock:
            wires, self._connections = self._connections, {}
        for wire in wires.values():
            wire.close()

    def _connect(self, lease: Lease) -> "_ModelConnection":
        """What is known of a server is kept as long as it is the same."""
        address = lease.url, lease.key
        with self._lock:
            wire = self._connections.get(address)
            if wire is None:
                try:
                    wire = _ModelConnection(lease, self._timer)
                except ConfigError as exc:
                    raise FeatureUnavailable(f"llama.endpoint: {exc}") from exc
                for each in self._connections.values():
                    each.close()
                self._connections = {address: wire}
                self._counts.clear()  # it may have another model
            return wire

    def _get_count(self, digest: bytes) -> int | None:
        with self._lock:
            count = self._counts.get(digest)
            if count is not None:
                self._counts.move_to_end(digest)
            return count

    def _count(self, wire: "_ModelConnection", text: str, digest: bytes) -> int:
        count = wire.count_tokens(text, self._model)
        if count is None:
            return estimate_tokens(text)
        with self._lock:
            self._counts[digest] = count
            if len(self._counts) > self._max_counts:
                self._counts.popitem(last=False)
        return count


class _ConnectionLost(LlmFailed):
    """The connection was, or never came about: the server may have ended."""


class _ModelConnection:
    """The way to one server."""

    def __init__(self, lease: Lease, timer: Callable[[], float]) -> None:
        url = chat.resolve_api(lease.url)
        headers = chat.bearer(lease.key) | {"accept-encoding": "identity"}
        self._key = lease.key
        self._timer = timer
        self._no_counts_until = 0.0
        self._url = chat.join_url(url, "/chat/completions")
        self._root = url.copy_with(path=url.path.rstrip("/").removesuffix("/v1"))
        # Each answer has a connection of its own, so that shutting it ends that answer.
        self._client = chat.build_client(
            url, headers, httpx.Limits(max_connections=None, max_keepalive_connections=0)
        )
        self._aside = chat.build_client(url, headers)
        self._options = chat.OptionalFields(_OPTIONAL)
        self._no_tools = False

    def close(self) -> None:
        """Nobody comes this way any more; those on it go on to their end."""
        self._aside.close()

    def get_context_size(self, model: str) -> int:
        """What the server says; 0 where it does not."""
        try:
            found = self._aside.get(
                chat.join_url(self._root, "/props"),
                params={"model": model} if model else None,
                timeout=ASIDE_SECONDS,
            )
            if found.status_code != httpx.codes.OK:
                return 0
            return msgspec.json.decode(found.content, type=_Props).default_generation_settings.n_ctx
        except (httpx.HTTPError, RuntimeError, msgspec.MsgspecError, UnicodeError):
            return 0

    def count_tokens(self, text: str, model: str) -> int | None:
        """None where the server does not know, or did not a moment ago."""
        if self._timer() < self._no_counts_until:
            return None
        payload = {"content": text} | ({"model": model} if model else {})
        try:
            found = self._aside.post(
                chat.join_url(self._root, "/tokenize"),
                content=msgspec.json.encode(payload),
                timeout=ASIDE_SECONDS,
            )
            if found.status_code == httpx.codes.OK:
                return len(msgspec.json.decode(found.content, type=_Tokens).tokens)
        except (httpx.HTTPError, RuntimeError, msgspec.MsgspecError, UnicodeError):
            pass
        self._no_counts_until = self._timer() + AGAIN_SECONDS
        return None

    def stream(
        self, payload: dict[str, Any], request: ChatRequest, halt: CancelToken, seconds: float
    ) -> Iterator[StreamPart]:
        while True:
            self._options.apply(payload)
            if self._no_tools:
                payload.pop("tools", None)
            with self._post(payload, halt, seconds) as response:
                if response.status_code == httpx.codes.OK:
                    answer = _AnswerStream(response, request, self._key, seconds, self._timer)
                    yield from answer.read()
                    return
                body = _beginning(response)
            if not self._learn(payload, response.status_code, body):
                raise self._failure(response.status_code, body, request)

    @contextmanager
    def _post(
        self, payload: dict[str, Any], halt: CancelToken, seconds: float
    ) -> Iterator[httpx.Response]:
        line = _AbortableSocket(halt)
        timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        try:
            with (
                halt.on_cancel(line.abort),
                self._client.stream(
                    "POST",
                    self._url,
                    content=msgspec.json.encode(payload),
                    timeout=timeout,
                    extensions={"trace": line.on_trace},
                ) as response,
            ):
                yield response
        except (httpx.HTTPError, httpx.StreamError, OSError) as exc:
            halt.check()
            raise _trouble(exc, self._url.host, seconds) from exc
        except LlmFailed:
            halt.check()  # what is cut short looks like an answer without its end
            raise

    def _learn(self, payload: dict[str, Any], status: int, body: bytes) -> bool:
        if self._options.learn(payload, status, body):
            return True
        if "tools" in payload and status >= 400 and _NO_TOOLS.search(_extract_error(body, "")):
            log.warning("llm.no_tools", host=self._url.host)
            self._no_tools = True
            return True
        return False

    def _failure(self, status: int, body: bytes, request: ChatRequest) -> LlmFailed:
        if (status in chat.BAD_REQUEST or status >= 500) and chat.is_too_long(body):
            return ContextTooLong(_TOO_LONG)
        told = _extract_error(body, self._key, request)
        said = f" ({told})" if told else ""
        if status in (401, 403):
            return LlmFailed(
                f"the model's server does not take the key, status {status}{said}: set"
                " llama.api_key_env to the variable that has it"
            )
        if status == 404 or 300 <= status < 400:
            return LlmFailed(
                f"the model's server has no such address or model, status {status}{said}: look at"
                " llama.endpoint and llama.model"
            )
        if status in chat.BUSY:
            return LlmFailed(f"the model's server is too busy, status {status}{said}")
        if status >= 500:
            return LlmFailed(f"the model's server failed, status {status}{said}")
        return LlmFailed(f"the model's server refused the request, status {status}{said}")


class _AbortableSocket:
    """The connection of one answer, which whoever halts it cuts."""

    def __init__(self, halt: CancelToken) -> None:
        self._halt = halt
        self._socket: socket.socket | None = None

    def on_trace(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            stream = info["return_value"]
            self._socket = stream.get_extra_info("socket")
            if self._halt.is_set():  # it was too early for a cut
                stream.close()
                self._halt.check()

    def abort(self) -> None:
        if self._socket is not None:
            # Not TLS's own: it would wait for the other side.
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _AnswerStream:
    """One answer, as it comes."""

    def __init__(
        self,
        response: httpx.Response,
        request: ChatRequest,
        key: str,
        seconds: float,
        timer: Callable[[], float],
    ) -> None:
        self._response = response
        self._kind = response.headers.get("content-type", "")
        self._request = request
        self._key = key
        self._seconds = seconds
        self._timer = timer
        self._calls = CallAssembler()
        self._finish: str | None = None
        self._size = 0
        self._begun = False  # there is something of an answer, be it empty
        self._done = False  # the server says that this was all
        self._spoke = timer()

    def read(self) -> Iterator[StreamPart]:
        try:
            if "json" in self._kind:
                yield from self._parse_chunk(b"".join(self._pieces(MAX_ANSWER_BYTES)))
                self._done = True
            else:
                yield from self._read_events()
        except (event_stream.EventTooLong, TooManyCalls) as exc:
            raise LlmFailed(_ENDLESS) from exc
        if not self._begun and (self._done or "event-stream" not in self._kind):
            raise LlmFailed(_NO_ANSWER)
        if not self._done and self._finish is None:
            raise _ConnectionLost("the model's server broke off in the middle of its answer")
        taken = [call.call_id for message in self._request.messages for call in message.calls]
        yield StreamEnd(
            calls=self._calls.finish(taken, lambda: f"call_{uuid.uuid4().hex}"),
            whole=self._finish != "length",
        )

    def _read_events(self) -> Iterator[StreamPart]:
        for data in event_stream.events(self._pieces(MAX_STREAM_BYTES)):
            if data.strip() == b"[DONE]":
                self._done = True
                return
            size = self._size
            yield from self._parse_chunk(data)
            if self._size > size:  # pieces of a call are said too
                self._spoke = self._timer()

    def _pieces(self, limit: int) -> Iterator[bytes]:
        received = 0
        for piece in self._response.iter_bytes():
            received += len(piece)
            if received > limit:
                raise LlmFailed(_ENDLESS)
            # Comments and empty pieces keep a connection alive, not an answer.
            if self._timer() - self._spoke > self._seconds:
                raise LlmFailed(_format_silence(self._seconds))
            yield piece

    def _parse_chunk(self, data: bytes) -> Iterator[StreamPart]:
        try:
            chunk = msgspec.json.decode(data, type=_Chunk)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
            raise LlmFailed(_NO_ANSWER) from exc
        if chunk.error is not None:
            if chat.is_too_long(data):
                raise ContextTooLong(_TOO_LONG)
            told = _extract_error(data, self._key, self._request)
            raise LlmFailed("the model's server failed" + (f": {told}" if told else ""))
        for choice in (chunk.choices or [])[:1]:
            self._begun = True
            yield from self._pieces_of(choice.delta or choice.message or _Delta())
            self._finish = choice.finish_reason or self._finish

    def _pieces_of(self, delta: _Delta) -> Iterator[StreamPart]:
        self._size += sum(
            len(each or "") for each in (delta.content, delta.reasoning_content, delta.reasoning)
        )
        for call in delta.tool_calls or ():
            self._size += self._calls.add(call)
        if self._size > MAX_ANSWER_BYTES:
            raise LlmFailed(_ENDLESS)
        if thought := delta.reasoning_content or delta.reasoning:
            yield ReasoningDelta(thought)
        if delta.content:
            yield TextDelta(delta.content)


def _payload(request: ChatRequest, model: str) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "messages": [_message(each) for each in request.messages],
        "max_tokens": request.max_tokens,
        "stream": True,
    }
    if request.temperature is not None:
        payload["temperature"] = request.temperature
    if request.tools:
        payload["tools"] = [_tool(each) for each in request.tools]
    if model:
        payload["model"] = model
    return payload


def _message(message: Message) -> dict[str, Any]:
    rendered: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.calls:
        rendered["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                # Some servers refuse a conversation in which a model once wrote no JSON.
                "function": {
                    "name": call.name,
                    "arguments": call.arguments if call.parsed_arguments is not None else "{}",
                },
            }
            for call in message.calls
        ]
    if message.role is Role.TOOL and message.call_id is not None:
        rendered["tool_call_id"] = message.call_id
    return rendered


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _beginning(response: httpx.Response) -> bytes:
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _MAX_ERROR_BYTES:
            break
    return bytes(body)


def _extract_error(body: bytes, key: str, request: ChatRequest | None = None) -> str:
    """What the server says of its error, unless that is what it was told."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""
    if isinstance(found, dict):
        found = found.get("error", found.get("message", found.get("detail")))
    if isinstance(found, dict):
        found = found.get("message")
    if not isinstance(found, str):
        return ""
    if key:
        found = found.replace(key, "***")  # before it is cut
    text = _flat(found)
    if request is not None and _echoes(text[: _MAX_ERROR_CHARS + _ECHO], request):
        return ""
    return text[:_MAX_ERROR_CHARS]


def _echoes(text: str, request: ChatRequest) -> bool:
    """Whether it has a longer piece of the conversation, or a whole message."""
    pieces = [text[at : at + _ECHO] for at in range(max(len(text) - _ECHO + 1, 0))]
    for message in request.messages:
        for each in (message.content, *(call.arguments for call in message.calls)):
            said = _flat(each)
            if (len(said) >= _WHOLE and said in text) or any(piece in said for piece in pieces):
                return True
    return False


def _flat(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _trouble(exc: Exception, host: str, seconds: float) -> LlmFailed:
    if isinstance(exc, httpx.ReadTimeout | httpx.WriteTimeout):
        return LlmFailed(_format_silence(seconds))
    if isinstance(exc, chat.NOT_SENT):
        return _ConnectionLost(
            f"the model's server at {host} cannot be reached ({type(exc).__name__})"
        )
    return _ConnectionLost(f"the connection to the model's server was lost ({type(exc).__name__})")


def _format_silence(seconds: float) -> str:
    return f"the model's server has been silent for {seconds:g} s (runs.turn_seconds)"
