"""Chat clients for one question with a JSON answer: OpenAI-compatible servers and Anthropic.

AgentMemoryError
├── ConfigError            the address or the key is invalid
├── ChatRefused            the server refuses the request: a retry does not help
│   └── ChatTooLong        the request does not fit into the context of the model
├── ChatUnusable           the answer is invalid
└── RemoteUnavailable
    └── ChatUnavailable    time-out, lost connection, 429, 5xx: a later retry may help

The messages of these errors contain no part of a question, an answer or a key.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar

import httpx
import msgspec

from agent_memory.kernel.errors import AgentMemoryError, ConfigError, RemoteUnavailable
from agent_memory.kernel.hosts import is_loopback

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com/v1"
ANTHROPIC_VERSION = "2023-06-01"
CONNECT_SECONDS = 10.0
MAX_ANSWER_BYTES = 4 << 20

_TOO_LONG = re.compile(
    r"context.?(?:size|length|window)|(?:prompt|input|request|messages?)\W+(?:is|are)?\W*too.(?:long|large)",
    re.IGNORECASE,
)
BUSY = frozenset({408, 409, 425, 429})
BAD_REQUEST = frozenset({400, 413, 422})
NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
)
_BOUNDS = frozenset({"minLength", "maxLength", "minItems", "maxItems"})


class ChatRefused(AgentMemoryError):
    """The model server refuses the request."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the model server answered with status {status}")
        self.status = status

    @property
    def is_permanent(self) -> bool:
        """Whether every request would be refused: the key, the address or the model is wrong."""
        return self.status not in BAD_REQUEST


class ChatTooLong(ChatRefused):
    """The request does not fit into the context of the model."""


class ChatUnusable(AgentMemoryError):
    """The model server sent an invalid answer."""


class ChatUnavailable(RemoteUnavailable):
    """The model server does not answer. `sent` is True if it may have processed the question.
    `retry_after` is the wait in seconds that it asks for.
    """

    def __init__(self, reason: str, *, sent: bool, retry_after: float | None = None) -> None:
        super().__init__(f"the model server does not answer: {reason}")
        self.reason = reason
        self.sent = sent
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatQuestion:
    """A question. `schema` is the JSON schema of the answer, and `name` its name."""

    system: str
    text: str
    name: str
    schema: Mapping[str, Any]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """An answer. `whole` is False if it was cut at `max_tokens`. The server reports the tokens."""

    text: str
    whole: bool
    prompt_tokens: int | None
    completion_tokens: int | None


class Chat(Protocol):
    @property
    def model(self) -> str: ...

    def ask(self, question: ChatQuestion, /, *, seconds: float) -> ChatAnswer:
        """Ask a question. Raises ChatRefused, ChatUnusable or ChatUnavailable."""
        ...

    def close(self) -> None: ...


class OpenAiChat:
    """A client for `/v1/chat/completions` of OpenAI, llama-server and compatible servers.

    `bounded` sends the length limits of the schema too. llama-server turns them into a grammar that
    ends an endless list; other servers may refuse the schema because of them.
    """

    def __init__(
        self, *, base_url: str = "", model: str = "", api_key: str = "", bounded: bool = False
    ) -> None:
        self._server = ModelEndpoint(resolve_api(base_url), "/chat/completions", bearer(api_key))
        self._model = model
        self._bounded = bounded

    @property
    def model(self) -> str:
        return self._model

    def ask(self, question: ChatQuestion, /, *, seconds: float) -> ChatAnswer:
        schema = question.schema if self._bounded else _drop_bounds(question.schema)
        payload: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": question.system},
                {"role": "user", "content": question.text},
            ],
            "temperature": 0,
            "max_tokens": question.max_tokens,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": question.name, "strict": True, "schema": schema},
            },
        }
        if self._model:
            payload["model"] = self._model
        completion = _decode(self._server.post(payload, seconds), _Completion)
        choice = completion.choices[0] if completion.choices else None
        if choice is None or choice.message.content is None:
            raise ChatUnusable("the answer has no content")
        usage = completion.usage or _Usage()
        return ChatAnswer(
            text=choice.message.content,
            whole=choice.finish_reason != "length",
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
        )

    def close(self) -> None:
        self._server.close()


