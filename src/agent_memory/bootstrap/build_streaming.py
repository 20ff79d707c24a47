"""Build the change feed that live streams follow."""

from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.interfaces import wire


def build_streaming(log: LogFeature, memories: MemoriesFeature) -> ChangeFeed:
    return ChangeFeed(log.events, log.outbox, memories.store, wire.record_text)
