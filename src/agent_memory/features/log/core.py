"""The event log."""

from agent_memory.config import Settings
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.guarded_event_log import GuardedEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.ports import EventRemover, Events, Outbox
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.signals import DaemonSignal
from agent_memory.platform.base import Platform


def build_core(context: Composition) -> None:
    store = context[Platform].store
    stored = StoredEventLog(store)
    events = GuardedEventLog(stored, stored) if context[Settings].team.enabled else stored
    context.provide(Events, events)
    context.provide(EventRemover, stored)
    context.provide(Outbox, StoredOutbox(store))
    context.add(
        Ingest(
            log=events,
            secrets=context[SecretsFilter],
            on_record=context.signals.build_sender(DaemonSignal.EVENT_RECORDED),
        ),
        Timeline(log=events),
    )
