"""Record events: remove their secrets, store them, and acknowledge them once durable."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import NewType, TypeVar

from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS, MAX_SESSION_ID_CHARS, Event
from agent_memory.features.log.ports import EventLog
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ContentBlocked, InvalidInput
from agent_memory.kernel.ids import EventId, SessionId

Clean = NewType("Clean", Event)  # an event that has passed the secrets filter
T = TypeVar("T")
Refusal = InvalidInput | ContentBlocked
Select = Callable[[list[Clean]], Sequence[Clean]]

_TOGETHER = 8  # events: one that is suspect costs a check of each
_MARKER = 64  # characters of the longest marker that replaces a secret


def count_scanned(text: str, metadata: Mapping[str, str]) -> int:
    """Count the characters of an event that `Ingest.clean` scans, besides its ids."""
    return len(text) + sum(len(key) + len(value) for key, value in metadata.items())


def _try_build(build: Callable[[T], Event], item: T) -> Event | InvalidInput:
    try:
        return build(item)
    except InvalidInput as exc:
        return exc


def _list_names(event: Event) -> list[str]:
    """List all that an event holds beside its text."""
    named = [f"{key}={value}" for key, value in event.metadata.items()]
    return [event.event_id, event.session_id, *named]


@dataclass(frozen=True, slots=True)
class Recording:
    outcomes: Sequence[Clean | Refusal]
    stored: "Future[list[bool]]"  # as that of `Ingest.record`, without what was refused

    def list_results(self, stored: list[bool]) -> list[bool | Refusal]:
        """Return for each event whether it is new, or why it was refused. None was left out."""
        created = iter(stored)
        return [each if isinstance(each, Refusal) else next(created) for each in self.outcomes]


@dataclass(frozen=True, slots=True)
class Ingest:
    log: EventLog
    secrets: SecretsFilter
    on_record: Callable[[], None]  # called when a group of events was written, or failed

    def record(self, events: Sequence[Event], select: Select = list) -> "Future[list[bool]]":
        """Store those of the events that `select` returns, without their secrets and without
        blocking; the future returns for each whether it is new.

        Raises ContentBlocked, and stores nothing, if one of them must not be stored.
        """
        return self.submit(select([self.clean(event) for event in events]))

    def record_each(
        self, items: Sequence[T], build: Callable[[T], Event], select: Select = list
    ) -> Recording:
        """Build an event of each item and store them, but refuse each by itself."""
        built = [_try_build(build, item) for item in items]
        cleaned = iter(self.clean_all([each for each in built if isinstance(each, Event)]))
        outcomes = [next(cleaned) if isinstance(each, Event) else each for each in built]
        clean = [each for each in outcomes if not isinstance(each, Refusal)]
        return Recording(outcomes, self.submit(select(clean)))

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

    def clean_all(self, events: Sequence[Event]) -> list[Clean | Refusal]:
        """Return each event without its secrets, or why it must not be stored.

        Most events pass a quick check of several together, which costs less than one for each.
        """
        outcomes: list[Clean | Refusal] = []
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

    def _try_clean(self, event: Event) -> Clean | Refusal:
        try:
            return self.clean(event)
        except (InvalidInput, ContentBlocked) as exc:
            return exc

    def clean_session(self, session_id: str) -> SessionId:
        """Return the id under which events of a session are stored."""
        return SessionId(
            self.secrets.clean_name(session_id, limit=MAX_SESSION_ID_CHARS, where="session_id")
        )

    def submit(self, events: Sequence[Clean]) -> "Future[list[bool]]":
        """Store clean events without blocking; the future returns for each whether it is new."""
        if not events:  # nothing to write, and nothing that wakes jobs
            nothing: Future[list[bool]] = Future()
            nothing.set_result([])
            return nothing
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
