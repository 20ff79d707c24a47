"""Injections: the context that hooks give to agents, and the ledger's entries about them."""

from dataclasses import dataclass
from datetime import date

from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, SessionId

KEPT = 20_000  # entries; to read all of them takes about a tenth of a second
KEPT_DAYS = 90
_EARLIEST = Millis(0)
_LATEST = Millis(MAX_MILLIS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """A context for an agent. `items` are the URIs of the records in its text."""

    text: str = ""
    items: tuple[str, ...] = ()


NOTHING = Injection()


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenText:
    """A record that was given: what it is, and what it says."""

    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """An injection that reached its agent: when, where and which records, but no text.

    `event_id` is that of the hook call, `hook` the name of the hook. `number` counts the entries
    from 1; it is 0 before the entry is stored.
    """

    at_ms: Millis
    session_id: SessionId
    event_id: EventId
    agent: str
    project: str
    hook: str
    items: tuple[str, ...]
    tokens: int
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerScope:
    """Filters of the ledger; an empty one admits everything.

    A session includes its subagents. `items` are URIs: any of them was given.
    """

    session: str = ""
    project: str = ""
    items: frozenset[str] = frozenset()
    since: Millis = _EARLIEST
    until: Millis = _LATEST

    def __post_init__(self) -> None:
        if self.since > self.until:
            raise InvalidInput(f"the time range ends ({self.until}) before it begins: {self.since}")

    def admits(self, entry: LedgerEntry) -> bool:
        session = entry.session_id
        return (
            self.since <= entry.at_ms <= self.until
            and (not self.session or self.session in (session, get_main_session(session)))
            and (not self.project or self.project == entry.project)
            and (not self.items or not self.items.isdisjoint(entry.items))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage:
    """Entries, newest first. `next` continues after them; None: there are no more."""

    entries: tuple[LedgerEntry, ...]
    next: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCount:
    """What was injected on one day."""

    day: date
    injections: int = 0
    tokens: int = 0
    sessions: int = 0
