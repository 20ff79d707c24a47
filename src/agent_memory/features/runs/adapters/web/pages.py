"""Web pages, fetched without cookies, keys or proxies."""

import codecs
import ssl
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from email.message import Message
from urllib.parse import urljoin

import httpcore
import httpx

from agent_memory import __version__
from agent_memory.features.runs.adapters.web.sockets import (
    CheckedNetwork,
    Deadline,
    Resolver,
    Route,
    direct_route,
    resolve_host,
)
from agent_memory.features.runs.model import web
from agent_memory.features.runs.model.web import Target, WebPage
from agent_memory.features.runs.model.workspaces import is_binary, quote_path
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed

MAX_BYTES = 2 << 20  # limit of the body, as sent and again when decompressed
MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_TEXTS = frozenset({
    "application/ecmascript", "application/graphql", "application/javascript", "application/json",
    "application/ld+json", "application/rtf", "application/sql", "application/toml",
    "application/x-javascript", "application/x-ndjson", "application/x-sh", "application/x-yaml",
    "application/xhtml+xml", "application/xml", "application/yaml",
})  # fmt: skip
# The charsets of web pages. Other codecs of Python may be slow or not for text.
_CHARSETS = frozenset({
    "ascii", "big5", "euc_jp", "euc_kr", "gb18030", "gb2312", "gbk", "koi8-r", "koi8-u",
    "shift_jis", "utf-16", "utf-16-be", "utf-16-le", "utf-8", "utf-8-sig",
    *(f"cp125{number}" for number in range(9)), *(f"iso8859-{number}" for number in range(1, 17)),
})  # fmt: skip
_HEADERS: tuple[tuple[bytes | str, bytes | str], ...] = (
    ("user-agent", f"agent-memory/{__version__}"),
    ("accept", "text/html, text/markdown, text/plain, application/json, text/*;q=0.9, */*;q=0.1"),
    ("accept-encoding", "gzip"),
    ("connection", "close"),
)


class HttpPages:
    """Fetches pages. `private` lists hosts that are allowed though not public, each with or without
    a port. Tests replace `resolver` and `route`."""

    def __init__(
        self,
        *,
        private: Sequence[str] = (),
        resolver: Resolver = resolve_host,
        route: Route = direct_route,
        context: Callable[[], ssl.SSLContext] = httpx.create_ssl_context,
    ) -> None:
        self._private = tuple(private)
        self._resolver = resolver
        self._route = route
        self._make_context = context
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def resolve_url(self, url: str, /) -> Target:
        return web.parse_target(url, self._private)

    def fetch(self, target: Target, /, *, seconds: float, cancel: CancelToken) -> WebPage:
        deadline = Deadline(seconds, cancel)
        try:
            for _ in range(MAX_REDIRECTS + 1):
                answer = self._request(target, deadline)
                cancel.check()  # a cancelled connection may look like the end of a page
                if isinstance(answer, WebPage):
                    return answer
                target = self._resolve_redirect(target, answer)
        except (httpcore.TimeoutException, TimeoutError) as exc:
            cancel.check()
            raise ToolFailed(f"{target.url}: the request took longer than {seconds:g} s") from exc
        except (httpcore.NetworkError, httpcore.ProtocolError) as exc:
            cancel.check()
            raise ToolFailed(f"{target.url}: {_reason(exc)}") from exc
        finally:
            deadline.close()
        raise ToolFailed(f"{target.url}: more than {MAX_REDIRECTS} redirects")

    def _request(self, target: Target, deadline: Deadline) -> WebPage | str:
        """Return the page, or the target of a redirect."""
        network = CheckedNetwork(target, deadline, self._resolver, self._route)
        secure = self._get_context() if target.scheme == "https" else None
        with (
            httpcore.ConnectionPool(
                ssl_context=secure, network_backend=network, max_connections=1, retries=0
            ) as pool,
            pool.stream("GET", target.url, headers=_HEADERS) as response,
        ):
            headers = _lower(response.headers)
            if response.status in _REDIRECTS and "location" in headers:
                return headers["location"]
            if not 200 <= response.status < 300:
                raise ToolFailed(f"{target.url} answers with status {response.status}")
            return _page(target.url, headers, response.iter_stream())

    def _resolve_redirect(self, target: Target, location: str) -> Target:
        try:
            url = urljoin(target.url, location)
        except ValueError as exc:
            raise ToolFailed(f"{target.url} redirects to an invalid address") from exc
        following = self.resolve_url(url)
        # The user approved a public page: it must not redirect to a private host.
        return replace(following, listed=following.listed and target.listed)

    def _get_context(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:  # at first use: it loads hundreds of certificates
                self._context = self._make_context()
            return self._context


def _lower(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _page(url: str, headers: Mapping[str, str], chunks: Iterable[bytes]) -> WebPage:
    message = Message()
    message["content-type"] = headers.get("content-type", "text/plain")[:1_000]
    kind = message.get_content_type()
    if not (kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))):
        raise ToolFailed(f"{url} is not text, but {quote_path(kind)}")
    data, whole = _body(url, headers.get("content-encoding", "").strip().lower(), chunks)
    charset = _charset(message.get_content_charset(""), data)
    if not charset.startswith("utf-16") and is_binary(data):
        raise ToolFailed(f"{url} is not text")
    return WebPage(url=url, kind=kind, text=data.decode(charset, "replace"), whole=whole)


def _body(url: str, packed: str, chunks: Iterable[bytes]) -> tuple[bytes, bool]:
    """Return the body up to MAX_BYTES, and whether it is complete."""
    if packed not in ("", "identity") and packed not in _PACKED:
        raise ToolFailed(f"{url} has an unknown content encoding: {quote_path(packed)[:80]}")
    unpacking = zlib.decompressobj(wbits=47) if packed in _PACKED else None
    data = bytearray()
    received = 0
    try:
        for chunk in chunks:
            received += len(chunk)
            room = MAX_BYTES + 1 - len(data)
            data += chunk[:room] if unpacking is None else unpacking.decompress(chunk, room)
            if len(data) > MAX_BYTES or received > MAX_BYTES:
                return bytes(data[:MAX_BYTES]), False
    except zlib.error as exc:
        raise ToolFailed(f"{url} does not match its content encoding") from exc
    return bytes(data), True


def _charset(named: str, data: bytes) -> str:
    if not named:
        return "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        charset = codecs.lookup(named).name
    except (LookupError, ValueError):
        return "utf-8"
    return charset if charset in _CHARSETS else "utf-8"


def _reason(exc: Exception) -> str:
    return quote_path(str(exc))[:300] or "the connection was lost"
