"""The gate of HTTP: the requests it accepts, and the reasons for refusing the others."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.access.adapters.key_ring import StoredKeyRing
from agent_memory.features.access.adapters.revoked_keys import RevokedKeyFile
from agent_memory.features.access.services.access import Access
from agent_memory.interfaces.guard import BearerGuard
from agent_memory.interfaces.http import origins, rates
from agent_memory.interfaces.http.asgi import Message, Receive, Scope, Send, send_json
from agent_memory.interfaces.http.gate import FAILURES_AT_ONCE, Gate, GatePolicy
from agent_memory.kernel.errors import ConfigError
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.store.committer import CommittedStore
from tests.memory_engine import MemoryEngine

SECRET = "am_the-secret-of-alice"  # noqa: S105
HOST = "localhost:8000"
PIECE = 64 << 10

Headers = Sequence[tuple[str, str]]


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> Millis:
        return Millis(int(self.seconds * 1000))


class Answer:
    def __init__(self, sent: list[Message]) -> None:
        self.sent = sent
        start = sent[0]
        self.status = start.get("status", 0)
        self.headers = {
            name.decode(): value.decode("latin-1") for name, value in start.get("headers", ())
        }
        self.body = b"".join(each.get("body", b"") for each in sent[1:])

    @property
    def detail(self) -> str:
        assert self.headers["content-type"] == "application/json"
        detail = json.loads(self.body)["detail"]
        assert isinstance(detail, str)
        return detail


class Reader:
    """An application that reads the body and answers with its size."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            return
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                # As FastAPI has it: what cannot be read is a bad request.
                await send_json(send, 400, b"{}")
                return
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        if scope["path"] == "/fails":
            raise ArithmeticError
        await send_json(send, 201, b"%d" % size)


class Door:
    """A gate with one key and a stopped clock."""

    def __init__(self, revoked: Path, *, application: Any = None, **chosen: Any) -> None:
        self.clock = Clock()
        self.store = CommittedStore(MemoryEngine(), watch=_unexpected)
        secrets = count(2)
        names = iter([SECRET])
        self.access = Access(
            keys=StoredKeyRing(self.store, RevokedKeyFile(revoked)),
            clock=self.clock,
            new_secret=lambda: next(names, f"am_{next(secrets)}"),
        )
        self.access.create("alice")
        self.reader = Reader()
        self.audit: list[dict[str, Any]] = []
        self.gate = Gate(
            application or self.reader,
            BearerGuard(self.access),
            GatePolicy(**chosen),
            self.clock,
            lambda **facts: self.audit.append(facts),
        )

    def ask(
        self,
        method: str = "GET",
        path: str = "/api/v1/status/",
        *,
        host: str | None = HOST,
        key: str | None = SECRET,
        headers: Headers = (),
        body: Sequence[bytes] = (),
        scheme: str = "http",
        kind: str = "http",
        extensions: bool = True,
        trusted: bool = False,
    ) -> Answer:
        given = [("host", host), ("authorization", None if key is None else f"Bearer {key}")]
        lines = [*((name, value) for name, value in given if value is not None), *headers]
        scope: Scope = {
            "type": kind,
            "path": path,
            "query_string": b"token=not-for-the-log",
            "scheme": scheme,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in lines],
            "state": {},
        }
        if kind == "http":
            scope["method"] = method
        elif extensions:
            scope["extensions"] = {"websocket.http.response": {}}
        self.sent: list[Message] = []
        self.unread = list(body)
        asyncio.run(self._serve(scope, trusted=trusted))
        return Answer(self.sent)

    async def _serve(self, scope: Scope, *, trusted: bool) -> None:
        async def receive() -> Message:
            if scope["type"] == "websocket":
                return {"type": "websocket.connect"}
            if not self.unread:
                return {"type": "http.request", "body": b"", "more_body": False}
            piece = self.unread.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self.unread)}

        async def send(message: Message) -> None:
            self.sent.append(message)

        await (self.gate.serve_trusted if trusted else self.gate)(scope, receive, send)


