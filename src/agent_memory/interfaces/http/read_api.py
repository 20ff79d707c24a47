"""Reading under `/api/v1/`: events, sessions, contents, grips, search, memories, injections."""

from datetime import date
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response

from agent_memory.features.index.model import queries
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.injections.model.injections import LedgerScope
from agent_memory.features.log.services.timeline import MAX_EVENTS
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.services.contents import MAX_CHILDREN, MAX_CONTEXT
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING, ThreadRunner
from agent_memory.interfaces.http.callers import Rights
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import Limit, Offset
from agent_memory.interfaces.http.questions import SearchParameters
from agent_memory.interfaces.search_request import SearchRequest
from agent_memory.interfaces.services import Services
from agent_memory.interfaces.wire.events import event_json, page_json, session_page_json
from agent_memory.interfaces.wire.injections import ledger_page_json
from agent_memory.interfaces.wire.memories import memory_details_json
from agent_memory.interfaces.wire.search import Detail, answer_json
from agent_memory.interfaces.wire.toc import (
    branch_json,
    expansion_json,
    node_json,
    segment_json,
    version_json,
)
from agent_memory.interfaces.wire.tokens import parse_offset, parse_token
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.kernel.ids import MAX_MILLIS, Domain, EventId, Millis

Object = dict[str, Any]
LevelName = Literal["year", "month", "week", "day", "segment"]
SEGMENT_DAYS = 92  # of one answer
# An HTTP client has no current folder.
NO_LOCATION = MemoryLocation(domain=Domain("user"), home=NOWHERE)
EventLimit = Annotated[int, Query(ge=0, le=MAX_EVENTS, description="0 is the default, 50.")]
Time = Annotated[int, Query(ge=0, le=MAX_MILLIS, description="Unix milliseconds.")]
Token = Annotated[str | None, Query(max_length=512, description="That of the page before.")]
Word = Annotated[str, Query(max_length=256)]
Words = Annotated[list[str], Query(max_length=queries.MAX_TAGS)]


def build_routers(dependencies: HttpDependencies) -> tuple[APIRouter, ...]:
    services, run = dependencies.services, dependencies.bridge.run
    return (
        _events(services, run),
        _contents(services, run),
        _memories(services, run),
        _injections(services, run),
    )


def _events(services: Services, run: ThreadRunner) -> APIRouter:
    routes = APIRouter(tags=["events"])
    timeline, resolve = services.timeline, services.opening.resolve_session

    @routes.get("/events/", summary="Events by time", response_model=Object)
    async def events(
        from_timestamp_ms: Time = 0,
        to_timestamp_ms: Time = MAX_MILLIS,
        limit: EventLimit = 0,
        continuation_token: Token = None,
    ) -> Response:
        after = None if continuation_token is None else parse_token(continuation_token)
        start, end = from_timestamp_ms, to_timestamp_ms
        return await run(
            lambda: answers.render_json(
                page_json(timeline.list_events(start, end, limit=limit, after=after))
            )
        )

    @routes.get(
        "/events/{event_id:path}", summary="One event", response_model=Object, responses=MISSING
    )
    async def event(event_id: str) -> Response:
        return answers.render_json(event_json(await run(lambda: timeline.get_event(event_id))))

    @routes.get(
        "/sessions/{session_id:path}/events/",
        summary="The events of a session, from any event or time, in both directions",
        response_model=Object,
        responses=MISSING,
    )
    async def of_session(
        session_id: str,
        order: Annotated[
            Literal["asc", "desc"], Query(description="`desc`: the latest first.")
        ] = "asc",
        from_event_id: Annotated[
            str | None, Query(max_length=128, description="Begin at this event.")
        ] = None,
        from_timestamp_ms: Annotated[
            int | None, Query(ge=0, le=MAX_MILLIS, description="Begin at this time.")
        ] = None,
        limit: EventLimit = 0,
        continuation_token: Annotated[
            str | None,
            Query(
                max_length=512,
                description="That of the page before, or its `reverse_token` for the other order.",
            ),
        ] = None,
    ) -> Response:
        starts = [each for each in (from_event_id, from_timestamp_ms) if each is not None]
        if len(starts) + (continuation_token is not None) > 1:
            raise InvalidInput(
                "give one of from_event_id, from_timestamp_ms and continuation_token"
            )
        reverse = order == "desc"

        def read() -> Response:
            name = resolve(session_id)
            after = None if continuation_token is None else parse_token(continuation_token)
            if from_event_id is not None:
                after = timeline.find_start(name, EventId(from_event_id), reverse=reverse)
            elif from_timestamp_ms is not None:
                after = timeline.find_start(name, Millis(from_timestamp_ms), reverse=reverse)
            page = timeline.list_session(name, limit=limit, after=after, reverse=reverse)
            return answers.render_json(session_page_json(page))

        return await run(read)

    @routes.get(
        "/sessions/{session_id:path}/segments/",
        summary="The segments of a session, with their bullets and grips",
        response_model=Object,
    )
    async def segments(
        session_id: str,
        from_timestamp_ms: Time = 0,
        to_timestamp_ms: Time = MAX_MILLIS,
        limit: Limit = 50,
    ) -> Response:
        def read() -> Response:
            found = services.contents.list_segments(
                resolve(session_id), from_timestamp_ms, to_timestamp_ms, limit=limit + 1
            )
            shown = [segment_json(each) for each in found[:limit]]
            return answers.render_json({"segments": shown, "has_more": len(found) > limit})

        return await run(read)

    return routes


