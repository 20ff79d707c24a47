"""Event streams: tasks that are cancelled, readers that read nothing, tokens that expired."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.memories.adapters.memory_store import StoredMemories
from agent_memory.features.streaming.feature import encode_record
from agent_memory.features.streaming.interfaces import sse, streams
from agent_memory.features.streaming.interfaces.task_stream import TaskStreams
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.features.streaming.services.connection_limit import ConnectionLimit, StreamLimits
from agent_memory.interfaces import long_running
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.kernel.progress import OnProgress
from tests.command_runner import SECONDS
from tests.contract.stores import memory as in_memory

SOON = 0.05


def test_events_are_lines_that_a_browser_understands() -> None:
    assert (
        sse.format_json_event("event", {"a": "x\ny"}, "7")
        == b'id: 7\nevent: event\ndata: {"a":"x\\ny"}\n\n'
    )
    assert sse.format_event("start", "{}") == b"event: start\ndata: {}\n\n"


class TestTasks:
    def test_progress_is_told_while_the_work_runs(self) -> None:
        seen = threading.Event()

        def work(on_progress: OnProgress) -> Mapping[str, Any]:
            on_progress("baking", 1, 3)
            assert seen.wait(SECONDS)  # it goes on only once that was told
            return {"success": True}

        async def watch() -> list[bytes]:
            told = []
            async for each in TaskStreams(SECONDS).run("bake", {}, work):
                told.append(each)
                if b"progress" in each:
                    seen.set()
            return told

        start, progress, complete = asyncio.run(watch())
        assert start.startswith(b"event: start")
        assert b'{"phase":"baking","current":1,"total":3,"message":"Baking: 1 of 3"}' in progress
        assert complete == sse.format_json_event("complete", {"success": True})

    def test_one_that_is_left_is_cancelled_and_keeps_its_turn_until_it_has_ended(self) -> None:
        left, ended = threading.Event(), threading.Event()

        def endless(on_progress: OnProgress) -> Mapping[str, Any]:
            try:
                assert left.wait(SECONDS)
                while True:
                    on_progress("baking", 0, 0)
            finally:
                ended.set()

        async def watch() -> bool:
            running = TaskStreams(SOON)
            begun = [running.run("bake", {}, endless) for _ in range(long_running.AT_ONCE)]
            for each in begun:
                await anext(each)  # its start
                assert await anext(each) == sse.KEEP_ALIVE  # it is at work
                await each.aclose()
            waiting = running.run("bake", {}, lambda _: {"success": True})
            await anext(waiting)
            assert b'"phase":"waiting"' in await anext(waiting)
            left.set()
            return any([b"event: complete" in told async for told in waiting])

        assert asyncio.run(watch())
        assert ended.wait(SECONDS)

    def test_what_fails_is_told(self) -> None:
        def broken(_: OnProgress) -> Mapping[str, Any]:
            raise InvalidInput("no flour")

        async def watch() -> list[bytes]:
            return [each async for each in TaskStreams(SECONDS).run("bake", {}, broken)]

        _, told = asyncio.run(watch())
        assert told.startswith(
            b'event: error\ndata: {"code":-32002,"name":"invalid_argument","message":"no flour"}'
        )
        assert b'event: complete\ndata: {"success":false' in told

    def test_a_crash_is_reported_without_its_details(self) -> None:
        def broken(_: OnProgress) -> Mapping[str, Any]:
            raise RuntimeError("/home/ann/secret")

        async def watch() -> list[bytes]:
            return [each async for each in TaskStreams(SECONDS).run("bake", {}, broken)]

        _, told = asyncio.run(watch())
        assert b'"code":-32000' in told
        assert b"secret" not in told


class TestSending:
    def test_a_reader_that_takes_nothing_is_left(self) -> None:
        closed: list[str] = []

        async def endless() -> AsyncGenerator[bytes, None]:
            try:
                while True:
                    yield b"x"
            finally:
                closed.append("closed")

        async def frozen(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        async def run() -> bool:
            seats = ConnectionLimit("SSE", 1)
            await sse.EventStream(seats, endless(), send_seconds=SOON)({}, _forever, frozen)
            with seats.acquire() as free:
                return free

        assert asyncio.run(run())
        assert closed == ["closed"]

    def test_a_client_that_goes_away_ends_it(self) -> None:
        closed: list[str] = []

        async def quiet() -> AsyncGenerator[bytes, None]:
            try:
                yield b"x"
                await asyncio.Event().wait()
            finally:
                closed.append("closed")

        async def gone() -> MutableMapping[str, Any]:
            return {"type": "http.disconnect"}

        async def taken(_: MutableMapping[str, Any]) -> None:
            pass

        asyncio.run(_call(sse.EventStream(ConnectionLimit("SSE", 1), quiet()), gone, taken))
        assert closed == ["closed"]


async def _call(response: sse.EventStream, receive: Any, send: Any) -> None:
    await asyncio.wait_for(response({}, receive, send), SECONDS)


async def _forever() -> MutableMapping[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError("it never ends")


def test_a_stream_that_cannot_go_on_says_so() -> None:
    asyncio.run(_gone())


async def _gone() -> None:
    store = in_memory(Path())
    log, outbox = StoredEventLog(store), StoredOutbox(store)
    changes = ChangeFeed(log, outbox, StoredMemories(store), encode_record)
    log.append([_event(str(number)) for number in range(5)]).result(SECONDS)
    outbox.trim(3)
    bridge = Bridge()
    # The routes under test use none of the other services and dependencies.
    limits = StreamLimits(
        sse=ConnectionLimit("SSE", 5),
        websocket=ConnectionLimit("WebSocket", 5),
        keepalive_seconds=SECONDS,
    )
    services = Composition()
    services.add(changes, limits)
    parts: dict[str, Any] = dict.fromkeys(HttpDependencies.__slots__)
    parts |= {"services": services, "bridge": bridge, "environ": {}}
    api = FastAPI()
    api.include_router(streams.build_router(HttpDependencies(**parts)))
    transport = httpx.ASGITransport(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        for since, status in ((2, 410), (3, 200)):
            query: dict[str, int] = {"since": since, "timeout": 0}
            answer = await http.get("/stream/events", params=query)
            assert answer.status_code == status, answer.text
            if status == 200:
                found = answer.json()
                assert [each["event_id"] for each in found["events"]] == ["3", "4"]
                assert found["next"] == "5"
    changes.close()
    bridge.close()
    store.close()


def _event(name: str) -> Event:
    return Event(
        event_id=EventId(name),
        session_id=SessionId("s"),
        at_ms=Millis(5),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
    )
