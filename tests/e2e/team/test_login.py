"""People who log in with an issuer of their own, on a real team server."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agent_memory.platform import oidc
from tests.command_runner import Home, wait_until
from tests.memory_commands import OK, MemoryCommand
from tests.oidc_issuer import AUDIENCE, CLIENT, IssuerProcess
from tests.team_server import CONFIG, TeamServer


@pytest.fixture(scope="module")
def issuer() -> Iterator[IssuerProcess]:
    with IssuerProcess() as running:
        yield running


@pytest.fixture(scope="module")
def server(issuer: IssuerProcess) -> Iterator[TeamServer]:
    with Home() as home:
        home.configure(
            f'{CONFIG}oidc_issuer = "{issuer.url}"\noidc_audience = "{AUDIENCE}"\n'
            f'oidc_client_id = "{CLIENT}"\noidc_role_claim = "groups"\n'
            'oidc_roles = ["engineers=writer", "leads=admin"]\noidc_project_claim = "projects"\n'
        )
        yield TeamServer(home)


def test_a_token_gives_the_role_and_the_projects_that_it_names(
    server: TeamServer, issuer: IssuerProcess
) -> None:
    token = issuer.sign(sub="ada", groups=["engineers"], projects=["shop"])
    ada = server.caller("ada", token)
    event = {"session_id": "s", "event_id": "e", "text": "hello", "metadata": {"project": "shop"}}
    ada.rest("POST", "/api/v1/events/", json=event)
    assert ada.status == 201
    ada.rest("POST", "/api/v1/events/", json=event | {"metadata": {"project": "web"}})
    assert ada.status == 403
    assert json.loads(ada.get("/api/v1/events/e"))["metadata"]["person"] == "ada"
    assert "hello" in ada.search("hello")
    ada.get("/api/v1/audit/")
    assert ada.status == 403


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": ["others"]},
        {"groups": ["engineers"], "exp": 1},
        {"groups": ["leads"], "aud": "x"},
    ],
)
def test_others_are_refused(
    server: TeamServer, issuer: IssuerProcess, claims: dict[str, Any]
) -> None:
    caller = server.caller("eve", issuer.sign(sub="eve", **claims))
    caller.get("/api/v1/events/")
    assert caller.status == 401
    assert caller.search("x").startswith("UNAUTHENTICATED")


def test_keys_count_beside_tokens(server: TeamServer, issuer: IssuerProcess) -> None:
    root = server.create("root", "--role", "admin")
    server.caller("ada", issuer.sign(groups=["engineers"])).get("/api/v1/audit/")
    text = root.get("/api/v1/audit/", refused=True)
    assert root.status == 200
    assert '"key":"ada (token)"' in text


def test_a_program_learns_how_to_log_in_and_does(server: TeamServer, issuer: IssuerProcess) -> None:
    described = httpx.get(
        f"http://127.0.0.1:{server.http_port}/.well-known/agent-memory", trust_env=False
    ).json()
    assert described == {"issuer": issuer.url, "audience": AUDIENCE, "client_id": CLIENT}
    found = oidc.discover(described["issuer"])
    login = oidc.start_device_flow(found, described["client_id"])
    issuer.steer("decide", {login.device_code: "approved"})
    token = oidc.poll(found, described["client_id"], login, wait=lambda _: None)
    caller = server.caller("ada", token)
    caller.get("/api/v1/events/")
    assert caller.status == 401  # it names no group, and so no role
    assert "has no role here" in caller.get("/api/v1/events/")


def test_a_machine_gets_a_key_through_a_browser(server: TeamServer, issuer: IssuerProcess) -> None:
    with Home() as laptop:
        laptop.serve()
        memory = MemoryCommand(laptop, laptop.work)
        assert memory("remote", "add", f"http://127.0.0.1:{server.http_port}").code == OK
        with laptop.on_terminal("memory", "remote", "login") as screen:
            screen.read_until("and enter the code WDJB-")
            issuer.steer("approve", {"sub": "ada", "groups": ["engineers"], "projects": ["shop"]})
            assert screen.finish() == OK, screen.text
        assert "Logged in to team as ada" in screen.text
        key = json.loads((laptop.data / "remote-key").read_text())["key"]
        ada = server.caller("ada", key)
        assert json.loads(ada.get("/api/v1/upstream/"))["role"] == "writer"
        ada.get("/api/v1/events/")
        assert ada.status == 200
        assert "a key cannot create another" in ada.rest(
            "POST", "/api/v1/upstream/keys/", json={"machine": "copy"}
        )
        assert ada.status == 403
        root = server.create("root-of-login", "--role", "admin")
        names = [each["name"] for each in json.loads(root.get("/api/v1/keys/"))["keys"]]
        (own,) = [name for name in names if name.startswith("login-")]
        assert server.home.run("memory-daemon", "token", "revoke", own).code == OK
        ada.get("/api/v1/upstream/")
        assert ada.status == 401


def test_a_key_can_be_stored_while_the_server_is_away() -> None:
    with socket.socket() as closed, Home() as laptop:
        closed.bind(("127.0.0.1", 0))  # and never listens
        laptop.serve()
        memory = MemoryCommand(laptop, laptop.work)
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert memory("remote", "add", address).code == OK
        with laptop.on_terminal("memory", "remote", "login") as screen:
            screen.read_until("Key for team: ")
            wait_until(lambda: not screen.echoes, "echo is off")
            screen.type("am_of-ada\n")
            assert screen.finish() == OK, screen.text
        assert "the key was not checked" in screen.text
        assert json.loads((laptop.data / "remote-key").read_text())["key"] == "am_of-ada"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('oidc_issuer = "https://login.example"\n', "team.oidc_audience"),
        (
            'oidc_issuer = "https://login.example"\noidc_audience = "x"\noidc_roles = ["a"]\n',
            "team.oidc_roles",
        ),
    ],
)
def test_wrong_settings_are_told_of(lines: str, message: str) -> None:
    with Home() as home:
        home.configure(CONFIG + lines)
        answer = home.run("memory-daemon", "start")
        assert answer.code == 3
        assert message in answer.errors