def _unexpected(health: StoreHealth) -> None:
    raise AssertionError(f"a write failed: {health.reason}")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Door]]:
    doors: list[Door] = []

    def make(**chosen: Any) -> Door:
        doors.append(Door(tmp_path / f"revoked-keys-{len(doors)}", **chosen))
        return doors[-1]

    yield make
    for each in doors:
        each.store.close()


@pytest.fixture
def door(opened: Callable[..., Door]) -> Door:
    return opened()


class TestHost:
    @pytest.mark.parametrize(
        "host",
        ["localhost", "LocalHost:1", "127.0.0.1", "127.0.0.1:8000", "[::1]", "[::1]:8000"],
    )
    def test_names_of_loopback_are_ours_on_any_port(self, door: Door, host: str) -> None:
        assert door.ask(host=host).status == 201

    @pytest.mark.parametrize("kind", ["http", "websocket"])
    @pytest.mark.parametrize("path", ["/health", "/docs", "/ws", "/api/v1/status/"])
    @pytest.mark.parametrize(
        "host",
        [
            *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io"),
            *("localhost@evil.example", "", ":8000", "localhost:x", "[::1", "[::1]x", "::1", "é"),
        ],
    )
    def test_every_other_is_refused_on_every_path(
        self, door: Door, host: str, path: str, kind: str
    ) -> None:
        refused = door.ask(host=host, path=path, kind=kind)
        assert refused.status == 421
        assert "http.allowed_hosts" in refused.detail
        assert door.reader.scopes == []

    def test_so_is_none_at_all(self, door: Door) -> None:
        assert door.ask(host=None).status == 421

    def test_two_are_one_too_many(self, door: Door) -> None:
        refused = door.ask(headers=[("host", HOST)])
        assert (refused.status, refused.detail) == (400, "the request has two host headers")

    def test_settings_may_name_more(self, opened: Callable[..., Door]) -> None:
        door = opened(hosts=("Memory.Example", "2001:db8::1"))
        assert door.ask(host="memory.example:443").status == 201
        assert door.ask(host="[2001:db8::1]").status == 201
        assert door.ask(host="example").status == 421


