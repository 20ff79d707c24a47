"""The ledger of injections: record what hooks gave to agents, list it, count it, forget it."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from itertools import islice

from agent_memory.features.index.model import documents
from agent_memory.features.injections.model.injections import (
    KEPT,
    KEPT_DAYS,
    DayCount,
    GivenText,
    Injection,
    LedgerEntry,
    LedgerPage,
    LedgerScope,
)
from agent_memory.features.injections.ports import Ledger
from agent_memory.features.log.model.events import MAX_SESSION_ID_CHARS
from agent_memory.features.recall.ports import RecordSource
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.ports import Clock

_DAY_MS = 86_400_000
_PAGE = 500
_NAME_CHARS = MAX_SESSION_ID_CHARS


@dataclass(frozen=True, slots=True)
class Injections:
    ledger: Ledger
    documents: DocumentReader
    secrets: SecretsFilter
    clock: Clock
    sources: Sequence[RecordSource] = ()  # of features above

    def record(
        self,
        injection: Injection,
        *,
        session_id: SessionId,
        event_id: EventId,
        agent: str,
        project: str,
        hook: str,
    ) -> None:
        """Record an injection that has reached its agent, without waiting for the disk.

        Raises Overloaded and StorageFailed. The ids must be clean of secrets already.
        """
        self.ledger.add(
            LedgerEntry(
                at_ms=self.clock.now(),
                session_id=session_id,
                event_id=event_id,
                agent=self._clean(agent),
                project=self._clean(project),
                hook=hook,
                items=injection.items,
                tokens=estimate_tokens(injection.text),
            )
        )

    def list_entries(
        self, scope: LedgerScope, *, limit: int, before: int | None = None
    ) -> LedgerPage:
        """List what was injected, newest first; `before` is the `next` of the page before."""
        found = list(islice(self._find(scope, before), limit + 1))
        more = found[limit - 1].number if len(found) > limit else None
        return LedgerPage(entries=tuple(found[:limit]), next=more)

    def read_items(self, entries: Iterable[LedgerEntry]) -> dict[str, GivenText]:
        """Read the records that were given, by URI; without those that are forgotten."""
        return self._read({uri for entry in entries for uri in entry.items})

    def count_days(self, zone: tzinfo, days: int) -> list[DayCount]:
        """Count what was injected today and on the days before, in a time zone, today first."""
        today = datetime.fromtimestamp(self.clock.now() / 1000, zone).date()
        wanted = [today - timedelta(days=number) for number in range(days)]
        begin = datetime.combine(wanted[-1], datetime.min.time(), zone)
        counts = {day: DayCount(day=day) for day in wanted}
        sessions = {day: set[SessionId]() for day in wanted}
        for entry in self._find(LedgerScope(since=Millis(int(begin.timestamp() * 1000))), None):
            day = datetime.fromtimestamp(entry.at_ms / 1000, zone).date()
            if day not in counts:  # the clock was set back
                continue
            sessions[day].add(entry.session_id)
            counts[day] = DayCount(
                day=day,
                injections=counts[day].injections + 1,
                tokens=counts[day].tokens + entry.tokens,
                sessions=len(sessions[day]),
            )
        return list(counts.values())

    def forget(self, events: AbstractSet[EventId], sessions: AbstractSet[SessionId]) -> None:
        """Remove the entries of these hook calls and sessions, and from all others the records
        that no longer exist."""
        self.ledger.revise(
            lambda entry: (
                None if entry.event_id in events or entry.session_id in sessions else entry
            )
        )
        self.remove_missing()

    def remove_missing(self) -> None:
        """Remove the records that no longer exist from all entries."""
        named = {item for entry in self._find(LedgerScope(), None) for item in entry.items}
        gone = named - self._read(named).keys()
        if gone:
            self.ledger.revise(
                lambda entry: replace(
                    entry, items=tuple(item for item in entry.items if item not in gone)
                )
            )

    def _read(self, uris: AbstractSet[str]) -> dict[str, GivenText]:
        found = {
            uri: GivenText(kind=document.kind.value, title=document.title or document.text)
            for uri, document in self.documents.read_uris(uris).items()
        }
        for source in self.sources:
            for uri in uris:
                area, name = documents.parse_uri(uri)
                record = source.get(name) if area == source.area else None
                if record is not None:
                    found[uri] = GivenText(kind=record.kind, title=record.title)
        return found

    def trim(self) -> None:
        """Remove the oldest entries: those beyond the number and the age that are kept."""
        since = Millis(max(0, self.clock.now() - KEPT_DAYS * _DAY_MS))
        self.ledger.trim(keep=KEPT, since=since)

    def _find(self, scope: LedgerScope, before: int | None) -> Iterator[LedgerEntry]:
        """Yield what passes the filters, newest first. Entries are in the order of time but where
        the clock was set back, so a whole page of older ones ends the search."""
        while page := self.ledger.list_before(before, limit=_PAGE):
            yield from (entry for entry in page if scope.admits(entry))
            if all(entry.at_ms < scope.since for entry in page):
                return
            before = page[-1].number

    def _clean(self, name: str) -> str:
        return self.secrets.clean_name(name, limit=_NAME_CHARS, where="injection")
