"""`/api/v1/memories/checkpoints/`: list and delete the checkpoints of graphs."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from agent_memory.features.checkpoints.model.graphs import (
    MAX_ID_CHARS,
    CheckpointId,
    CheckpointInfo,
    ThreadId,
)
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import (
    CheckpointAnswer,
    CheckpointIds,
    Items,
    Limit,
    Offset,
)
from agent_memory.kernel.errors import InvalidInput

Thread = Annotated[str | None, Query(max_length=MAX_ID_CHARS)]


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories/checkpoints", tags=["checkpoints"])
    run, graphs = dependencies.bridge.run, dependencies.services.graphs

    @routes.get("/", summary="List checkpoints", response_model=Items[CheckpointAnswer])
    async def list_checkpoints(
        thread_id: Thread = None, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        thread = None if thread_id is None else ThreadId(thread_id)
        page = await run(lambda: graphs.list_infos(thread, limit=limit, offset=offset))
        return answers.render_page(page, _checkpoint_json)

    @routes.post(
        "/batch-delete/",
        summary="Delete checkpoints, by thread or one by one",
        status_code=204,
    )
    async def delete_checkpoints(ids: CheckpointIds) -> Response:
        if ids.thread_ids is None and ids.checkpoint_ids is None:
            raise InvalidInput("give thread_ids, checkpoint_ids, or both")
        threads = [ThreadId(name) for name in ids.thread_ids or ()]
        names = [CheckpointId(name) for name in ids.checkpoint_ids or ()]

        def remove() -> None:
            graphs.delete_threads(threads)
            graphs.delete_checkpoints(names)

        await run(remove)
        return answers.render_empty()

    return routes


def _checkpoint_json(info: CheckpointInfo) -> dict[str, Any]:
    return {
        "thread_id": info.place.thread_id,
        "checkpoint_ns": info.place.checkpoint_ns,
        "checkpoint_id": info.place.checkpoint_id,
        "parent_checkpoint_id": info.parent_checkpoint_id,
        "step": info.step,
        "source": info.source,
        "blob_size": info.blob_size,
    }
