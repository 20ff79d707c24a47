"""Pages fetched from real servers, and those that are not: they are where nobody may ask."""

import gzip
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trustme

from agent_memory.features.runs.adapters.web.pages import MAX_BYTES, HttpPages
from agent_memory.features.runs.model.web import WebPage
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled, ToolFailed

PUBLIC = "93.184.216.34"


class Site:
    """A server on loopback that answers what it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
                status, headers, body = site.answers.get(self.path, (404, {}, b"no"))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.build_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.build_server.server_address[1]
        self.thread = threading.Thread(target=lambda: self.build_server.serve_forever(0.01))
        self.thread.start()

    def says(self, path: str, body: bytes, status: int = 200, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = (status, named, body)
        return f"http://localhost:{self.port}{path}"

    def close(self) -> None:
        self.build_server.shutdown()
        self.build_server.server_close()
        self.thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    created = Site()
    yield created
    created.close()


@pytest.fixture
def pages(site: Site) -> HttpPages:
    return HttpPages(private=[f"localhost:{site.port}"])


def fetched(
    pages: HttpPages, url: str, seconds: float = 20, cancel: CancelToken | None = None
) -> WebPage:
    return pages.fetch(pages.resolve_url(url), seconds=seconds, cancel=cancel or CancelToken())


def test_a_page_is_fetched_without_a_trace_of_the_user(
    site: Site, pages: HttpPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    url = site.says("/a?b=c", "wörd".encode(), content_type="text/html; charset=utf-8")
    found = fetched(pages, url)
    assert (found.url, found.text, found.kind, found.whole) == (url, "wörd", "text/html", True)
    ((path, headers),) = site.asked
    assert path == "/a?b=c"
    assert headers["host"] == f"localhost:{site.port}"
    assert set(headers) <= {"host", "user-agent", "accept", "accept-encoding", "connection"}


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0"),
        *("0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "localhost.", "LOCALHOST"),  # noqa: S104
    ],
)
def test_loopback_is_refused_by_whatever_name(site: Site, host: str) -> None:
    with pytest.raises(ToolFailed, match=r"private network|no host"):
        fetched(HttpPages(), f"http://{host}:{site.port}/")
    assert not site.asked


@pytest.mark.parametrize(
    "addresses",
    [["10.0.0.1"], ["169.254.169.254"], [PUBLIC, "127.0.0.1"], ["fd00::1"], ["64:ff9b::7f00:1"]],
)
def test_a_name_is_refused_for_any_private_address(site: Site, addresses: list[str]) -> None:
    pages = HttpPages(resolver=lambda _host, _port: addresses, route=lambda *_: _never())
    with pytest.raises(ToolFailed, match="private network"):
        fetched(pages, f"http://example.org:{site.port}/")
    assert not site.asked


def test_a_name_that_means_something_else_a_moment_later_gains_nothing(site: Site) -> None:
    """Each connection goes to the address that was judged for it."""
    site.says("/", b"", 302, location=f"http://rebinding.example:{site.port}/again")
    site.says("/again", b"the inner page", content_type="text/plain")
    answers = iter([[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]])
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:  # noqa: ARG001
        asked.append(host)
        return next(answers)

    connected: list[str] = []

    def route(address: str, port: int) -> tuple[str, int]:
        connected.append(address)
        return "127.0.0.1", port

    pages = HttpPages(resolver=resolver, route=route)
    with pytest.raises(ToolFailed, match="private network"):
        fetched(pages, f"http://rebinding.example:{site.port}/")
    assert connected == [PUBLIC]
    assert asked == ["rebinding.example"] * 2
    assert [path for path, _ in site.asked] == ["/"]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://127.0.0.1:{port}/secret", "private network"),
        ("//127.0.0.1:{port}/secret", "private network"),
        ("http://localhost:{other}/secret", "private network"),
        ("http://169.254.169.254/latest/meta-data", "private network"),
        ("file:///etc/passwd", "must begin with http"),
        ("http://user:pass@localhost:{port}/secret", "user or a password"),
        ("http://localhost:22/", "port 22"),
        ("/", "more than 5 redirects"),
    ],
)
def test_a_redirect_is_judged_like_any_address(
    site: Site, pages: HttpPages, location: str, said: str
) -> None:
    site.says("/secret", b"secret", content_type="text/plain")
    url = site.says("/", b"", 302, location=location.format(port=site.port, other=site.port ^ 1))
    with pytest.raises(ToolFailed, match=said):
        fetched(pages, url)
    assert "/secret" not in [path for path, _ in site.asked]


def test_a_public_page_does_not_lead_to_private_ones_that_are_allowed(site: Site) -> None:
    inner = site.says("/inner", b"inner", content_type="text/plain")
    site.says("/", b"", 302, location=inner)
    pages = HttpPages(
        private=[f"localhost:{site.port}"],
        resolver=lambda host, _: [PUBLIC] if host == "example.org" else ["127.0.0.1"],
        route=lambda _, port: ("127.0.0.1", port),
    )
    with pytest.raises(ToolFailed, match="private network"):
        fetched(pages, f"http://example.org:{site.port}/")
    assert fetched(pages, inner).text == "inner"


def test_redirects_are_followed_and_told(site: Site, pages: HttpPages) -> None:
    first = site.says("/1", b"", 301, location="2?x=y")
    site.says("/2?x=y", b"", 307, location="/3")
    site.says("/3", b"here", content_type="application/json")
    assert fetched(pages, first).url == f"http://localhost:{site.port}/3"


def test_tls_is_for_the_name_that_was_asked_for() -> None:
    authority = trustme.CA()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("right.example").configure_cert(serving)

    def context() -> ssl.SSLContext:
        created = ssl.create_default_context()
        authority.configure_trust(created)
        return created

    site = Site()
    try:
        names: list[str | None] = []
        serving.sni_callback = lambda _sock, name, _context: names.append(name)
        site.build_server.socket = serving.wrap_socket(site.build_server.socket, server_side=True)
        site.says("/", b"safe", content_type="text/plain")
        pages = HttpPages(
            resolver=lambda *_: [PUBLIC],
            route=lambda *_: ("127.0.0.1", site.port),
            context=context,
        )
        assert fetched(pages, "https://right.example/").text == "safe"
        with pytest.raises(ToolFailed, match="certificate verify failed"):
            fetched(pages, "https://wrong.example/")
        assert names == ["right.example", "wrong.example"]
    finally:
        site.close()


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("image/png", b"\x89PNG", "not text, but image/png"),
        ("application/octet-stream", b"abc", "not text, but"),
        ("text/plain", b"\0\1\2", "is not text"),
        ("application/zip", b"PK", "not text, but"),
    ],
)
def test_only_texts_are_read(
    site: Site, pages: HttpPages, kind: str, body: bytes, said: str
) -> None:
    with pytest.raises(ToolFailed, match=said):
        fetched(pages, site.says("/", body, content_type=kind))


@pytest.mark.parametrize("status", [404, 500, 304, 204 + 100])
def test_a_page_that_is_none_is_told_by_its_status(
    site: Site, pages: HttpPages, status: int
) -> None:
    with pytest.raises(ToolFailed, match=f"status {status}"):
        fetched(pages, site.says("/", b"", status, content_type="text/plain"))


def test_large_pages_are_cut(site: Site, pages: HttpPages) -> None:
    found = fetched(pages, site.says("/", b"x" * (3 << 20), content_type="text/plain"))
    assert (len(found.text), found.whole) == (MAX_BYTES, False)


def test_packed_pages_are_unpacked_as_far_as_they_may_be(site: Site, pages: HttpPages) -> None:
    packed = gzip.compress(b"words")
    url = site.says("/", packed, content_type="text/plain", content_encoding="gzip")
    assert fetched(pages, url).text == "words"
    bomb = gzip.compress(b"a" * (200 << 20))
    assert len(bomb) < MAX_BYTES
    url = site.says("/bomb", bomb, content_type="text/plain", content_encoding="gzip")
    found = fetched(pages, url)
    assert (len(found.text), found.whole) == (MAX_BYTES, False)
    url = site.says(
        "/z", zlib.compress(b"z"), content_type="text/plain", content_encoding="deflate"
    )
    assert fetched(pages, url).text == "z"
    for encoding, said in (
        ("br", "unknown content encoding"),
        ("gzip", "does not match its content encoding"),
    ):
        url = site.says("/x", b"xx", content_type="text/plain", content_encoding=encoding)
        with pytest.raises(ToolFailed, match=said):
            fetched(pages, url)


@pytest.mark.parametrize(
    ("charset", "body"),
    [("iso-8859-1", b"\xe4"), ("windows-1252", b"\xe4"), ("utf-16", "ä".encode("utf-16"))],
)
def test_texts_are_read_in_their_charset(
    site: Site, pages: HttpPages, charset: str, body: bytes
) -> None:
    url = site.says("/", body, content_type=f"text/plain; charset={charset}")
    assert fetched(pages, url).text == "ä"


@pytest.mark.parametrize(
    "charset", ["unicode_escape", "idna", "punycode", "zlib", "utf-7", "x" * 99]
)
def test_other_charsets_are_taken_for_the_usual_one(
    site: Site, pages: HttpPages, charset: str
) -> None:
    url = site.says("/", b"\\x41 +AEE-", content_type=f"text/plain; charset={charset}")
    assert fetched(pages, url).text == "\\x41 +AEE-"


class Slow:
    """A server that sends what it is told, piece by piece, and never ends by itself."""

    def __init__(self, piece: bytes, first: bytes = b"") -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.reached = threading.Event()
        self.closed = threading.Event()
        self._piece, self._first = piece, first
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            self.reached.set()
            try:
                connection.sendall(self._first)
                while not self.closed.wait(0.02):
                    connection.sendall(self._piece)
            except OSError:
                self.closed.set()

    def close(self) -> None:
        self.closed.set()
        self.thread.join()
        self.listener.close()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"", b""),  # not a word
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),  # a head without end
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),  # always about to begin
        (HEAD, b"word "),
    ],
)
def test_a_trickle_ends_when_the_time_is_over(first: bytes, piece: bytes) -> None:
    slow = Slow(piece, first)
    try:
        pages = HttpPages(private=["127.0.0.1"])
        with pytest.raises(ToolFailed, match=r"longer than 0.3 s|127.0.0.1"):
            fetched(pages, f"http://127.0.0.1:{slow.port}/", seconds=0.3)
    finally:
        slow.close()


@pytest.mark.parametrize("first", [b"", HEAD])
def test_whoever_is_told_to_halt_does_so_at_once(first: bytes) -> None:
    slow = Slow(b"", first)
    cancel = CancelToken()
    try:
        pages = HttpPages(private=["127.0.0.1"])
        _halts(
            cancel,
            slow.reached,
            lambda: fetched(pages, f"http://127.0.0.1:{slow.port}/", 600, cancel),
        )
    finally:
        slow.close()


def test_a_name_that_nobody_finds_in_time_is_given_up() -> None:
    reached, done = threading.Event(), threading.Event()

    def resolver(_host: str, _port: int) -> list[str]:
        reached.set()
        done.wait(60)
        return []

    pages = HttpPages(resolver=resolver)
    try:
        with pytest.raises(ToolFailed, match=r"longer than 0\.2 s"):
            fetched(pages, "http://example.org/", seconds=0.2)
        cancel = CancelToken()
        reached.clear()
        _halts(cancel, reached, lambda: fetched(pages, "http://example.org/", 600, cancel))
    finally:
        done.set()


@pytest.mark.parametrize(
    "said", [b"garbage\r\n\r\n", b"", HEAD.replace(b"\r\n\r\n", b"\r\ncontent-length: 9\r\n\r\nx")]
)
def test_what_is_no_answer_is_told(said: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(said)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with pytest.raises(ToolFailed, match=r"http://127.0.0.1"):
            fetched(
                HttpPages(private=["127.0.0.1"]), f"http://127.0.0.1:{listener.getsockname()[1]}/"
            )
    finally:
        thread.join()
        listener.close()


def test_nobody_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ToolFailed, match="refused"):
        fetched(HttpPages(private=["127.0.0.1"]), f"http://127.0.0.1:{port}/")
    with pytest.raises(ToolFailed, match="there is no host"):
        fetched(HttpPages(), "http://no-such-host.invalid/")


def _halts(cancel: CancelToken, reached: threading.Event, work: Callable[[], object]) -> None:
    ended: list[type[BaseException]] = []

    def run() -> None:
        try:
            work()
        except BaseException as exc:
            ended.append(type(exc))

    thread = threading.Thread(target=run)
    thread.start()
    assert reached.wait(20)
    cancel.set()
    deadline = time.monotonic() + 20
    thread.join(deadline - time.monotonic())
    assert ended == [Cancelled]


def _never() -> tuple[str, int]:
    raise AssertionError("nothing was to be connected to")
