"""memory.MemoryService: events, table of contents, search and jobs."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from agent_memory.features.log.operations import MAX_EVENTS
from agent_memory.features.log.services.ingest import Recording
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.event_recording import EventRecording
from agent_memory.interfaces.grpc import handlers
from agent_memory.interfaces.grpc.admission import Guard
from agent_memory.interfaces.grpc.calls import Methods
from agent_memory.interfaces.observing import Observer
from agent_memory.interfaces.wire.events import outcomes_to_proto, parse_event
from agent_memory.kernel.errors import InvalidInput
from agent_memory.proto import memory_pb2 as pb

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["MemoryService"]
MESSAGES_IN_FLIGHT = 8  # of one stream: enough to keep the committer busy, and bounded


@dataclass(frozen=True, slots=True)
class MemoryService:
    recording: EventRecording
    bridge: Bridge
    guard: Guard | None
    observer: Observer

    def build_methods(self) -> Methods:
        return handlers.build_service(
            DESCRIPTOR,
            unary={
                "IngestEvent": self.ingest_event,
            },
            stream={"IngestEvents": self.ingest_events},
            guard=self.guard,
            observer=self.observer,
        )

    async def ingest_event(self, request: pb.IngestEventRequest) -> pb.IngestEventResponse:
        if not request.HasField("event"):
            raise InvalidInput("event is required")
        event_id, created = await self.recording.record(parse_event(request.event))
        return pb.IngestEventResponse(event_id=event_id, created=created)

    async def ingest_events(
        self, requests: AsyncIterator[pb.IngestEventsRequest]
    ) -> AsyncIterator[pb.IngestEventsResponse]:
        """Read ahead while earlier messages are written, and answer in order."""
        answers: asyncio.Queue[tuple[list[str], Recording] | Exception | None] = asyncio.Queue(
            MESSAGES_IN_FLIGHT
        )

        async def read() -> None:
            try:
                async for request in requests:
                    await answers.put(await self._submit(request))
                await answers.put(None)
            except Exception as exc:
                await answers.put(exc)

        reader = asyncio.create_task(read())
        try:
            while (answer := await answers.get()) is not None:
                if isinstance(answer, Exception):
                    raise answer
                names, recording = answer
                stored = await self.bridge.wait(recording.stored)
                yield outcomes_to_proto(names, recording.list_results(stored))
        finally:
            reader.cancel()

    async def _submit(self, request: pb.IngestEventsRequest) -> tuple[list[str], Recording]:
        """Return the ids of a message's events, and how they are stored."""
        if len(request.events) > MAX_EVENTS:
            raise InvalidInput(
                f"a message holds {len(request.events)} events; the limit is"
                f" {MAX_EVENTS}: send several messages"
            )
        recording = await self.recording.record_each(request.events, parse_event)
        return [each.event_id for each in request.events], recording