class TestOrigin:
    FOREIGN = (
        *("null", "https://evil.example", "http://localhost", "http://localhost:3000"),
        *("https://localhost:8000", "http://127.0.0.1:8000", "", "http://localhost:8000.evil"),
    )

    @pytest.mark.parametrize("origin", FOREIGN)
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "/api/v1/memories/facts/"),
            ("PUT", "/x"),
            ("PATCH", "/x"),
            ("DELETE", "/x"),
            ("POST", "/health"),
            ("GET", "/stream/events"),
            ("GET", "/ws"),
            ("GET", "/mcp"),
            ("GET", "/mcp/x"),
            ("GET", "/sse"),
            ("GET", "/messages"),
            ("GET", "/messages/"),
        ],
    )
    def test_a_page_of_another_writes_and_listens_nowhere(
        self, door: Door, method: str, path: str, origin: str
    ) -> None:
        refused = door.ask(method, path, headers=[("origin", origin)])
        assert refused.status == 403
        assert "http.allowed_origins" in refused.detail
        assert door.reader.scopes == []

    @pytest.mark.parametrize("origin", FOREIGN)
    def test_nor_over_a_websocket(self, door: Door, origin: str) -> None:
        refused = door.ask(path="/ws", kind="websocket", scheme="ws", headers=[("origin", origin)])
        assert refused.status == 403
        assert refused.sent[0]["type"] == "websocket.http.response.start"
        assert door.reader.scopes == []

    @pytest.mark.parametrize(
        ("scheme", "host", "origin"),
        [
            ("http", HOST, "http://localhost:8000"),
            ("http", HOST, "http://LOCALHOST:8000"),
            ("http", "localhost", "http://localhost"),
            ("http", "localhost:80", "http://localhost"),
            ("https", "localhost:443", "https://localhost"),
            ("https", "[::1]:8000", "https://[::1]:8000"),
            ("ws", HOST, "http://localhost:8000"),
            ("wss", HOST, "https://localhost:8000"),
        ],
    )
    def test_our_own_page_does(self, door: Door, scheme: str, host: str, origin: str) -> None:
        kind = "websocket" if scheme.startswith("ws") else "http"
        door.ask("POST", "/ws", kind=kind, scheme=scheme, host=host, headers=[("origin", origin)])
        assert len(door.reader.scopes) == 1

    def test_one_that_is_refused_may_still_read_what_its_key_opens(self, door: Door) -> None:
        read = door.ask(headers=[("origin", "https://evil.example")])
        assert read.status == 201
        assert "access-control-allow-origin" not in read.headers  # so its browser shows it nothing

    def test_settings_may_name_more_and_browsers_are_told(
        self, opened: Callable[..., Door]
    ) -> None:
        door = opened(origins=("https://Dashboard.example/", "http://localhost:3000"))
        page = [("origin", "https://dashboard.example")]
        done = door.ask("POST", headers=page)
        assert done.status == 201
        assert done.headers["access-control-allow-origin"] == "https://dashboard.example"
        refused = door.ask("POST", headers=page, key="wrong")
        assert refused.status == 401
        assert refused.headers["access-control-allow-origin"] == "https://dashboard.example"
        assert door.ask("POST", headers=[("origin", "null")]).status == 403

    def test_their_browsers_may_ask_first_and_have_no_key_then(
        self, opened: Callable[..., Door]
    ) -> None:
        door = opened(origins=("https://dashboard.example",))
        wanted = [
            ("access-control-request-method", "PATCH"),
            ("access-control-request-headers", "authorization"),
        ]
        page = ("origin", "https://dashboard.example")
        allowed = door.ask("OPTIONS", headers=[page, *wanted], key=None)
        assert allowed.status == 204
        assert allowed.headers["access-control-allow-headers"] == "authorization"
        assert "PATCH" in allowed.headers["access-control-allow-methods"]
        stranger = door.ask("OPTIONS", headers=[("origin", "https://evil"), *wanted], key=None)
        assert stranger.status == 401
        assert door.reader.scopes == []

    @pytest.mark.parametrize("text", ["null", "*", "dashboard.example", "https://", "ftp://a", ""])
    def test_what_is_no_origin_is_told_at_the_start(
        self, opened: Callable[..., Door], text: str
    ) -> None:
        with pytest.raises(ConfigError, match="allowed_origins"):
            opened(origins=(text,))

    @given(st.text(), st.sampled_from(["http", "https", "ws", "wss", "other"]), st.binary())
    def test_no_bytes_are_too_odd_to_be_judged(self, text: str, scheme: str, host: bytes) -> None:
        origins.normalize(text)
        origins.build_origin(scheme, host)
        origins.is_origin(text)
        found = origins.parse_host(host)
        assert found is None or found


