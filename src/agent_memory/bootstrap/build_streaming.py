"""Build the change feed that live streams follow."""

from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.interfaces.wire.memories import record_text


def build_streaming(log: LogFeature, memories: MemoriesFeature) -> ChangeFeed:
    return ChangeFeed(log.events, log.outbox, memories.store, record_text)
