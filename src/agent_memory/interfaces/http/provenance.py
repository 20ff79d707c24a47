"""Where records come from, what was made from an event, and forgetting an event."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from agent_memory.features.forgetting.model.forgetting import ForgettingReport, Selection
from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.memory_models import ForgettingAnswer
from agent_memory.interfaces.http.models import Limit, ResponseModel
from agent_memory.interfaces.http.read_api import NO_LOCATION
from agent_memory.interfaces.services import Services
from agent_memory.interfaces.wire.injections import derivation_json, explanation_json
from agent_memory.interfaces.wire.memories import forgetting_json
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId

Object = dict[str, Any]
EventName = Annotated[str, Path(max_length=MAX_EVENT_ID_CHARS)]


class SaidEvent(ResponseModel):
    event_id: str
    session_id: str
    timestamp_ms: int
    event_type: str
    role: str
    text: str
    metadata: dict[str, str]


class NamedMemory(ResponseModel):
    id: str
    uri: str
    summary: str


class MadeMemory(NamedMemory):
    status: str


class ExplainedMemory(MadeMemory):
    """`captured` is `automatically` or `on request`."""

    domain: str
    captured: str
    author: str | None
    agent: str | None
    interface: str | None
    commit: str | None
    supersedes: list[NamedMemory]
    superseded_by: NamedMemory | None


class GivenTime(ResponseModel):
    timestamp_ms: int
    hook: str
    agent: str
    project: str
    session_id: str
    tokens: int


class GivenTimes(ResponseModel):
    """How often agents were given the record, and the last times."""

    count: int
    last_ms: int | None
    injections: list[GivenTime]


class ExplanationAnswer(ResponseModel):
    """`events` are the words that a record was made from; empty if they are unknown or forgotten.
    `memory` is null for other records."""

    kind: str
    uri: str
    title: str
    timestamp_ms: int
    project: str
    session_id: str
    events: list[SaidEvent]
    memory: ExplainedMemory | None
    given: GivenTimes


class GripAnswer(ResponseModel):
    grip_id: str
    excerpt: str
    event_id_start: str
    event_id_end: str
    timestamp_ms: int
    source: str
    toc_node_id: str


class DerivedAnswer(ResponseModel):
    """What was made from an event. `segment` is a node of the table of contents."""

    event: SaidEvent
    segment: Object | None
    grips: list[GripAnswer]
    memories: list[MadeMemory]


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter()
    services, run = dependencies.services, dependencies.bridge.run

    @routes.get(
        "/why/",
        summary="Where a record comes from, and which sessions were given it",
        tags=["injections"],
        response_model=ExplanationAnswer,
        responses=MISSING,
    )
    async def explain(
        name: Annotated[
            str, Query(max_length=512, description="A URI, an id, or the beginning of one.")
        ],
        limit: Limit = 10,
    ) -> Response:
        explained = await run(lambda: services.provenance.explain(name, NO_LOCATION, limit=limit))
        return answers.render_json(explanation_json(explained))

    @routes.get(
        "/events/{event_id:path}/derived/",
        summary="What was made from an event: its segment, grips, memories and facts",
        tags=["events"],
        response_model=DerivedAnswer,
        responses=MISSING,
    )
    async def list_derived(event_id: EventName) -> Response:
        found = await run(lambda: services.provenance.list_derived(event_id))
        return answers.render_json(derivation_json(found))

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
