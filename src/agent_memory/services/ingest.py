"""Ingest: events come in, are cleaned of secrets, and are acknowledged once durable."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import NewType

from agent_memory.domain.events import Event
from agent_memory.domain.ports import EventLog, SecretsFilter

Clean = NewType("Clean", Event)


@dataclass(frozen=True, slots=True)
class Ingest:
    log: EventLog
    secrets: SecretsFilter
    recorded: Callable[[], None]  # told after each group of events is durable

    def clean(self, event: Event) -> Clean:
        """The event without its secrets. Raises ContentBlocked. Long texts take their time: not
        on an event loop."""
        named = [f"{key}={value}" for key, value in event.metadata.items()]
        if self.secrets.passes([event.text, *named]):  # most do, and each part alone costs more
            return Clean(event)
        name = event.event_id
        text = self.secrets.clean(event.text, where=f"{name}/text")
        metadata = {
            key: self._cleaned_value(key, value, f"{name}/metadata")
            for key, value in event.metadata.items()
        }
        if text == event.text and metadata == event.metadata:
            return Clean(event)
        return Clean(replace(event, text=text, metadata=metadata))

    def submit(self, events: Sequence[Clean]) -> "Future[list[bool]]":
        """For each event, once durable: whether it is new. Never blocks."""
        stored = self.log.append(events)
        stored.add_done_callback(lambda _: self.recorded())
        return stored

    def _cleaned_value(self, key: str, value: str, where: str) -> str:
        """Its key may be what tells that a value is a secret."""
        lead = f"{key}="
        whole = self.secrets.clean(lead + value, where=where)
        return whole[len(lead) :] if whole.startswith(lead) else self.secrets.clean(value)
