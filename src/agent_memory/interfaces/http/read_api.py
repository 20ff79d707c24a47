"""Reading under `/api/v1/`: search and memories."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from agent_memory.features.index.model import queries
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import Search
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.recall.services.recall import Recall
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import ThreadRunner
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.questions import SearchParameters
from agent_memory.interfaces.search_request import SearchRequest
from agent_memory.interfaces.wire.search import Detail, answer_json
from agent_memory.kernel.composition import Composition

Object = dict[str, Any]
Word = Annotated[str, Query(max_length=256)]
Words = Annotated[list[str], Query(max_length=queries.MAX_TAGS)]


def build_routers(dependencies: HttpDependencies) -> tuple[APIRouter, ...]:
    services, run = dependencies.services, dependencies.bridge.run
    return (_memories(services, run),)


def _memories(services: Composition, run: ThreadRunner) -> APIRouter:
    routes = APIRouter()
    recall = services[Recall]

    @routes.get(
        "/search/", summary="Search everything recorded", tags=["search"], response_model=Object
    )
    async def search(parameters: Annotated[SearchParameters, Query()]) -> Response:
        query = parameters.to_query(services)
        answer = await run(lambda: services[Search](query))
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

    return routes
