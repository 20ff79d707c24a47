"""The session of the page: a code becomes a token once, which every request needs."""

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from agent_memory.interfaces.http.page_sessions import MAX_CODES
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
    """A client without a key or a token, which keeps cookies as a browser does."""
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


class StandInBrowser:
    """A program that runs until `stop`, and notes its process and its arguments."""

    def __init__(self, folder: Path) -> None:
        self._note, self._runs = folder / "note", folder / "runs"
        self._runs.touch()
        self.program = folder / "browser"
        self.program.write_text(
            f'#!/bin/sh\nprintf "%s\\n" $$ "$@" > {self._note}.new && mv {self._note}.new'
            f" {self._note}\nwhile [ -e {self._runs} ]; do sleep 0.02; done\n"
        )
        self.program.chmod(0o700)

    def read(self) -> tuple[str, list[str]]:
        """Return the arguments that other users see, and those that the program got."""
        wait_until(self._note.exists, "the browser starts")
        process, *arguments = self._note.read_text().splitlines()
        shown = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", process],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
        )
        return shown.stdout, arguments

    def stop(self) -> None:
        self._runs.unlink()


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandInBrowser]:
    browser = StandInBrowser(tmp_path)
    yield browser
    browser.stop()


class TestOpening:
    def test_the_code_is_in_a_file_of_yours_and_in_no_argument(
        self, home: Home, browser: httpx.Client, stand_in: StandInBrowser
    ) -> None:
        opened = home.run(
            "memory", "ui", "--format", "json", env={"BROWSER": str(stand_in.program)}
        )
        url = opened.json()["url"]
        code = url.partition("#code=")[2]
        seen, arguments = stand_in.read()
        assert str(stand_in.program) in seen
        assert code not in seen
        assert code[:8] not in seen
        (argument,) = arguments
        file = Path(urlsplit(argument).path)
        assert file.as_uri() == argument
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert f'http-equiv="refresh" content="0; url={url}"' in file.read_text()
        assert browser.post(SESSION, json={"code": code}).status_code == 200
        assert not file.exists()

    def test_the_file_goes_with_its_code(self, home: Home, stand_in: StandInBrowser) -> None:
        home.run("memory", "ui", env={"BROWSER": f"{stand_in.program} --new-window=%s"})
        _, (argument,) = stand_in.read()
        file = Path(urlsplit(argument.removeprefix("--new-window=")).path)
        assert file.exists()
        for _ in range(MAX_CODES):  # older codes are forgotten
            issue_code(home)
        assert not file.exists()
        assert not list(file.parent.glob("open-page-*"))

    def test_without_a_browser_it_prints_the_url(self, home: Home) -> None:
        assert "/#code=" in home.run("memory", "ui", env={"BROWSER": "/nowhere/browser"}).text

    def test_an_agent_cannot_open_it(self, home: Home) -> None:
        refused = home.run("memory", "ui", "--print", env={"CLAUDECODE": "1"})
        assert refused.code == 11
        assert "only you can open the page" in refused.errors


def bear(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


class TestExchange:
    def test_a_code_becomes_a_token_that_is_another_value(
        self, home: Home, browser: httpx.Client
    ) -> None:
        code = issue_code(home)
        answer = browser.post(SESSION, json={"code": code})
        assert "set-cookie" not in answer.headers
        assert answer.headers["cache-control"] == "no-store"
        assert code not in answer.text
        token = answer.json()["token"]
        assert browser.get(STATUS, headers=bear(token)).status_code == 200
        assert browser.get(STATUS).status_code == 401
        assert browser.get(STATUS, headers=bear(code)).status_code == 401

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

    def test_a_session_never_tells_its_token_again(self, home: Home, browser: httpx.Client) -> None:
        assert browser.get(SESSION).status_code == 401
        token = sign_in(home, browser)
        assert browser.get(SESSION, headers=bear(token)).json() == {"may_accept": False}

    def test_signing_out_ends_it_and_its_streams(self, home: Home, browser: httpx.Client) -> None:
        headers = bear(sign_in(home, browser))
        with browser.stream("GET", "/stream/events", headers=headers) as stream:
            assert stream.status_code == 200
            assert browser.delete(SESSION, headers=headers).status_code == 200
            key = (home.data / "key").read_text().strip()
            event = {"session_id": "s", "text": "said after the end"}
            assert browser.post(EVENTS, json=event, headers=bear(key)).status_code == 201
            assert "said after the end" not in stream.read().decode()
        assert browser.get(STATUS, headers=headers).status_code == 401


class TestUse:
    def test_nothing_but_the_token_counts(self, home: Home, browser: httpx.Client) -> None:
        token = sign_in(home, browser)
        for name in (f"agent-memory-{browser.base_url.port}", "token", "session"):
            browser.cookies.set(name, token)
        event = {"session_id": "s", "text": "hello"}
        for headers in ({}, {"X-CSRF-Token": token}, {"Authorization": f"Basic {token}"}):
            assert browser.get(STATUS, headers=headers).status_code == 401
            assert browser.get(f"/stream/events?token={token}", headers=headers).status_code == 401
            assert browser.post(EVENTS, json=event, headers=headers).status_code == 401
        assert browser.post(EVENTS, json=event, headers=bear(token)).status_code == 201

    def test_a_page_of_another_port_gets_nothing(self, home: Home, browser: httpx.Client) -> None:
        foreign = {"Origin": "http://localhost:3000", **bear(sign_in(home, browser))}
        assert browser.post(EVENTS, json={}, headers=foreign).status_code == 403
        assert browser.get("/stream/events", headers=foreign).status_code == 403

    def test_a_foreign_host_is_refused_first(self, home: Home, browser: httpx.Client) -> None:
        sign_in(home, browser)
        for path in ("/", SESSION, STATUS):
            assert browser.get(path, headers={"Host": "evil.example"}).status_code == 421

    def test_a_websocket_needs_it_too(self, home: Home, web: Web, browser: httpx.Client) -> None:
        token, url = sign_in(home, browser), f"ws://{web.place}/ws"
        with connect(url, additional_headers=bear(token)) as socket:
            socket.send('{"operation": "ping"}')
            assert json.loads(socket.recv())["type"] == "pong"
        own = {"Origin": f"http://{web.place}", "Cookie": f"token={token}"}
        for headers in (own, bear(token) | {"Origin": "http://localhost:1"}):
            with pytest.raises(InvalidStatus), connect(url, additional_headers=headers):
                pass

    def test_a_revoked_key_ends_all_sessions(self, home: Home, browser: httpx.Client) -> None:
        headers = bear(sign_in(home, browser))
        home.run("memory-daemon", "token", "revoke", "page")
        assert browser.get(STATUS, headers=headers).status_code == 401
        again = bear(sign_in(home, browser))  # creates the key again
        assert browser.get(STATUS, headers=headers).status_code == 401
        assert browser.get(STATUS, headers=again).status_code == 200


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
        assert sum(sizes) <= 156_000
