"""Segmenting: from new events in the outbox to segments with their nodes and grips."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.outbox import EventChanged
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.features.toc.model import periods, segments, toc
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.segments import Segment, SegmentRules
from agent_memory.features.toc.model.summaries import Dialogue, Summary, Utterance
from agent_memory.features.toc.model.toc import Grip, GripId, NodeWrite, TocChange, TocNode
from agent_memory.features.toc.ports import Summarizer, TocReader, TocWriter
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.platform.ports import Clock

BATCH = 2_000
_PAGE = 500
_OPEN = 1_000
_OVERLAP = 16  # events of an overlap, at most
_BEGINNING = Position(at_ms=Millis(0), event_id=EventId(""))


@dataclass(slots=True)
class _Cut:
    """What becomes of one session's segments."""

    touched: dict[Position, Segment] = field(default_factory=dict)
    lost: list[Segment] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Segmenting:
    log: EventLog
    outbox: Outbox
    reader: TocReader
    writer: TocWriter
    drafter: Summarizer  # for segments that still grow
    summarizer: Summarizer  # for those that are closed
    clock: Clock
    rules: SegmentRules

    def step(self) -> int:
        """Take in the next entries of the outbox. How many there were."""
        entries = self.outbox.read(self.writer.cursor(), limit=BATCH)
        if not entries:
            return 0
        by_session: dict[SessionId, list[Event]] = defaultdict(list)
        new = [entry.at for _, entry in entries if isinstance(entry, EventChanged)]
        for event in self.log.get_at(new):
            by_session[event.session_id].append(event)
        cuts = [self._cut(session, events) for session, events in by_session.items()]
        change = self._change(
            touched=[each for cut in cuts for each in cut.touched.values()],
            lost=[each for cut in cuts for each in cut.lost],
        )
        self.writer.commit(replace(change, cursor=entries[-1][0]))
        return len(entries)

    def seal(self) -> int:
        """Close the open segments whose conversation has paused. How many."""
        paused = [
            each for each in self.writer.list_open_segments(limit=_OPEN) if self._is_paused(each)
        ]
        if paused:
            self.writer.commit(self._change(touched=paused, lost=[]))
        return len(paused)

    def retry(self, limit: int) -> int:
        """Summarize anew what the summarizer has failed at. How many."""
        waiting = self.writer.list_unfinished_segments(limit=limit)
        if waiting:
            self.writer.commit(self._change(touched=waiting, lost=[]))
        return len(waiting)

    def plan_rebuild(self, session_id: SessionId) -> TocChange:
        """What cutting all of a session anew would change; nothing is written."""
        wanted = segments.cut(self._events(session_id, None), self.rules)
        firsts = {each.first for each in wanted}
        stored = self._read_stored(session_id, _BEGINNING)
        return self._change(wanted, [each for each in stored if each.first not in firsts])

    def plan_removal(self, session_id: SessionId, gone: Sequence[Position]) -> TocChange:
        """What is to change where these events have been; they are removed already."""
        first = min(gone, key=lambda at: at.order)
        last = max(gone, key=lambda at: at.order)
        before = self.reader.list_segments(session_id, first, limit=1, reverse=True)
        start = self._run_start(session_id, first, before[0] if before else None)
        events = self._run(session_id, start, last)
        end = max([last.order, *(event.position.order for event in events[-1:])])
        wanted = {each.first: each for each in segments.cut(events, self.rules)}
        stored: dict[Position, Segment] = {}
        following: list[Segment] = []
        for each in self._read_stored(session_id, start):
            if each.first.order > end:
                following = [each]
                break
            stored[each.first] = each
        touched: list[Segment] = []
        changed = False
        for place in sorted({*wanted, *stored}, key=lambda at: at.order):
            was_changed, changed = changed, wanted.get(place) != stored.get(place)
            # What came before it is its context, so a change there may change its summary.
            if place in wanted and (changed or was_changed):
                touched.append(wanted[place])
        lost = [each for place, each in stored.items() if place not in wanted]
        return self._change([*touched, *(following if changed else ())], lost)

    def _cut(self, session_id: SessionId, new: list[Event]) -> _Cut:
        new.sort(key=lambda event: (event.at_ms, event.event_id.encode()))
        first = new[0].position
        before = self.reader.list_segments(session_id, first, limit=1, reverse=True)
        last = before[0] if before else None
        later = self.reader.list_segments(session_id, first, limit=1)
        if not later and (last is None or last.last.order < first.order):
            return self._extend_last(last, new)
        start = self._run_start(session_id, first, last)
        events = self._run(session_id, start, new[-1].position)
        touched, lost = self._diff(session_id, events, start)
        if events and (touched or lost):
            # The next run's first segment has its context here.
            after = events[-1].position.next
            touched += self.reader.list_segments(session_id, after, limit=1)
        return _Cut(touched={each.first: each for each in touched}, lost=lost)

    def _extend_last(self, last: Segment | None, new: Sequence[Event]) -> _Cut:
        """In order, as most events come: the last segment grows, or is followed by others."""
        cut = _Cut()
        current = last
        for event in new:
            current = segments.add_event(current, event, self.rules)
            if last is not None and current.first != last.first:
                cut.touched.setdefault(last.first, last)  # it is closed now
            cut.touched[current.first] = current
        return cut

    def _run_start(self, session_id: SessionId, at: Position, last: Segment | None) -> Position:
        """Where the run begins that an event at this place belongs to."""
        if last is None or at.at_ms - last.last.at_ms >= self.rules.time_gap_ms:
            return at
        while True:
            earlier = self.reader.list_segments(session_id, last.first, limit=2, reverse=True)
            if len(earlier) < 2 or not segments.is_same_run(earlier[1], last, self.rules):
                return last.first
            last = earlier[1]

    def _run(self, session_id: SessionId, start: Position, last: Position) -> list[Event]:
        """The events from `start` to the first pause after `last`."""
        found: list[Event] = []
        for event in self._events(session_id, start):
            if found and found[-1].position.order >= last.order and self._gap(found[-1], event):
                break
            found.append(event)
        return found

    def _events(
        self, session_id: SessionId, start: Position | None, page: int = _PAGE
    ) -> Iterator[Event]:
        """A session's events from `start` on, that one included, read `page` at a time."""
        if start is not None:
            yield from self.log.get_at([start])
        after = start
        while True:
            found = self.log.list_session(session_id, after=after, limit=page)
            yield from found.events
            if found.next is None:
                return
            after = found.next

    def _diff(
        self, session_id: SessionId, events: Sequence[Event], start: Position
    ) -> tuple[list[Segment], list[Segment]]:
        """Segments that are new, changed, or follow a changed one; and those that are no more."""
        wanted = segments.cut(events, self.rules)
        stored: dict[Position, Segment] = {}
        for each in self._read_stored(session_id, start):
            if events and each.first.order > events[-1].position.order:
                break
            stored[each.first] = each
        touched: list[Segment] = []
        changed = False
        for each in wanted:
            was_changed, changed = changed, stored.pop(each.first, None) != each
            # What came before it is its context, so a change there may change its summary.
            if changed or was_changed:
                touched.append(each)
        return touched, list(stored.values())

    def _read_stored(self, session_id: SessionId, start: Position) -> Iterator[Segment]:
        while True:
            found = self.reader.list_segments(session_id, start, limit=_PAGE)
            yield from found
            if len(found) < _PAGE:
                return
            start = found[-1].first.next

    def _change(self, touched: Sequence[Segment], lost: Sequence[Segment]) -> TocChange:
        """The nodes and grips of touched segments, as far as they differ from what is stored."""
        followed = self._find_followed(touched, lost)
        closed = {
            each for each in touched if each in followed or each.ended or self._is_paused(each)
        }
        summaries = self._summaries(touched, lost, closed)
        present = self.reader.get_nodes([each.node_id for each in touched])
        nodes: list[NodeWrite] = []
        grips: list[Grip] = []
        stale: set[GripId] = set()
        dirty: set[NodeId] = set()
        now = self.clock.now()
        for segment, summary, old in zip(touched, summaries, present, strict=True):
            node, held = toc.build_segment_node(segment, summary)
            if node.same_content(old) and old is not None:
                if segment in closed:
                    nodes.append(NodeWrite(node=old, kept=True))
                continue
            version = self._last_version(node.node_id, old) + 1
            nodes.append(
                NodeWrite(
                    node=replace(node, version=version, created_ms=now), kept=segment in closed
                )
            )
            grips += held
            if old is not None and not self._is_kept(old):
                stale |= old.grip_ids() - node.grip_ids()
            dirty.add(periods.find_day(segment.first.at_ms).node_id)
        for segment, old in zip(
            lost, self.reader.get_nodes([s.node_id for s in lost]), strict=True
        ):
            dirty.add(periods.find_day(segment.first.at_ms).node_id)
            if old is not None:
                nodes.append(NodeWrite(node=old, kept=True))  # it leaves, its history stays
        fresh = {grip.grip_id for grip in grips}
        return TocChange(
            nodes=tuple(nodes),
            gone=tuple(each.node_id for each in lost),
            grips=tuple(grips),
            stale_grips=tuple(sorted(stale - fresh)),
            segments=tuple(touched),
            sealed=frozenset(closed),
            lost_segments=tuple(lost),
            unfinished=frozenset(
                segment
                for segment, summary in zip(touched, summaries, strict=True)
                if segment in closed and summary.source != self.summarizer.name
            ),
            dirty=frozenset(dirty),
        )

    def _summaries(
        self, touched: Sequence[Segment], lost: Sequence[Segment], closed: set[Segment]
    ) -> list[Summary]:
        before = self._predecessors(touched, lost)
        read = [self._read(each, before.get(each)) for each in touched]
        grow = [position for position, each in enumerate(touched) if each not in closed]
        rest = [position for position, each in enumerate(touched) if each in closed]
        found: dict[int, Summary] = {}
        for positions, summarizer in ((grow, self.drafter), (rest, self.summarizer)):
            if positions:
                written = summarizer.summarize([read[position] for position in positions])
                found.update(zip(positions, written, strict=True))
        return [found[position] for position in range(len(touched))]

    def _find_followed(self, touched: Sequence[Segment], lost: Sequence[Segment]) -> set[Segment]:
        """Those after which their session has another segment."""
        ends: dict[SessionId, tuple[int, bytes]] = {}
        for each in touched:
            ends[each.session_id] = max(ends.get(each.session_id, (0, b"")), each.first.order)
        for session_id, end in ends.items():
            start = Position(at_ms=Millis(end[0]), event_id=EventId(end[1].decode()))
            later = self.reader.list_segments(session_id, start.next, limit=len(lost) + 1)
            if any(each not in lost for each in later):
                ends[session_id] = (MAX_MILLIS + 1, b"")
        return {each for each in touched if each.first.order < ends[each.session_id]}

    def _is_kept(self, node: TocNode) -> bool:
        """Whether this version stays readable, and its grips with it."""
        kept = self.reader.list_versions(node.node_id, limit=1)
        return bool(kept) and kept[0].version == node.version

    def _last_version(self, node_id: NodeId, old: TocNode | None) -> int:
        """0 for a new node; one that has come back goes on where its history ends."""
        if old is not None:
            return old.version
        return max(
            (kept.version for kept in self.reader.list_versions(node_id, limit=1)), default=0
        )

    def _predecessors(
        self, touched: Sequence[Segment], lost: Sequence[Segment]
    ) -> dict[Segment, Segment]:
        """The segment before each, as it will be: touched, or else stored."""
        gone = {(each.session_id, each.first) for each in lost}
        found: dict[Segment, Segment] = {}
        ordered = sorted(touched, key=lambda each: (each.session_id, each.first.order))
        for number, segment in enumerate(ordered):
            stored = self.reader.list_segments(
                segment.session_id, segment.first, limit=len(lost) + 2, reverse=True
            )
            earlier = [
                each
                for each in stored
                if each.first != segment.first and (each.session_id, each.first) not in gone
            ]
            neighbour = ordered[number - 1] if number else None
            if neighbour is not None and neighbour.session_id == segment.session_id:
                earlier.insert(0, neighbour)  # first, so that it wins over itself as it was
            if earlier:
                found[segment] = max(earlier, key=lambda each: each.first.order)
        return found

    def _read(self, segment: Segment, before: Segment | None) -> Dialogue:
        """What is said in a segment, and at the end of the one before."""
        events: list[Event] = []
        for event in self._events(segment.session_id, segment.first, page=segment.count):
            if event.position.order > segment.last.order:
                break
            events.append(event)
        said = [] if before is None else self._end_of(before)
        return Dialogue(
            utterances=tuple(self._utterance(event) for event in events),
            overlap=tuple(
                self._utterance(event) for event in segments.select_overlap(said, self.rules)
            ),
        )

    def _end_of(self, segment: Segment) -> list[Event]:
        """The last events of a segment, as many as an overlap can have."""
        found = self.log.list_session(
            segment.session_id, after=segment.last.next, limit=_OVERLAP, reverse=True
        )
        inside = [e for e in found.events if e.position.order >= segment.first.order]
        return inside[::-1]

    def _utterance(self, event: Event) -> Utterance:
        return Utterance(
            event_id=event.event_id,
            at_ms=event.at_ms,
            type=event.type,
            role=event.role,
            text=segments.read_text(event, self.rules),
            tool_name=event.metadata.get("tool_name", ""),
            speaker=event.metadata.get("speaker", ""),
        )

    def _gap(self, earlier: Event, later: Event) -> bool:
        return later.at_ms - earlier.at_ms >= self.rules.time_gap_ms

    def _is_paused(self, segment: Segment) -> bool:
        return self.clock.now() - segment.last.at_ms >= self.rules.time_gap_ms
