"""Learning lessons: follow the outbox, and extract them again where events are new.

A session is read in stretches, each with some events before it: what led to a lesson may lie there.
Of those events only the first ones keep their lessons, as less is known of what led to them.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from agent_memory.features.lessons.model.lessons import EDITION, Lesson
from agent_memory.features.lessons.ports import LessonExtractor, LessonStore
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.outbox import EventChanged, OutboxEntry
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.features.log.services import paging
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.kernel.jobs import Check

BATCH = 250  # entries of the outbox
STRETCH = 300  # new events that are read at once
BEFORE = 60  # events before them
SETTLED = 20  # of these, the first ones, whose lessons stay
PAST = 200  # events of the past whose sessions are learned between two steps of the indexes

_START = Position(at_ms=Millis(0), event_id=EventId(""))


@dataclass(frozen=True, slots=True)
class _Learned:
    """A session that was learned to its end from a position on, with all events up to an entry of
    the outbox."""

    since: Position
    number: int

    def covers(self, at: Position, number: int) -> bool:
        return number <= self.number and self.since.order <= at.order


@dataclass(frozen=True, slots=True)
class LessonLearner:
    """An OutboxLearner."""

    log: EventLog
    outbox: Outbox
    lessons: LessonStore
    extractor: LessonExtractor
    on_learned: Callable[[], None]
    lock: threading.Lock = field(default_factory=threading.Lock)  # of reading and replacing
    past: set[SessionId] = field(default_factory=set)  # sessions of the past that are learned

    def cursor(self) -> int:
        return self.lessons.cursor() or 0

    def keep_up(self, check: Check, /) -> bool:
        cursor = self._begin()
        learned: dict[SessionId, _Learned] = {}
        while entries := self.outbox.read(cursor, limit=BATCH):
            check()
            self._learn_entries(entries, learned, check)
            cursor = entries[-1][0]
            self.lessons.advance(cursor)
        more = self._learn_past(check)
        self.on_learned()
        return more

    def relearn(self, session_ids: Iterable[SessionId], /) -> None:
        """Learn sessions again whose events were forgotten. What people said of lessons that are
        gone is forgotten too."""
        for session in session_ids:
            before = {each.fingerprint for each in self.lessons.list_session(session)}
            self._learn_session(session, _START, lambda: None)
            if before:
                left = {each.lesson.fingerprint for each in self.lessons.list_all()}
                for fingerprint in sorted(before - left):
                    self.lessons.remove_verdict(fingerprint)
        self.on_learned()

    def _begin(self) -> int:
        """Return the cursor. If the outbox no longer has all changes, or an earlier edition learned
        from them, everything up to now is of the past."""
        cursor = self.lessons.cursor()
        if cursor is not None and self.lessons.edition() == EDITION:
            return cursor
        if cursor is not None or not paging.has_all_after(self.outbox, 0, self.log.watermark()):
            cursor = self.log.watermark() if cursor is None else cursor
            self.past.clear()
            self.lessons.set_history(_START)
        self.lessons.advance(cursor or 0)
        self.lessons.set_edition(EDITION)
        return cursor or 0

    def _learn_entries(
        self,
        entries: Sequence[tuple[int, OutboxEntry]],
        learned: dict[SessionId, _Learned],
        check: Check,
    ) -> None:
        numbers = {entry.at: n for n, entry in entries if isinstance(entry, EventChanged)}
        first: dict[SessionId, Position] = {}
        for event in sorted(self.log.get_at(list(numbers)), key=lambda each: each.position.order):
            session, at = event.session_id, event.position
            if session not in learned or not learned[session].covers(at, numbers[at]):
                first.setdefault(session, at)
        for session, at in first.items():
            newest = self.log.watermark()  # before the events are read
            self._learn_session(session, at, check)
            learned[session] = _Learned(at, newest)

    def _learn_past(self, check: Check) -> bool:
        """Learn the sessions of some events of a store that predates lessons. Return whether more
        are left."""
        at = self.lessons.history()
        if at is None:
            return False
        start, end = Millis(0), Millis(MAX_MILLIS)
        page = self.log.list_between(start, end, after=at, limit=PAST)
        for session in dict.fromkeys(event.session_id for event in page.events):
            if session not in self.past:
                self._learn_session(session, _START, check)
                self.past.add(session)
        self.lessons.set_history(page.next)
        return page.next is not None

    def _learn_session(self, session: SessionId, at: Position, check: Check) -> None:
        """Learn a session from a position on to its end."""
        left: Position | None = at
        while left is not None:
            check()  # it may rest: not with the lock, which forgetting waits for
            with self.lock:
                left = self._learn_stretch(session, left)

    def _learn_stretch(self, session: SessionId, at: Position) -> Position | None:
        """Learn the next events from a position on. Return the position of those after them."""
        before = self.log.list_session(session, after=at, limit=BEFORE, reverse=True)
        last = before.events[0].position if before.events else None
        page = self.log.list_session(session, after=last, limit=STRETCH)
        events = (*reversed(before.events), *page.events)
        since = None if before.next is None else events[min(SETTLED, len(events) - 1)].position
        after = None if page.next is None else page.next.next
        self.lessons.replace(session, since, after, self._extract(events, since))
        return after

    def _extract(self, events: Sequence[Event], since: Position | None) -> list[Lesson]:
        found = self.extractor.extract(events) if events else []
        return [each for each in found if since is None or each.position.order >= since.order]
