"""HTTP of a real daemon: keys, hosts, origins, limits, TLS, the Unix socket, the audit log."""

import asyncio
import json
import ssl
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from agent_memory.interfaces.http.connections import MAX_HEAD_BYTES
from tests.chosen_store import name_first_key
from tests.command_runner import Home, wait_until
from tests.http_client import STATUS, Web

BURST = 5
MOST = 4096
SECONDS = 30.0
EVERYWHERE = "0.0.0.0"  # noqa: S104
MOST_BY_DEFAULT = 16 << 20


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with Home() as home:
        home.serve()
        yield Web(home)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def certified(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    issued = authority.issue_cert("localhost", "127.0.0.1")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "chain.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    key.chmod(0o644)
    return certificate, key


@pytest.fixture(scope="module")
def strict(certified: tuple[Path, Path]) -> Iterator[Web]:
    """On all addresses, with TLS and narrow limits."""
    with Home() as home:
        home.configure(
            f'[http]\nhost = "{EVERYWHERE}"\nallowed_hosts = ["memory.example"]\n'
            f"rate = 1\nburst = {BURST}\nmax_body_bytes = {MOST}\n"
            f'tls_cert = "{certified[0]}"\ntls_key = "{certified[1]}"\n'
        )
        home.serve()
        yield Web(home)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_health_needs_no_key_and_all_else_does(web: Web) -> None:
    assert web.ask(path="/health", key="").status_code == 200
    for path in (STATUS, "/ui/session", "/metrics", "/stream/events", "/no/such/path"):
        refused = web.ask(path=path, key="")
        assert refused.status_code == 401, path
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "memory-daemon token create" in refused.json()["detail"]


def test_its_pages_need_none_either(web: Web) -> None:
    with web.client(key="") as client:
        assert "Agent Memory" in client.get("/").text
        assert "swagger" in client.get("/docs").text.lower()
        assert client.get("/openapi.json").json()["info"]["title"] == "Agent Memory"


@pytest.mark.parametrize("wrong", ["wrong", "am_", "é"], ids=ascii)
def test_a_wrong_key_opens_nothing(web: Web, wrong: str) -> None:
    refused = web.ask(key="", headers={b"authorization": f"Bearer {wrong}".encode()})
    assert refused.status_code == 401
    assert refused.json() == {"detail": "the key is unknown or revoked"}


def test_the_right_one_does(web: Web) -> None:
    found = web.ask().json()
    assert found["pid"] == web.record["pid"]
    assert found["http_socket"] == web.record["http_socket"]


def test_a_key_opens_from_when_it_is_made_until_it_is_revoked(web: Web) -> None:
    created = web.home.run("memory-daemon", "token", "create", "passing", "--format", "json")
    assert created.code == 0, created
    key = next(word for word in created.text.replace('"', " ").split() if word.startswith("am_"))
    with web.client(key=key) as client:
        assert client.get(STATUS).status_code == 200
        assert web.home.run("memory-daemon", "token", "revoke", "passing").code == 0
        assert client.get(STATUS).status_code == 401  # also on a connection that was let in
    assert web.ask().status_code == 200


@pytest.mark.parametrize("path", ["/health", STATUS, "/docs", "/ws"])
def test_a_foreign_host_is_refused_everywhere(web: Web, path: str) -> None:
    refused = web.ask(path=path, headers={"host": "evil.example"})
    assert refused.status_code == 421
    assert "http.allowed_hosts" in refused.json()["detail"]


@pytest.mark.parametrize("origin", ["null", "https://evil.example", "http://localhost:1"])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", STATUS), ("DELETE", "/x"), ("GET", "/stream/events")]
)
def test_a_foreign_page_writes_and_listens_nowhere(
    web: Web, method: str, path: str, origin: str
) -> None:
    refused = web.ask(method, path, headers={"origin": origin})
    assert refused.status_code == 403
    assert web.ask("GET", "/health", headers={"origin": origin}).status_code == 200


def test_our_own_page_does(web: Web) -> None:
    own = {"origin": f"http://{web.place}"}
    assert web.ask("POST", headers=own).status_code == 405  # the application's answer


def _refuse_socket(web: Web, **headers: str) -> Response:
    async def attempt() -> InvalidStatus:
        given = {"authorization": f"Bearer {web.key}", **headers}
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://{web.place}/nowhere", additional_headers=given, proxy=None)
        return refused.value

    return asyncio.run(attempt()).response


def test_websockets_are_refused_before_they_are_any(web: Web) -> None:
    for headers, wanted in (
        ({"authorization": "Bearer wrong"}, 401),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ):
        response = _refuse_socket(web, **headers)
        assert response.status_code == wanted
        assert json.loads(bytes(response.body))["detail"]
    assert "without completing handshake" not in web.home.log()