class TestKeys:
    WRONG = (
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {SECRET}x",
        f"Bearer {SECRET[:-1]}",
        f"Basic {SECRET}",
        SECRET,
        "Bearer é\xff",
    )

    @pytest.mark.parametrize("authorization", WRONG, ids=ascii)
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/api/v1/status/"),
            ("GET", "/"),
            ("POST", "/health"),
            ("DELETE", "/docs"),
            ("OPTIONS", "/openapi.json"),
            ("GET", "/health/"),
            ("GET", "/docs/x"),
            ("GET", "/static-offline-docs"),
            ("GET", "/metrics"),
        ],
    )
    def test_without_a_right_one_nothing_else_is_open(
        self, door: Door, method: str, path: str, authorization: str | None
    ) -> None:
        shown = [] if authorization is None else [("authorization", authorization)]
        refused = door.ask(method, path, key=None, headers=shown)
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "key" in refused.detail
        assert SECRET not in refused.detail
        assert door.reader.scopes == []
        assert door.audit == []

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    @pytest.mark.parametrize(
        "path", ["/health", "/docs", "/openapi.json", "/static-offline-docs/swagger-ui.css"]
    )
    def test_these_are_open_to_readers(self, door: Door, method: str, path: str) -> None:
        assert door.ask(method, path, key=None).status == 201

    @pytest.mark.parametrize("path", ["/ws", "/health", "/docs"])
    def test_a_websocket_needs_one_everywhere(self, door: Door, path: str) -> None:
        refused = door.ask(path=path, kind="websocket", scheme="ws", key="wrong")
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert door.reader.scopes == []
        assert door.ask(path=path, kind="websocket", scheme="ws").sent == [
            {"type": "websocket.accept"}
        ]

    def test_a_server_that_cannot_answer_a_websocket_closes_it(self, door: Door) -> None:
        refused = door.ask(kind="websocket", scheme="ws", key=None, extensions=False)
        assert refused.sent == [{"type": "websocket.close", "code": 1008}]

    def test_whose_it_is_is_told_to_the_application(self, door: Door) -> None:
        door.ask()
        door.ask(path="/docs", key=None)
        door.ask(host="any", key=None, trusted=True)
        assert [scope["state"]["caller"] for scope in door.reader.scopes] == ["alice", "", "socket"]

    def test_one_that_is_revoked_opens_nothing_from_then_on(self, door: Door) -> None:
        assert door.ask().status == 201
        door.access.revoke("alice")
        assert door.ask().status == 401

    def test_one_that_is_made_opens_at_once(self, door: Door) -> None:
        door.ask()
        assert door.ask(key=door.access.create("bob")).status == 201

    def test_two_are_one_too_many(self, door: Door) -> None:
        assert door.ask(headers=[("authorization", "Bearer x")]).status == 400


class TestRates:
    def test_a_burst_then_one_at_a_time(self, opened: Callable[..., Door]) -> None:
        door = opened(rate=2, burst=3)
        assert [door.ask().status for _ in range(4)] == [201, 201, 201, 429]
        refused = door.ask()
        assert refused.headers["retry-after"] == "1"
        assert "http.rate" in refused.detail
        door.clock.seconds += 0.5
        assert [door.ask().status for _ in range(2)] == [201, 429]

    def test_each_key_has_its_own(self, opened: Callable[..., Door]) -> None:
        door = opened(rate=1, burst=1)
        bob = door.access.create("bob")
        assert [door.ask().status, door.ask().status] == [201, 429]
        assert door.ask(key=bob).status == 201

    def test_what_needs_no_key_cannot_use_up_that_of_one_that_has(
        self, opened: Callable[..., Door]
    ) -> None:
        door = opened(rate=1, burst=1)
        statuses = [door.ask(path="/docs", key=None).status for _ in range(2)]
        assert statuses == [201, 429]
        assert door.ask().status == 201

    def test_health_is_always_told(self, opened: Callable[..., Door]) -> None:
        door = opened(rate=1, burst=1)
        assert {door.ask(path="/health", key=None).status for _ in range(9)} == {201}

    @pytest.mark.parametrize("off", [{"rate": 0}, {"burst": 0}])
    def test_it_can_be_turned_off(self, opened: Callable[..., Door], off: dict[str, int]) -> None:
        door = opened(**{"rate": 1, "burst": 1, **off})
        assert {door.ask().status for _ in range(9)} == {201}

    def test_wrong_keys_are_slowed_and_right_ones_are_not(self, door: Door) -> None:
        wrong = [door.ask(key="wrong").status for _ in range(FAILURES_AT_ONCE + 1)]
        assert wrong == [401] * FAILURES_AT_ONCE + [429]
        assert door.ask(key=None).headers["retry-after"] == "1"
        assert door.ask().status == 201
        door.clock.seconds += 0.11
        assert [door.ask(key="wrong").status for _ in range(2)] == [401, 429]

    @given(
        rate=st.floats(0.1, 1000),
        burst=st.integers(1, 50),
        steps=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 60)), max_size=20),
    )
    def test_never_more_than_the_burst_and_what_time_has_brought(
        self, rate: float, burst: int, steps: list[tuple[float, int]]
    ) -> None:
        clock = Clock()
        buckets = rates.TokenBuckets(rate=rate, burst=burst, clock=clock)
        began, taken = clock.seconds, 0
        for pause, tries in steps:
            clock.seconds += pause
            for _ in range(tries):
                wait = buckets.take("name")
                taken += wait == 0
                assert wait <= 1 / rate
        assert taken <= burst + (clock.seconds - began) * rate + 1e-6

    def test_names_that_are_full_again_are_forgotten(self) -> None:
        clock = Clock()
        buckets = rates.TokenBuckets(rate=1000, burst=1, clock=clock)
        for number in range(5 * rates.SWEEP_AT):
            clock.seconds += 0.01
            assert buckets.take(f"name-{number}") == 0
            assert buckets.size <= rates.SWEEP_AT


