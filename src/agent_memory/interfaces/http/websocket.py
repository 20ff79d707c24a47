"""`/ws`: recall, and what changes, over one connection that both sides talk on."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.streaming.services.change_feed import (
    EventFilter,
    FeedItem,
    FeedRecord,
    Follower,
    MemoryFilter,
)
from agent_memory.interfaces.http import following, questions, sse
from agent_memory.interfaces.http.connection_limit import RETRY_SECONDS
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.wire.errors import error_json
from agent_memory.kernel.errors import (
    AgentMemoryError,
    InvalidInput,
    NotFound,
    Overloaded,
    StorageClosed,
)

log = structlog.get_logger()

MAX_MESSAGE_CHARS = 64 << 10
MAX_SUBSCRIPTIONS = 100
MAX_RECALLS = 4  # at once, of one connection
MAX_UNSENT = 2_000  # answers
MAX_UNSENT_CHARS = 16 << 20  # likewise, in all
MAX_ID_CHARS = 200
TRY_AGAIN_LATER, RESTARTS = 1013, 1012  # codes of a close
CLOSE_SECONDS = 2.0
OPERATIONS = ("recall", "subscribe", "unsubscribe", "ping")

Subscription = EventFilter | MemoryFilter
Request = Mapping[str, Any]


def build_router(parts: HttpDependencies, *paths: str) -> APIRouter:
    routes = APIRouter()

    async def connect(socket: WebSocket) -> None:
        with parts.websocket_limit.acquire() as seated:
            if seated:
                await socket.accept()
                await _WebSocketSession(socket, parts).serve()
                return
        await _refuse(socket, parts.websocket_limit.refusal)

    for path in paths:
        routes.add_api_websocket_route(path, connect)
    return routes


async def _refuse(socket: WebSocket, why: str) -> None:
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        headers = {"Retry-After": str(RETRY_SECONDS)}
        await socket.send_denial_response(JSONResponse({"detail": why}, 503, headers))
    else:
        await socket.close(TRY_AGAIN_LATER)


class _WebSocketSession:
    """Answers, and what was subscribed to, are queued and sent by one task; whoever does not take
    them is dropped."""

    def __init__(self, socket: WebSocket, parts: HttpDependencies) -> None:
        self._socket = socket
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[str] = deque()
        self._unsent_chars = 0
        self._woken = asyncio.Event()
        self._over = asyncio.Event()
        self._code = TRY_AGAIN_LATER  # once it is over
        self._subscriptions: tuple[Subscription, ...] = ()
        self._follower: Follower | None = None
        self._recalls: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        try:
            await sse.run_until_first(self._read_all(), self._send_all(), self._over.wait())
        except WebSocketDisconnect:
            pass
        finally:
            for task in self._recalls:
                task.cancel()
            self._unfollow()
        if self._over.is_set():
            log.info("websocket.dropped", code=self._code)
            with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._socket.close(self._code)

    # What comes.

    async def _read_all(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            await self._answer(message.get("text"))

    async def _answer(self, text: str | None) -> None:
        request: Request = {}
        try:
            request = _parse_request(text)
            await self._perform(request)
        except AgentMemoryError as exc:
            self._fail(request, exc)

    async def _perform(self, request: Request) -> None:
        match request.get("operation"):
            case "ping":
                self._queue_answer(request, type="pong")
            case "recall":
                self._begin_recall(request)
            case "subscribe":
                await self._subscribe(request)
            case "unsubscribe":
                self._unsubscribe(request)
            case other:
                raise InvalidInput(
                    f"operation is {str(other)[:80]!r}; it must be one of {', '.join(OPERATIONS)}"
                )

    def _begin_recall(self, request: Request) -> None:
        given = {name: each for name, each in request.items() if name not in ("operation", "id")}
        question = questions.parse_request(given)
        if len(self._recalls) >= MAX_RECALLS:
            raise Overloaded(f"{MAX_RECALLS} recalls of this connection are running: wait for one")
        task = self._loop.create_task(self._recall(request, question))
        self._recalls.add(task)
        task.add_done_callback(self._recalls.discard)

    async def _recall(self, request: Request, question: questions.RecallRequest) -> None:
        recall = self._parts.recall
        try:
            found = await self._parts.bridge.run(lambda: questions.run_recall(question, recall))
        except AgentMemoryError as exc:
            self._fail(request, exc)
            return
        for each in found.results:
            self._queue_answer(request, type="result", data=each)
        self._queue_answer(request, type="complete", **found.summary)

    async def _subscribe(self, request: Request) -> None:
        wanted, named = _parse_subscription(request)
        if wanted not in self._subscriptions:
            if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
                raise Overloaded(
                    f"there are {MAX_SUBSCRIPTIONS} subscriptions, the limit: unsubscribe from one"
                )
            self._subscriptions = (*self._subscriptions, wanted)
        if self._follower is None:
            try:
                self._follower = await following.follow(self._parts, self._wants, self._wake)
            except StorageClosed:
                self._subscriptions = ()
                raise
        self._queue_answer(request, type="subscribed", **named)

    def _unsubscribe(self, request: Request) -> None:
        wanted, named = _parse_subscription(request)
        if wanted not in self._subscriptions:
            raise NotFound("there is no such subscription")
        self._subscriptions = tuple(each for each in self._subscriptions if each != wanted)
        if not self._subscriptions:
            self._unfollow()
        self._queue_answer(request, type="unsubscribed", **named)

    def _unfollow(self) -> None:
        if self._follower is not None:
            self._parts.changes.leave(self._follower)
            self._follower = None

    # What goes.

    def _queue_answer(self, request: Request, **answer: Any) -> None:
        if "id" in request:
            answer["id"] = request["id"]
        text = msgspec.json.encode(answer).decode()
        self._unsent.append(text)
        self._unsent_chars += len(text)
        if len(self._unsent) > MAX_UNSENT or self._unsent_chars > MAX_UNSENT_CHARS:
            self._over.set()
        self._woken.set()

    def _fail(self, request: Request, error: AgentMemoryError) -> None:
        self._queue_answer(request, type="error", **error_json(error))

    async def _send_all(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._unsent:
                text = self._unsent.popleft()
                self._unsent_chars -= len(text)
                await self._send(text)
            if self._follower is not None:
                for change in self._follower.take():
                    if self._wants(change.record):  # it may have unsubscribed meanwhile
                        await self._send(_format_change(change))
            if self._unsent:
                self._woken.set()

    async def _send(self, text: str) -> None:
        try:
            async with asyncio.timeout(sse.SEND_SECONDS):
                await self._socket.send_text(text)
        except TimeoutError:
            self._over.set()
            await asyncio.Event().wait()  # until it is ended

    # From the thread that reads changes.

    def _wants(self, record: FeedRecord) -> bool:
        return any(wanted(record) for wanted in self._subscriptions)

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._check_follower)

    def _check_follower(self) -> None:
        if self._follower is not None and self._follower.dropped:
            self._code = TRY_AGAIN_LATER if self._follower.slow else RESTARTS
            self._over.set()
        self._woken.set()


def _format_change(change: FeedItem) -> str:
    if isinstance(change.record, Memory):
        return f'{{"type":"change","uri":"{change.record.urn}","memory":{change.text}}}'
    return f'{{"type":"event","token":"{change.sequence}","event":{change.text}}}'


def _parse_request(text: str | None) -> Request:
    if text is None:
        raise InvalidInput("a message is JSON text, not binary data")
    if len(text) > MAX_MESSAGE_CHARS:
        raise InvalidInput(
            f"the message has {len(text):,} characters; the limit is {MAX_MESSAGE_CHARS:,}"
        )
    try:
        request = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        raise InvalidInput("the message is not JSON") from None
    if not isinstance(request, dict):
        raise InvalidInput('the message is not an object: {"operation": "ping"}')
    name = request.get("id", 0)
    if not isinstance(name, int | str) or len(str(name)) > MAX_ID_CHARS:
        del request["id"]
        raise InvalidInput(f"id is a number, or a text of at most {MAX_ID_CHARS} characters")
    return request


def _parse_subscription(request: Request) -> tuple[Subscription, dict[str, Any]]:
    """What is meant, and how it is named in the answer."""
    uri, events = request.get("uri"), request.get("events")
    if isinstance(uri, str) and events is None:
        return MemoryFilter(area=memories.parse_area(uri)), {"uri": uri}
    if uri is None and events is True:
        events = {}
    if uri is None and isinstance(events, dict) and events.keys() <= {"session_id", "project"}:
        named = [events.get("session_id", ""), events.get("project", "")]
        if all(isinstance(each, str) and len(each) <= MAX_ID_CHARS * 2 for each in named):
            wanted = EventFilter(session_id=named[0], project=named[1])
            return wanted, {"events": events}
    raise InvalidInput(
        "give what to follow: uri (subcog://project:my-app/decisions, a domain, a namespace, all),"
        ' or events (true, or {"session_id": ..., "project": ...})'
    )
