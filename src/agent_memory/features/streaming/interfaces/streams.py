"""`/stream/*`: slow operations and new events as server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, HTTPException, Query, Request, Response

from agent_memory.features.log.model.events import MAX_SESSION_ID_CHARS
from agent_memory.features.memories.operations import (
    ConsolidateRequest,
    SyncRequest,
    consolidate_memories,
    sync_memories,
)
from agent_memory.features.recall.search_operations import SearchRequest
from agent_memory.features.streaming.interfaces import sse, task_stream
from agent_memory.features.streaming.interfaces.task_stream import TaskStreams
from agent_memory.features.streaming.services.change_feed import (
    ChangeFeed,
    EventFilter,
    FeedItem,
    Follower,
)
from agent_memory.features.streaming.services.connection_limit import StreamLimits
from agent_memory.interfaces import feed_follower, requests
from agent_memory.interfaces.http import questions, rest
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.wire.errors import error_json
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput, StorageClosed
from agent_memory.kernel.progress import OnProgress
from agent_memory.kernel.tracing import Interface

MAX_TIMEOUT = 300
DEFAULT_TIMEOUT = 25
_NAME_CHARS = 300
_ANSWER_CHARS = 4 << 20  # of a long poll; it may exceed this by one event
_ANSWER_EVENTS = 500
_GONE = (
    "the stream cannot resume from this token: too much has changed since. Read the stored events,"
    " then follow without since or Last-Event-ID"
)


_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {}}},
    503: {"description": "Too many streams are open. Retry-After says when to try again."},
}


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(tags=["streams"], prefix="/stream")
    _add_tasks(routes, dependencies)
    _add_recall(routes, dependencies)
    _add_events(routes, dependencies)
    return routes


def _add_tasks(routes: APIRouter, dependencies: HttpDependencies) -> None:
    limits, calls = dependencies.services[StreamLimits], dependencies.calls
    streams = TaskStreams(limits.keepalive_seconds)
    caller = Caller(folder="", environ=dependencies.environ, interface=Interface.HTTP)

    @routes.post(
        "/consolidate",
        status_code=200,
        responses=_STREAM,
        response_class=sse.EventStream,
        openapi_extra=rest.describe_body(ConsolidateRequest),
    )
    async def consolidate(request: Request) -> Response:
        """Merge memories that say the same. Streams progress, then the plan."""
        asked = requests.parse_object(ConsolidateRequest, rest.parse_object(await request.body()))

        def work(on_progress: OnProgress) -> Mapping[str, Any]:
            plan = calls.call(consolidate_memories, caller, asked, on_progress)
            verb = "merged" if plan.applied else "to merge"
            return {
                "success": True,
                "summary": f"Compared {format_count(plan.considered, 'memory', 'memories')}:"
                f" {format_count(len(plan.merges), 'group')} {verb}"
                + "".join(f"; skipped {reason}" for reason in plan.skipped[:5]),
                "result": msgspec.to_builtins(plan),
            }

        events = streams.run("consolidate", msgspec.structs.asdict(asked), work)
        return sse.EventStream(limits.sse, events)

    @routes.post(
        "/sync",
        status_code=200,
        responses=_STREAM,
        response_class=sse.EventStream,
        openapi_extra=rest.describe_body(SyncRequest),
    )
    async def sync(request: Request) -> Response:
        """Sync the store with git notes and their remote. Streams progress, then the result."""
        asked = requests.parse_object(SyncRequest, rest.parse_object(await request.body()))

        def work(on_progress: OnProgress) -> Mapping[str, Any]:
            answer = calls.call(sync_memories, caller, asked, on_progress)
            tried = len(answer.domains) + len(answer.failed)
            failed = "".join(f"; {each.domain}: {each.reason}" for each in answer.failed)
            return {
                "success": answer.success,
                "summary": f"Synced {len(answer.domains)} of {tried} domains{failed}",
                "result": msgspec.to_builtins(answer),
            }

        events = streams.run("sync", msgspec.structs.asdict(asked), work)
        return sse.EventStream(limits.sse, events)


def _add_recall(routes: APIRouter, dependencies: HttpDependencies) -> None:
    limits = dependencies.services[StreamLimits]

    @routes.post(
        "/recall",
        status_code=200,
        responses=_STREAM,
        response_class=sse.EventStream,
        openapi_extra=rest.describe_body(SearchRequest),
    )
    async def recall(request: Request) -> Response:
        """Search memories and conversations. Streams the results, best first."""
        content = rest.parse_object(await request.body())
        question = requests.parse_object(SearchRequest, content)

        async def stream() -> AsyncGenerator[bytes, None]:
            yield task_stream.format_start("recall", content)
            try:
                answer = await dependencies.bridge.run(
                    lambda: questions.run_recall(question, dependencies)
                )
            except AgentMemoryError as exc:
                yield task_stream.format_failure(exc)
                return
            for result in answer.results:
                yield sse.format_json_event("result", result)
            yield sse.format_json_event("complete", answer.summary)

        return sse.EventStream(limits.sse, stream())


def _add_events(routes: APIRouter, dependencies: HttpDependencies) -> None:
    limits = dependencies.services[StreamLimits]

    @routes.get(
        "/events",
        status_code=200,
        responses={
            **_STREAM,
            200: {
                "description": "Server-sent events, or JSON if the request asks for it.",
                "content": {"text/event-stream": {}, "application/json": {}},
            },
            410: {"description": "Too much has changed since that token."},
        },
        response_class=sse.EventStream,
    )
    async def events(
        session_id: Annotated[str, Query(max_length=MAX_SESSION_ID_CHARS)] = "",
        project: Annotated[str, Query(max_length=_NAME_CHARS)] = "",
        since: Annotated[
            str | None,
            Query(max_length=20, description="The id of an event, or `next` of a long poll."),
        ] = None,
        timeout: Annotated[  # noqa: ASYNC109  # a parameter of the API
            float | None,
            Query(
                ge=0,
                le=MAX_TIMEOUT,
                description="Long poll: answer once, in JSON, after at most this many seconds.",
            ),
        ] = None,
        accept: Annotated[str, Header()] = "",
        last_event_id: Annotated[str | None, Header(max_length=20)] = None,
    ) -> Response:
        """Stream events as they are recorded. To resume after a break, send the id of the last
        event you received, as Last-Event-ID or as `since`."""
        event_filter = EventFilter(session_id=session_id, project=project)
        token = last_event_id or since
        after = (
            await dependencies.bridge.run(lambda: _parse_token(dependencies, token))
            if token
            else None
        )
        if timeout is not None or "application/json" in accept:
            seconds = DEFAULT_TIMEOUT if timeout is None else timeout
            return sse.LongPollResponse(
                limits.sse, _long_poll(dependencies, event_filter, after, seconds)
            )
        params = {"session_id": session_id, "project": project}
        shown = {name: value for name, value in params.items() if value}
        return sse.EventStream(
            limits.sse, _tail(dependencies, event_filter, after, shown, limits.keepalive_seconds)
        )


def _parse_token(dependencies: HttpDependencies, token: str) -> int:
    """Return the position a token stands for. Raises if the stream cannot resume from it."""
    changes = dependencies.services[ChangeFeed]
    if not (token.isascii() and token.isdecimal()) or int(token) > changes.watermark():
        raise InvalidInput(
            "since or Last-Event-ID is not the id of an event of this stream: send it unchanged, or"
            " leave it out"
        )
    if not changes.has_all_after(int(token)):
        raise HTTPException(410, _GONE)
    return int(token)


class _EventFollower:
    """A follower of the change feed, used on the event loop."""

    def __init__(self, dependencies: HttpDependencies, event_filter: EventFilter) -> None:
        self._changes = dependencies.services[ChangeFeed]
        self._bridge = dependencies.bridge
        self._filter = event_filter
        self._loop = asyncio.get_running_loop()
        self.woken = asyncio.Event()
        self._follower: Follower | None = None

    async def begin(self) -> Follower:
        """Follow the feed, in place of an earlier follower. Raises StorageClosed."""
        self.end()
        self._follower = await feed_follower.follow(
            self._bridge,
            lambda: self._changes.follow(self._filter, self._wake),
            self._changes.leave,
        )
        return self._follower

    def end(self) -> None:
        if self._follower is not None:
            self._changes.leave(self._follower)
            self._follower = None

    async def has_all_after(self, after: int) -> bool:
        return await self._bridge.run(lambda: self._changes.has_all_after(after))

    async def read_since(self, after: int, up_to: int) -> tuple[list[FeedItem], int]:
        return await self._bridge.run(lambda: self._changes.read_since(after, up_to, self._filter))

    async def read_page(self, after: int) -> tuple[list[str], int]:
        """Return the stored events that fit one answer, and the position after them."""
        newest = await self._bridge.run(self._changes.watermark)
        events: list[str] = []
        chars = 0
        while after < newest and chars < _ANSWER_CHARS and len(events) < _ANSWER_EVENTS:
            items, after = await self.read_since(after, newest)
            events += [item.text for item in items]
            chars += sum(len(item.text) for item in items)
        return events, after

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self.woken.set)


async def _tail(
    dependencies: HttpDependencies,
    event_filter: EventFilter,
    after: int | None,
    params: Mapping[str, str],
    keepalive: float,
) -> AsyncGenerator[bytes, None]:
    """Yield the events stored since `after`, then new ones. A client that is too slow for the new
    ones continues from the store."""
    feed = _EventFollower(dependencies, event_filter)
    try:
        follower = await feed.begin()
        reached = follower.start if after is None else after
        yield task_stream.format_start("events", params, str(reached))
        while True:
            while reached < follower.start:
                if not await feed.has_all_after(reached):
                    yield sse.format_json_event("error", error_json(InvalidInput(_GONE)))
                    return
                items, reached = await feed.read_since(reached, follower.start)
                for item in items:
                    yield sse.format_event("event", item.text, str(item.sequence))
            if not await sse.wait_with_timeout(feed.woken, keepalive):
                yield sse.KEEP_ALIVE
            feed.woken.clear()
            for item in follower.take():
                if item.sequence > reached:  # the store may be ahead of the feed after a resume
                    reached = item.sequence
                    yield sse.format_event("event", item.text, str(reached))
            if follower.dropped:
                follower = await feed.begin()
    except StorageClosed:
        return  # the daemon is stopping
    finally:
        feed.end()


async def _long_poll(
    dependencies: HttpDependencies, event_filter: EventFilter, after: int | None, seconds: float
) -> str:
    """Return events as soon as there are any, or nothing after `seconds`."""
    feed = _EventFollower(dependencies, event_filter)
    deadline = asyncio.get_running_loop().time() + seconds
    events: list[str] = []
    reached = after
    try:
        follower = await feed.begin()
        reached = follower.start if after is None else after
        while True:
            events, reached = await feed.read_page(reached)
            left = deadline - asyncio.get_running_loop().time()
            if (
                events
                or follower.dropped
                or not await sse.wait_with_timeout(feed.woken, max(0.0, left))
            ):
                break
            feed.woken.clear()
    except StorageClosed:
        pass  # the daemon is stopping: the client polls again
    finally:
        feed.end()
    return f'{{"events":[{",".join(events)}],"next":"{"" if reached is None else reached}"}}'
