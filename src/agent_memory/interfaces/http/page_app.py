"""The page: its files from the package, and the exchange of a code for a session.

Files need no key, because they hold no data. All that the page shows comes from REST, with the
token of its session. No cookie has a part in it: a browser sends the cookies of a host to all its
ports, so also to a development server that anyone has started there.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_memory.interfaces.http.asgi import Application, Receive, Scope, Send, send_json
from agent_memory.interfaces.http.headers import POLICY
from agent_memory.interfaces.http.page_sessions import PageSessions

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
# Beside the policy of every answer: the page creates no trusted type either.
_HEADERS = ((POLICY, b"trusted-types 'none'"), (b"cache-control", b"no-cache"))


@dataclass(frozen=True, slots=True)
class _PageFile:
    content: bytes
    media_type: bytes
    etag: bytes


def is_page_path(path: str) -> bool:
    return path == "/" or path.startswith(PREFIX)


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
        """POST exchanges a code for a token, GET describes its session, DELETE ends it."""
        method, session = scope["method"], scope["state"].get("page_session")
        if method == "POST":
            exchanged = self._sessions.exchange(await _read_code(receive))
            if exchanged is None:
                detail = "this code was used, or is too old: run `memory ui` again"
                await _send_object(send, 401, detail=detail)
                return
            token, session = exchanged
            await _send_object(send, 200, token=token, may_accept=session.may_accept)
        elif session is None:
            await _send_object(send, 401, detail="no session: run `memory ui`")
        elif method == "GET":
            await _send_object(send, 200, may_accept=session.may_accept)
        elif method == "DELETE":
            self._sessions.end(session)
            await _send_object(send, 200)
        else:
            await _send_object(send, 405, detail="use POST, GET or DELETE")


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


async def _send_object(send: Send, status: int, **fields: object) -> None:
    body = json.dumps(fields).encode()
    await send_json(send, status, body, (b"cache-control", b"no-store"))


def _read_files() -> dict[str, _PageFile]:
    files = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in _TYPES and path.is_file():
            content = path.read_bytes()
            etag = b'"%s"' % hashlib.sha256(content).hexdigest()[:32].encode()
            name = path.relative_to(FOLDER).as_posix()
            files[name] = _PageFile(content, _TYPES[path.suffix], etag)
    return files
