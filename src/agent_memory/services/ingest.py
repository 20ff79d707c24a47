"""Ingest: events come in, are cleaned of secrets, and are acknowledged once durable."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from agent_memory.domain.events import Event
from agent_memory.domain.ports import EventLog, SecretsFilter


@dataclass(frozen=True, slots=True)
class Ingest:
    log: EventLog
    secrets: SecretsFilter
    recorded: Callable[[], None]  # told after each group of events is durable

    def submit(self, events: Sequence[Event]) -> "Future[list[bool]]":
        """For each event, once durable: whether it is new. Never blocks."""
        stored = self.log.append([self._cleaned(event) for event in events])
        stored.add_done_callback(lambda _: self.recorded())
        return stored

    def _cleaned(self, event: Event) -> Event:
        text = self.secrets.clean(event.text)
        metadata = {key: self.secrets.clean(value) for key, value in event.metadata.items()}
        if text == event.text and metadata == event.metadata:
            return event
        return replace(event, text=text, metadata=metadata)