def _contents(services: Services, run: ThreadRunner) -> APIRouter:
    routes = APIRouter(tags=["contents"])
    contents = services.contents

    @routes.get("/toc/", summary="The years, newest first", response_model=Object)
    async def roots() -> Response:
        nodes = await run(contents.list_years)
        return answers.render_json({"nodes": [node_json(node) for node in nodes]})

    @routes.get(
        "/toc/tree/",
        summary="The table of contents with all levels down to a depth",
        response_model=Object,
    )
    async def tree(
        depth: Annotated[LevelName, Query(description="The lowest level.")] = "day",
        start: Annotated[date | None, Query(alias="from", description="The first day.")] = None,
        end: Annotated[date | None, Query(alias="to", description="The last day.")] = None,
        project: Word = "",
    ) -> Response:
        level = Level[depth.upper()]
        if level is Level.SEGMENT and not _is_short(start, end):
            raise InvalidInput(
                f"depth=segment needs `from` and `to`, at most {SEGMENT_DAYS} days apart: a table"
                " of years has too many segments for one answer"
            )
        branches = await run(lambda: contents.tree(start, end, project=project, depth=level))
        return answers.render_json({"nodes": [branch_json(branch) for branch in branches]})

    @routes.get(
        "/toc/{node_id}/",
        summary="A node, or an earlier version of it",
        response_model=Object,
        responses=MISSING,
    )
    async def node(
        node_id: str, version: Annotated[int | None, Query(ge=1, le=10**6)] = None
    ) -> Response:
        def read() -> Response:
            if version is None:
                shown, render = contents.get_node(node_id), node_json
            else:
                shown, render = contents.version(node_id, version), version_json
            if shown is None:
                raise NotFound(f"there is no node {node_id!r}, or no such version of it")
            return answers.render_json(render(shown))

        return await run(read)

    @routes.get(
        "/toc/{node_id}/children/", summary="The children of a node, by time", response_model=Object
    )
    async def children(
        node_id: str,
        limit: Annotated[int, Query(ge=0, le=MAX_CHILDREN)] = 0,
        offset: Offset = 0,
    ) -> Response:
        page = await run(lambda: contents.list_children(node_id, limit=limit, offset=offset))
        nodes = [node_json(node) for node in page.nodes]
        return answers.render_json({"children": nodes, "next_offset": page.next})

    @routes.get(
        "/grips/{grip_id}/",
        summary="A grip and the events around it",
        response_model=Object,
        responses=MISSING,
    )
    async def grip(
        grip_id: Annotated[str, Path(max_length=128)],
        events_before: Annotated[int | None, Query(ge=0, le=MAX_CONTEXT)] = None,
        events_after: Annotated[int | None, Query(ge=0, le=MAX_CONTEXT)] = None,
    ) -> Response:
        expansion = await run(
            lambda: contents.expand(grip_id, before=events_before, after=events_after)
        )
        if expansion.grip is None:
            raise NotFound(f"there is no grip {grip_id!r}")
        return answers.render_json(expansion_json(expansion))

    return routes