class AnthropicChat:
    """A client for `/v1/messages` of Anthropic. The answer is the input of its only tool."""

    def __init__(self, *, base_url: str = "", model: str, api_key: str) -> None:
        url = parse_base_url(base_url or ANTHROPIC_URL)
        path = url.path.rstrip("/")
        if not path.endswith("/v1"):
            url = url.copy_with(path=path + "/v1")
        headers = {"x-api-key": check_key(api_key), "anthropic-version": ANTHROPIC_VERSION}
        self._server = ModelEndpoint(url, "/messages", headers)
        self._model = model

    @property
    def model(self) -> str:
        return self._model

    def ask(self, question: ChatQuestion, /, *, seconds: float) -> ChatAnswer:
        payload: dict[str, Any] = {
            "model": self._model,
            "system": question.system,
            "messages": [{"role": "user", "content": question.text}],
            "temperature": 0,
            "max_tokens": question.max_tokens,
            "tools": [
                {
                    "name": question.name,
                    "description": "Takes the answer.",
                    "input_schema": question.schema,
                }
            ],
            "tool_choice": {"type": "tool", "name": question.name},
        }
        message = _decode(self._server.post(payload, seconds), _AnthropicMessage)
        usage = message.usage or _AnthropicUsage()
        return ChatAnswer(
            text=_content(message.content),
            whole=message.stop_reason != "max_tokens",
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.output_tokens,
        )

    def close(self) -> None:
        self._server.close()


class OptionalFields:
    """Fields that a server may not support. After an error about one, it is omitted or sent under
    its other name."""

    def __init__(self, optional: Mapping[str, str]) -> None:
        self._optional = optional
        self._left_out: set[str] = set()

    def apply(self, payload: dict[str, Any]) -> None:
        for name in self._left_out & payload.keys():
            value = payload.pop(name)
            if other := self._optional[name]:
                payload[other] = value

    def learn(self, payload: Mapping[str, Any], status: int, body: bytes) -> bool:
        """Return whether the error is about optional fields, so that a retry without them helps."""
        if status not in BAD_REQUEST or is_too_long(body):
            return False
        unknown = {name for name in self._optional if name in payload and name.encode() in body}
        self._left_out |= unknown
        return bool(unknown)