class TestBodies:
    MOST = 200_000

    @pytest.fixture
    def small(self, opened: Callable[..., Door]) -> Door:
        return opened(max_body_bytes=self.MOST)

    def test_one_of_the_largest_size_is_read(self, small: Door) -> None:
        length = [("content-length", str(self.MOST))]
        whole = [b"x" * PIECE] * 3 + [b"x" * (self.MOST - 3 * PIECE)]
        done = small.ask("POST", headers=length, body=whole)
        assert (done.status, done.body) == (201, b"%d" % self.MOST)

    def test_a_length_beyond_it_is_refused_before_a_byte_is_read(self, small: Door) -> None:
        seen = []

        async def receive() -> Message:
            seen.append(len(sent))
            return {"type": "http.request", "body": b"x", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        sent: list[Message] = []
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/x",
            "scheme": "http",
            "headers": [
                (b"host", HOST.encode()),
                (b"authorization", f"Bearer {SECRET}".encode()),
                (b"content-length", b"%d" % (self.MOST + 1)),
            ],
        }
        asyncio.run(_called(small.gate, scope, receive, send))
        refused = Answer(sent)
        assert refused.status == 413
        assert "200,000 bytes (http.max_body_bytes)" in refused.detail
        assert refused.headers["connection"] == "close"
        assert seen == [2]  # the answer was out by then: the rest is only thrown away
        assert small.reader.scopes == []

    def test_one_that_tells_no_length_is_counted(self, small: Door) -> None:
        chunked = [("transfer-encoding", "chunked")]
        done = small.ask("POST", headers=chunked, body=[b"x" * PIECE] * 3)
        assert (done.status, done.body) == (201, b"%d" % (3 * PIECE))

        refused = small.ask("POST", headers=chunked, body=[b"x" * PIECE] * 10)
        assert refused.status == 413
        assert refused.headers["connection"] == "close"
        assert [each["type"] for each in refused.sent].count("http.response.start") == 1

    def test_one_without_end_is_not_read_to_it(self, small: Door) -> None:
        refused = small.ask(
            "POST", headers=[("transfer-encoding", "chunked")], body=[b"x" * (1 << 20)] * 100
        )
        assert refused.status == 413
        assert len(small.unread) > 30

    @pytest.mark.parametrize("length", ["-1", "+1", "1.0", "x", "", " ", "1 1", "٣", "9" * 40])
    def test_a_length_that_is_none_is_refused(self, small: Door, length: str) -> None:
        refused = small.ask(
            "POST",
            headers=[("content-length", length)]
            if length.isascii()
            else [("content-length", length.encode().decode("latin-1"))],
        )
        assert refused.status == 400
        assert "Content-Length" in refused.detail

    def test_the_key_is_asked_for_first(self, small: Door) -> None:
        length = [("content-length", str(self.MOST + 1))]
        assert small.ask("POST", headers=length, key=None).status == 401

    def test_it_holds_on_the_socket_too(self, small: Door) -> None:
        length = [("content-length", str(self.MOST + 1))]
        assert small.ask("POST", headers=length, key=None, trusted=True).status == 413


