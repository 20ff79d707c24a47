"""The change feed that live streams follow."""

from agent_memory.features.log.ports import Events, Outbox, OutboxNeed
from agent_memory.features.memories.ports import Memories, RecordEncoder
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.signals import DaemonSignal


def build(context: Composition) -> None:
    changes = ChangeFeed(
        context[Events], context[Outbox], context[Memories], context[RecordEncoder]
    )
    context.add(changes)
    context.on_close.append(changes.close)
    context.contributions(OutboxNeed).append(lambda: changes.needed)
    context.signals.listen(
        changes.wake,
        DaemonSignal.EVENT_RECORDED,
        DaemonSignal.MEMORY_CHANGED,
        DaemonSignal.FOREIGN_CHANGE,
    )
