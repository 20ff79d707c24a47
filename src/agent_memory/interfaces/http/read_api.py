"""Reading under `/api/v1/`: events, sessions, contents, grips, search, memories."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from agent_memory.features.index.model import queries
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING, ThreadRunner
from agent_memory.interfaces.http.callers import Rights
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.questions import SearchParameters
from agent_memory.interfaces.search_request import SearchRequest
from agent_memory.interfaces.services import Services
from agent_memory.interfaces.wire.memories import memory_details_json
from agent_memory.interfaces.wire.search import Detail, answer_json
from agent_memory.kernel.ids import Domain

Object = dict[str, Any]
# An HTTP client has no current folder.
NO_LOCATION = MemoryLocation(domain=Domain("user"), home=NOWHERE)
Word = Annotated[str, Query(max_length=256)]
Words = Annotated[list[str], Query(max_length=queries.MAX_TAGS)]


def build_routers(dependencies: HttpDependencies) -> tuple[APIRouter, ...]:
    services, run = dependencies.services, dependencies.bridge.run
    return (_memories(services, run),)


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
