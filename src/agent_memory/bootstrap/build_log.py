"""Build the event log."""

from dataclasses import dataclass

from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.wake_ups import WakeUps
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.guarded_event_log import GuardedEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.log.services.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFeature:
    events: StoredEventLog
    outbox: StoredOutbox
    ingest: Ingest
    timeline: Timeline


def build_log(platform: Platform, wake_ups: WakeUps) -> LogFeature:
    team = platform.settings.team.enabled
    events = GuardedEventLog(platform.store) if team else StoredEventLog(platform.store)
    return LogFeature(
        events=events,
        outbox=StoredOutbox(platform.store),
        ingest=Ingest(log=events, secrets=platform.secrets, on_record=wake_ups.on_event_recorded),
        timeline=Timeline(log=events),
    )
