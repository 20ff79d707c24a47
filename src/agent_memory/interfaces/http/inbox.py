"""The inbox over REST: the memories that were noted automatically and await review.

It can only be read here: an agent that has a key must not accept its own notes.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.wire.memories import pending_json
from agent_memory.kernel.ids import Domain


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/inbox", tags=["memories"])
    review, run = dependencies.services.review, dependencies.bridge.run

    @routes.get(
        "/", summary="Memories that await review, newest first", response_model=dict[str, Any]
    )
    async def list_inbox(domain: Annotated[str, Query(max_length=300)] = "") -> Response:
        domains = [Domain(domain)] if domain else None
        found, total = await run(lambda: review.list_newest(domains))
        return answers.render_json(
            {"memories": [pending_json(each) for each in found], "total": total}
        )

    return routes
