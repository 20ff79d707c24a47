"""`/ws`: recall and notifications of changes over a WebSocket."""

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
from agent_memory.features.recall.search_operations import SearchRequest
from agent_memory.features.streaming.interfaces import sse
from agent_memory.features.streaming.services.change_feed import (
    ChangeFeed,
    EventFilter,
    FeedItem,
    FeedRecord,
    Follower,
    MemoryFilter,
)
from agent_memory.features.streaming.services.connection_limit import RETRY_SECONDS, StreamLimits
from agent_memory.interfaces import feed_follower, requests
from agent_memory.interfaces.http import questions
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
MAX_RECALLS = 4  # at once per connection
MAX_UNSENT = 2_000  # answers
MAX_UNSENT_CHARS = 16 << 20  # of all unsent answers
MAX_ID_CHARS = 200
TRY_AGAIN_LATER, RESTARTS = 1013, 1012  # close codes
CLOSE_SECONDS = 2.0
OPERATIONS = ("recall", "subscribe", "unsubscribe", "ping")

Subscription = EventFilter | MemoryFilter
Request = Mapping[str, Any]


def build_router(dependencies: HttpDependencies, *paths: str) -> APIRouter:
    routes = APIRouter()
    limit = dependencies.services[StreamLimits].websocket

    async def connect(socket: WebSocket) -> None:
        with limit.acquire() as admitted:
            if admitted:
                await socket.accept()
                await _WebSocketSession(socket, dependencies).serve()
                return
        await _refuse(socket, limit.refusal)

    for path in paths:
        routes.add_api_websocket_route(path, connect)
    return routes


async def _refuse(socket: WebSocket, reason: str) -> None:
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        headers = {"Retry-After": str(RETRY_SECONDS)}
        await socket.send_denial_response(JSONResponse({"detail": reason}, 503, headers))
    else:
        await socket.close(TRY_AGAIN_LATER)


class _WebSocketSession:
    """One connection. A single task sends queued answers and changes; a client that does not read
    them is disconnected."""

    def __init__(self, socket: WebSocket, dependencies: HttpDependencies) -> None:
        self._socket, self._dependencies = socket, dependencies
        self._services, self._bridge = dependencies.services, dependencies.bridge
        self._changes = self._services[ChangeFeed]
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[str] = deque()
        self._unsent_chars = 0
        self._woken = asyncio.Event()
        self._closing = asyncio.Event()
        self._code = TRY_AGAIN_LATER  # sent on closing
        self._subscriptions: tuple[Subscription, ...] = ()
        self._follower: Follower | None = None
        self._recalls: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        try:
            await sse.run_until_first(self._read_all(), self._send_all(), self._closing.wait())
        except WebSocketDisconnect:
            pass
        finally:
            for task in self._recalls:
                task.cancel()
            self._unfollow()
        if self._closing.is_set():
            log.info("websocket.dropped", code=self._code)
            with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._socket.close(self._code)

    # Requests.

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
        fields = {name: each for name, each in request.items() if name not in ("operation", "id")}
        question = requests.parse_object(SearchRequest, fields)
        if len(self._recalls) >= MAX_RECALLS:
            raise Overloaded(
                f"{MAX_RECALLS} recalls of this connection are running, the limit: wait for one"
            )
        task = self._loop.create_task(self._recall(request, question))
        self._recalls.add(task)
        task.add_done_callback(self._recalls.discard)

    async def _recall(self, request: Request, question: SearchRequest) -> None:
        dependencies = self._dependencies
        try:
            answer = await self._bridge.run(lambda: questions.run_recall(question, dependencies))
        except AgentMemoryError as exc:
            self._fail(request, exc)
            return
        for result in answer.results:
            self._queue_answer(request, type="result", data=result)
        self._queue_answer(request, type="complete", **answer.summary)

    async def _subscribe(self, request: Request) -> None:
        subscription, named = _parse_subscription(request)
        if subscription not in self._subscriptions:
            if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
                raise Overloaded(
                    f"{MAX_SUBSCRIPTIONS} subscriptions exist, the limit: unsubscribe from one"
                )
            self._subscriptions = (*self._subscriptions, subscription)
        if self._follower is None:
            try:
                self._follower = await feed_follower.follow(
                    self._bridge,
                    lambda: self._changes.follow(self._wants, self._wake),
                    self._changes.leave,
                )
            except StorageClosed:
                self._subscriptions = ()
                raise
        self._queue_answer(request, type="subscribed", **named)

    def _unsubscribe(self, request: Request) -> None:
        subscription, named = _parse_subscription(request)
        if subscription not in self._subscriptions:
            raise NotFound("no such subscription on this connection")
        self._subscriptions = tuple(each for each in self._subscriptions if each != subscription)
        if not self._subscriptions:
            self._unfollow()
        self._queue_answer(request, type="unsubscribed", **named)

    def _unfollow(self) -> None:
        if self._follower is not None:
            self._changes.leave(self._follower)
            self._follower = None

    # Answers and changes.

    def _queue_answer(self, request: Request, **answer: Any) -> None:
        if "id" in request:
            answer["id"] = request["id"]
        text = msgspec.json.encode(answer).decode()
        self._unsent.append(text)
        self._unsent_chars += len(text)
        if len(self._unsent) > MAX_UNSENT or self._unsent_chars > MAX_UNSENT_CHARS:
            self._closing.set()
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
                    if self._wants(change.record):  # the client may have unsubscribed
                        await self._send(_format_change(change))
            if self._unsent:
                self._woken.set()

    async def _send(self, text: str) -> None:
        try:
            async with asyncio.timeout(sse.SEND_SECONDS):
                await self._socket.send_text(text)
        except TimeoutError:
            self._closing.set()
            await asyncio.Event().wait()  # `serve` cancels it

    # Called by the change feed, in its thread.

    def _wants(self, record: FeedRecord) -> bool:
        return any(accepts(record) for accepts in self._subscriptions)

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._check_follower)

    def _check_follower(self) -> None:
        if self._follower is not None and self._follower.dropped:
            self._code = TRY_AGAIN_LATER if self._follower.slow else RESTARTS
            self._closing.set()
        self._woken.set()


