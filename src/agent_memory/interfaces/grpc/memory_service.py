"""memory.MemoryService: events, table of contents, search and jobs."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from agent_memory.features.index.model.queries import Search
from agent_memory.features.log.services.ingest import Recording
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.toc.services.contents import Contents
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.event_recording import EventRecording
from agent_memory.interfaces.grpc import handlers
from agent_memory.interfaces.grpc.admission import Guard
from agent_memory.interfaces.grpc.calls import Methods
from agent_memory.interfaces.observing import Observer
from agent_memory.interfaces.wire.events import outcomes_to_proto, page_to_proto, parse_event
from agent_memory.interfaces.wire.search import answer_to_proto, parse_request
from agent_memory.interfaces.wire.toc import expansion_to_proto, node_to_proto
from agent_memory.interfaces.wire.tokens import format_offset, parse_offset, parse_token
from agent_memory.kernel.errors import InvalidInput
from agent_memory.proto import memory_pb2 as pb

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["MemoryService"]
MAX_EVENTS_PER_MESSAGE = 1_000
MESSAGES_IN_FLIGHT = 8  # of one stream: enough to keep the committer busy, and bounded


@dataclass(frozen=True, slots=True)
class MemoryService:
    recording: EventRecording
    timeline: Timeline
    contents: Contents
    recall: Recall
    search_all: Search
    opening: Opening
    bridge: Bridge
    guard: Guard | None
    observer: Observer

    def build_methods(self) -> Methods:
        return handlers.build_service(
            DESCRIPTOR,
            unary={
                "IngestEvent": self.ingest_event,
                "GetEvents": self.get_events,
                "GetTocRoot": self.get_toc_root,
                "GetNode": self.get_node,
                "BrowseToc": self.browse_toc,
                "ExpandGrip": self.expand_grip,
                "Search": self.search,
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

    async def get_events(self, request: pb.GetEventsRequest) -> pb.GetEventsResponse:
        after = (
            parse_token(request.continuation_token)
            if request.HasField("continuation_token")
            else None
        )
        return await self.bridge.run(
            lambda: page_to_proto(
                self.timeline.list_events(
                    request.from_timestamp_ms,
                    request.to_timestamp_ms,
                    limit=request.limit,
                    after=after,
                )
            )
        )

    async def get_toc_root(self, _request: pb.GetTocRootRequest) -> pb.GetTocRootResponse:
        nodes = await self.bridge.run(self.contents.list_years)
        return pb.GetTocRootResponse(nodes=[node_to_proto(node) for node in nodes])

    async def get_node(self, request: pb.GetNodeRequest) -> pb.GetNodeResponse:
        node = await self.bridge.run(lambda: self.contents.get_node(request.node_id))
        return pb.GetNodeResponse(node=None if node is None else node_to_proto(node))

    async def browse_toc(self, request: pb.BrowseTocRequest) -> pb.BrowseTocResponse:
        token = request.continuation_token
        offset = parse_offset(token) if request.HasField("continuation_token") else 0
        page = await self.bridge.run(
            lambda: self.contents.list_children(
                request.parent_id, limit=request.limit, offset=offset
            )
        )
        return pb.BrowseTocResponse(
            children=[node_to_proto(node) for node in page.nodes],
            continuation_token=format_offset(page.next),
            has_more=page.next is not None,
        )

    async def expand_grip(self, request: pb.ExpandGripRequest) -> pb.ExpandGripResponse:
        before = request.events_before if request.HasField("events_before") else None
        after = request.events_after if request.HasField("events_after") else None
        return await self.bridge.run(
            lambda: expansion_to_proto(
                self.contents.expand(request.grip_id, before=before, after=after)
            )
        )

    async def search(self, request: pb.SearchRequest) -> pb.SearchResponse:
        def answer() -> pb.SearchResponse:
            query = parse_request(request).to_query(
                self.recall.resolve_time, resolve_session=self.opening.resolve_session
            )
            return answer_to_proto(self.search_all(query))

        return await self.bridge.run(answer)

    async def _submit(self, request: pb.IngestEventsRequest) -> tuple[list[str], Recording]:
        """Return the ids of a message's events, and how they are stored."""
        if len(request.events) > MAX_EVENTS_PER_MESSAGE:
            raise InvalidInput(
                f"a message holds {len(request.events)} events; the limit is"
                f" {MAX_EVENTS_PER_MESSAGE}: send several messages"
            )
        recording = await self.recording.record_each(request.events, parse_event)
        return [each.event_id for each in request.events], recording
