"""Build the event log."""

from dataclasses import dataclass
from typing import Protocol

from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.wake_ups import WakeUps
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.guarded_event_log import GuardedEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.ports import EventFinder, EventLog, EventRemover
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.log.services.timeline import Timeline


class Events(EventLog, EventFinder, Protocol):
    """The events that a caller sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFeature:
    events: Events
    remover: EventRemover
    outbox: StoredOutbox
    ingest: Ingest
    timeline: Timeline


def build_log(platform: Platform, wake_ups: WakeUps) -> LogFeature:
    stored = StoredEventLog(platform.store)
    events = GuardedEventLog(stored, stored) if platform.settings.team.enabled else stored
    return LogFeature(
        events=events,
        remover=stored,
        outbox=StoredOutbox(platform.store),
        ingest=Ingest(log=events, secrets=platform.secrets, on_record=wake_ups.on_event_recorded),
        timeline=Timeline(log=events),
    )
