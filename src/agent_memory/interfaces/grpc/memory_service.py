"""memory.MemoryService: parse, call, render."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import dataclass

from agent_memory.domain.errors import InvalidInput
from agent_memory.domain.events import Event
from agent_memory.interfaces import wire
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.grpc import handlers
from agent_memory.proto import memory_pb2 as pb
from agent_memory.services.ingest import Ingest
from agent_memory.services.timeline import Timeline

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["MemoryService"]
MAX_EVENTS_PER_MESSAGE = 1_000
MESSAGES_IN_FLIGHT = 8  # of one stream: enough to keep the committer busy, and bounded


@dataclass(frozen=True, slots=True)
class MemoryService:
    ingest: Ingest
    timeline: Timeline
    bridge: Bridge
    guard: handlers.Guard | None

    def handler(self) -> handlers.Handler:
        return handlers.service(
            DESCRIPTOR,
            unary={"IngestEvent": self.ingest_event, "GetEvents": self.get_events},
            stream={"IngestEvents": self.ingest_events},
            guard=self.guard,
        )

    async def ingest_event(self, request: pb.IngestEventRequest) -> pb.IngestEventResponse:
        if not request.HasField("event"):
            raise InvalidInput("event is required")
        event = wire.event_in(request.event)
        (created,) = await self.bridge.settled(self.ingest.submit([event]))
        return pb.IngestEventResponse(event_id=event.event_id, created=created)

    async def ingest_events(
        self, requests: AsyncIterator[pb.IngestEventsRequest]
    ) -> AsyncIterator[pb.IngestEventsResponse]:
        """Reads ahead while earlier messages are being written; answers in order."""
        answers: asyncio.Queue[_Submitted | BaseException | None] = asyncio.Queue(
            MESSAGES_IN_FLIGHT
        )

        async def read() -> None:
            try:
                async for request in requests:
                    await answers.put(self._submit(request))
                await answers.put(None)
            except Exception as exc:
                await answers.put(exc)

        reader = asyncio.create_task(read())
        try:
            while (answer := await answers.get()) is not None:
                if isinstance(answer, BaseException):
                    raise answer
                outcomes = await self.bridge.settled(answer.created)
                created = iter(outcomes)
                yield wire.outcomes_out(
                    [(name, error or next(created)) for name, error in answer.events]
                )
        finally:
            reader.cancel()

    async def get_events(self, request: pb.GetEventsRequest) -> pb.GetEventsResponse:
        after = (
            wire.token_in(request.continuation_token)
            if request.HasField("continuation_token")
            else None
        )
        return await self.bridge.run(
            lambda: wire.page_out(
                self.timeline.events(
                    request.from_timestamp_ms,
                    request.to_timestamp_ms,
                    limit=request.limit,
                    after=after,
                )
            )
        )

    def _submit(self, request: pb.IngestEventsRequest) -> "_Submitted":
        if len(request.events) > MAX_EVENTS_PER_MESSAGE:
            raise InvalidInput(
                f"a message holds {len(request.events)} events; the limit is"
                f" {MAX_EVENTS_PER_MESSAGE}: send several messages"
            )
        events: list[Event] = []
        names: list[tuple[str, str | None]] = []
        for message in request.events:
            try:
                events.append(wire.event_in(message))
                names.append((message.event_id, None))
            except InvalidInput as exc:
                names.append((message.event_id, str(exc)))
        return _Submitted(events=names, created=self.ingest.submit(events))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Submitted:
    """One message of a stream: per event its id and why it was refused, if it was."""

    events: list[tuple[str, str | None]]
    created: "Future[list[bool]]"