def _is_short(start: date | None, end: date | None) -> bool:
    return start is not None and end is not None and (end - start).days <= SEGMENT_DAYS


def _memories(services: Services, run: ThreadRunner) -> APIRouter:
    routes = APIRouter()
    recall = services.recall

    @routes.get(
        "/search/", summary="Search everything recorded", tags=["search"], response_model=Object
    )
    async def search(parameters: Annotated[SearchParameters, Query()]) -> Response:
        query = parameters.to_query(services)
        answer = await run(lambda: services.search(query))
        return answers.render_json(answer_json(answer, parameters.detail))

    @routes.get(
        "/memories/", summary="Memories, the newest first", tags=["memories"], response_model=Object
    )
    async def memories(
        namespace: Word = "",
        domain: Word = "",
        tags: Words = [],  # noqa: B006
        status: Annotated[
            MemoryStatus | None,
            Query(description="`pending` awaits review; default: all but archived and tombstone."),
        ] = None,
        limit: Annotated[int, Query(ge=0, le=queries.MAX_LIMIT)] = 0,
        offset: Annotated[int, Query(ge=0, le=queries.MAX_OFFSET)] = 0,
        detail: Detail = "summary",
    ) -> Response:
        request = SearchRequest(
            kinds=[DocumentKind.MEMORY],
            namespace=namespace,
            domain=domain,
            tags=tags,
            statuses=[] if status is None else [status],
            limit=limit,
            offset=offset,
        )
        query = request.to_query(recall.resolve_time)
        answer = await run(lambda: recall.search(query))
        return answers.render_json(answer_json(answer, detail))

    @routes.get(
        "/memories/{namespace}/{name}/",
        summary="One memory",
        tags=["memories"],
        response_model=Object,
        responses=MISSING,
    )
    async def memory(namespace: str, name: str, rights: Rights, domain: Word = "") -> Response:
        """With a key, it counts as a use, which keeps a memory from fading. To look at it in the
        page does not."""
        found = format_memory_name(namespace, name, domain)
        counted = not rights.is_person
        details = await run(lambda: services.editor.show(found, NO_LOCATION, counted=counted))
        return answers.render_json(memory_details_json(details))

    return routes


def format_memory_name(namespace: str, name: str, domain: str) -> str:
    """Return the name by which the editor finds the memory of a path."""
    return f"subcog://{domain}/{namespace}/{name}" if domain else f"{namespace}:{name}"


def _injections(services: Services, run: ThreadRunner) -> APIRouter:
    routes = APIRouter(tags=["injections"])
    injections = services.injections

    @routes.get(
        "/injections/", summary="What hooks gave to agents, newest first", response_model=Object
    )
    async def list_injections(
        session_id: Word = "",
        project: Word = "",
        item: Annotated[str, Query(max_length=512, description="A URI that was given.")] = "",
        from_timestamp_ms: Time = 0,
        to_timestamp_ms: Time = MAX_MILLIS,
        limit: Limit = 50,
        continuation_token: Token = None,
    ) -> Response:
        before = None if continuation_token is None else parse_offset(continuation_token)

        def read() -> Response:
            scope = LedgerScope(
                session=services.opening.resolve_session(session_id) if session_id else "",
                project=project,
                items=frozenset({item} if item else ()),
                since=Millis(from_timestamp_ms),
                until=Millis(to_timestamp_ms),
            )
            page = injections.list_entries(scope, limit=limit, before=before)
            return answers.render_json(ledger_page_json(page, injections.read_items(page.entries)))

        return await run(read)

    return routes
