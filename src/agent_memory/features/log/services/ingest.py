"""Ingest: new events are cleaned of secrets, stored, and acknowledged once durable."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import NewType

from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS, MAX_SESSION_ID_CHARS, Event
from agent_memory.features.log.ports import EventLog
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ContentBlocked
from agent_memory.kernel.ids import EventId, SessionId

Clean = NewType("Clean", Event)  # an event that has passed the secrets filter

_TOGETHER = 8  # events: one that is suspect costs a check of each
_MARKER = 64  # characters of the longest marker that replaces a secret


def count_scanned(text: str, metadata: Mapping[str, str]) -> int:
    """Count the characters of an event that `Ingest.clean` scans, besides its ids."""
    return len(text) + sum(len(key) + len(value) for key, value in metadata.items())


def _list_names(event: Event) -> list[str]:
    """List all that an event holds beside its text."""
    named = [f"{key}={value}" for key, value in event.metadata.items()]
    return [event.event_id, event.session_id, *named]


@dataclass(frozen=True, slots=True)
class Ingest:
    log: EventLog
    secrets: SecretsFilter
    on_record: Callable[[], None]  # called when a group of events was written, or failed

    def clean(self, event: Event) -> Clean:
        """Return the event without its secrets. Raises ContentBlocked.

        Call this on an event loop only for short texts: long ones take time.
        """
        names = _list_names(event)
        # Most events pass this check, which costs less than one check for each part.
        if self.secrets.is_clean([event.text, *names]):
            return Clean(event)
        if self.secrets.is_clean(names):  # only the text is suspect, as most code is
            text = self.secrets.clean(event.text, where=f"{event.event_id}/text")
            return Clean(event if text == event.text else replace(event, text=text))
        name = self.secrets.clean_name(event.event_id, limit=MAX_EVENT_ID_CHARS, where="event_id")
        cleaned = replace(
            event,
            event_id=EventId(name),
            session_id=self.clean_session(event.session_id),
            text=self.secrets.clean(event.text, where=f"{name}/text"),
            metadata={
                self._clean_key(key, name): self._clean_value(key, value, f"{name}/metadata")
                for key, value in event.metadata.items()
            },
        )
        return Clean(event if cleaned == event else cleaned)

    def clean_all(self, events: Sequence[Event]) -> list[Clean | ContentBlocked]:
        """Return each event without its secrets, or why it must not be stored.

        Most events pass a quick check of several together, which costs less than one for each.
        """
        outcomes: list[Clean | ContentBlocked] = []
        for start in range(0, len(events), _TOGETHER):
            some = events[start : start + _TOGETHER]
            if len(some) > 1 and self._are_clean(some):
                outcomes += map(Clean, some)
            else:
                outcomes += map(self._try_clean, some)
        return outcomes

    def _are_clean(self, events: Sequence[Event]) -> bool:
        texts = [text for event in events for text in (event.text, *_list_names(event))]
        try:
            return self.secrets.is_clean(texts)
        except ContentBlocked:  # the filter has failed: each event finds out by itself
            return False

    def _try_clean(self, event: Event) -> Clean | ContentBlocked:
        try:
            return self.clean(event)
        except ContentBlocked as exc:
            return exc

    def clean_session(self, session_id: str) -> SessionId:
        """Return the id under which events of a session are stored."""
        return SessionId(
            self.secrets.clean_name(session_id, limit=MAX_SESSION_ID_CHARS, where="session_id")
        )

    def submit(self, events: Sequence[Clean]) -> "Future[list[bool]]":
        """Store events without blocking; the future returns for each whether it is new."""
        stored = self.log.append(events)
        stored.add_done_callback(lambda _: self.on_record())
        return stored

    def _clean_key(self, key: str, event_id: str) -> str:
        return self.secrets.clean_name(key, limit=len(key) + _MARKER, where=f"{event_id}/metadata")

    def _clean_value(self, key: str, value: str, where: str) -> str:
        """Clean a value together with its key, which may show that the value is a secret."""
        lead = f"{key}="
        whole = self.secrets.clean(lead + value, where=where)
        return whole[len(lead) :] if whole.startswith(lead) else self.secrets.clean(value)
