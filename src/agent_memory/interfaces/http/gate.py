"""The gate in front of the application: it checks every request.

It checks, in this order, the Host, the Origin, the bearer key, the rate, on a team server what the
caller may do, and the length. It imports no framework, so that a refused request loads none.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from agent_memory.interfaces import permissions
from agent_memory.interfaces.auditing import Auditor
from agent_memory.interfaces.guard import BearerGuard, Identity, read_bearer
from agent_memory.interfaces.http import origins
from agent_memory.interfaces.http.asgi import Application, Message, Receive, Scope, Send
from agent_memory.interfaces.http.audit import READING, AuditMiddleware
from agent_memory.interfaces.http.bodies import BodyLimitMiddleware, too_large
from agent_memory.interfaces.http.page_app import SESSION_PATH, is_page_path
from agent_memory.interfaces.http.page_sessions import KEY_NAME, PageSession, PageSessions
from agent_memory.interfaces.http.rates import TokenBuckets
from agent_memory.interfaces.http.refusals import POLICY_VIOLATION, RequestRefused, refuse
from agent_memory.interfaces.permissions import Permission
from agent_memory.kernel import access, deadlines
from agent_memory.kernel.access import NOBODY, OWNER
from agent_memory.kernel.errors import ConfigError, Forbidden, Unauthorized

OWN_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
LONG_LIVED_PATHS = ("/stream", "/ws", "/mcp", "/sse", "/messages")
KEYLESS = frozenset({"/health", "/docs", "/openapi.json", "/.well-known/agent-memory"})
KEYLESS_FOLDER = "/static-offline-docs/"
# A key has 256 random bits and cannot be guessed: this limits the cost of wrong keys.
FAILURES_A_SECOND = 10
FAILURES_AT_ONCE = 100
MAX_LENGTH_DIGITS = 18
_PREFLIGHT = b"access-control-request-method"
_READ = frozenset(
    {
        b"host",
        b"origin",
        b"authorization",
        b"content-length",
        b"transfer-encoding",
        _PREFLIGHT,
        b"access-control-request-headers",
    }
)

Headers = Mapping[bytes, bytes]


class _Revoked(ConnectionError):
    """The key of an open connection was revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """The limits of the gate. `hosts` and `origins` are allowed besides our own."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    any_origin: bool = False
    rate: int = 100
    burst: int = 1000
    max_body_bytes: int = 16 << 20


class Gate:
    """Checks requests, and passes the good ones to an application.

    With an `auditor`, it serves a team: each request has a principal, whose rights are checked.
    Without one, everyone who gets in is the owner.
    """

    def __init__(
        self,
        inner: Application,
        guard: BearerGuard,
        policy: GatePolicy,
        clock: Callable[[], float],
        record: Callable[..., object] | None = None,
        pages: PageSessions | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        self._inner = AuditMiddleware(
            BodyLimitMiddleware(inner, most=policy.max_body_bytes), record, auditor
        )
        self._guard = guard
        self._auditor = auditor
        self._pages = pages
        self._hosts = OWN_HOSTS | {host.lower().strip("[]") for host in policy.hosts}
        for origin in policy.origins:
            if not origins.is_origin(origin):
                raise ConfigError(
                    f"http.allowed_origins: {origin!r} is not an origin: use a form like"
                    " https://dashboard.example or http://localhost:3000"
                )
        self._origins = {origins.normalize(origin) for origin in policy.origins}
        self._any_origin = policy.any_origin
        self._most = policy.max_body_bytes
        self._rates = TokenBuckets(rate=policy.rate, burst=policy.burst, clock=clock)
        self._failures = TokenBuckets(rate=FAILURES_A_SECOND, burst=FAILURES_AT_ONCE, clock=clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request from a TCP socket."""
        deadlines.expect_answer()
        unread = None
        try:
            headers = _headers(scope)
            unread = _unread(headers)
            origin = self._check_origin(scope, headers)
            if origin is not None:
                send = _add_cors_headers(send, origin)
                if scope.get("method") == "OPTIONS" and _PREFLIGHT in headers:
                    await _answer_preflight(headers, send)
                    return
            caller = await self._authenticate(scope, headers)
            await self._authorize(caller, scope)
            self._check_length(headers)
        except RequestRefused as refused:
            await refuse(refused, scope, receive, send, unread)
            return
        is_valid = partial(self._is_valid, caller, scope["state"].get("page_session"))
        _set_state(
            scope,
            caller=caller.name,
            has_key=caller.until is None,
            listener="tcp",
            unread=unread,
            principal=caller.principal,
            is_valid=is_valid if caller.name else None,
        )
        if caller.name and scope["path"].startswith(LONG_LIVED_PATHS):
            receive, send = _end_when_revoked(is_valid, receive, send)
        with contextlib.suppress(_Revoked):
            await self._inner(scope, receive, send)

    def _is_valid(self, caller: Identity, session: PageSession | None) -> bool:
        """Tell whether a request that was admitted still would be."""
        is_open = session is None or (self._pages is not None and self._pages.has(session))
        return is_open and self._guard.is_valid(caller)

    async def serve_trusted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request from the Unix socket: only its owner can open it, so it needs no key."""
        deadlines.expect_answer()
        unread = None
        try:
            headers = _headers(scope)
            unread = _unread(headers)
            self._check_length(headers)
        except RequestRefused as refused:
            await refuse(refused, scope, receive, send, unread)
            return
        _set_state(scope, caller="socket", listener="unix", unread=unread, principal=OWNER)
        if self._auditor is not None:
            _set_state(scope, permission=permissions.MANAGE)
            access.act_as(OWNER)
        await self._inner(scope, receive, send)

    def _check_origin(self, scope: Scope, headers: Headers) -> str | None:
        """Return the allowed foreign origin that a request comes from, or None."""
        host = headers.get(b"host", b"")
        if origins.parse_host(host) not in self._hosts:
            raise RequestRefused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "the Host of the request is not a name of this daemon: use localhost, or add the"
                " name to http.allowed_hosts",
            )
        header = headers.get(b"origin")
        if header is None:
            return None
        origin = origins.normalize(header.decode("latin-1"))
        if origin == origins.build_origin(scope["scheme"], host):
            return None
        if self._any_origin or origin in self._origins:
            return header.decode("latin-1")
        if (
            scope["type"] == "websocket"
            or scope["method"] not in READING
            or scope["path"].startswith(LONG_LIVED_PATHS)
        ):
            raise RequestRefused(
                HTTPStatus.FORBIDDEN,
                "the request comes from a web page of another origin: add that origin to"
                " http.allowed_origins",
            )
        return None

    async def _authenticate(self, scope: Scope, headers: Headers) -> Identity:
        """Return who sends a request; without a name if the path needs no key."""
        path = scope["path"]
        if self._is_keyless(scope):
            caller = Identity(name="", principal=OWNER if self._auditor is None else NOBODY)
        elif (session := self._find_session(headers)) is not None:
            _set_state(scope, page_session=session)
            caller = Identity(name=KEY_NAME, key=self._guard.find_key(KEY_NAME))
        else:
            caller = await self._check_key(scope, headers)
        if path != "/health" and (seconds := self._rates.take(caller.name)):
            raise _too_often("too many requests (http.rate, http.burst)", seconds)
        return caller

    async def _authorize(self, caller: Identity, scope: Scope) -> None:
        """On a team server, refuse what the caller may not do, and say on whose behalf the request
        is answered."""
        if self._auditor is None:
            return
        if caller.name:
            method = scope["method"] if scope["type"] == "http" else permissions.WEBSOCKET
            path = scope["path"]
            try:
                needed: Permission | None = permissions.check_http(caller.principal, method, path)
            except Forbidden as exc:
                await self._auditor.note_refusal(
                    caller.name, caller.principal, "http", method, path, HTTPStatus.FORBIDDEN
                )
                raise RequestRefused(HTTPStatus.FORBIDDEN, str(exc)) from exc
            _set_state(scope, permission=needed)
        access.act_as(caller.principal)

    def _is_keyless(self, scope: Scope) -> bool:
        path = scope["path"]
        if scope["type"] != "http":
            return False
        if self._pages is not None and is_page_path(path):
            if path == SESSION_PATH:  # its other methods are for those who have a session
                return bool(scope["method"] == "POST")
            return True
        return scope["method"] in ("GET", "HEAD") and (
            path in KEYLESS or path.startswith(KEYLESS_FOLDER)
        )

    def _find_session(self, headers: Headers) -> PageSession | None:
        """Return the session of the page that sends a request."""
        header = headers.get(b"authorization")
        if self._pages is None or header is None:
            return None
        return self._pages.find(read_bearer(header.decode("latin-1")))

    async def _check_key(self, scope: Scope, headers: Headers) -> Identity:
        header = headers.get(b"authorization")
        try:
            return await self._guard.identify(None if header is None else header.decode("latin-1"))
        except Unauthorized as exc:
            if seconds := self._failures.take(""):
                raise _too_often("too many requests without a valid key", seconds) from exc
            if self._auditor is not None and header is not None:
                await self._auditor.note_refusal(
                    "",
                    NOBODY,
                    "http",
                    scope.get("method", permissions.WEBSOCKET),
                    f"{scope['path']} from {_get_peer(scope)}",
                    HTTPStatus.UNAUTHORIZED,
                )
            raise RequestRefused(
                HTTPStatus.UNAUTHORIZED, str(exc), (b"www-authenticate", b"Bearer")
            ) from exc

    def _check_length(self, headers: Headers) -> None:
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > MAX_LENGTH_DIGITS:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "Content-Length is not a number of bytes")
        if int(length) > self._most:
            raise too_large(self._most)


def _get_peer(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else "this machine"


def _headers(scope: Scope) -> Headers:
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _READ:
            if name in headers:
                raise RequestRefused(
                    HTTPStatus.BAD_REQUEST, f"the request has two {name.decode()} headers"
                )
            headers[name] = value
    return headers


def _unread(headers: Headers) -> int | None:
    """Return the length of the body, or None if it is not known."""
    length = headers.get(b"content-length", b"0")
    if b"transfer-encoding" in headers or not length.isdigit() or len(length) > MAX_LENGTH_DIGITS:
        return None
    return int(length)


def _set_state(scope: Scope, **facts: object) -> None:
    """Store facts for the middleware behind the gate; a client cannot write there."""
    scope.setdefault("state", {}).update(facts)


def _too_often(what: str, seconds: float) -> RequestRefused:
    after = math.ceil(seconds)
    return RequestRefused(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{what}: try again in {after} s",
        (b"retry-after", b"%d" % after),
    )


def _end_when_revoked(
    is_valid: Callable[[], bool], receive: Receive, send: Send
) -> tuple[Receive, Send]:
    """Return a `receive` and a `send` that end a long-lived connection once its key is revoked, or
    its session of the page has ended. What comes on a WebSocket after that is not read."""

    async def receive_if_valid() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive" and not is_valid():
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            raise _Revoked
        return message

    async def send_if_valid(message: Message) -> None:
        if is_valid():
            await send(message)
            return
        if message["type"].startswith("websocket."):
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        raise _Revoked

    return receive_if_valid, send_if_valid


def _add_cors_headers(send: Send, origin: str) -> Send:
    """Return a `send` that lets the browser pass responses to that origin."""
    headers = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]

    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return send_with_cors


async def _answer_preflight(headers: Headers, send: Send) -> None:
    allowed = [
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
        (b"access-control-max-age", b"600"),
    ]
    if (requested := headers.get(b"access-control-request-headers")) is not None:
        allowed.append((b"access-control-allow-headers", requested))
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})
