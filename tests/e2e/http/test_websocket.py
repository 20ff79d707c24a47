"""The WebSocket of a real daemon."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Response
from websockets.sync.client import ClientConnection

from agent_memory.features.streaming.interfaces.websocket import (
    MAX_MESSAGE_CHARS,
    MAX_RECALLS,
    MAX_SUBSCRIPTIONS,
    TRY_AGAIN_LATER,
)
from tests.command_runner import SECONDS, Home, wait_until
from tests.streaming import ServedDaemon, ask, ask_async, receive, start_serve

LIMIT = 5
ABNORMAL = 1006
INVALID, MISSING, OTHER = -32002, -32001, -32000


@pytest.fixture(scope="module")
def served() -> Iterator[ServedDaemon]:
    with Home() as home:
        home.settings["streaming.max_connections"] = str(LIMIT)
        yield ServedDaemon(home)


@pytest.fixture
def ws(served: ServedDaemon) -> Iterator[ClientConnection]:
    with served.socket() as connected:
        yield connected


def answered(ws: ClientConnection, **request: Any) -> dict[str, Any]:
    ask(ws, **request)
    return receive(ws)


def assert_alive(ws: ClientConnection) -> None:
    assert answered(ws, operation="ping", id="alive") == {"type": "pong", "id": "alive"}


def test_recall_gives_each_result_and_then_the_sum(
    served: ServedDaemon, ws: ClientConnection
) -> None:
    uri = served.capture("Use PostgreSQL for orders")
    ask(ws, operation="recall", query="PostgreSQL", id=7)
    result = receive(ws)
    assert (result["type"], result["id"]) == ("result", 7)
    assert result["data"]["memory"]["uri"] == uri
    assert result["data"]["score"] == result["data"]["memory"]["score"]
    complete = receive(ws)
    assert (complete["type"], complete["id"], complete["success"]) == ("complete", 7, True)
    assert complete["result"]["total"] == 1


def test_what_is_subscribed_to_is_told_until_it_is_no_more(
    served: ServedDaemon, ws: ClientConnection, name: str
) -> None:
    uri = "subcog://project:work/decisions"
    assert answered(ws, operation="subscribe", uri=uri, id="a") == {
        "type": "subscribed",
        "uri": uri,
        "id": "a",
    }
    served.capture(f"not of it {name}", namespace="learnings")
    created = served.capture(f"first {name}")
    change = receive(ws)
    assert change.keys() == {"type", "uri", "memory"}
    assert (change["type"], change["uri"]) == ("change", created)
    assert change["memory"]["summary"] == f"first {name}"

    served.home.run("memory", "archive", created)
    assert receive(ws)["memory"]["status"] == "archived"

    assert answered(ws, operation="unsubscribe", uri=uri)["type"] == "unsubscribed"
    served.capture(f"second {name}")
    assert_alive(ws)
    assert answered(ws, operation="unsubscribe", uri=uri)["code"] == MISSING


def test_events_of_a_session_are_told(
    served: ServedDaemon, ws: ClientConnection, name: str
) -> None:
    wanted = {"session_id": name}
    assert answered(ws, operation="subscribe", events=wanted)["type"] == "subscribed"
    served.ingest("another", f"{name}-0")
    served.ingest(name, f"{name}-1")
    found = receive(ws)
    assert found["type"] == "event"
    assert found["event"]["event_id"] == f"{name}-1"
    assert found["token"].isdecimal()


def test_a_subscription_holds_nothing_up(
    served: ServedDaemon, ws: ClientConnection, name: str
) -> None:
    for uri in ("all", "project", "decisions"):  # what is in several is told once
        assert answered(ws, operation="subscribe", uri=uri)["type"] == "subscribed"
    assert_alive(ws)
    served.capture(f"of all {name}")
    assert receive(ws)["type"] == "change"
    assert_alive(ws)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "{",
        "[]",
        "null",
        '"ping"',
        "{}",
        '{"operation": 5}',
        '{"operation": "shutdown"}',
        '{"operation": "subscribe"}',
        '{"operation": "subscribe", "uri": 5}',
        '{"operation": "subscribe", "uri": "https://example.org"}',
        '{"operation": "subscribe", "uri": "subcog://project:x/nonsense"}',
        '{"operation": "subscribe", "events": {"colour": "red"}}',
        '{"operation": "subscribe", "events": true, "uri": "all"}',
        '{"operation": "recall", "limit": 1000}',
        '{"operation": "recall", "query": 5}',
        '{"operation": "recall", "colour": "red"}',
        '{"operation": "ping", "id": {}}',
        "[" * 50_000,
        b"\x00\xff",
        json.dumps({"operation": "ping", "text": "x" * MAX_MESSAGE_CHARS}),
    ],
)
def test_nonsense_is_answered_and_the_connection_lives(
    ws: ClientConnection, message: str | bytes
) -> None:
    ws.send(message)
    answer = receive(ws)
    assert (answer["type"], answer["code"]) == ("error", INVALID)
    assert answer["message"]
    assert_alive(ws)


def test_an_error_tells_which_request_it_is_of(ws: ClientConnection) -> None:
    assert answered(ws, operation="x", id="q1")["id"] == "q1"
    assert answered(ws, operation="recall", domain="x", id="q2")["id"] == "q2"
    assert_alive(ws)


def test_subscriptions_are_limited(ws: ClientConnection) -> None:
    for number in range(MAX_SUBSCRIPTIONS):
        ask(ws, operation="subscribe", uri=f"project:p{number}")
    ask(ws, operation="subscribe", uri="project:p0")  # it is there already
    assert {receive(ws)["type"] for _ in range(MAX_SUBSCRIPTIONS + 1)} == {"subscribed"}
    assert answered(ws, operation="subscribe", uri="user")["code"] == OTHER
    assert answered(ws, operation="unsubscribe", uri="project:p0")["type"] == "unsubscribed"
    assert answered(ws, operation="subscribe", uri="user")["type"] == "subscribed"


def test_recalls_at_once_are_limited_and_all_are_answered(ws: ClientConnection) -> None:
    for number in range(50):
        ask(ws, operation="recall", query="bread and butter", id=number)
    ended: dict[int, str] = {}
    while len(ended) < 50:
        found = receive(ws)
        if found["type"] != "result":
            ended[found["id"]] = found["type"]
    assert set(ended.values()) <= {"complete", "error"}
    assert list(ended.values()).count("complete") >= MAX_RECALLS
    assert_alive(ws)


def test_no_more_than_the_limit_may_be_connected(served: ServedDaemon) -> None:
    def refusal() -> Response | None:
        try:
            with served.socket():
                return None
        except InvalidStatus as exc:
            return exc.response

    wait_until(lambda: refusal() is None, "those of other tests have left")
    with ExitStack() as stack:
        held = [stack.enter_context(served.socket()) for _ in range(LIMIT)]
        refused = refusal()
        assert refused is not None
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) > 0
        assert "streaming.max_connections" in json.loads(refused.body)["detail"]
        with served.http() as http:  # another transport has seats of its own
            assert "event: complete" in http.post("/stream/recall", json={}).text
        held.pop().close()
        wait_until(lambda: refusal() is None, "a seat is free")
        for each in held:
            assert_alive(each)


def test_a_reader_that_takes_nothing_is_dropped(served: ServedDaemon, name: str) -> None:
    """What it does not take is more than may wait for it."""
    asyncio.run(_frozen(served, name))


async def _frozen(served: ServedDaemon, name: str) -> None:
    async with served.socket_async() as frozen, served.socket_async() as other:
        assert await ask_async(frozen, operation="subscribe", events={"session_id": name})
        assert await ask_async(other, operation="subscribe", events={"session_id": "b"})
        frozen.transport.pause_reading()
        many = [f"{name}-{number}" for number in range(40)]
        await asyncio.to_thread(served.ingest, name, *many, text="x" * 1_000_000)
        dropped = partial(
            wait_until, lambda: "websocket.dropped" in served.home.log(), "it is dropped"
        )
        await asyncio.to_thread(dropped)
        await asyncio.to_thread(served.ingest, "b", f"{name}-b")
        assert json.loads(await other.recv())["event"]["event_id"] == f"{name}-b"
        frozen.transport.resume_reading()
        with suppress(ConnectionClosed):
            while True:
                await frozen.recv()
        assert frozen.close_code in (TRY_AGAIN_LATER, ABNORMAL)  # it may be too late to tell


def test_a_port_of_its_own_answers_at_both_places(served: ServedDaemon) -> None:
    with start_serve(served.home, "websocket") as (command, address):
        for path in ("/ws", "/"):
            with served.socket(path, address=address) as ws:
                assert_alive(ws)
        command.send_signal(signal.SIGINT)
        assert command.wait(SECONDS) == 130


def test_a_daemon_that_stops_says_good_bye(served: ServedDaemon) -> None:
    """The last one here: the daemon is gone."""
    with served.socket() as ws, served.stream("GET", "/stream/events") as events:
        assert answered(ws, operation="subscribe", uri="all")["type"] == "subscribed"
        assert next(events).event == "start"
        served.home.stop()
        with pytest.raises(ConnectionClosed) as closed:
            receive(ws)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012  # it restarts
        assert list(events) == []
