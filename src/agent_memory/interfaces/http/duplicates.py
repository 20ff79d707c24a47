"""Duplicates over REST: what a consolidation would merge, merging what is chosen, and undo."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from agent_memory.features.memories.model.duplicates import Cluster
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING
from agent_memory.interfaces.http.callers import require_person
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.memory_models import DuplicatesAnswer, MergedAnswer, UndoAnswer
from agent_memory.interfaces.http.models import Problem, RequestModel, show_example
from agent_memory.interfaces.http.read_api import NO_LOCATION
from agent_memory.interfaces.services import Services
from agent_memory.interfaces.wire.memories import change_json, duplicates_json, undo_json
from agent_memory.kernel.ids import Domain

Object = dict[str, Any]
MAX_SHOWN = 100  # groups of duplicates
MemoryName = Annotated[str, Field(max_length=300)]


class MergeRequest(RequestModel):
    """Memories of one domain that become one: `kept` stays and gets the tags of all."""

    kept: MemoryName
    superseded: Annotated[list[MemoryName], Field(min_length=1, max_length=100)]


class MergeRequests(RequestModel):
    merges: Annotated[list[MergeRequest], Field(min_length=1, max_length=MAX_SHOWN)]

    model_config = show_example(
        {
            "merges": [
                {
                    "kept": "decisions:abc123def456:0",
                    "superseded": ["decisions:98e3d5759073:0"],
                }
            ]
        }
    )


class UndoRequest(RequestModel):
    """The change to undo, by the name that the answer to it had, so that no other is taken back."""

    change: Annotated[str, Field(max_length=40, examples=["change-12"])]


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories", tags=["memories"])
    services, run = dependencies.services, dependencies.bridge.run

    @routes.get(
        "/duplicates/",
        summary="Memories that say the same, in groups with the one to keep",
        response_model=DuplicatesAnswer,
    )
    async def list_duplicates(
        domain: Annotated[str, Query(max_length=300)] = "",
        full: Annotated[
            bool, Query(description="Compare all memories, not only the new ones.")
        ] = False,
        limit: Annotated[int, Query(ge=1, le=MAX_SHOWN)] = 20,
    ) -> Response:
        plan = await run(
            lambda: services.consolidation.plan(
                [Domain(domain)] if domain else None,
                full=full,
                rewrite=False,
                on_progress=lambda _phase, _current, _total: None,
            )
        )
        return answers.render_json(await run(lambda: duplicates_json(plan, limit)))

    @routes.post(
        "/merges/",
        summary="Merge memories into ones that stay",
        response_model=MergedAnswer,
        responses=MISSING,
    )
    async def merge(asked: MergeRequests) -> Response:
        return answers.render_json(await run(lambda: _merge(services, asked)))

    @routes.get(
        "/undo/",
        summary="What undo would take back: the last change of the user, or the last merge",
        response_model=UndoAnswer,
        responses=MISSING,
    )
    async def plan_undo() -> Response:
        plan = await run(services.history.find_last)
        return answers.render_json(undo_json(plan, undone=False))

    @routes.post(
        "/undo/",
        summary="Take back the last change of the user; only the page may",
        response_model=UndoAnswer,
        responses={
            **MISSING,
            403: {"model": Problem, "description": "Only the user may undo"},
        },
        dependencies=[require_person("undo your changes", "memory undo")],
    )
    async def undo(asked: UndoRequest) -> Response:
        done = await run(lambda: services.history.undo(asked.change, NO_LOCATION))
        return answers.render_json(undo_json(done, undone=True))

    return routes


def _merge(services: Services, asked: MergeRequests) -> Object:
    find = services.editor.find
    chosen = [
        Cluster(
            kept=find(each.kept, NO_LOCATION),
            others=tuple(find(name, NO_LOCATION) for name in each.superseded),
        )
        for each in asked.merges
    ]
    merged = services.consolidation.merge(
        chosen, NO_LOCATION, lambda _phase, _current, _total: None
    )
    return {
        "superseded": [memory.id for memory in merged.superseded],
        "skipped": list(merged.skipped),
        **change_json(merged.run),
    }
