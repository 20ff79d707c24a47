"""Chat clients: one question, one answer in JSON. OpenAI-compatible servers and Anthropic.

AgentMemoryError
├── ConfigError            the address or the key cannot be used
├── ChatRefused            the server does not take the request: asking again would not help
│   └── ChatTooLong        it does not fit into the model's context
├── ChatUnusable           an answer came, but it is none
└── RemoteUnavailable
    └── ChatUnavailable    time-out, lost connection, 429, 5xx: later it may work

No message of these errors holds anything of a question, an answer or a key.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Any, Protocol, TypeVar

import httpx
import msgspec

from agent_memory.kernel.errors import AgentMemoryError, ConfigError, RemoteUnavailable

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
    """The model's server does not take the request."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the model's server answered with status {status}")
        self.status = status

    @property
    def is_permanent(self) -> bool:
        """Whether another request would be refused as well: a wrong key, address or model."""
        return self.status not in BAD_REQUEST


class ChatTooLong(ChatRefused):
    """The request does not fit into the model's context."""


class ChatUnusable(AgentMemoryError):
    """The model's server answered something that is no answer."""


class ChatUnavailable(RemoteUnavailable):
    """The model's server does not answer. `sent`: it may have worked on the question all the same.

    `retry_after`: the seconds that it asks to wait.
    """

    def __init__(self, reason: str, *, sent: bool, retry_after: float | None = None) -> None:
        super().__init__(f"the model's server does not answer: {reason}")
        self.reason = reason
        self.sent = sent
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatQuestion:
    """What a model is asked. `schema` is the JSON schema, called `name`, of the answer."""

    system: str
    text: str
    name: str
    schema: Mapping[str, Any]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """What it answers. `whole` is False where it ran into `max_tokens`; usage is as told."""

    text: str
    whole: bool
    prompt_tokens: int | None
    completion_tokens: int | None


class Chat(Protocol):
    @property
    def model(self) -> str: ...

    def ask(self, question: ChatQuestion, /, *, seconds: float) -> ChatAnswer:
        """The answer. Raises ChatRefused, ChatUnusable or ChatUnavailable."""
        ...

    def close(self) -> None: ...


class OpenAiChat:
    """`/v1/chat/completions` of OpenAI, llama-server and all that speak like them.

    `bounded`: the schema's limits of length are sent too. llama-server turns them into a grammar
    that ends a model's endless list; elsewhere they may be a reason to refuse the schema.
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
        found = _decode(self._server.post(payload, seconds), _Completion)
        choice = found.choices[0] if found.choices else None
        if choice is None or choice.message.content is None:
            raise ChatUnusable("the answer has no content")
        usage = found.usage or _Usage()
        return ChatAnswer(
            text=choice.message.content,
            whole=choice.finish_reason != "length",
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
        )

    def close(self) -> None:
        self._server.close()


class AnthropicChat:
    """Anthropic's `/v1/messages`; the answer is the input of the one tool there is."""

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
        found = _decode(self._server.post(payload, seconds), _AnthropicMessage)
        usage = found.usage or _AnthropicUsage()
        return ChatAnswer(
            text=_content(found.content),
            whole=found.stop_reason != "max_tokens",
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.output_tokens,
        )

    def close(self) -> None:
        self._server.close()


class OptionalFields:
    """What of a request a server may not know: told that it does not, it is left out from then on,
    or goes by its other name."""

    def __init__(self, optional: Mapping[str, str]) -> None:
        self._optional = optional
        self._left_out: set[str] = set()

    def apply(self, payload: dict[str, Any]) -> None:
        for name in self._left_out & payload.keys():
            value = payload.pop(name)
            if other := self._optional[name]:
                payload[other] = value

    def learn(self, payload: Mapping[str, Any], status: int, body: bytes) -> bool:
        """Whether the error is about options of the request, so that it can be asked without."""
        if status not in BAD_REQUEST or is_too_long(body):
            return False
        unknown = {name for name in self._optional if name in payload and name.encode() in body}
        self._left_out |= unknown
        return bool(unknown)


class ModelEndpoint:
    """Posts to one address."""

    # Newer models of OpenAI want another name, or no temperature; many servers know no schema.
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
                        raise ChatUnusable("the answer has no end")
                    # The time-out of httpx is for each read: a trickle would never end.
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
        raise ChatUnusable("the answer is not what the API promises") from exc


def _content(blocks: list[_AnthropicBlock]) -> str:
    """The tool's input; without one what the model says instead, which may be the JSON too."""
    for block in blocks:
        if block.type == "tool_use":
            return bytes(block.input).decode(errors="replace")
    said = "".join(block.text for block in blocks if block.type == "text")
    if not said:
        raise ChatUnusable("the answer has no content")
    return said


def _failure(status: int, headers: Mapping[str, str], body: bytes) -> AgentMemoryError:
    if (status in BAD_REQUEST or status >= 500) and is_too_long(body):
        return ChatTooLong(status)  # older llama-servers say 500
    if status in BUSY or status >= 500:
        return ChatUnavailable(f"status {status}", sent=False, retry_after=_retry_after(headers))
    return ChatRefused(status)


def is_too_long(body: bytes) -> bool:
    return bool(_TOO_LONG.search(body[:4096].decode(errors="replace")))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait; a date counts from the server's own."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", value):
        return float(value)
    try:
        until = parsedate_to_datetime(value)
        return max((until - parsedate_to_datetime(headers["date"])).total_seconds(), 0.0)
    except (ValueError, TypeError, KeyError, IndexError):
        return None


def _drop_bounds(schema: Any) -> Any:
    """The schema without limits of length."""
    if isinstance(schema, Mapping):
        return {key: _drop_bounds(value) for key, value in schema.items() if key not in _BOUNDS}
    return [_drop_bounds(each) for each in schema] if isinstance(schema, list) else schema


def parse_base_url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as exc:
        raise ConfigError("the base_url of the model's server is no address") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError("the base_url of the model's server must start with http:// or https://")
    return url


def resolve_api(base_url: str) -> httpx.URL:
    """Where an OpenAI-compatible API begins."""
    url = parse_base_url(base_url or OPENAI_URL)
    return url.copy_with(path="/v1") if url.path in ("", "/") else url


def join_url(url: httpx.URL, path: str) -> httpx.URL:
    """Requests are logged with their address, by httpx itself: no password is in there."""
    return url.copy_with(userinfo=b"", path=url.path.rstrip("/") + path)


def build_client(
    url: httpx.URL, headers: Mapping[str, str], limits: httpx.Limits | None = None
) -> httpx.Client:
    local = _is_loopback(url.host)
    try:
        return httpx.Client(
            headers={**headers, "content-type": "application/json"},
            auth=(url.username, url.password) if url.userinfo else None,
            follow_redirects=False,  # the key is for this server
            trust_env=not local,  # no proxy reaches our own machine
            verify=not local or url.scheme != "http",  # what TLS needs takes 50 ms to load
            limits=limits or httpx.Limits(max_connections=100, max_keepalive_connections=20),
        )
    except (ImportError, ValueError, httpx.InvalidURL) as exc:
        raise ConfigError(f"the proxy for {url.host} cannot be used") from exc


def bearer(api_key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {check_key(api_key)}"} if api_key else {}


def check_key(api_key: str) -> str:
    key = api_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the API key holds characters that no key has")
    return key


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
