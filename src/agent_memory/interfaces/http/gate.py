"""The gate: what a request must show before the application hears of it.

In this order: a Host of ours, no web page of a stranger, a bearer key, not too often, not too
much. It imports no framework, so that a request which is turned away loads none.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from agent_memory.interfaces.guard import BearerGuard
from agent_memory.interfaces.http import origins
from agent_memory.interfaces.http.asgi import Application, Message, Receive, Scope, Send
from agent_memory.interfaces.http.audit import READING, AuditMiddleware
from agent_memory.interfaces.http.bodies import BodyLimitMiddleware, too_large
from agent_memory.interfaces.http.rates import TokenBuckets
from agent_memory.interfaces.http.refusals import RequestRefused, refuse
from agent_memory.kernel.errors import ConfigError, Unauthorized

OWN_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
LONG_LIVED_PATHS = ("/stream", "/ws", "/mcp", "/sse", "/messages")
KEYLESS = frozenset({"/health", "/docs", "/openapi.json"})
KEYLESS_FOLDER = "/static-offline-docs/"
# Keys are 256 random bits, so nobody guesses one: this bounds what trying costs us.
FAILURES_A_SECOND = 10
FAILURES_AT_ONCE = 100
MAX_LENGTH_DIGITS = 18
POLICY = 1008  # of WebSocket: against the rules

_READ = frozenset(
    {
        b"host",
        b"origin",
        b"authorization",
        b"content-length",
        b"transfer-encoding",
        b"access-control-request-method",
        b"access-control-request-headers",
    }
)
_PREFLIGHT = "OPTIONS"

Headers = Mapping[bytes, bytes]


class _Revoked(ConnectionError):
    """The key of a connection is no longer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """`hosts` and `origins` are those beyond our own."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    any_origin: bool = False
    rate: int = 100
    burst: int = 1000
    max_body_bytes: int = 16 << 20


class Gate:
    def __init__(
        self,
        inner: Application,
        guard: BearerGuard,
        admission: GatePolicy,
        clock: Callable[[], float],
        record: Callable[..., object] | None = None,
    ) -> None:
        self._inner = AuditMiddleware(
            BodyLimitMiddleware(inner, most=admission.max_body_bytes), record
        )
        self._guard = guard
        self._hosts = OWN_HOSTS | {host.lower().strip("[]") for host in admission.hosts}
        for origin in admission.origins:
            if not origins.is_origin(origin):
                raise ConfigError(
                    f"http.allowed_origins: {origin!r} is no origin; give one as browsers do, like"
                    " https://dashboard.example or http://localhost:3000"
                )
        self._origins = {origins.normalize(each) for each in admission.origins}
        self._any_origin = admission.any_origin
        self._most = admission.max_body_bytes
        self._rates = TokenBuckets(rate=admission.rate, burst=admission.burst, clock=clock)
        self._failures = TokenBuckets(rate=FAILURES_A_SECOND, burst=FAILURES_AT_ONCE, clock=clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that anyone may have sent."""
        unread = None
        try:
            headers = _headers(scope)
            unread = _unread(headers)
            page = self._check_origin(scope, headers)
            if page is not None:
                send = _add_cors_headers(send, page)
                if scope.get("method") == _PREFLIGHT and _is_preflight(headers):
                    await _answer_preflight(headers, send)
                    return
            caller = self._caller(scope, headers)
            self._check_length(headers)
        except RequestRefused as refused:
            await refuse(refused, scope, receive, send, unread)
            return
        _set_state(scope, caller=caller, listener="tcp", unread=unread)
        if caller and scope["path"].startswith(LONG_LIVED_PATHS):
            send = self._while_known(caller, send)
        with contextlib.suppress(_Revoked):
            await self._inner(scope, receive, send)

    def _while_known(self, caller: str, send: Send) -> Send:
        """A connection that stays open ends once its key is revoked."""

        async def send_while_known(message: Message) -> None:
            if self._guard.has_key(caller):
                await send(message)
                return
            if message["type"].startswith("websocket."):
                await send({"type": "websocket.close", "code": POLICY})
            else:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            raise _Revoked

        return send_while_known

    async def serve_trusted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request over a socket that only its owner can open: that is access enough."""
        unread = None
        try:
            headers = _headers(scope)
            unread = _unread(headers)
            self._check_length(headers)
        except RequestRefused as refused:
            await refuse(refused, scope, receive, send, unread)
            return
        _set_state(scope, caller="socket", listener="unix", unread=unread)
        await self._inner(scope, receive, send)

    def _check_origin(self, scope: Scope, headers: Headers) -> str | None:
        """The web page of another origin that asks, if one does, and may."""
        host = headers.get(b"host", b"")
        if origins.parse_host(host) not in self._hosts:
            raise RequestRefused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "this daemon is not known by the Host of the request: ask for localhost, or add"
                " the name to http.allowed_hosts",
            )
        given = headers.get(b"origin")
        if given is None:
            return None
        origin = origins.normalize(given.decode("latin-1"))
        if origin == origins.build_origin(scope["scheme"], host):
            return None
        if self._any_origin or origin in self._origins:
            return given.decode("latin-1")
        if (
            scope["type"] == "websocket"
            or scope["method"] not in READING
            or scope["path"].startswith(LONG_LIVED_PATHS)
        ):
            raise RequestRefused(
                HTTPStatus.FORBIDDEN,
                "this comes from a web page of another origin: http.allowed_origins names those"
                " that may",
            )
        return None

    def _caller(self, scope: Scope, headers: Headers) -> str:
        """The name of the key; empty where none is asked for."""
        path = scope["path"]
        if (
            (path in KEYLESS or path.startswith(KEYLESS_FOLDER))
            and scope["type"] == "http"
            and scope["method"] in ("GET", "HEAD")
        ):
            name = ""
        else:
            name = self._key(headers)
        if path != "/health" and (seconds := self._rates.take(name)):
            raise _too_often("too many requests at once (http.rate, http.burst)", seconds)
        return name

    def _key(self, headers: Headers) -> str:
        given = headers.get(b"authorization")
        try:
            return self._guard(None if given is None else given.decode("latin-1")).name
        except Unauthorized as exc:
            if seconds := self._failures.take(""):
                raise _too_often("too many requests without a right key", seconds) from exc
            raise RequestRefused(
                HTTPStatus.UNAUTHORIZED, str(exc), (b"www-authenticate", b"Bearer")
            ) from exc

    def _check_length(self, headers: Headers) -> None:
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > MAX_LENGTH_DIGITS:
            raise RequestRefused(
                HTTPStatus.BAD_REQUEST, "the Content-Length is not a number of bytes"
            )
        if int(length) > self._most:
            raise too_large(self._most)


def _headers(scope: Scope) -> Headers:
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _READ:
            if name in found:
                raise RequestRefused(
                    HTTPStatus.BAD_REQUEST, f"there are two {name.decode()} headers"
                )
            found[name] = value
    return found


def _unread(headers: Headers) -> int | None:
    """How much of a body there is to come; None: nobody knows."""
    length = headers.get(b"content-length", b"0")
    if b"transfer-encoding" in headers or not length.isdigit() or len(length) > MAX_LENGTH_DIGITS:
        return None
    return int(length)


def _set_state(scope: Scope, **facts: object) -> None:
    """For those behind us; a client has no way to write there."""
    scope.setdefault("state", {}).update(facts)


def _too_often(what: str, seconds: float) -> RequestRefused:
    after = math.ceil(seconds)
    return RequestRefused(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{what}: try again in {after} s",
        (b"retry-after", b"%d" % after),
    )


def _add_cors_headers(send: Send, page: str) -> Send:
    """Let the browser show the answer to that page."""
    headers = [(b"access-control-allow-origin", page.encode("latin-1")), (b"vary", b"origin")]

    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return send_with_cors


def _is_preflight(headers: Headers) -> bool:
    return b"access-control-request-method" in headers


async def _answer_preflight(headers: Headers, send: Send) -> None:
    allowed = [
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
        (b"access-control-max-age", b"600"),
    ]
    if (wanted := headers.get(b"access-control-request-headers")) is not None:
        allowed.append((b"access-control-allow-headers", wanted))
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})