def _format_change(change: FeedItem) -> str:
    if isinstance(change.record, Memory):
        return f'{{"type":"change","uri":"{change.record.urn}","memory":{change.text}}}'
    return f'{{"type":"event","token":"{change.sequence}","event":{change.text}}}'


def _parse_request(text: str | None) -> Request:
    if text is None:
        raise InvalidInput("the message is binary: send JSON text")
    if len(text) > MAX_MESSAGE_CHARS:
        raise InvalidInput(
            f"the message has {len(text):,} characters; the limit is {MAX_MESSAGE_CHARS:,}"
        )
    try:
        request = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        raise InvalidInput("the message is not JSON") from None
    if not isinstance(request, dict):
        raise InvalidInput('the message is not an object such as {"operation": "ping"}')
    name = request.get("id", 0)
    if not isinstance(name, int | str) or len(str(name)) > MAX_ID_CHARS:
        del request["id"]
        raise InvalidInput(f"id must be a number, or a text of at most {MAX_ID_CHARS} characters")
    return request


def _parse_subscription(request: Request) -> tuple[Subscription, dict[str, Any]]:
    """Return the filter of a subscription, and its name in the answer."""
    uri, events = request.get("uri"), request.get("events")
    if isinstance(uri, str) and events is None:
        return MemoryFilter(area=memories.parse_area(uri)), {"uri": uri}
    if uri is None and events is True:
        events = {}
    if uri is None and isinstance(events, dict) and events.keys() <= {"session_id", "project"}:
        named = [events.get("session_id", ""), events.get("project", "")]
        if all(isinstance(each, str) and len(each) <= MAX_ID_CHARS * 2 for each in named):
            return EventFilter(session_id=named[0], project=named[1]), {"events": events}
    raise InvalidInput(
        "say what to follow: uri (subcog://project:my-app/decisions, a domain, a namespace, all),"
        ' or events (true, or {"session_id": ..., "project": ...})'
    )
