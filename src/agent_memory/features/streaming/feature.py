"""The change feed that live streams follow."""

import msgspec

from agent_memory.config import Settings
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.operations import LoggedEvent
from agent_memory.features.log.ports import Events, Outbox, OutboxNeed
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.operations import MemoryAnswer
from agent_memory.features.memories.ports import Memories, MemoryFeed
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.features.streaming.services.connection_limit import ConnectionLimit, StreamLimits
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.signals import DaemonSignal


def build(context: Composition) -> None:
    changes = ChangeFeed(context[Events], context[Outbox], context[Memories], encode_record)
    settings = context[Settings].streaming
    limits = StreamLimits(
        sse=ConnectionLimit("SSE", settings.max_connections),
        websocket=ConnectionLimit("WebSocket", settings.max_connections),
        keepalive_seconds=float(settings.sse_keepalive_seconds),
    )
    context.add(changes, limits)
    context.provide(MemoryFeed, changes.follow_memories)
    context.on_close.append(changes.close)
    context.contributions(OutboxNeed).append(lambda: changes.needed)
    context.signals.listen(
        changes.wake,
        DaemonSignal.EVENT_RECORDED,
        DaemonSignal.MEMORY_CHANGED,
        DaemonSignal.FOREIGN_CHANGE,
    )


def encode_record(record: Event | Memory) -> str:
    """Encode a record as the JSON that followers of changes get."""
    if isinstance(record, Event):
        return msgspec.json.encode(LoggedEvent.from_event(record)).decode()
    return msgspec.json.encode(MemoryAnswer.from_memory(record)).decode()