def test_every_answer_has_the_policy(web: Web) -> None:
    """Those of the application, the gate, the page, MCP, the socket, and of uvicorn itself."""
    requests: list[tuple[str, str, dict[str, str]]] = [
        ("GET", "/health", {}),
        ("GET", STATUS, {}),
        ("GET", STATUS, {"authorization": "Bearer wrong"}),
        ("GET", STATUS, {"host": "evil.example"}),
        ("POST", STATUS, {}),
        ("POST", STATUS, {"origin": "null"}),
        ("POST", "/mcp", {}),
        ("GET", "/api/v1/no/such/path/", {}),
        ("GET", "/api/v1/events/?limit=x", {}),
        ("GET", "/docs", {}),
        ("GET", "/openapi.json", {}),
        ("GET", "/static-offline-docs/swagger-ui.css", {}),
        ("GET", "/metrics", {}),
        ("GET", "/", {}),
        ("GET", "/ui/nothing.js", {}),
        ("POST", "/ui/session", {}),
        ("GET", "/ws", {}),
    ]
    with web.client() as client, web.over_socket() as socket:
        answers = [client.request(name, path, headers=more) for name, path, more in requests]
        answers.append(socket.get(STATUS))
        with client.stream("GET", "/stream/events") as stream:
            answers.append(stream)
    etag = answers[13].headers["etag"]
    answers.append(web.ask(path="/", headers={"if-none-match": etag}))
    answers.append(web.ask(headers={"x": "x" * (MAX_HEAD_BYTES + 1)}))
    assert {200, 304, 401, 403, 404, 405, 421, 422, 431} <= {each.status_code for each in answers}
    for answer in answers:
        _check_policy(answer.headers, answer.url)
    _check_policy(_refuse_socket(web, origin="null").headers, "WebSocket")


def _check_policy(headers: Mapping[str, str], what: object) -> None:
    policy = headers.get("content-security-policy", "")
    assert policy.startswith("default-src 'self'; "), what
    assert "frame-ancestors 'none'" in policy, what
    assert "require-trusted-types-for 'script'" in policy, what
    assert "unsafe" not in policy, what
    assert headers["x-content-type-options"] == "nosniff", what


@pytest.mark.parametrize("key", [None, ""])
def test_a_huge_body_is_refused_and_the_client_hears_of_it(web: Web, key: str | None) -> None:
    refused = web.ask("POST", content=b"x" * (MOST_BY_DEFAULT + 1), key=key)
    assert refused.status_code == (413 if key is None else 401)


def test_the_limit_is_a_setting_and_holds_on_the_socket_too(strict: Web) -> None:
    with strict.over_socket() as client:
        refused = client.post("/nowhere", content=b"x" * (MOST + 1))
        assert refused.status_code == 413
        assert f"{MOST:,} bytes" in refused.json()["detail"]
        assert client.post("/nowhere", content=b"x" * MOST).status_code == 404


def test_the_socket_needs_no_key_and_knows_no_host_or_rate(strict: Web) -> None:
    path = Path(strict.record["http_socket"])
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert strict.home.status()["http_socket"] == str(path)
    with strict.over_socket() as client:
        statuses = {client.get(STATUS).status_code for _ in range(3 * BURST)}
    assert statuses == {200}


def test_tls_is_served_to_the_names_in_the_settings(strict: Web, authority: trustme.CA) -> None:
    with strict.client(verify=trusting(authority)) as client:
        assert client.get("/health").status_code == 200
        for host, status in (("memory.example", 200), (EVERYWHERE, 200), ("other.example", 421)):
            assert client.get("/health", headers={"host": host}).status_code == status
    assert strict.record["http_scheme"] == "https"
    found = strict.home.status()
    assert found["http_addresses"] == [f"0.0.0.0:{found['http_port']}"]
    shown = strict.home.run("memory-daemon", "status", "-v").text
    assert f"HTTP: https://0.0.0.0:{found['http_port']}" in shown
    with pytest.raises(httpx.TransportError), httpx.Client(trust_env=False) as plain:
        plain.get(f"http://{strict.place}/health")


def test_a_private_key_that_others_may_read_is_told_of(
    strict: Web, certified: tuple[Path, Path]
) -> None:
    (warning,) = strict.home.status()["warnings"]
    assert f"chmod 600 {certified[1]}" in warning


def test_too_often_is_too_often(strict: Web, authority: trustme.CA) -> None:
    with strict.client(verify=trusting(authority)) as client:
        answers = [client.get("/nowhere") for _ in range(3 * BURST)]
        statuses = [answer.status_code for answer in answers]
        assert statuses[:BURST] == [404] * BURST
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert "http.rate" in refused.json()["detail"]
        assert client.get("/health").status_code == 200


def test_in_the_open_it_does_not_start_without_tls() -> None:
    with Home() as home:
        answer = home.run("memory-daemon", "start", env={"http.host": EVERYWHERE})
        assert answer.code == 3
        assert "http.tls_cert and http.tls_key" in answer.errors
        assert home.pid() is None


def test_a_stream_ends_with_its_key(web: Web) -> None:
    secret = web.home.run("memory-daemon", "token", "create", "watcher", "--format", "json").json()
    with (
        web.client(key=secret["token"]) as client,
        client.stream("GET", "/stream/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith("id: ")
        web.home.run("memory-daemon", "token", "revoke", "watcher")
        told = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "Unheard"}
        web.home.run("memory", "hook", "auto", "--agent", "codex", given=json.dumps(told).encode())
        assert "Unheard" not in "".join(lines)  # which come to an end


def test_each_write_leaves_a_line_without_its_key_or_words(web: Web) -> None:
    with web.client() as client:
        client.post("/audited/one?q=private-words", content=b"private-words")
        client.get("/audited/two")
    with web.over_socket() as client:
        client.delete("/audited/three")
    web.ask("POST", "/audited/four", key="")

    def lines() -> list[dict[str, Any]]:
        return [line for line in web.audit() if line["path"].startswith("/audited/")]

    wait_until(lambda: len(lines()) == 2, "both writes are in the log")
    told = [(line["key"], line["method"], line["path"], line["status"]) for line in lines()]
    assert told == [
        (name_first_key(web.home.data), "POST", "/audited/one", 404),
        ("socket", "DELETE", "/audited/three", 404),
    ]
    assert all(line["interface"] == "http" and line["duration_ms"] >= 0 for line in lines())
    log = web.home.log()
    assert web.key not in log
    assert "private-words" not in log
