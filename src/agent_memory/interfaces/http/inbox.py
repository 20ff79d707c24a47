"""The inbox over REST: the memories that were noted automatically and await review.

A program with a key can only read it: an agent must not accept its own notes. The page decides for
the person who opened it.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import Field

from agent_memory.features.forgetting.services.review import MAX_LISTED, ReviewDecision
from agent_memory.features.memories.model.changes import ChangeAction
from agent_memory.features.memories.model.memories import MAX_SUMMARY_CHARS
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.callers import NO_TERMINAL, require_person
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import Problem, RequestModel, show_example
from agent_memory.interfaces.http.page_sessions import PageSession
from agent_memory.interfaces.http.read_api import NO_LOCATION
from agent_memory.interfaces.services import Services
from agent_memory.interfaces.wire.memories import change_json, pending_json, review_json
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.kernel.ids import Domain

Object = dict[str, Any]
Reviewer = Annotated[
    PageSession, require_person("decide on what was noted automatically", "memory review")
]


class InboxDecision(RequestModel):
    """What becomes of a memory. `summary` accepts it in other words."""

    id: Annotated[str, Field(max_length=300, description="Its id or its URI.")]
    decision: Literal["accept", "discard"]
    summary: Annotated[str, Field(max_length=MAX_SUMMARY_CHARS)] = ""


class InboxDecisions(RequestModel):
    decisions: Annotated[list[InboxDecision], Field(min_length=1, max_length=MAX_LISTED)]

    model_config = show_example(
        {"decisions": [{"id": "decisions:abc123def456:0", "decision": "accept"}]}
    )


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/inbox", tags=["memories"])
    services, run = dependencies.services, dependencies.bridge.run

    @routes.get("/", summary="Memories that await review, newest first", response_model=Object)
    async def list_inbox(domain: Annotated[str, Query(max_length=300)] = "") -> Response:
        domains = [Domain(domain)] if domain else None
        found, total = await run(lambda: services.review.list_newest(domains))
        return answers.render_json(
            {"memories": [pending_json(each) for each in found], "total": total}
        )

    @routes.post(
        "/",
        summary="Accept or discard memories that await review; only the page may",
        response_model=Object,
        responses={403: {"model": Problem, "description": "Only the user may decide"}},
    )
    async def decide(asked: InboxDecisions, reviewer: Reviewer) -> Response:
        if not reviewer.may_accept and any(each.decision == "accept" for each in asked.decisions):
            raise HTTPException(403, NO_TERMINAL)
        return answers.render_json(await run(lambda: _decide(services, asked)))

    return routes


def _decide(services: Services, asked: InboxDecisions) -> Object:
    decisions: list[ReviewDecision] = []
    stale: list[str] = []
    for each in asked.decisions:
        try:
            memory = services.review.find(each.id, NO_LOCATION).memory
        except (InvalidInput, NotFound) as exc:
            stale.append(str(exc))
            continue
        is_accepted, summary = each.decision == "accept", each.summary.strip()
        decisions.append(ReviewDecision(memory=memory, is_accepted=is_accepted, summary=summary))
    with services.history.recording(ChangeAction.REVIEW, by_user=True) as changing:
        inbox = replace(services.review, editor=changing.editor, capture=changing.capture)
        result = inbox.apply(decisions, NO_LOCATION, lambda _phase, _count: None)
    result = replace(result, skipped=(*stale, *result.skipped))
    return {**review_json(result), **change_json(changing.entry)}
