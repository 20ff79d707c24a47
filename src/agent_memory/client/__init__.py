"""The client library: for programs that record events and read them back."""

from agent_memory.client.asynchronous import AsyncMemoryClient
from agent_memory.client.blocking import MemoryClient
from agent_memory.client.endpoints import DEFAULT_ENDPOINT
from agent_memory.client.errors import (
    ClientError,
    ConnectionFailed,
    EventsRefused,
    InvalidEndpoint,
    RpcError,
    SerializationError,
)
from agent_memory.client.hooks import HookEvent, HookEventType, map_hook_event
from agent_memory.client.values import (
    BrowseTocResult,
    BulletKind,
    Event,
    EventRole,
    EventType,
    ExpandGripResult,
    GetEventsResult,
    Grip,
    Job,
    JobResult,
    Passage,
    SchedulerStatus,
    SearchFilters,
    SearchHit,
    SearchResult,
    TocBullet,
    TocLevel,
    TocNode,
    WorkFigures,
)

__all__ = [
    "DEFAULT_ENDPOINT",
    "AsyncMemoryClient",
    "BrowseTocResult",
    "BulletKind",
    "ClientError",
    "ConnectionFailed",
    "Event",
    "EventRole",
    "EventType",
    "EventsRefused",
    "ExpandGripResult",
    "GetEventsResult",
    "Grip",
    "HookEvent",
    "HookEventType",
    "InvalidEndpoint",
    "Job",
    "JobResult",
    "MemoryClient",
    "Passage",
    "RpcError",
    "SchedulerStatus",
    "SearchFilters",
    "SearchHit",
    "SearchResult",
    "SerializationError",
    "TocBullet",
    "TocLevel",
    "TocNode",
    "WorkFigures",
    "map_hook_event",
]
