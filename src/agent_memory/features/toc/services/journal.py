"""The journal of work: the days and sessions of a time, newest first, in the zone of the user.

Segments are stored by UTC days. A day of the user overlaps two of them, so it is put together from
segments, not from the nodes of days. That also shows what is not rolled up yet.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from itertools import islice

from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.features.log.ports import EventFinder, EventLog
from agent_memory.features.toc.model import (
    digests,
    journal_entries,
    periods,
    segments,
    toc,
    work_figures,
)
from agent_memory.features.toc.model.highlights import NEVER, Work
from agent_memory.features.toc.model.journal_entries import DayEntry, SessionEntry
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.summaries import ChildSummary, PeriodSummary
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.features.toc.ports import TocReader
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.kernel.text.time_expressions import Present
from agent_memory.platform.ports import Clock

ACTIVE_MS = 1_800_000  # a session whose last event is younger is active
MAX_DAYS = 400  # of one answer
SHORT = 8  # characters of a session's id, unless others begin with them
_STEP = 5  # more of them at a time
_FIRST_REACH, _FARTHER = 8, 4  # days looked back at first; then this many times as many
_SUBAGENTS = 1_000
_FEW = 20  # sessions looked at first, because thousands may begin alike
_SEGMENTS = 1_000  # read at once
_OPENING = 20  # events at the begin of a session in which its project and agent are looked for
_RECENT = 1_000  # segments in which the names of projects are looked for
_UNFINISHED = 2  # days that an earlier UTC day may still add to
_DAY_MS = 86_400_000
_FOREVER = Millis(MAX_MILLIS)
_EPOCH = date(1970, 1, 1)
_BEGINNING = Position(at_ms=Millis(0), event_id=EventId(""))


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalScope:
    """What to list: the sessions with something in this time, of a project, of an agent. Days are
    those of the zone; None is that of this machine."""

    since: Millis = NEVER
    until: Millis = _FOREVER
    project: str = ""
    agent: str = ""
    zone: tzinfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """Some sessions, newest first. `more` says that there are older ones."""

    sessions: tuple[SessionEntry, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DayPage:
    """Some days with something in them, newest first. `more` says that there are older ones."""

    days: tuple[DayEntry, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where a session comes from, and its last event."""

    project: str
    agent: str
    last: Event | None


