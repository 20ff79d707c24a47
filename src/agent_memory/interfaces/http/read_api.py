"""`/api/v1/`: events, sessions, the table of contents, grips, search and memories, to be read."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from agent_memory.features.index.model import queries
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import SearchMode, SearchScope
from agent_memory.features.log.services.timeline import MAX_EVENTS
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.toc.services.contents import MAX_CHILDREN, MAX_CONTEXT
from agent_memory.interfaces import knowledge_json, wire
from agent_memory.interfaces.http import answers, questions
from agent_memory.interfaces.http.answers import MISSING
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import Items, Limit, Offset, SessionAnswer
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.ids import MAX_MILLIS, Domain, Millis

Object = dict[str, Any]
NO_LOCATION = MemoryLocation(
    domain=Domain("user"), home=NOWHERE
)  # a program on a port is in no folder
EventLimit = Annotated[int, Query(ge=0, le=MAX_EVENTS, description="0 is the default, 50.")]
Time = Annotated[int, Query(ge=0, le=MAX_MILLIS, description="Unix milliseconds.")]
Token = Annotated[str | None, Query(max_length=512, description="From the page before.")]
Detail = Annotated[str, Query(pattern="^(minimal|summary|full)$")]
Word = Annotated[str, Query(max_length=256)]
Words = Annotated[list[str], Query(max_length=queries.MAX_TAGS)]


def build_router(parts: HttpDependencies) -> APIRouter:
    routes = APIRouter()
    _events(routes, parts)
    _contents(routes, parts)
    _search(routes, parts)
    return routes


def _events(routes: APIRouter, parts: HttpDependencies) -> None:
    run = parts.bridge.run

    @routes.get("/events/", summary="Events by time", tags=["events"], response_model=Object)
    async def events(
        from_timestamp_ms: Time = 0,
        to_timestamp_ms: Time = MAX_MILLIS,
        limit: EventLimit = 0,
        continuation_token: Token = None,
    ) -> Response:
        after = None if continuation_token is None else wire.parse_token(continuation_token)

        def read() -> Response:
            page = parts.timeline.events(
                from_timestamp_ms, to_timestamp_ms, limit=limit, after=after
            )
            return answers.render_json(wire.page_json(page))

        return await run(read)

    @routes.get(
        "/events/{event_id:path}",
        summary="One event",
        tags=["events"],
        response_model=Object,
        responses=MISSING,
    )
    async def event(event_id: str) -> Response:
        found = await run(lambda: parts.timeline.event(event_id))
        return answers.render_json(wire.event_json(found))

    @routes.get(
        "/sessions/",
        summary="Sessions, the newest first",
        tags=["events"],
        response_model=Items[SessionAnswer],
    )
    async def sessions(limit: Limit = 50, offset: Offset = 0) -> Response:
        found = await run(lambda: parts.knowledge.sessions(limit=limit, offset=offset))
        return answers.render_page(found, knowledge_json.session_json)

    @routes.get(
        "/sessions/{session_id:path}/events/",
        summary="The events of a session",
        tags=["events"],
        response_model=Object,
    )
    async def of_session(
        session_id: str, limit: EventLimit = 0, continuation_token: Token = None
    ) -> Response:
        after = None if continuation_token is None else wire.parse_token(continuation_token)

        def read() -> Response:
            page = parts.timeline.of_session(session_id, limit=limit, after=after)
            return answers.render_json(wire.page_json(page))

        return await run(read)


def _contents(routes: APIRouter, parts: HttpDependencies) -> None:
    run, contents = parts.bridge.run, parts.contents

    @routes.get(
        "/toc/", summary="The years, newest first", tags=["contents"], response_model=Object
    )
    async def roots() -> Response:
        nodes = await run(contents.roots)
        return answers.render_json({"nodes": [wire.node_json(node) for node in nodes]})

    @routes.get(
        "/toc/{node_id}/",
        summary="A node, as it is or as it was",
        tags=["contents"],
        response_model=Object,
        responses=MISSING,
    )
    async def node(
        node_id: str, version: Annotated[int | None, Query(ge=1, le=10**6)] = None
    ) -> Response:
        def read() -> Response:
            found = (
                contents.node(node_id) if version is None else contents.version(node_id, version)
            )
            if found is None:
                raise NotFound(f"there is no node {node_id!r}, or not in this version")
            shown = wire.node_json(found) if version is None else wire.version_json(found)
            return answers.render_json(shown)

        return await run(read)

    @routes.get(
        "/toc/{node_id}/children/",
        summary="What hangs under a node, by time",
        tags=["contents"],
        response_model=Object,
    )
    async def children(
        node_id: str,
        limit: Annotated[int, Query(ge=0, le=MAX_CHILDREN)] = 0,
        offset: Offset = 0,
    ) -> Response:
        found = await run(lambda: contents.children(node_id, limit=limit, offset=offset))
        nodes = [wire.node_json(node) for node in found.nodes]
        return answers.render_json({"children": nodes, "next_offset": found.next})

    @routes.get(
        "/grips/{grip_id}/",
        summary="From a bullet's grip to the events it rests on",
        tags=["contents"],
        response_model=Object,
        responses=MISSING,
    )
    async def grip(
        grip_id: Annotated[str, Path(max_length=128)],
        events_before: Annotated[int | None, Query(ge=0, le=MAX_CONTEXT)] = None,
        events_after: Annotated[int | None, Query(ge=0, le=MAX_CONTEXT)] = None,
    ) -> Response:
        found = await run(
            lambda: contents.expand(grip_id, before=events_before, after=events_after)
        )
        if found.grip is None:
            raise NotFound(f"there is no grip {grip_id!r}")
        return answers.render_json(wire.expansion_json(found))


def _search(routes: APIRouter, parts: HttpDependencies) -> None:
    run = parts.bridge.run

    @routes.get(
        "/search/", summary="Search all that is kept", tags=["search"], response_model=Object
    )
    async def search(
        query: Annotated[str, Query(max_length=queries.MAX_QUERY_CHARS)] = "",
        kinds: Annotated[list[DocumentKind], Query(max_length=10)] = [],  # noqa: B006  # FastAPI's own
        mode: SearchMode = SearchMode.HYBRID,
        limit: Annotated[int, Query(ge=0, le=queries.MAX_LIMIT)] = 0,
        offset: Annotated[int, Query(ge=0, le=queries.MAX_OFFSET)] = 0,
        project: Word = "",
        session_id: Word = "",
        agent: Word = "",
        namespace: Word = "",
        domain: Word = "",
        tags: Words = [],  # noqa: B006
        from_timestamp_ms: Time = 0,
        to_timestamp_ms: Time = MAX_MILLIS,
        min_score: Annotated[float, Query(ge=0, le=1)] = 0.0,
        detail: Detail = "summary",
    ) -> Response:
        asked = queries.Query(
            text=query,
            mode=mode,
            limit=limit,
            offset=offset,
            min_score=min_score,
            scope=SearchScope(
                kinds=frozenset(kinds),
                project=project,
                session=session_id,
                agent=agent,
                namespace=questions.parse_namespace(namespace),
                domains=questions.parse_domains(domain),
                tags=frozenset(tags),
                since=Millis(from_timestamp_ms),
                until=Millis(to_timestamp_ms),
            ),
        )
        answer = await run(lambda: parts.recall.search(asked))
        return answers.render_json(wire.answer_json(answer, detail))

    @routes.get(
        "/memories/", summary="Memories, the newest first", tags=["memories"], response_model=Object
    )
    async def memories(
        namespace: Word = "",
        domain: Word = "",
        tags: Words = [],  # noqa: B006
        limit: Annotated[int, Query(ge=0, le=queries.MAX_LIMIT)] = 0,
        offset: Annotated[int, Query(ge=0, le=queries.MAX_OFFSET)] = 0,
        detail: Detail = "summary",
    ) -> Response:
        asked = queries.Query(
            text="",
            limit=limit,
            offset=offset,
            scope=SearchScope(
                kinds=frozenset({DocumentKind.MEMORY}),
                namespace=questions.parse_namespace(namespace),
                domains=questions.parse_domains(domain),
                tags=frozenset(tags),
            ),
        )
        answer = await run(lambda: parts.recall.search(asked))
        return answers.render_json(wire.answer_json(answer, detail))

    @routes.get(
        "/memories/{namespace}/{name}/",
        summary="One memory, as its URN names it",
        tags=["memories"],
        response_model=Object,
        responses=MISSING,
    )
    async def memory(namespace: str, name: str, domain: Word = "") -> Response:
        uri = f"subcog://{domain}/{namespace}/{name}" if domain else f"{namespace}:{name}"
        found = await run(lambda: parts.curation.show(uri, NO_LOCATION))
        return answers.render_json(wire.memory_details_json(found))
