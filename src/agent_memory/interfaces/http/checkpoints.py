"""`/api/v1/memories/checkpoints/`: list and delete the checkpoints of graphs."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from agent_memory.features.checkpoints.model.graphs import (
    MAX_ID_CHARS,
    CheckpointId,
    CheckpointInfo,
    ThreadId,
    ThreadInfo,
    read_time,
)
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import (
    CheckpointAnswer,
    CheckpointIds,
    Items,
    Limit,
    Offset,
    ThreadAnswer,
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

    @routes.get(
        "/threads/",
        summary="List the threads of graphs, the latest first",
        response_model=Items[ThreadAnswer],
    )
    async def list_threads(limit: Limit = 50, offset: Offset = 0) -> Response:
        page = await run(lambda: graphs.list_threads(limit=limit, offset=offset))
        return answers.render_page(page, _thread_json)

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


def _thread_json(thread: ThreadInfo) -> dict[str, Any]:
    return {
        "thread_id": thread.thread_id,
        "checkpoints": thread.checkpoints,
        "latest": _checkpoint_json(thread.latest),
    }


def _checkpoint_json(info: CheckpointInfo) -> dict[str, Any]:
    return {
        "thread_id": info.place.thread_id,
        "checkpoint_ns": info.place.checkpoint_ns,
        "checkpoint_id": info.place.checkpoint_id,
        "parent_checkpoint_id": info.parent_checkpoint_id,
        "step": info.step,
        "source": info.source,
        "blob_size": info.blob_size,
        "timestamp_ms": read_time(info.place.checkpoint_id),
    }
