"""Forget events and everything derived from them, and search for them to prove it.

The plan is stored first (ForgettingPlan). Every step can be repeated, so after a crash or a
cancellation the next call repeats them all; so does the indexing job once the daemon has started.
The words to search for at the end are part of the plan until then. The report is kept.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby

from agent_memory.features.forgetting.model import forgetting
from agent_memory.features.forgetting.model.forgetting import ForgettingReport, Preview, Selection
from agent_memory.features.forgetting.ports import ErasureQueue, ForgettingListener, ForgettingPlan
from agent_memory.features.forgetting.services.purging import (
    COMPACTING,
    INDEXES,
    SEARCHING,
    UNREACHABLE,
    Purging,
)
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.log.model.events import SessionPosition
from agent_memory.features.log.model.outbox import EventChanged, OutboxEntry, SegmentChanged
from agent_memory.features.log.ports import EventLog, EventRemover, OutboxLearner
from agent_memory.features.log.services import paging
from agent_memory.features.toc.model import periods, segments
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.toc import Erasure, GripId, TocChange, TocNode
from agent_memory.features.toc.ports import TocEraser, TocReader
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel import access
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.kernel.progress import OnPhase
from agent_memory.platform.ports import Leadership

LISTING, REMOVING, CONTENTS = "listing", "removing", "contents"
PHASES = (LISTING, REMOVING, CONTENTS, INDEXES, COMPACTING, SEARCHING)

_PAGE = 500
_BATCH = 1_000
_VERSIONS = 100_000
_CONTEXT = 16  # events before a segment that its summary may mention


@dataclass(slots=True)
class _Tally:
    """What one run has done so far: the counts of its report."""

    events: int = 0
    segments: int = 0
    nodes: int = 0
    versions: int = 0
    grips: int = 0


@dataclass(frozen=True, slots=True)
class Forgetting:
    log: EventLog
    remover: EventRemover
    plan: ForgettingPlan
    segmenting: Segmenter
    rollup: Rollup
    eraser: TocEraser
    learners: Sequence[OutboxLearner]
    injections: Injections
    purging: Purging
    listener: ForgettingListener
    queue: ErasureQueue
    toc_lock: AbstractContextManager[object]  # shared with the jobs that write nodes
    leadership: Leadership
    running: threading.Lock = field(default_factory=threading.Lock)

    def preview(self, selection: Selection) -> Preview:
        """Preview what a selection would forget."""
        places = list(self._select(selection))
        times = [place.at.at_ms for place in places]
        return Preview(
            events=len(places),
            sessions=len({place.session_id for place in places}),
            first_ms=min(times, default=None),
            last_ms=max(times, default=None),
        )

    def forget_events(self, selection: Selection, on_progress: OnPhase) -> ForgettingReport:
        """Forget the selected events, and finish what an earlier run left. Raises Forbidden."""
        access.check_may_manage("forget events")
        name = forgetting.name_selection(selection)
        return self._forget_places(name, self._select(selection), on_progress)

    def forget_listed(self, names: Sequence[EventId], on_progress: OnPhase) -> ForgettingReport:
        """Forget these events, which the caller has recorded, and finish what an earlier run
        left."""
        found = (self.log.get(name) for name in names)
        places = (SessionPosition(e.session_id, e.position) for e in found if e is not None)
        return self._forget_places(forgetting.name_events(names), places, on_progress)

    def _forget_places(
        self, name: str, places: Iterable[SessionPosition], on_progress: OnPhase
    ) -> ForgettingReport:
        with self.running, self.leadership.take_over(), access.lift_restrictions():
            earlier = self._finish(on_progress)
            count = 0
            waiting: list[SessionPosition] = []
            for place in places:
                waiting.append(place)
                count += 1
                if len(waiting) == _BATCH:
                    self.plan.add(waiting)
                    waiting = []
                    on_progress(LISTING, count)
            if not count:
                return earlier or ForgettingReport(unreachable=UNREACHABLE)
            self.plan.add(waiting)
            on_progress(LISTING, count)
            self.plan.decide(name)
            report = self._forget(name, on_progress)
            return report if earlier is None else earlier.merge(report)

    def forget_once(self, selection: Selection, on_progress: OnPhase) -> ForgettingReport:
        """Forget the selected events. If they are gone, return the report of the call that forgot
        them: its answer may be lost. Raises NotFound if there was no such call, and Forbidden."""
        access.check_may_manage("forget events")
        if self.preview(selection).events:
            until = self.queue.hold_events([e.at for e in self._select(selection)])
            if until is not None:
                return ForgettingReport(waits_until_ms=until)
            report = self.forget_events(selection, on_progress)
            if report.events:  # else the daemon finished an interrupted call meanwhile
                return report
        earlier = self.earlier(selection, on_progress)
        if earlier is None:
            raise NotFound("no such event: nothing was forgotten")
        return earlier

    def earlier(self, selection: Selection, on_progress: OnPhase) -> ForgettingReport | None:
        """Return the report of an earlier call with the same selection, finishing it first."""
        with self.running, self.leadership.take_over():
            self._finish(on_progress)
            return self.plan.find_report(forgetting.name_selection(selection))

    def finish(self, check: Callable[[], None]) -> ForgettingReport | None:
        """Finish what a run left, unless one is under way."""
        if not self.running.acquire(blocking=False):
            return None
        try:
            return self._finish(lambda _phase, _count: check())
        finally:
            self.running.release()

    def _finish(self, on_progress: OnPhase) -> ForgettingReport | None:
        name = self.plan.get_decision()
        if name is not None:
            return self._forget(name, on_progress)
        if self.plan.list_events():
            self.plan.clear()  # never decided, so nothing has been done
        return None

    def _select(self, selection: Selection) -> Iterator[SessionPosition]:
        if selection.event_id is not None:
            event = self.log.get(selection.event_id)
            if event is not None:
                yield SessionPosition(event.session_id, event.position)
        elif selection.session_id is not None:
            for event in paging.iter_session(self.log, selection.session_id):
                yield SessionPosition(event.session_id, event.position)
        else:
            since, until = selection.since or Millis(0), selection.until or Millis(0)
            for page in paging.iter_between(self.log, since, until):
                yield from (
                    SessionPosition(event.session_id, event.position) for event in page.events
                )

    def _forget(self, name: str, on_progress: OnPhase) -> ForgettingReport:
        places, tally = self.plan.list_events(), _Tally()
        self._remove(places, tally, on_progress)
        for learner in self.learners:
            learner.relearn({place.session_id for place in places})
        for number, (session_id, doomed) in enumerate(groupby(places, lambda each: each[0])):
            on_progress(CONTENTS, number)
            with self.toc_lock:
                self._recut(session_id, [place.at for place in doomed], tally)
        with self.toc_lock:
            self._roll_up(tally, on_progress)
        self.injections.forget(
            {place.at.event_id for place in places},
            {each for each in {place.session_id for place in places} if self._is_empty(each)},
        )
        self.purging.purge_indexes(self._entries(places), on_progress)
        self.purging.purge_files(on_progress)
        self.purging.announce()
        report = self._build_report(places, tally, on_progress)
        self.plan.save_report(name, report)
        self.plan.clear()
        self.purging.store.compact(self.plan.family)  # so that no manifest has a removed key
        return report

    def _remove(
        self, places: Sequence[SessionPosition], tally: _Tally, on_progress: OnPhase
    ) -> None:
        for start in range(0, len(places), _PAGE):
            some = places[start : start + _PAGE]
            events = self.log.get_at([place.at for place in some])
            tally.events += len(some)
            self.plan.add_needles(
                {each for event in events for each in forgetting.extract_needles(event)}
            )
            self.listener.note_events(events)
            self.remover.remove(some)
            on_progress(REMOVING, start + len(some))

    def _is_empty(self, session_id: SessionId) -> bool:
        return not self.log.list_session(session_id, after=None, limit=1).events

    def _recut(self, session_id: SessionId, gone: Sequence[Position], tally: _Tally) -> None:
        """Cut the session again, and erase the versions of its segments that had the events."""
        reader, writer = self.segmenting.reader, self.segmenting.writer
        derived = _Derived(gone)
        change = self.segmenting.plan_removal(session_id, gone)
        affected = {each.first for each in (*change.segments, *change.lost_segments)}
        near: set[Position] = set()
        for first, is_near in self._firsts(session_id, gone):
            if is_near:
                near.add(first)
            versions = _list_outdated(reader, segments.build_node_id(session_id, first))
            if any(is_near or derived.covers(version) for version in versions):
                affected.add(first)
        self.plan.add_segments([SessionPosition(session_id, first) for first in affected])
        writer.commit(change)
        tally.segments += len(change.segments) + len(change.lost_segments)
        tally.nodes += len(change.nodes)
        erased: list[TocNode] = []
        for first in affected:
            node_id = segments.build_node_id(session_id, first)
            erased += [
                version
                for version in _list_outdated(reader, node_id)
                if first in near or derived.covers(version)
            ]
        dead = {grip.grip_id for at in gone for grip in reader.find_grips(at)}
        self._erase(erased, dead, tally)
        loose = {grip for node in erased for grip in node.grip_ids()} - dead
        held = _Holders(reader)
        for node in erased:
            loose -= held.get_grips(node.node_id)
        self.eraser.erase(Erasure(stale_grips=tuple(self._unheld(loose, held))))

    def _firsts(
        self, session_id: SessionId, gone: Sequence[Position]
    ) -> Iterator[tuple[Position, bool]]:
        """Yield where a segment that had the events may have started: at any event of the
        session up to the last of them, or so shortly after one that it was context."""
        doomed = sorted(gone, key=lambda at: at.order)
        passed = 0
        since = _CONTEXT + 1  # kept events since the last forgotten one
        for event in paging.iter_session(self.log, session_id):
            at = event.position
            while passed < len(doomed) and doomed[passed].order < at.order:
                yield doomed[passed], since <= _CONTEXT
                passed, since = passed + 1, 0
            if passed == len(doomed) and since > _CONTEXT:
                return
            yield at, since <= _CONTEXT
            since += 1
        for place in doomed[passed:]:
            yield place, since <= _CONTEXT
            since = 0

    def _roll_up(self, tally: _Tally, on_progress: OnPhase) -> None:
        """Roll up everything above, and erase the versions that had the events."""
        reader, writer = self.rollup.reader, self.rollup.writer
        affected = self.plan.list_segments()
        days = {periods.find_day(place.at.at_ms) for place in affected}
        above = {each.node_id for day in days for each in periods.list_lineage(day)}
        names = above.union(segments.build_node_id(*place) for place in affected)
        writer.commit(TocChange(dirty=frozenset(above)))
        tally.nodes += self.rollup.run(lambda count: on_progress(CONTENTS, count))
        erased: list[TocNode] = []
        for node_id in sorted(above):
            (present,) = reader.get_nodes([node_id])
            erased += [
                version
                for version in _list_outdated(reader, node_id)
                if present is None or not names.isdisjoint(version.child_ids)
            ]
        self._erase(erased, frozenset(), tally)
        held = _Holders(reader)
        loose = {grip for node in erased for grip in node.grip_ids()}
        found = [grip for grip in reader.get_grips(sorted(loose)) if grip is not None]
        unpinned = [
            grip.grip_id
            for grip in found
            if not any(
                grip.grip_id in held.get_kept_grips(each.node_id)
                for each in periods.list_lineage(periods.find_day(grip.at_ms))
            )
            and not any(
                grip.grip_id in held.get_kept_grips(each.node_id) for each in _above(grip.node_id)
            )
        ]
        stale = self._unheld(loose.intersection(unpinned), held)
        gone = loose - {grip.grip_id for grip in found}
        self.eraser.erase(Erasure(unpinned=(*unpinned, *sorted(gone)), stale_grips=tuple(stale)))
        writer.remove_stale_grips()

    def _erase(
        self, nodes: Sequence[TocNode], grips: "set[GripId] | frozenset[GripId]", tally: _Tally
    ) -> None:
        versions = tuple((node.node_id, node.version) for node in nodes)
        self.eraser.erase(Erasure(versions=versions, grips=tuple(sorted(grips))))
        tally.versions += len(versions)
        tally.grips += len(grips)

    def _unheld(self, grips: "set[GripId]", held: "_Holders") -> list[GripId]:
        """Return the grips that their segment no longer holds, now or in a kept version."""
        found = self.segmenting.reader.get_grips(sorted(grips))
        return [
            grip.grip_id
            for grip in found
            if grip is not None and grip.grip_id not in held.get_grips(grip.node_id)
        ]

    def _entries(self, places: Sequence[SessionPosition]) -> list[OutboxEntry]:
        """Return outbox entries for what the indexes must update."""
        return [
            *(EventChanged(at=place.at) for place in places),
            *(
                SegmentChanged(session_id=each.session_id, first=each.at)
                for each in self.plan.list_segments()
            ),
        ]

    def _build_report(
        self, places: Sequence[SessionPosition], tally: _Tally, on_progress: OnPhase
    ) -> ForgettingReport:
        removed = {place.at.event_id for place in places}
        proof = self.purging.build_proof(self.plan.list_needles(), removed, on_progress)
        found = set(proof.found_in)
        if any(
            self.log.get_at([p.at for p in places[n : n + _PAGE]])
            for n in range(0, len(places), _PAGE)
        ):
            found.add("events")
        return ForgettingReport(
            **asdict(tally),
            proof=replace(proof, found_in=tuple(sorted(found))),
            unreachable=UNREACHABLE,
        )


class _Derived:
    """Tells which versions of a segment were made while one of the events was in it."""

    def __init__(self, gone: Sequence[Position]) -> None:
        self._times = sorted(at.at_ms for at in gone)

    def covers(self, version: TocNode) -> bool:
        place = bisect_left(self._times, version.start_ms)
        return place < len(self._times) and self._times[place] <= version.end_ms


class _Holders:
    """The grips that versions of a node hold; each node is read once."""

    def __init__(self, reader: TocReader) -> None:
        self._reader = reader
        self._kept: dict[NodeId, frozenset[GripId]] = {}

    def get_kept_grips(self, node_id: NodeId) -> frozenset[GripId]:
        if node_id not in self._kept:
            versions = self._reader.list_versions(node_id, limit=_VERSIONS)
            self._kept[node_id] = frozenset(g for each in versions for g in each.grip_ids())
        return self._kept[node_id]

    def get_grips(self, node_id: NodeId) -> frozenset[GripId]:
        (present,) = self._reader.get_nodes([node_id])
        return self.get_kept_grips(node_id) | (
            frozenset() if present is None else present.grip_ids()
        )


def _list_outdated(reader: TocReader, node_id: NodeId) -> list[TocNode]:
    """List the kept versions except the present one, which was rewritten or came out the same."""
    kept = reader.list_versions(node_id, limit=_VERSIONS)
    present = reader.get_nodes([node_id])[0] if kept else None  # most of these were never a node
    number = 0 if present is None else present.version
    return [each for each in kept if each.version != number]


def _above(node_id: NodeId) -> list[periods.Period]:
    day = periods.parse(node_id)
    return [] if day is None else periods.list_lineage(day)
