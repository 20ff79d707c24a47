"""The page: its files from the package, and the exchange of a code for a session.

Files need no key, because they hold no data. All that the page shows comes from REST, with the
cookie of its session.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from agent_memory.interfaces.http.asgi import Application, Receive, Scope, Send, send_json
from agent_memory.interfaces.http.page_sessions import PageSession, PageSessions

FOLDER = Path(__file__).parent / "page"
PREFIX = "/ui/"
SESSION_PATH = "/ui/session"
MAX_CODE_BYTES = 1_024
_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_POLICY = (
    b"default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none';"
    b" frame-ancestors 'none'; object-src 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)


@dataclass(frozen=True, slots=True)
class _PageFile:
    content: bytes
    media_type: bytes
    etag: bytes


def is_page_path(path: str) -> bool:
    return path == "/" or path.startswith(PREFIX)


def name_cookie(scope: Scope) -> str:
    """Return the name of the cookie. Browsers share cookies between the ports of a host, so the
    port is in it."""
    server = scope.get("server")
    return f"agent-memory-{server[1] if server else 0}"


def read_cookie(scope: Scope, header: bytes) -> str | None:
    try:
        cookies = SimpleCookie(header.decode("latin-1"))
    except CookieError:
        return None
    found = cookies.get(name_cookie(scope))
    return None if found is None else found.value


class PageApp:
    """Serves the page, and passes all other requests on."""

    def __init__(self, inner: Application, sessions: PageSessions) -> None:
        self._inner = inner
        self._sessions = sessions
        self._files: Mapping[str, _PageFile] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_page_path(scope["path"]):
            await self._inner(scope, receive, send)
        elif scope["path"] == SESSION_PATH:
            await self._serve_session(scope, receive, send)
        else:
            await self._serve_file(scope, send)

    async def _serve_file(self, scope: Scope, send: Send) -> None:
        if self._files is None:
            self._files = _read_files()
        name = scope["path"].removeprefix(PREFIX) if scope["path"] != "/" else "index.html"
        file = self._files.get(name)
        if file is None or scope["method"] not in ("GET", "HEAD"):
            await send_json(send, 404, b'{"detail": "the page has no such file"}')
            return
        headers = [*_HEADERS, (b"content-type", file.media_type), (b"etag", file.etag)]
        if dict(scope["headers"]).get(b"if-none-match") == file.etag:
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        headers.append((b"content-length", b"%d" % len(file.content)))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else file.content
        await send({"type": "http.response.body", "body": body})

    async def _serve_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """POST exchanges a code, GET returns the token of the session, DELETE ends it."""
        method, state = scope["method"], scope["state"]
        if method == "POST":
            exchanged = self._sessions.exchange(await _read_code(receive))
            if exchanged is None:
                detail = b'{"detail": "this code was used, or is too old: run `memory ui` again"}'
                await send_json(send, 401, detail)
                return
            cookie, session = exchanged
            await _send_session(send, session, _format_cookie(scope, cookie))
            return
        session = state.get("page_session")
        if session is None:
            await send_json(send, 401, b'{"detail": "no session: run `memory ui`"}')
        elif method == "GET":
            await _send_session(send, session)
        elif method == "DELETE":
            self._sessions.end(state["page_cookie"])
            await send_json(send, 200, b"{}", _format_cookie(scope, "", seconds=0))
        else:
            await send_json(send, 405, b'{"detail": "use POST, GET or DELETE"}')


async def _read_code(receive: Receive) -> str:
    body = b""
    while len(body) <= MAX_CODE_BYTES:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    try:
        code = json.loads(body)["code"]
    except (ValueError, KeyError, TypeError):
        return ""
    return code if isinstance(code, str) else ""


async def _send_session(send: Send, session: PageSession, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps({"token": session.token, "may_accept": session.may_accept}).encode()
    await send_json(send, 200, body, (b"cache-control", b"no-store"), *headers)


def _format_cookie(scope: Scope, value: str, seconds: int | None = None) -> tuple[bytes, bytes]:
    parts = [f"{name_cookie(scope)}={value}", "Path=/", "HttpOnly", "SameSite=Strict"]
    if scope["scheme"] in ("https", "wss"):
        parts.append("Secure")
    if seconds is not None:
        parts.append(f"Max-Age={seconds}")
    return b"set-cookie", "; ".join(parts).encode("latin-1")


def _read_files() -> dict[str, _PageFile]:
    files = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in _TYPES and path.is_file():
            content = path.read_bytes()
            etag = b'"%s"' % hashlib.sha256(content).hexdigest()[:32].encode()
            name = path.relative_to(FOLDER).as_posix()
            files[name] = _PageFile(content, _TYPES[path.suffix], etag)
    return files
