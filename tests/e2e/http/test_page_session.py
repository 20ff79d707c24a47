"""The session of the page: a code becomes a cookie once, and only this page may use it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.command_runner import Home, wait_until
from tests.http_client import Web

SESSION = "/ui/session"
STATUS = "/api/v1/status/"
EVENTS = "/api/v1/events/"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as home:
        home.serve()
        yield home


@pytest.fixture(scope="module")
def web(home: Home) -> Web:
    return Web(home)


@pytest.fixture
def browser(web: Web) -> Iterator[httpx.Client]:
    """A client without a key, which keeps cookies as a browser does."""
    with httpx.Client(base_url=f"http://{web.place}") as client:
        yield client


def issue_code(home: Home) -> str:
    shown = json.loads(home.run("memory", "ui", "--print", "--format", "json").out)
    assert shown["opened"] is False
    return str(shown["url"].partition("#code=")[2])


def sign_in(home: Home, browser: httpx.Client) -> str:
    answer = browser.post(SESSION, json={"code": issue_code(home)})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


class TestOpening:
    def test_the_browser_of_the_caller_opens_the_url(self, home: Home, tmp_path: Path) -> None:
        program, opened = tmp_path / "browser", tmp_path / "opened"
        program.write_text(f'#!/bin/sh\necho "$1" > {opened}.new && mv {opened}.new {opened}\n')
        program.chmod(0o700)
        told = home.run("memory", "ui", env={"BROWSER": str(program)})
        assert "Opened the page" in told.text
        wait_until(opened.exists, "the browser starts")
        assert "/#code=" in opened.read_text()

    def test_an_agent_cannot_open_it(self, home: Home) -> None:
        refused = home.run("memory", "ui", "--print", env={"CLAUDECODE": "1"})
        assert refused.code == 11
        assert "only you can open the page" in refused.errors


class TestExchange:
    def test_a_code_becomes_a_cookie_that_is_another_value(
        self, home: Home, browser: httpx.Client
    ) -> None:
        code = issue_code(home)
        answer = browser.post(SESSION, json={"code": code})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert re.match(rf"agent-memory-{browser.base_url.port}=", cookie)
        assert code not in cookie
        assert code not in answer.text
        assert browser.get(STATUS).status_code == 200

    def test_a_code_works_once(self, home: Home, browser: httpx.Client) -> None:
        code = issue_code(home)
        assert browser.post(SESSION, json={"code": code}).status_code == 200
        again = browser.post(SESSION, json={"code": code})
        assert again.status_code == 401
        assert "memory ui" in again.json()["detail"]

    @pytest.mark.parametrize(
        "body", [b"", b"[]", b'{"code": 1}', b'{"code": "guess"}', b"x" * 5000]
    )
    def test_anything_else_is_refused(self, browser: httpx.Client, body: bytes) -> None:
        assert browser.post(SESSION, content=body).status_code == 401
        assert browser.get(STATUS).status_code == 401

    def test_the_token_can_be_read_again_with_the_cookie_alone(
        self, home: Home, browser: httpx.Client
    ) -> None:
        assert browser.get(SESSION).status_code == 401
        token = sign_in(home, browser)
        assert browser.get(SESSION).json() == {"token": token, "may_accept": False}

    def test_signing_out_ends_it(self, home: Home, browser: httpx.Client) -> None:
        token = sign_in(home, browser)
        cookies = dict(browser.cookies)
        assert browser.delete(SESSION, headers={"X-CSRF-Token": token}).status_code == 200
        browser.cookies.update(cookies)
        assert browser.get(STATUS).status_code == 401


class TestUse:
    def test_a_write_needs_the_token(self, home: Home, browser: httpx.Client) -> None:
        token = sign_in(home, browser)
        event = {"session_id": "s", "text": "hello"}
        assert browser.post(EVENTS, json=event).status_code == 403
        wrong = browser.post(EVENTS, json=event, headers={"X-CSRF-Token": "wrong"})
        assert wrong.status_code == 403
        written = browser.post(EVENTS, json=event, headers={"X-CSRF-Token": token})
        assert written.status_code == 201

    def test_a_page_of_another_port_gets_nothing(self, home: Home, browser: httpx.Client) -> None:
        token = sign_in(home, browser)
        foreign = {"Origin": "http://localhost:3000", "X-CSRF-Token": token}
        assert browser.post(EVENTS, json={}, headers=foreign).status_code == 403
        assert browser.get("/stream/events", headers=foreign).status_code == 403

    @pytest.mark.parametrize(
        "headers", [{"Origin": "http://localhost:3000"}, {"Sec-Fetch-Site": "same-site"}]
    )
    def test_a_page_of_another_port_cannot_even_read_with_the_cookie(
        self, home: Home, browser: httpx.Client, headers: dict[str, str]
    ) -> None:
        sign_in(home, browser)
        assert browser.get(STATUS, headers=headers).status_code == 401
        assert browser.get(STATUS, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200

    def test_a_foreign_host_is_refused_first(self, home: Home, browser: httpx.Client) -> None:
        sign_in(home, browser)
        for path in ("/", SESSION, STATUS):
            assert browser.get(path, headers={"Host": "evil.example"}).status_code == 421

    def test_it_opens_a_websocket_from_its_own_page_only(
        self, home: Home, web: Web, browser: httpx.Client
    ) -> None:
        sign_in(home, browser)
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        url = f"ws://{web.place}/ws"
        own = f"http://{web.place}"
        with connect(url, additional_headers={"Cookie": cookie, "Origin": own}) as socket:
            socket.send('{"operation": "ping"}')
            assert json.loads(socket.recv())["type"] == "pong"
        for headers in ({"Cookie": cookie}, {"Cookie": cookie, "Origin": "http://localhost:1"}):
            with pytest.raises(InvalidStatus), connect(url, additional_headers=headers):
                pass

    def test_a_revoked_key_ends_all_sessions(self, home: Home, browser: httpx.Client) -> None:
        sign_in(home, browser)
        home.run("memory-daemon", "token", "revoke", "page")
        assert browser.get(STATUS).status_code == 401
        sign_in(home, browser)  # creates the key again
        assert browser.get(STATUS).status_code == 200


class TestFiles:
    def test_the_page_needs_no_key_and_holds_no_data(self, browser: httpx.Client) -> None:
        answer = browser.get("/")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self'")
        assert "unsafe" not in policy
        unchanged = browser.get("/", headers={"If-None-Match": answer.headers["etag"]})
        assert (unchanged.status_code, unchanged.content) == (304, b"")

    @pytest.mark.parametrize(
        "path",
        ["/ui/../page_app.py", "/ui/%2e%2e/page_app.py", "/ui//etc/passwd", "/ui/nothing.js"],
    )
    def test_nothing_else_is_served(self, browser: httpx.Client, path: str) -> None:
        assert browser.get(path).status_code in (401, 404)

    def test_the_whole_page_is_small(self) -> None:
        from agent_memory.interfaces.http.page_app import FOLDER  # noqa: PLC0415

        sizes = [path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()]
        assert sizes
        assert sum(sizes) <= 150_000
