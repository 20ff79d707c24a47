"""`/stream/*`: what happens, as it happens, as server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from agent_memory.features.log.model.events import MAX_SESSION_ID_CHARS
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.features.memories.services.sync import SyncOptions
from agent_memory.features.streaming.services.change_feed import EventFilter, FeedItem, Follower
from agent_memory.interfaces.http import following, questions, sse
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.long_running import OnProgress, SseTaskRunner
from agent_memory.interfaces.http.questions import RecallRequest
from agent_memory.interfaces.wire.errors import error_json
from agent_memory.interfaces.wire.memories import plan_json, sync_outcomes_json
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput, StorageClosed
from agent_memory.kernel.ids import USER

MAX_TIMEOUT = 300
DEFAULT_TIMEOUT = 25
_NAME_CHARS = 300
_ANSWER_CHARS = 4 << 20  # of a long-poll; one event more may be in it
_ANSWER_EVENTS = 500
_GONE = (
    "the stream cannot go on from there: too much has changed since. Read what is stored, and"
    " follow without since or Last-Event-ID"
)


class ConsolidateRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dry_run: bool = Field(True, description="Show the plan, and change nothing.")
    full: bool = Field(False, description="Look at all memories, not only at what is new.")
    domain: str = Field("all", max_length=_NAME_CHARS, examples=["project:my-app"])


class SyncRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    domain: str = Field("all", max_length=_NAME_CHARS, examples=["project:my-app"])
    remote: bool = Field(False, description="Fetch from the remote, and push to it.")
    fetch: bool = False
    push: bool = False
    force: bool = Field(False, description="Read all notes, even if nothing seems new.")


_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {}}},
    503: {"description": "Too many streams are open; Retry-After says when to try again."},
}


def build_router(parts: HttpDependencies) -> APIRouter:
    routes = APIRouter(tags=["streams"], prefix="/stream")
    keepalive = float(parts.streaming.sse_keepalive_seconds)
    errands = SseTaskRunner(keepalive)
    caller = Caller(folder="", environ=parts.environ)

    def stream(events: AsyncGenerator[bytes, None]) -> sse.EventStream:
        return sse.EventStream(parts.sse_limit, events)

    @routes.post("/consolidate", status_code=200, responses=_STREAM, response_class=sse.EventStream)
    async def consolidate(request: ConsolidateRequest) -> Response:
        """Merge memories that say the same: progress while it runs, and the plan."""

        def work(done: OnProgress) -> Mapping[str, Any]:
            chosen = None
            if request.domain != "all":
                chosen = [parts.project_resolver.resolve_domain(request.domain, caller)]
            plan = parts.consolidation.plan(chosen, full=request.full, done=done)
            applied = not request.dry_run and not plan.empty
            if applied:
                here = parts.project_resolver.resolve(USER, caller)
                missed = parts.consolidation.apply(plan, here, done)
                plan = replace(plan, skipped=(*plan.skipped, *missed))
            what = "merged" if applied else "to merge"
            return {
                "success": True,
                "summary": f"Looked at {plan.considered} memories: {len(plan.merges)} groups {what}"
                + "".join(f"; skipped {each}" for each in plan.skipped[:5]),
                "result": plan_json(plan, applied=applied),
            }

        return stream(errands.run("consolidate", request.model_dump(), work))

    @routes.post("/sync", status_code=200, responses=_STREAM, response_class=sse.EventStream)
    async def sync(request: SyncRequest) -> Response:
        """Make store, git notes and remote the same: progress while it runs, and what was done."""

        def work(done: OnProgress) -> Mapping[str, Any]:
            wanted = SyncOptions(
                fetch=request.fetch or request.remote,
                push=request.push or request.remote,
                force=request.force,
            )
            outcomes = parts.sharing.sync_domains(
                request.domain, wanted, caller, parts.remote, done
            )
            result = sync_outcomes_json(outcomes)
            failed = "".join(f"; {each['domain']}: {each['reason']}" for each in result["failed"])
            return {
                "success": result["success"],
                "summary": f"Synced {len(result['domains'])} of {len(outcomes)} domains{failed}",
                "result": result,
            }

        return stream(errands.run("sync", request.model_dump(), work))

    @routes.post("/recall", status_code=200, responses=_STREAM, response_class=sse.EventStream)
    async def recall(request: RecallRequest) -> Response:
        """What answers a question, best first."""

        async def events() -> AsyncGenerator[bytes, None]:
            params = request.model_dump(mode="json", exclude_defaults=True)
            yield sse.format_json_event("start", {"operation": "recall", "params": params})
            try:
                found = await parts.bridge.run(lambda: questions.run_recall(request, parts.recall))
            except AgentMemoryError as exc:
                told = error_json(exc)
                yield sse.format_json_event("error", told)
                ended = {"success": False, "summary": told["message"], "error": told}
                yield sse.format_json_event("complete", ended)
                return
            for each in found.results:
                yield sse.format_json_event("result", each)
            yield sse.format_json_event("complete", found.summary)

        return stream(events())

    @routes.get(
        "/events",
        status_code=200,
        responses={
            **_STREAM,
            200: {
                "description": "Server-sent events, or JSON where that is asked for.",
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
            str | None, Query(max_length=20, description="The id of an event, or `next`.")
        ] = None,
        timeout: Annotated[  # noqa: ASYNC109  # the client's own
            float | None,
            Query(ge=0, le=MAX_TIMEOUT, description="Answer once, in JSON, after so many seconds."),
        ] = None,
        accept: Annotated[str, Header()] = "",
        last_event_id: Annotated[str | None, Header(max_length=20)] = None,
    ) -> Response:
        """Events as they are recorded. A client that was away goes on where it was: it sends the id
        of the last event it has, as Last-Event-ID or as `since`."""
        wanted = EventFilter(session_id=session_id, project=project)
        given = last_event_id or since
        after = None if not given else await parts.bridge.run(lambda: _parse_token(parts, given))
        if timeout is not None or "application/json" in accept:
            seconds = DEFAULT_TIMEOUT if timeout is None else timeout
            return sse.LongPollResponse(parts.sse_limit, _long_poll(parts, wanted, after, seconds))
        params = {"session_id": session_id, "project": project}
        shown = {name: value for name, value in params.items() if value}
        return stream(_tail(parts, wanted, after, shown, keepalive))

    return routes


def _parse_token(parts: HttpDependencies, token: str) -> int:
    """The place that a token means. Raises where the stream cannot go on from it."""
    if not (token.isascii() and token.isdecimal()) or int(token) > parts.changes.watermark():
        raise InvalidInput(
            "that is no id of an event of this stream: pass it on unchanged, or leave it out"
        )
    if not parts.changes.has_all_after(int(token)):
        raise HTTPException(410, _GONE)
    return int(token)


class _EventFollower:
    """A follower on the event loop."""

    def __init__(self, parts: HttpDependencies, wanted: EventFilter) -> None:
        self._parts = parts
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self.woken = asyncio.Event()
        self._follower: Follower | None = None

    async def begin(self) -> Follower:
        """Anew, where there was one. Raises StorageClosed."""
        self.end()
        self._follower = await following.follow(self._parts, self._wanted, self._wake)
        return self._follower

    def end(self) -> None:
        if self._follower is not None:
            self._parts.changes.leave(self._follower)
            self._follower = None

    async def has_all_after(self, after: int) -> bool:
        return await self._parts.bridge.run(lambda: self._parts.changes.has_all_after(after))

    async def read_since(self, after: int, up_to: int) -> tuple[list[FeedItem], int]:
        changes = self._parts.changes
        return await self._parts.bridge.run(lambda: changes.read_since(after, up_to, self._wanted))

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self.woken.set)


async def _tail(
    parts: HttpDependencies,
    wanted: EventFilter,
    after: int | None,
    params: Mapping[str, str],
    keepalive: float,
) -> AsyncGenerator[bytes, None]:
    """What was stored since, and then what comes. One that was too slow for what comes reads on
    from the store."""
    mine = _EventFollower(parts, wanted)
    try:
        follower = await mine.begin()
        reached = follower.start if after is None else after
        yield sse.format_json_event(
            "start", {"operation": "events", "params": params}, str(reached)
        )
        while True:
            while reached < follower.start:
                if not await mine.has_all_after(reached):
                    yield sse.format_json_event("error", error_json(InvalidInput(_GONE)))
                    return
                found, reached = await mine.read_since(reached, follower.start)
                for each in found:
                    yield sse.format_event("event", each.text, str(each.sequence))
            if not await sse.wait_with_timeout(mine.woken, keepalive):
                yield sse.KEEP_ALIVE
            mine.woken.clear()
            for each in follower.take():
                if each.sequence > reached:  # one that came back may be ahead of the feed
                    reached = each.sequence
                    yield sse.format_event("event", each.text, str(reached))
            if follower.dropped:
                follower = await mine.begin()
    except StorageClosed:
        return  # the daemon stops
    finally:
        mine.end()


async def _long_poll(
    parts: HttpDependencies, wanted: EventFilter, after: int | None, seconds: float
) -> str:
    """At once where there is something, else when there is, or when the time is over."""
    mine = _EventFollower(parts, wanted)
    deadline = asyncio.get_running_loop().time() + seconds
    events: list[str] = []
    reached = after
    try:
        follower = await mine.begin()
        reached = follower.start if after is None else after
        while True:
            events, reached = await _read_stored(parts, mine, reached)
            left = deadline - asyncio.get_running_loop().time()
            if (
                events
                or follower.dropped
                or not await sse.wait_with_timeout(mine.woken, max(0.0, left))
            ):
                break
            mine.woken.clear()
    except StorageClosed:
        pass  # the daemon stops: it is asked again
    finally:
        mine.end()
    return f'{{"events":[{",".join(events)}],"next":"{"" if reached is None else reached}"}}'


async def _read_stored(
    parts: HttpDependencies, mine: _EventFollower, after: int
) -> tuple[list[str], int]:
    """What there is, as much as fits an answer."""
    newest = await parts.bridge.run(parts.changes.watermark)
    events: list[str] = []
    chars = 0
    while after < newest and chars < _ANSWER_CHARS and len(events) < _ANSWER_EVENTS:
        found, after = await mine.read_since(after, newest)
        events += [each.text for each in found]
        chars += sum(len(each.text) for each in found)
    return events, after