@pytest.mark.parametrize("trusted", [False, True])
def test_every_request_gets_one_answer_whatever_is_in_its_headers(
    tmp_path: Path, *, trusted: bool
) -> None:
    door = Door(tmp_path / "revoked-keys", rate=0, origins=("https://dashboard.example",))
    names = ("host", "origin", "authorization", "content-length", "transfer-encoding", "x")
    words = ("localhost", "http://localhost", "https://dashboard.example", f"Bearer {SECRET}", "7")
    values = st.sampled_from(words) | st.binary(max_size=20).map(lambda raw: raw.decode("latin-1"))

    @given(
        method=st.sampled_from(["GET", "POST", "OPTIONS", "HEAD", "odd"]),
        path=st.sampled_from(["/health", "/docs", "/x", "/stream/x", "/ws", "//", ""]),
        headers=st.lists(st.tuples(st.sampled_from(names), values), max_size=7),
        kind=st.sampled_from(["http", "websocket"]),
        body=st.lists(st.binary(max_size=9), max_size=3),
    )
    def judged(method: str, path: str, headers: Headers, kind: str, body: Sequence[bytes]) -> None:
        reached = len(door.reader.scopes)
        said = door.ask(
            method, path, host=None, key=None, headers=headers, kind=kind, body=body,
            trusted=trusted,
        )  # fmt: skip
        starts = [each for each in said.sent if each["type"].endswith((".start", ".accept"))]
        assert len(starts) == 1
        if len(door.reader.scopes) == reached and said.status != 204:
            assert said.status in {400, 401, 403, 413, 421, 429}
            assert said.detail
        elif not trusted and path not in ("/health", "/docs"):
            shown = [value.split() for name, value in headers if name == "authorization"]
            assert said.status == 204 or shown == [["Bearer", SECRET]]

    try:
        judged()
    finally:
        door.store.close()


class TestSocket:
    def test_no_key_no_host_and_no_rate(self, opened: Callable[..., Door]) -> None:
        door = opened(rate=1, burst=1)
        asked = [
            door.ask("POST", host=host, key=None, trusted=True).status
            for host in ("anything", None, "localhost")
        ]
        assert asked == [201] * 3

    def test_nothing_that_a_client_sends_makes_it_trusted(self, door: Door) -> None:
        for name in ("caller", "listener", "x-caller", "state", "x-forwarded-for", "forwarded"):
            assert door.ask(key=None, headers=[(name, "socket")]).status == 401


class TestAudit:
    def test_each_write_is_told_once_with_its_outcome(self, door: Door) -> None:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            door.ask(method, "/x", headers=[("content-length", "4")], body=[b"body"])
        assert [(line["method"], line["status"]) for line in door.audit] == [
            (method, 201) for method in ("POST", "PUT", "PATCH", "DELETE")
        ]
        first = door.audit[0]
        assert first.pop("duration_ms") >= 0
        assert first == {
            "interface": "http",
            "listener": "tcp",
            "key": "alice",
            "method": "POST",
            "path": "/x",
            "status": 201,
        }

    def test_reading_is_not(self, door: Door) -> None:
        for method in ("GET", "HEAD", "OPTIONS"):
            door.ask(method, "/x")
        door.ask(kind="websocket", scheme="ws")
        assert door.audit == []

    def test_one_that_failed_is(self, opened: Callable[..., Door]) -> None:
        door = opened(max_body_bytes=2000)
        with pytest.raises(ArithmeticError):
            door.ask("POST", "/fails")
        chunked = [("transfer-encoding", "chunked")]
        door.ask("POST", "/long", headers=chunked, body=[b"x" * 1500] * 2)
        assert [(line["path"], line["status"]) for line in door.audit] == [
            ("/fails", 500),
            ("/long", 413),
        ]

    def test_the_socket_is_named(self, door: Door) -> None:
        door.ask("POST", trusted=True)
        assert (door.audit[0]["key"], door.audit[0]["listener"]) == ("socket", "unix")

    def test_no_key_and_no_query_is_in_it(self, door: Door) -> None:
        door.ask("POST", "/" + "x" * 10_000)
        (line,) = door.audit
        assert SECRET not in str(line)
        assert "not-for-the-log" not in str(line)
        assert len(str(line)) < 1000


async def _called(application: Any, scope: Scope, receive: Receive, send: Send) -> None:
    await application(scope, receive, send)