class ModelEndpoint:
    """A client for one address."""

    # Newer models of OpenAI take another name, or no temperature; many servers take no schema.
    _OPTIONAL: Mapping[str, str] = {
        "max_tokens": "max_completion_tokens",
        "temperature": "",
        "response_format": "",
    }

    def __init__(self, url: httpx.URL, path: str, headers: Mapping[str, str]) -> None:
        self._url = join_url(url, path)
        self._options = OptionalFields(self._OPTIONAL)
        self._client = build_client(url, headers)

    def post(self, payload: dict[str, Any], seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        while True:
            self._options.apply(payload)
            status, headers, body = self._answer(payload, deadline)
            if status == httpx.codes.OK:
                return body
            if not self._options.learn(payload, status, body):
                raise _failure(status, headers, body)

    def close(self) -> None:
        self._client.close()

    def _answer(
        self, payload: Mapping[str, Any], deadline: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        left = max(deadline - time.monotonic(), 0.001)
        timeout = httpx.Timeout(left, connect=min(left, CONNECT_SECONDS))
        content = msgspec.json.encode(payload)
        body = bytearray()
        try:
            with self._client.stream(
                "POST", self._url, content=content, timeout=timeout
            ) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES:
                        raise ChatUnusable("the answer is too long")
                    # The time-out of httpx applies to each read: a slow stream would never end.
                    if time.monotonic() > deadline:
                        raise ChatUnavailable("ReadTimeout", sent=True)
        except NOT_SENT as exc:
            raise ChatUnavailable(type(exc).__name__, sent=False) from exc
        except (httpx.HTTPError, httpx.StreamError) as exc:
            raise ChatUnavailable(type(exc).__name__, sent=True) from exc
        except RuntimeError as exc:
            if not self._client.is_closed:
                raise
            raise ChatUnavailable("closed", sent=False) from exc
        return response.status_code, response.headers, bytes(body)


class _Content(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Content
    finish_reason: str | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: list[_Choice]
    usage: _Usage | None = None


class _AnthropicBlock(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    input: msgspec.Raw = msgspec.Raw()


class _AnthropicUsage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None

    @property
    def prompt_tokens(self) -> int | None:
        if self.input_tokens is None:
            return None
        cached = (self.cache_creation_input_tokens or 0) + (self.cache_read_input_tokens or 0)
        return self.input_tokens + cached


class _AnthropicMessage(msgspec.Struct, frozen=True):
    content: list[_AnthropicBlock]
    stop_reason: str | None = None
    usage: _AnthropicUsage | None = None


S = TypeVar("S", bound=msgspec.Struct)


def _decode(body: bytes, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise ChatUnusable("the answer does not match the API") from exc


def _content(blocks: list[_AnthropicBlock]) -> str:
    """Return the input of the tool, or else the text, which may be the JSON too."""
    for block in blocks:
        if block.type == "tool_use":
            return bytes(block.input).decode(errors="replace")
    text = "".join(block.text for block in blocks if block.type == "text")
    if not text:
        raise ChatUnusable("the answer has no content")
    return text


def _failure(status: int, headers: Mapping[str, str], body: bytes) -> AgentMemoryError:
    if (status in BAD_REQUEST or status >= 500) and is_too_long(body):
        return ChatTooLong(status)  # older versions of llama-server send 500
    if status in BUSY or status >= 500:
        return ChatUnavailable(f"status {status}", sent=False, retry_after=_retry_after(headers))
    return ChatRefused(status)


def is_too_long(body: bytes) -> bool:
    return bool(_TOO_LONG.search(body[:4096].decode(errors="replace")))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait. A date is compared with the Date header of the server."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", value):
        return float(value)
    try:
        until = parsedate_to_datetime(value)
        return max((until - parsedate_to_datetime(headers["date"])).total_seconds(), 0.0)
    except (ValueError, TypeError, KeyError, IndexError):
        return None


def _drop_bounds(schema: Any) -> Any:
    """Remove length limits from a schema."""
    if isinstance(schema, Mapping):
        return {key: _drop_bounds(value) for key, value in schema.items() if key not in _BOUNDS}
    return [_drop_bounds(item) for item in schema] if isinstance(schema, list) else schema


def parse_base_url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as exc:
        raise ConfigError("the base_url of the model server is not a valid address") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError("the base_url of the model server must start with http:// or https://")
    return url


def resolve_api(base_url: str) -> httpx.URL:
    """Return the base address of an OpenAI-compatible API."""
    url = parse_base_url(base_url or OPENAI_URL)
    return url.copy_with(path="/v1") if url.path in ("", "/") else url


def join_url(url: httpx.URL, path: str) -> httpx.URL:
    """Append a path, and drop credentials: httpx logs the addresses of requests."""
    return url.copy_with(userinfo=b"", path=url.path.rstrip("/") + path)


def build_client(
    url: httpx.URL, headers: Mapping[str, str], limits: httpx.Limits | None = None
) -> httpx.Client:
    local = is_loopback(url.host)
    try:
        return httpx.Client(
            headers={**headers, "content-type": "application/json"},
            auth=(url.username, url.password) if url.userinfo else None,
            follow_redirects=False,  # the key must not go to another server
            trust_env=not local,  # a proxy cannot reach this machine
            verify=not local or url.scheme != "http",  # loading the certificates takes 50 ms
            limits=limits or httpx.Limits(max_connections=100, max_keepalive_connections=20),
        )
    except (ImportError, ValueError, httpx.InvalidURL) as exc:
        raise ConfigError(
            f"the proxy for {url.host} is invalid: check the proxy variables"
        ) from exc


def bearer(api_key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {check_key(api_key)}"} if api_key else {}


def check_key(api_key: str) -> str:
    key = api_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the API key contains invalid characters")
    return key
