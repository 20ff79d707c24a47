"""A chat model over `/v1/chat/completions`, with streamed answers.

Error messages contain no part of a conversation or a key.
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
from typing import Any, TypeVar

import httpx
import msgspec
import structlog

from agent_memory.features.runs.adapters import event_stream
from agent_memory.features.runs.adapters.tool_calls import CallAssembler, CallDelta, TooManyCalls
from agent_memory.features.runs.model.chats import (
    ChatRequest,
    Message,
    MessageRole,
    ReasoningDelta,
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
SIDE_SECONDS = 5.0  # for requests besides the conversation
AGAIN_SECONDS = 60.0  # until a server that gave no answer is asked again
MAX_ANSWER_BYTES = chat.MAX_ANSWER_BYTES
MAX_STREAM_BYTES = 64 << 20  # a delta of one token takes about 300 bytes
MAX_COUNTS = 4096
_MAX_ERROR_BYTES = 64 << 10
_MAX_ERROR_CHARS = 300
_ECHO = 40  # characters in common that are no coincidence
_WHOLE = 8
_ENDLESS = "the answer of the model is too long"
_TOO_LONG = "the conversation does not fit into the context of the model"
_NO_ANSWER = (
    "the model server sent an invalid answer: check that llama.endpoint is the address of an"
    " OpenAI-compatible API"
)

# Fields that not every server supports, with their alternative name (see chat.OptionalFields).
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
    message: _Delta | None = None  # if the answer is not streamed
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


S = TypeVar("S", bound=msgspec.Struct)


class Completions:
    """A ChatModel on a server that is leased for each request."""

    def __init__(
        self,
        server: LeasableServer,
        *,
        model: str = "",
        context_size: int,
        turn_seconds: float,
        max_counts: int = MAX_COUNTS,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._model = model
        self._context_size = context_size
        self._turn_seconds = turn_seconds
        self._max_counts = max_counts
        self._timer = timer
        self._lock = threading.Lock()
        self._connections: dict[tuple[str, str], _ModelConnection] = {}
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._window: tuple[int, float, int] | None = None

    def get_context_size(self, cancel: CancelToken, /) -> int:
        with self._server.lease(cancel) as lease:
            known = self._window
            if known is None or known[0] != lease.serial or self._timer() >= known[1]:
                size = self._connect(lease).get_context_size(self._model)
                if not 0 < size < self._context_size:
                    size = self._context_size
                known = self._window = lease.serial, self._timer() + AGAIN_SECONDS, size
            return known[2]

    def count_tokens(self, texts: Sequence[str], cancel: CancelToken, /) -> list[int]:
        digests = [
            hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
            for text in texts
        ]
        cached = [self._get_count(digest) for digest in digests]
        if None not in cached:
            return [count for count in cached if count is not None]
        counts: list[int] = []
        with self._server.lease(cancel) as lease:
            connection = self._connect(lease)
            for text, digest, known in zip(texts, digests, cached, strict=True):
                cancel.check()
                counts.append(self._count(connection, text, digest) if known is None else known)
        return counts

    def stream(self, request: ChatRequest, cancel: CancelToken, /) -> Iterator[StreamPart]:
        with self._server.lease(cancel) as lease:
            try:
                yield from self._connect(lease).stream(
                    _payload(request, self._model), request, cancel, self._turn_seconds
                )
            except _ConnectionLost as exc:
                cancel.check()
                ended = lease.get_exit_reason()
                cancel.check()
                raise LlmFailed(ended or str(exc)) from exc

    def close(self) -> None:
        """Close idle connections. Answers in progress continue until their readers end them."""
        with self._lock:
            connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    def _connect(self, lease: Lease) -> "_ModelConnection":
        """Return the connection to this server, with what was learned about it."""
        address = lease.url, lease.key
        with self._lock:
            connection = self._connections.get(address)
            if connection is None:
                try:
                    connection = _ModelConnection(lease, self._timer)
                except ConfigError as exc:
                    raise FeatureUnavailable(f"llama.endpoint: {exc}") from exc
                for other in self._connections.values():
                    other.close()
                self._connections = {address: connection}
                self._counts.clear()  # the new server may have another model
            return connection

    def _get_count(self, digest: bytes) -> int | None:
        with self._lock:
            count = self._counts.get(digest)
            if count is not None:
                self._counts.move_to_end(digest)
            return count

    def _count(self, connection: "_ModelConnection", text: str, digest: bytes) -> int:
        count = connection.count_tokens(text, self._model)
        if count is None:
            return estimate_tokens(text)
        with self._lock:
            self._counts[digest] = count
            if len(self._counts) > self._max_counts:
                self._counts.popitem(last=False)
        return count


class _ConnectionLost(LlmFailed):
    """The connection was lost or never opened: the server may have ended."""


class _ModelConnection:
    """The connection to one server."""

    def __init__(self, lease: Lease, timer: Callable[[], float]) -> None:
        url = chat.resolve_api(lease.url)
        headers = chat.bearer(lease.key) | {"accept-encoding": "identity"}
        self._key = lease.key
        self._timer = timer
        self._no_counts_until = 0.0
        self._url = chat.join_url(url, "/chat/completions")
        self._root = url.copy_with(path=url.path.rstrip("/").removesuffix("/v1"))
        # Each answer has its own connection, so that shutting it down cancels only that answer.
        self._client = chat.build_client(
            url, headers, httpx.Limits(max_connections=None, max_keepalive_connections=0)
        )
        self._side_client = chat.build_client(url, headers)
        self._options = chat.OptionalFields(_OPTIONAL)
        self._no_tools = False

    def close(self) -> None:
        """Accept no new requests. Those in progress continue."""
        self._side_client.close()

    def get_context_size(self, model: str) -> int:
        """Return the context size that the server reports, or 0."""
        params = {"model": model} if model else None
        props = self._request("GET", "/props", _Props, params=params)
        return 0 if props is None else props.default_generation_settings.n_ctx

    def count_tokens(self, text: str, model: str) -> int | None:
        """Count tokens, or return None if the server cannot, or could not a moment ago."""
        if self._timer() < self._no_counts_until:
            return None
        payload = {"content": text} | ({"model": model} if model else {})
        content = msgspec.json.encode(payload)
        counted = self._request("POST", "/tokenize", _Tokens, content=content)
        if counted is None:
            self._no_counts_until = self._timer() + AGAIN_SECONDS
            return None
        return len(counted.tokens)

    def _request(self, method: str, path: str, kind: type[S], **content: Any) -> S | None:
        """Send a request besides the conversation. Return None if there is no usable answer."""
        url = chat.join_url(self._root, path)
        try:
            response = self._side_client.request(method, url, timeout=SIDE_SECONDS, **content)
            if response.status_code == httpx.codes.OK:
                return msgspec.json.decode(response.content, type=kind)
        except (httpx.HTTPError, RuntimeError, msgspec.MsgspecError, UnicodeError):
            pass
        return None

    def stream(
        self, payload: dict[str, Any], request: ChatRequest, cancel: CancelToken, seconds: float
    ) -> Iterator[StreamPart]:
        while True:
            self._options.apply(payload)
            if self._no_tools:
                payload.pop("tools", None)
            with self._post(payload, cancel, seconds) as response:
                if response.status_code == httpx.codes.OK:
                    answer = _AnswerStream(response, request, self._key, seconds, self._timer)
                    yield from answer.read()
                    return
                body = _read_start(response)
            if not self._learn(payload, response.status_code, body):
                raise self._failure(response.status_code, body, request)

    @contextmanager
    def _post(
        self, payload: dict[str, Any], cancel: CancelToken, seconds: float
    ) -> Iterator[httpx.Response]:
        line = _AbortableSocket(cancel)
        timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        try:
            with (
                cancel.on_cancel(line.abort),
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
            cancel.check()
            raise _to_failure(exc, self._url.host, seconds) from exc
        except LlmFailed:
            cancel.check()  # a cancelled answer looks like an incomplete one
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
        error = _extract_error(body, self._key, request)
        detail = f" ({error})" if error else ""
        if status in (401, 403):
            return LlmFailed(
                f"the model server rejects the key, status {status}{detail}: set"
                " llama.api_key_env to the variable that holds it"
            )
        if status == 404 or 300 <= status < 400:
            return LlmFailed(
                f"the model server has no such address or model, status {status}{detail}: check"
                " llama.endpoint and llama.model"
            )
        if status in chat.BUSY:
            return LlmFailed(f"the model server is too busy, status {status}{detail}")
        if status >= 500:
            return LlmFailed(f"the model server failed, status {status}{detail}")
        return LlmFailed(f"the model server refused the request, status {status}{detail}")


class _AbortableSocket:
    """The socket of one answer, which a cancel shuts down."""

    def __init__(self, cancel: CancelToken) -> None:
        self._cancel_token = cancel
        self._socket: socket.socket | None = None

    def on_trace(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            stream = info["return_value"]
            self._socket = stream.get_extra_info("socket")
            if self._cancel_token.is_set():  # cancelled before there was a socket
                stream.close()
                self._cancel_token.check()

    def abort(self) -> None:
        if self._socket is not None:
            # The shutdown of TLS would wait for the other side.
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _AnswerStream:
    """The stream of one answer."""

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
        self._has_choice = False  # a choice has arrived, even if it is empty
        self._done = False  # the server has sent the end
        self._last_delta = timer()

    def read(self) -> Iterator[StreamPart]:
        try:
            if "json" in self._kind:
                yield from self._parse_chunk(b"".join(self._pieces(MAX_ANSWER_BYTES)))
                self._done = True
            else:
                yield from self._read_events()
        except (event_stream.EventTooLong, TooManyCalls) as exc:
            raise LlmFailed(_ENDLESS) from exc
        if not self._has_choice and (self._done or "event-stream" not in self._kind):
            raise LlmFailed(_NO_ANSWER)
        if not self._done and self._finish is None:
            raise _ConnectionLost("the model server broke off in the middle of its answer")
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
            if self._size > size:  # deltas of a call count too
                self._last_delta = self._timer()

    def _pieces(self, limit: int) -> Iterator[bytes]:
        received = 0
        for piece in self._response.iter_bytes():
            received += len(piece)
            if received > limit:
                raise LlmFailed(_ENDLESS)
            # Comments and empty deltas keep the connection alive, but are no answer.
            if self._timer() - self._last_delta > self._seconds:
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
            error = _extract_error(data, self._key, self._request)
            raise LlmFailed("the model server failed" + (f": {error}" if error else ""))
        for choice in (chunk.choices or [])[:1]:
            self._has_choice = True
            yield from self._parse_delta(choice.delta or choice.message or _Delta())
            self._finish = choice.finish_reason or self._finish

    def _parse_delta(self, delta: _Delta) -> Iterator[StreamPart]:
        self._size += sum(
            len(text or "") for text in (delta.content, delta.reasoning_content, delta.reasoning)
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
        "messages": [_message(message) for message in request.messages],
        "max_tokens": request.max_tokens,
        "stream": True,
    }
    if request.temperature is not None:
        payload["temperature"] = request.temperature
    if request.tools:
        payload["tools"] = [_tool(tool) for tool in request.tools]
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
                # Some servers refuse a conversation with arguments that are not JSON.
                "function": {
                    "name": call.name,
                    "arguments": call.arguments if call.parsed_arguments is not None else "{}",
                },
            }
            for call in message.calls
        ]
    if message.role is MessageRole.TOOL and message.call_id is not None:
        rendered["tool_call_id"] = message.call_id
    return rendered


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _read_start(response: httpx.Response) -> bytes:
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _MAX_ERROR_BYTES:
            break
    return bytes(body)


def _extract_error(body: bytes, key: str, request: ChatRequest | None = None) -> str:
    """Return the error message of the server, unless it quotes the conversation."""
    try:
        error = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""
    if isinstance(error, dict):
        error = error.get("error", error.get("message", error.get("detail")))
    if isinstance(error, dict):
        error = error.get("message")
    if not isinstance(error, str):
        return ""
    if key:
        error = error.replace(key, "***")  # before cutting the text
    text = _flat(error)
    if request is not None and _echoes(text[: _MAX_ERROR_CHARS + _ECHO], request):
        return ""
    return text[:_MAX_ERROR_CHARS]


def _echoes(text: str, request: ChatRequest) -> bool:
    """Return whether the text contains a long piece of the conversation, or a whole message."""
    pieces = [text[at : at + _ECHO] for at in range(max(len(text) - _ECHO + 1, 0))]
    for message in request.messages:
        for part in (message.content, *(call.arguments for call in message.calls)):
            sent = _flat(part)
            if (len(sent) >= _WHOLE and sent in text) or any(piece in sent for piece in pieces):
                return True
    return False


def _flat(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _to_failure(exc: Exception, host: str, seconds: float) -> LlmFailed:
    if isinstance(exc, httpx.ReadTimeout | httpx.WriteTimeout):
        return LlmFailed(_format_silence(seconds))
    if isinstance(exc, chat.NOT_SENT):
        return _ConnectionLost(
            f"the model server at {host} cannot be reached ({type(exc).__name__})"
        )
    return _ConnectionLost(f"the connection to the model server was lost ({type(exc).__name__})")


def _format_silence(seconds: float) -> str:
    return f"the model server has been silent for {seconds:g} s (runs.turn_seconds)"