@dataclass(frozen=True, slots=True)
class WorkJournal:
    log: EventLog
    finder: EventFinder
    toc: TocReader
    clock: Clock
    zone: tzinfo

    def list_days(self, scope: JournalScope, *, limit: int = MAX_DAYS) -> DayPage:
        """Return the user's days with a session in this time, whole and newest first."""
        scope = replace(
            scope,
            since=self._get_bounds(self._find_user_day(scope.since, scope), scope)[0],
            until=self._get_bounds(self._find_user_day(scope.until, scope), scope)[1],
        )
        by_day: dict[date, list[TocNode]] = defaultdict(list)
        for node in self._walk(scope):
            for day in self._list_user_days(node, scope):
                by_day[day].append(node)
            if len(by_day) > limit + _UNFINISHED:
                break
        entries = (self._read_day(day, by_day[day], scope) for day in sorted(by_day, reverse=True))
        days = list(islice((entry for entry in entries if entry.sessions), limit + 1))
        return DayPage(days=tuple(days[:limit]), more=len(days) > limit)

    def list_sessions(self, scope: JournalScope, *, limit: int) -> SessionPage:
        """Return the sessions with a segment in this time, whole, newest first."""
        entries: dict[SessionId, SessionEntry | None] = {}
        count = 0
        for node in self._walk(scope):
            name = SessionId(get_main_session(node.session))
            if name in entries:
                continue
            is_agents = not scope.agent or self._read_origin(name).agent == scope.agent
            entry = self.read_session(name) if is_agents else None
            entries[name] = entry
            count += entry is not None
            if count > limit:
                break
        found = [entry for entry in entries.values() if entry is not None]
        found.sort(key=lambda entry: entry.end_ms, reverse=True)
        return SessionPage(sessions=tuple(found[:limit]), more=count > limit)

    def find_sessions(self, prefix: str, *, limit: int) -> list[SessionId]:
        """Return the sessions whose ids begin so, also those that have no segment yet."""
        found = self.finder.find_sessions(prefix, limit=limit)
        return [name for name in found if get_main_session(name) == name]

    def read_session(self, session_id: SessionId) -> SessionEntry | None:
        """Return a session with its subagents, or None if it has no segment."""
        names = [session_id, *self.finder.find_sessions(f"{session_id}/", limit=_SUBAGENTS)]
        node_ids = [each.node_id for name in names for each in self._list_segments(name)]
        nodes = list(self._read_nodes(node_ids))
        return self._build_entry(session_id, nodes, map(toc.to_child, nodes)) if nodes else None

    def find_last(self, scope: JournalScope) -> SessionEntry | None:
        """Return the newest session in this scope."""
        for node in self._walk(scope):
            name = SessionId(get_main_session(node.session))
            if not scope.agent or self._read_origin(name).agent == scope.agent:
                return self.read_session(name)
        return None

    def has_events(self) -> bool:
        """Tell whether anything is recorded: right after an import, no segment has it yet."""
        return bool(self.log.list_between(Millis(0), _FOREVER, after=None, limit=1).events)

    def list_projects(self) -> list[str]:
        """Return the projects of the newest segments, by name."""
        recent = islice(self._walk(JournalScope()), _RECENT)
        return sorted({node.project for node in recent if node.project})

    def _read_day(self, day: date, nodes: Sequence[TocNode], scope: JournalScope) -> DayEntry:
        start, end = self._get_bounds(day, scope)
        by_session: dict[SessionId, list[TocNode]] = defaultdict(list)
        for node in sorted(nodes, key=lambda node: node.start_ms):
            by_session[SessionId(get_main_session(node.session))].append(node)
        parts: list[ChildSummary] = []
        sessions: list[SessionEntry] = []
        for name, own in by_session.items():
            children = [_cut(toc.to_child(node), start, end) for node in own]
            entry = self._build_entry(name, own, children)
            if scope.agent in ("", entry.agent):
                sessions.append(entry)
                parts += children
        return DayEntry(
            day=day,
            start_ms=start,
            end_ms=end,
            summary=self._find_summary(nodes, scope) or _write_summary(parts),
            work=replace(work_figures.measure_day(parts), sessions=len(sessions)),
            sessions=tuple(sorted(sessions, key=lambda entry: entry.start_ms)),
        )

    def _find_summary(self, nodes: Sequence[TocNode], scope: JournalScope) -> str:
        """Return the summary of the stored day that has these segments and no others, if any."""
        if scope.project or scope.agent:
            return ""
        days = {periods.find_day(node.start_ms).node_id for node in nodes}
        stored = self.toc.get_nodes(list(days))[0] if len(days) == 1 else None
        same = stored is not None and set(stored.child_ids) == {node.node_id for node in nodes}
        return stored.summary if stored is not None and same else ""

    def _build_entry(
        self, name: SessionId, nodes: Sequence[TocNode], children: Iterable[ChildSummary]
    ) -> SessionEntry:
        """Build an entry from segments and what counts of each."""
        parts = list(children)
        origin = self._read_origin(name)
        ordered = sorted(nodes, key=lambda node: node.start_ms)
        own = [node.project for node in ordered if node.session == name]
        projects = [*own, origin.project, *(node.project for node in ordered)]
        story = journal_entries.summarize_session(
            highlight for part in parts for highlight in part.highlights
        )
        start, end = min(part.start_ms for part in parts), max(part.end_ms for part in parts)
        return SessionEntry(
            session_id=name,
            short_id=self._abbreviate(name),
            project=next(filter(None, projects), ""),
            agent=origin.agent,
            title=journal_entries.choose_session_title(ordered, story),
            start_ms=start,
            end_ms=end,
            active=self._is_active(origin.last, end),
            work=work_figures.measure_day(parts),
            highlights=journal_entries.select_session_highlights(story),
            segments=tuple(ordered),
        )

    def _is_active(self, last: Event | None, end: Millis) -> bool:
        """Return whether a session goes on, given its last event and the end of what is shown."""
        if last is None or last.type is EventType.SESSION_END or last.at_ms - end >= ACTIVE_MS:
            return False
        return abs(self.clock.now() - max(last.at_ms, end)) < ACTIVE_MS

    def _read_origin(self, name: SessionId) -> _Origin:
        first = self.log.list_session(name, after=None, limit=_OPENING).events
        last = self.log.list_session(name, after=None, limit=1, reverse=True).events

        def find(key: str) -> str:
            return next((value for event in first if (value := event.metadata.get(key))), "")

        return _Origin(project=find("project"), agent=find("agent"), last=last[0] if last else None)

    def _abbreviate(self, name: SessionId) -> str:
        """Return a beginning of a session's id that no other session and no event has."""
        for length in range(SHORT, len(name), _STEP):
            short = name[:length]
            if not self._has_namesake(name, short):
                return name if self.finder.find_events(short, limit=1) else short
        return name

    def _has_namesake(self, name: SessionId, short: str) -> bool:
        """Return whether the id of another session begins so. Its own subagents do not count."""
        for limit in (_FEW, _SUBAGENTS):
            same = self.finder.find_sessions(short, limit=limit)
            if any(get_main_session(each) != name for each in same):
                return True
            if len(same) < limit:
                return False
        return False

    def _walk(self, scope: JournalScope) -> Iterator[TocNode]:
        """Yield the segments of a time and a project; those of later UTC days come first."""
        for day in self._list_days(scope.since, scope.until):
            nodes = self._read_nodes(self._list_day(day))
            within = [
                node
                for node in nodes
                if node.end_ms >= scope.since
                and node.start_ms <= scope.until
                and scope.project in ("", node.project)
            ]
            yield from sorted(within, key=lambda node: node.end_ms, reverse=True)

    def _list_days(self, since: Millis, until: Millis) -> Iterator[date]:
        """Yield the UTC days with segments, newest first. Look back in steps that grow."""
        # A segment may begin on the day before.
        oldest = periods.find_day(Millis(max(0, since - _DAY_MS))).first
        last = periods.find_day(until).first
        present = max(oldest, periods.find_day(self.clock.now()).first)
        if last > present:  # clocks differ, so some events may be of tomorrow
            yield from reversed(list(self._scan_days(present + timedelta(days=1), last)))
            last = present
        reach = _FIRST_REACH
        while last >= oldest:
            first = max(oldest, last - timedelta(days=min(reach, (last - _EPOCH).days)))
            yield from reversed(list(self._scan_days(first, last)))
            last, reach = first - timedelta(days=1), reach * _FARTHER

    def _scan_days(self, first: date, last: date) -> Iterator[date]:
        """Yield the UTC days with segments, by skipping from day to day."""
        day = first
        while day <= last:
            before = NodeId(f"toc:segment:{day.isoformat()}")
            found = self.toc.list_ids("toc:segment:", after=before, limit=1)
            period = periods.parse(found[0]) if found else None
            if period is None or period.first > last:
                return
            yield period.first
            day = period.first + timedelta(days=1)

    def _list_day(self, day: date) -> Iterator[NodeId]:
        prefix, after = f"toc:segment:{day.isoformat()}:", None
        while page := self.toc.list_ids(prefix, after=after, limit=_SEGMENTS):
            yield from page
            after = page[-1]

    def _list_segments(self, name: SessionId) -> Iterator[segments.Segment]:
        start = _BEGINNING
        while page := self.toc.list_segments(name, start, limit=_SEGMENTS):
            yield from page
            start = page[-1].first.next

    def _read_nodes(self, names: Iterable[NodeId]) -> Iterator[TocNode]:
        for node in self.toc.get_nodes(list(names)):
            if node is not None and node.session:  # an older edition wrote the others
                yield node

    def _list_user_days(self, node: TocNode, scope: JournalScope) -> Iterator[date]:
        day = self._find_user_day(max(node.start_ms, scope.since), scope)
        last = self._find_user_day(min(node.end_ms, scope.until), scope)
        while day <= last:
            yield day
            day += timedelta(days=1)

    def _find_user_day(self, at_ms: int, scope: JournalScope) -> date:
        return datetime.fromtimestamp(at_ms / 1000, scope.zone or self.zone).date()

    def _get_bounds(self, day: date, scope: JournalScope) -> tuple[Millis, Millis]:
        present = Present(self.clock.now(), scope.zone or self.zone)
        return Millis(present.to_ms(day)), Millis(present.to_ms(day, 24) - 1)


def _write_summary(parts: Sequence[ChildSummary]) -> str:
    """Write the headline of a day that is not stored: of another zone, or of one project."""
    return digests.digest(PeriodSummary(level=Level.DAY, children=tuple(parts))).text


def _cut(part: ChildSummary, start: Millis, end: Millis) -> ChildSummary:
    """Return what a segment contributes to a day. Its figures count on the day of its begin."""
    if start <= part.start_ms and part.end_ms <= end:
        return part
    began = start <= part.start_ms
    return replace(
        part,
        start_ms=max(start, part.start_ms),
        end_ms=min(end, part.end_ms),
        highlights=tuple(each for each in part.highlights if start <= each.at_ms <= end),
        work=part.work if began else Work(sessions=part.work.sessions),
    )
