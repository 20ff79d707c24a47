"""Recording events over REST: one, or many at once with an outcome for each."""

import uuid
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from agent_memory.features.log.model.events import Event
from agent_memory.features.log.services.ingest import Ingest, Refusal
from agent_memory.interfaces.event_recording import EventRecording
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import RequestModel, ResponseModel, show_example
from agent_memory.interfaces.wire.events import parse_role, parse_type
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.kernel.ulids import derive_ulid
from agent_memory.platform.ports import Clock

MAX_EVENTS = 1_000  # of one request, as of one message over gRPC


class EventCreate(RequestModel):
    """An event. Send the same `event_id` again after a lost answer: it is stored once."""

    session_id: str
    text: str = ""
    event_type: str = "user_message"
    role: str = "user"
    event_id: Annotated[str, Field(description="Default: a new one.")] = ""
    timestamp_ms: Annotated[int | None, Field(description="Unix milliseconds. Default: now.")] = (
        None
    )
    metadata: Annotated[dict[str, str], Field(default_factory=dict)]

    model_config = show_example(
        {
            "session_id": "support-2026-02-11",
            "text": "Which plan does the customer have?",
            "event_type": "user_message",
            "role": "user",
            "metadata": {"project": "support"},
        }
    )


class EventBatch(RequestModel):
    events: Annotated[list[EventCreate], Field(max_length=MAX_EVENTS)]


class EventOutcome(ResponseModel):
    """`created` is false for an event that was stored before; `error` says why one was refused."""

    event_id: str
    created: bool
    error: str | None = None


class BatchOutcome(ResponseModel):
    outcomes: list[EventOutcome]


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/events", tags=["events"])
    bridge, clock = dependencies.bridge, dependencies.services[Clock]
    recording = EventRecording(dependencies.services[Ingest], bridge)

    @routes.post(
        "/",
        summary="Record an event",
        status_code=201,
        response_model=EventOutcome,
        responses={200: {"model": EventOutcome, "description": "It was stored before"}},
    )
    async def record_event(event: EventCreate) -> Response:
        event_id, created = await recording.record(_build_event(event, clock.now()))
        outcome = {"event_id": event_id, "created": created, "error": None}
        return answers.render_json(outcome, 201 if created else 200)

    @routes.post("/batch/", summary="Record events", response_model=BatchOutcome)
    async def record_events(batch: EventBatch) -> Response:
        recorded = await recording.record_each(
            batch.events, lambda each: _build_event(each, clock.now())
        )
        results = recorded.list_results(await bridge.wait(recorded.stored))
        outcomes = [
            {"event_id": event.event_id, "created": False, "error": str(outcome)}
            if isinstance(outcome, Refusal)
            else {"event_id": outcome.event_id, "created": result, "error": None}
            for event, outcome, result in zip(batch.events, recorded.outcomes, results, strict=True)
        ]
        return answers.render_json({"outcomes": outcomes})

    return routes


def _build_event(event: EventCreate, now: Millis) -> Event:
    """Build the event. Raises InvalidInput."""
    return Event(
        event_id=EventId(event.event_id or derive_ulid(now, uuid.uuid4().hex)),
        session_id=SessionId(event.session_id),
        at_ms=now if event.timestamp_ms is None else Millis(event.timestamp_ms),
        type=parse_type(event.event_type),
        role=parse_role(event.role),
        text=event.text,
        metadata=event.metadata,
    )
