"""Overview: what was done in a time, or last, from the table of contents and the answers in it.

Agents report what they did at the end of a task. So the reports of a time tell more than any turn
that shares words with the question. The last words are often a side remark, and the steps before
are announced in short sentences. So the report of a task is the longest of its last few answers.
A task ends where the user writes again, and with the session.

Segments lead to the sessions of a time. All reads are of short ranges, so the time to answer does
not grow with the store.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import islice

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document
from agent_memory.features.index.model.queries import SearchScope
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.features.log.ports import EventLog
from agent_memory.features.recall.model.intents import Intent, IntentKind
from agent_memory.features.toc.model import periods, segments
from agent_memory.features.toc.model.periods import Level, NodeId, Period
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.features.toc.ports import TocReader
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId

MAX_SESSIONS = 20
LAST_SESSIONS = 5  # of a question for the last work
MAX_DOCUMENTS = 50
MAX_SEGMENTS = 100  # that lead to sessions
LAST_SEGMENTS = 30  # the same, of a question for the last work
MAX_DAYS = 400  # in which they are looked for
MAX_EVENTS = 600  # of all sessions together
MAX_TASKS = 5  # of a session
LAST_ANSWERS = 5  # of a task; its report is the longest
_DAY_SEGMENTS = 1_000
_LEAST_OF_DAY = 3  # segments of each day of a long time
_DAYS_AT_ONCE = 40
_UNSUMMARIZED = 2  # days that may have segments and no summary of their own yet
_SAME_MOMENT = 20  # events of one millisecond
_TIMES = 3  # times used per question, and ranges per time, the latest
_FIT = 0.3  # share that a time and a period must have in common
_DAY_MS = 86_400_000
# Younger events may not be in a segment yet. The last minutes are read first, because a page of a
# busy hour ends before them.
_RECENT_MS = (300_000, 3_600_000)

Span = tuple[Millis, Millis]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SessionReports:
    """What a session tells of a time; `reports` are of its tasks, in order of time."""

    last_ms: Millis
    closing: Document
    reports: Sequence[Document]
    prompt: Document | None


@dataclass(frozen=True, slots=True)
class Overview:
    log: EventLog
    toc: TocReader

    def find(self, intent: Intent, scope: SearchScope, now: Millis) -> list[Document]:
        """Return what tells about the time of the question, best first."""
        times = [window.ranges for window in intent.windows[:_TIMES]] or [((Millis(0), now),)]
        found: dict[str, Document] = {}
        for ranges in times:
            # A date without a year is the latest one at which something happened.
            for start, end in ranges[: -_TIMES - 1 : -1]:
                since, until = max(start, scope.since), min(end, scope.until, now)
                if since > until:
                    continue
                within = replace(scope, since=since, until=until)
                if some := self._collect(intent, (start, end), within):
                    found |= {document.key: document for document in some}
                    break
        return [each for each in found.values() if scope.admits(each)][:MAX_DOCUMENTS]

    def _collect(self, intent: Intent, span: Span, scope: SearchScope) -> list[Document]:
        parts = self._find_segments(intent, scope)
        sessions = self._read_sessions(intent, scope, parts)
        if not sessions:
            return []
        closing = [each.closing for each in sessions]
        prompts = [each.prompt for each in sessions if each.prompt is not None]
        if intent.first:
            reports = [report for each in sessions for report in each.reports[:MAX_TASKS]]
            reports.sort(key=lambda document: document.at_ms)
            begun = [*reports, *prompts] if intent.finished else [*prompts, *reports]
            return [*begun, *parts, *closing]
        reports = [report for each in sessions for report in each.reports[: -MAX_TASKS - 1 : -1]]
        period = [] if intent.kind is IntentKind.LAST else self._read_period(span)
        # A report tells more than an extract of it, but it tells only of its own session.
        reported = intent.finished or len(closing) == 1
        summaries = [*closing, *period] if reported else [*period, *closing]
        return [*summaries, *prompts, *reports, *parts]

    def _find_segments(self, intent: Intent, scope: SearchScope) -> list[Document]:
        """Return the segments of a time, newest first; the oldest first where they are asked."""
        first = periods.find_day(Millis(max(0, scope.since - _DAY_MS))).first
        last = periods.find_day(scope.until).first
        count = min((last - first).days + 1, MAX_DAYS)
        days = [
            first + timedelta(days=number) if intent.first else last - timedelta(days=number)
            for number in range(count)
        ]
        most = LAST_SEGMENTS if intent.kind is IntentKind.LAST else MAX_SEGMENTS
        # A long time has some segments of each day, a short one all.
        of_day = most if intent.kind is IntentKind.LAST else max(_LEAST_OF_DAY, most // count)
        found = (
            document
            for names in self._list_segments(days)
            for document in self._read_segments(
                names[:of_day] if intent.first else names[: -of_day - 1 : -1], scope
            )
        )
        return list(islice(found, most))

    def _list_segments(self, days: Sequence[date]) -> Iterator[list[NodeId]]:
        """Yield the segments of each day that has some."""
        for start in range(0, len(days), _DAYS_AT_ONCE):
            some = [Period(level=Level.DAY, first=day) for day in days[start:][:_DAYS_AT_ONCE]]
            nodes = self.toc.get_nodes([day.node_id for day in some])
            for number, (day, node) in enumerate(zip(some, nodes, strict=True), start):
                if node is not None or number < _UNSUMMARIZED:
                    prefix = f"toc:segment:{day.first.isoformat()}:"
                    yield self.toc.list_ids(prefix, after=None, limit=_DAY_SEGMENTS)

    def _read_segments(self, names: Sequence[NodeId], scope: SearchScope) -> Iterator[Document]:
        anywhere = replace(scope, kinds=frozenset(), role="", since=Millis(0))
        for node in self.toc.get_nodes(names):
            if node is None or node.end_ms < scope.since or node.start_ms > scope.until:
                continue
            begin = self._read_first_event(node)
            if begin is not None:
                document = documents.apply_metadata(
                    documents.from_segment(node, begin.session_id), begin.metadata
                )
                if anywhere.admits(document):
                    yield document

    def _read_first_event(self, node: TocNode) -> Event | None:
        """Return the first event of a segment, which has its session."""
        at = node.start_ms
        page = self.log.list_between(at, at, after=None, limit=_SAME_MOMENT)
        return next(
            (
                event
                for event in page.events
                if segments.build_node_id(event.session_id, event.position) == node.node_id
            ),
            None,
        )

    def _read_sessions(
        self, intent: Intent, scope: SearchScope, parts: Sequence[Document]
    ) -> list[_SessionReports]:
        """Return the sessions with an answer, newest first; the oldest first where it is asked."""
        pages = (
            self.log.list_between(
                Millis(max(scope.since, scope.until - age)),
                scope.until,
                after=None,
                limit=MAX_EVENTS,
            )
            for age in _RECENT_MS
        )
        recent = [event.session_id for page in pages for event in page.events[::-1]]
        names = dict.fromkeys([*recent, *(part.session for part in parts)])
        # The work of a subagent is part of another session.
        main = [name for name in names if name == get_main_session(name)] or list(names)
        main = main[: LAST_SESSIONS * 2 if intent.kind is IntentKind.LAST else MAX_SESSIONS]
        limit = MAX_EVENTS // max(1, len(main))
        read = [self._read_session(SessionId(name), intent, scope, limit) for name in main]
        sessions = [each for each in read if each is not None]
        sessions.sort(key=lambda each: each.last_ms, reverse=not intent.first)
        return sessions[:LAST_SESSIONS] if intent.kind is IntentKind.LAST else sessions

    def _read_session(
        self, name: SessionId, intent: Intent, scope: SearchScope, limit: int
    ) -> _SessionReports | None:
        turns = self._read_turns(name, scope, limit, reverse=not intent.first)
        places = [place for place, turn in enumerate(turns) if turn.role == "assistant"]
        if not places:
            return None
        turns = turns[: places[-1] + 1]  # what is not answered may be the question itself
        answers = [turns[place] for place in places]
        asked = [turn for turn in turns if turn.role == "user"]
        if intent.kind is not IntentKind.LAST:
            beginning = self._read_turns(name, scope, LAST_ANSWERS, reverse=False)
            asked = [turn for turn in beginning if turn.role == "user"] or asked
        return _SessionReports(
            last_ms=answers[-1].at_ms,
            closing=_find_report(answers),
            reports=[_find_report(task) for task in _split_tasks(turns)],
            prompt=asked[-1 if intent.kind is IntentKind.LAST else 0] if asked else None,
        )

    def _read_turns(
        self, name: SessionId, scope: SearchScope, limit: int, *, reverse: bool
    ) -> list[Document]:
        """Return the last turns of a session in this time, or the first, in order of time."""
        edge = Millis(scope.until + 1) if reverse else scope.since
        page = self.log.list_session(
            name, after=Position(at_ms=edge, event_id=EventId("")), limit=limit, reverse=reverse
        )
        everyone = replace(scope, kinds=frozenset(), role="")
        turns = [
            turn
            for event in page.events
            for turn in documents.from_event(event)
            if everyone.admits(turn)
        ]
        return turns[::-1] if reverse else turns

    def _read_period(self, span: Span) -> list[Document]:
        """Return the summary of the day, week, month or year that fits the time best."""
        middle = periods.find_day(Millis((span[0] + span[1]) // 2))
        best = max(periods.list_lineage(middle), key=lambda period: _fit(period, span))
        names: list[NodeId] = [best.node_id] if _fit(best, span) >= _FIT else []
        nodes = self.toc.get_nodes(names)
        # Its day in the user's zone may begin later than its own.
        return [
            replace(documents.from_segment(node, ""), at_ms=max(node.start_ms, span[0]))
            for node in nodes
            if node is not None
        ]


def _split_tasks(turns: Sequence[Document]) -> list[list[Document]]:
    """Return the answers between the user's messages."""
    tasks: list[list[Document]] = [[]]
    for turn in turns:
        if turn.role == "user":
            tasks.append([])
        elif turn.role == "assistant":
            tasks[-1].append(turn)
    return [task for task in tasks if task]


def _find_report(answers: Sequence[Document]) -> Document:
    return max(answers[-LAST_ANSWERS:], key=lambda answer: len(answer.text))


def _fit(period: Period, span: Span) -> float:
    """Return the share of their common time in the time of both."""
    common = min(period.end_ms, span[1]) - max(period.start_ms, span[0])
    return common / (max(period.end_ms, span[1]) - min(period.start_ms, span[0]))
