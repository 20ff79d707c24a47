"""Forgetting an event."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from agent_memory.features.forgetting.model.forgetting import ForgettingReport, Selection
from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.memory_models import ForgettingAnswer
from agent_memory.interfaces.services import Services
from agent_memory.interfaces.wire.memories import forgetting_json
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId

EventName = Annotated[str, Path(max_length=MAX_EVENT_ID_CHARS)]


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter()
    services, run = dependencies.services, dependencies.bridge.run

    @routes.delete(
        "/events/{event_id:path}",
        summary="Forget an event and all its traces on this machine",
        tags=["events"],
        response_model=ForgettingAnswer,
        responses=MISSING,
    )
    async def forget_event(
        event_id: EventName,
        confirm: Annotated[bool, Query(description="It cannot be undone.")] = False,
    ) -> Response:
        report = await run(lambda: _forget(services, event_id, confirm=confirm))
        return answers.render_json(forgetting_json(report))

    return routes


def _forget(services: Services, event_id: str, *, confirm: bool) -> ForgettingReport:
    """Forget an event."""
    if not confirm:
        event = services.timeline.get_event(event_id)
        raise InvalidInput(
            "nothing was forgotten, because it cannot be undone: send confirm=true to erase"
            f" {event.event_id}"
        )
    selection = Selection(event_id=EventId(event_id))
    return services.forgetting.forget_once(selection, lambda _phase, _count: None)
