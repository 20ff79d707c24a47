"""Segmenting: cuts new events of the outbox into segments, with their nodes and grips."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.model.metadata import SUMMARIZES, TITLES, get_main_session
from agent_memory.features.log.model.outbox import EventChanged
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.features.log.services import paging
from agent_memory.features.toc.model import periods, segments, speech_acts, toc, work_figures
from agent_memory.features.toc.model.highlights import HighlightKind, Work
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.segments import Segment, SegmentRules
from agent_memory.features.toc.model.summaries import Dialogue, Summary, Utterance
from agent_memory.features.toc.model.toc import Bullet, Grip, GripId, NodeWrite, TocChange, TocNode
from agent_memory.features.toc.ports import Summarizer, TocReader, TocWriter
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.platform.ports import Clock

BATCH = 500
_PAGE = 500
_OPEN = 1_000
_OVERLAP = 16  # most events of an overlap
_GOING_ON = frozenset({EventType.TOOL_RESULT, EventType.ASSISTANT_MESSAGE})
_BEGINNING = Position(at_ms=Millis(0), event_id=EventId(""))


@dataclass(slots=True)
class _Cut:
    """The changes of one session's segments."""

    touched: dict[Position, Segment] = field(default_factory=dict)
    lost: list[Segment] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SegmentContent:
    """What is read of a segment: its conversation, its project and its figures."""

    dialogue: Dialogue
    project: str
    work: Work


@dataclass(frozen=True, slots=True)
class Segmenter:
    log: EventLog
    outbox: Outbox
    reader: TocReader
    writer: TocWriter
    drafter: Summarizer  # for open segments
    summarizer: Summarizer  # for closed ones
    clock: Clock
    rules: SegmentRules

    def step(self) -> int:
        """Process the next entries of the outbox and return their number."""
        entries = self.outbox.read(self.writer.cursor(), limit=BATCH)
        if not entries:
            return 0
        by_session: dict[SessionId, list[Event]] = defaultdict(list)
        new = [entry.at for _, entry in entries if isinstance(entry, EventChanged)]
        for event in self.log.get_at(new):
            by_session[event.session_id].append(event)
        cuts = [self._cut(session, events) for session, events in by_session.items()]
        change = self._change(
            touched=[segment for cut in cuts for segment in cut.touched.values()],
            lost=[segment for cut in cuts for segment in cut.lost],
        )
        self.writer.commit(replace(change, cursor=entries[-1][0]))
        return len(entries)

    def seal(self) -> int:
        """Close the open segments whose conversation has paused, and return their number."""
        paused = [
            segment
            for segment in self.writer.list_open_segments(limit=_OPEN)
            if self._is_paused(segment)
        ]
        if paused:
            self.writer.commit(self._change(touched=paused, lost=[]))
        return len(paused)

    def retry(self, limit: int) -> int:
        """Summarize again the segments that the summarizer failed at, and return their number."""
        waiting = self.writer.list_unfinished_segments(limit=limit)
        if waiting:
            self.writer.commit(self._change(touched=waiting, lost=[]))
        return len(waiting)

    def plan_rebuild(self, session_id: SessionId) -> TocChange:
        """Return the change from cutting all of a session again, without writing it."""
        cuts = segments.cut(self._events(session_id, None), self.rules)
        firsts = {segment.first for segment in cuts}
        stored = self._read_stored(session_id, _BEGINNING)
        return self._change(cuts, [segment for segment in stored if segment.first not in firsts])

    def find_segment(self, node: TocNode) -> Segment | None:
        """Return the segment of a node, or None if it is not there."""
        if node.session:
            session_id = SessionId(node.session)
            start = Position(at_ms=node.start_ms, event_id=EventId(""))
            while page := self.reader.list_segments(session_id, start, limit=1):
                if page[0].node_id == node.node_id:
                    return page[0]
                if page[0].first.at_ms > node.start_ms:
                    break
                start = page[0].first.next
            return None
        for events in paging.iter_between(self.log, node.start_ms, node.start_ms):
            for event in events.events:
                if segments.build_node_id(event.session_id, event.position) == node.node_id:
                    found = self.reader.list_segments(event.session_id, event.position, limit=1)
                    return next((each for each in found if each.node_id == node.node_id), None)
        return None

    def plan_redraft(self, nodes: Sequence[TocNode]) -> TocChange:
        """Return the change from writing the nodes of segments again, without asking a model.

        Where a model wrote the text, only what is measured is written again. Segments stay open or
        unfinished if they are.
        """
        found = [(self.find_segment(node), node) for node in nodes]
        olds = {segment: node for segment, node in found if segment is not None}
        read = dict(zip(olds, self._read_all(list(olds), []), strict=True))
        # A node is all that is left of events that cannot be read any more.
        whole = [each for each in olds if len(read[each].dialogue.utterances) == each.count]
        by_model = self._find_by_model(olds)
        drafted = [each for each in whole if each not in by_model]
        summaries = dict(
            zip(drafted, self._draft([read[each].dialogue for each in drafted]), strict=True)
        )
        now = self.clock.now()
        writes: list[NodeWrite] = []
        redrafted: list[Segment] = []
        grips: list[Grip] = []
        stale: set[GripId] = set()
        dirty: set[NodeId] = set()
        for segment in whole:
            about, old = read[segment], olds[segment]
            node, new_grips = self._redraft(segment, about, old, summaries.get(segment))
            if node.same_content(old):
                continue
            kept = self._is_kept(old)
            rewritten = replace(node, version=old.version + 1, created_ms=now)
            writes.append(NodeWrite(node=rewritten, kept=kept))
            redrafted.append(segment)
            grips += new_grips
            if not kept:
                # The day may have grips that become stale: it has to be rolled up before they go.
                stale |= old.grip_ids() - node.grip_ids()
                dirty.add(periods.find_day(segment.first.at_ms).node_id)
        fresh = {grip.grip_id for grip in grips}
        return TocChange(
            nodes=tuple(writes),
            grips=tuple(grips),
            stale_grips=tuple(sorted(stale - fresh)),
            redrafted=tuple(redrafted),
            dirty=frozenset(dirty),
        )

    def plan_removal(self, session_id: SessionId, gone: Sequence[Position]) -> TocChange:
        """Return the change around these events, which are already removed."""
        first = min(gone, key=lambda at: at.order)
        last = max(gone, key=lambda at: at.order)
        before = self.reader.list_segments(session_id, first, limit=1, reverse=True)
        start = self._run_start(session_id, first, before[0] if before else None)
        events = self._run(session_id, start, last)
        end = max([last, *(event.position for event in events[-1:])], key=lambda at: at.order)
        touched, lost, changed = self._diff(session_id, events, start, end)
        if changed:
            touched += self.reader.list_segments(session_id, end.next, limit=1)
        return self._change(touched, lost)

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
        end = events[-1].position if events else new[-1].position
        touched, lost, _ = self._diff(session_id, events, start, end)
        if events and (touched or lost):
            # This run is the context of the next run's first segment.
            touched += self.reader.list_segments(session_id, end.next, limit=1)
        return _Cut(touched={segment.first: segment for segment in touched}, lost=lost)

    def _extend_last(self, last: Segment | None, new: Sequence[Event]) -> _Cut:
        """Add events that come in order, as most do: the last segment grows, or others follow."""
        cut = _Cut()
        current = last
        for event in new:
            current = segments.add_event(current, event, self.rules)
            if last is not None and current.first != last.first:
                cut.touched.setdefault(last.first, last)  # it is closed now
            cut.touched[current.first] = current
        return cut

    def _run_start(self, session_id: SessionId, at: Position, last: Segment | None) -> Position:
        """Return the start of the run that an event at this position belongs to."""
        if last is None or at.at_ms - last.last.at_ms >= self.rules.time_gap_ms:
            return at
        while True:
            earlier = self.reader.list_segments(session_id, last.first, limit=2, reverse=True)
            if len(earlier) < 2 or not segments.is_same_run(earlier[1], last, self.rules):
                return last.first
            last = earlier[1]

    def _run(self, session_id: SessionId, start: Position, last: Position) -> list[Event]:
        """Return the events from `start` to the first pause after `last`."""
        events: list[Event] = []
        for event in self._events(session_id, start):
            if events and events[-1].position.order >= last.order and self._gap(events[-1], event):
                break
            events.append(event)
        return events

    def _events(
        self, session_id: SessionId, start: Position | None, page: int = _PAGE
    ) -> Iterator[Event]:
        """Yield a session's events from `start` on, inclusive, reading `page` at a time."""
        if start is not None:
            yield from self.log.get_at([start])
        after = start
        while True:
            batch = self.log.list_session(session_id, after=after, limit=page)
            yield from batch.events
            if batch.next is None:
                return
            after = batch.next

    def _diff(
        self, session_id: SessionId, events: Sequence[Event], start: Position, end: Position
    ) -> tuple[list[Segment], list[Segment], bool]:
        """Compare the segments of these events with those stored from `start` to `end`. Return the
        ones that are new, changed or after a changed one, the lost ones, and whether the last one
        is changed or lost."""
        cuts = {segment.first: segment for segment in segments.cut(events, self.rules)}
        stored: dict[Position, Segment] = {}
        for segment in self._read_stored(session_id, start):
            if segment.first.order > end.order:
                break
            stored[segment.first] = segment
        touched: list[Segment] = []
        changed = False
        for place in sorted({*cuts, *stored}, key=lambda at: at.order):
            was_changed, changed = changed, cuts.get(place) != stored.get(place)
            # The segment before is its context, so a change there may change its summary.
            if place in cuts and (changed or was_changed):
                touched.append(cuts[place])
        lost = [segment for place, segment in stored.items() if place not in cuts]
        return touched, lost, changed

    def _read_stored(self, session_id: SessionId, start: Position) -> Iterator[Segment]:
        while True:
            page = self.reader.list_segments(session_id, start, limit=_PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            start = page[-1].first.next

    def _change(self, touched: Sequence[Segment], lost: Sequence[Segment]) -> TocChange:
        """Return the nodes and grips of touched segments, as far as they differ from the stored."""
        followed = self._find_followed(touched, lost)
        closed = {
            segment
            for segment in touched
            if segment in followed or segment.ended or self._is_paused(segment)
        }
        read = self._read_all(touched, lost)
        summaries = self._summaries([segment.dialogue for segment in read], touched, closed)
        present = self.reader.get_nodes([segment.node_id for segment in touched])
        nodes: list[NodeWrite] = []
        grips: list[Grip] = []
        stale: set[GripId] = set()
        dirty: set[NodeId] = set()
        now = self.clock.now()
        for about, segment, summary, old in zip(read, touched, summaries, present, strict=True):
            node, new_grips = toc.build_segment_node(
                segment, summary, project=about.project, work=about.work
            )
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
            grips += new_grips
            if old is not None and not self._is_kept(old):
                stale |= old.grip_ids() - node.grip_ids()
            dirty.add(periods.find_day(segment.first.at_ms).node_id)
        for segment, old in zip(
            lost, self.reader.get_nodes([s.node_id for s in lost]), strict=True
        ):
            dirty.add(periods.find_day(segment.first.at_ms).node_id)
            if old is not None:
                nodes.append(NodeWrite(node=old, kept=True))  # its history stays
        fresh = {grip.grip_id for grip in grips}
        return TocChange(
            nodes=tuple(nodes),
            gone=tuple(segment.node_id for segment in lost),
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

    def _redraft(
        self, segment: Segment, about: _SegmentContent, old: TocNode, summary: Summary | None
    ) -> tuple[TocNode, list[Grip]]:
        """Build the node from a summary; without one, from the old node and new figures."""
        if summary is not None:
            return toc.build_segment_node(segment, summary, project=about.project, work=about.work)
        return replace(
            old,
            session=segment.session_id,
            project=about.project,
            work=about.work,
            bullets=tuple(_classify_bullet(bullet) for bullet in old.bullets),
        ), []

    def _draft(self, dialogues: list[Dialogue]) -> list[Summary]:
        return self.drafter.summarize(dialogues) if dialogues else []

    def _find_by_model(self, olds: Mapping[Segment, TocNode]) -> set[Segment]:
        """Return the segments whose summary a model wrote: all that it wrote have grips."""
        names = [(each, name) for each, node in olds.items() for name in node.grip_ids()]
        grips = self.reader.get_grips([name for _, name in names])
        return {
            segment
            for (segment, _), grip in zip(names, grips, strict=True)
            if grip is not None and grip.source != self.drafter.name
        }

    def _read_all(
        self, touched: Sequence[Segment], lost: Sequence[Segment]
    ) -> list[_SegmentContent]:
        before = self._predecessors(touched, lost)
        return [self._read(segment, before.get(segment)) for segment in touched]

    def _summaries(
        self, dialogues: Sequence[Dialogue], touched: Sequence[Segment], closed: set[Segment]
    ) -> list[Summary]:
        grow = [index for index, segment in enumerate(touched) if segment not in closed]
        rest = [index for index, segment in enumerate(touched) if segment in closed]
        summaries: dict[int, Summary] = {}
        for indexes, summarizer in ((grow, self.drafter), (rest, self.summarizer)):
            if indexes:
                written = summarizer.summarize([dialogues[index] for index in indexes])
                summaries.update(zip(indexes, written, strict=True))
        return [summaries[index] for index in range(len(touched))]

    def _find_followed(self, touched: Sequence[Segment], lost: Sequence[Segment]) -> set[Segment]:
        """Return the segments that another segment of their session follows."""
        ends: dict[SessionId, tuple[int, bytes]] = {}
        for segment in touched:
            ends[segment.session_id] = max(
                ends.get(segment.session_id, (0, b"")), segment.first.order
            )
        for session_id, end in ends.items():
            start = Position(at_ms=Millis(end[0]), event_id=EventId(end[1].decode()))
            later = self.reader.list_segments(session_id, start.next, limit=len(lost) + 1)
            if any(segment not in lost for segment in later):
                ends[session_id] = (MAX_MILLIS + 1, b"")
        return {segment for segment in touched if segment.first.order < ends[segment.session_id]}

    def _is_kept(self, node: TocNode) -> bool:
        """Return whether this version stays readable, and its grips with it."""
        kept = self.reader.list_versions(node.node_id, limit=1)
        return bool(kept) and kept[0].version == node.version

    def _last_version(self, node_id: NodeId, old: TocNode | None) -> int:
        """Return the last version: 0 for a new node; one that comes back continues its history."""
        if old is not None:
            return old.version
        return max(
            (kept.version for kept in self.reader.list_versions(node_id, limit=1)), default=0
        )

    def _predecessors(
        self, touched: Sequence[Segment], lost: Sequence[Segment]
    ) -> dict[Segment, Segment]:
        """Return the segment before each, in its new state: touched, or else stored."""
        gone = {(segment.session_id, segment.first) for segment in lost}
        predecessors: dict[Segment, Segment] = {}
        ordered = sorted(touched, key=lambda other: (other.session_id, other.first.order))
        for number, segment in enumerate(ordered):
            stored = self.reader.list_segments(
                segment.session_id, segment.first, limit=len(lost) + 2, reverse=True
            )
            earlier = [
                other
                for other in stored
                if other.first != segment.first and (other.session_id, other.first) not in gone
            ]
            neighbour = ordered[number - 1] if number else None
            if neighbour is not None and neighbour.session_id == segment.session_id:
                earlier.insert(0, neighbour)  # first, so that it wins over its stored state
            if earlier:
                predecessors[segment] = max(earlier, key=lambda other: other.first.order)
        return predecessors

    def _read(self, segment: Segment, before: Segment | None) -> _SegmentContent:
        """Read the events of a segment, and the end of the one before."""
        events: list[Event] = []
        for event in self._events(segment.session_id, segment.first, page=segment.count):
            if event.position.order > segment.last.order:
                break
            events.append(event)
        context = [] if before is None else self._end_of(before)
        # Whether the agent goes on after a segment that was cut for its size.
        after = self.log.list_session(segment.session_id, after=segment.last, limit=1).events
        dialogue = Dialogue(
            utterances=tuple(self._utterance(event) for event in events),
            overlap=tuple(
                self._utterance(event) for event in segments.select_overlap(context, self.rules)
            ),
            is_cut=bool(after) and after[0].type in _GOING_ON,
        )
        return _SegmentContent(
            dialogue=dialogue,
            project=next(
                (event.metadata["project"] for event in events if event.metadata.get("project")), ""
            ),
            work=work_figures.measure_segment(
                dialogue.utterances,
                is_first=before is None,
                is_main=get_main_session(segment.session_id) == segment.session_id,
            ),
        )

    def _end_of(self, segment: Segment) -> list[Event]:
        """Return the last events of a segment, as many as an overlap can have."""
        page = self.log.list_session(
            segment.session_id, after=segment.last.next, limit=_OVERLAP, reverse=True
        )
        inside = [e for e in page.events if e.position.order >= segment.first.order]
        return inside[::-1]

    def _utterance(self, event: Event) -> Utterance:
        about = event.metadata
        return Utterance(
            event_id=event.event_id,
            at_ms=event.at_ms,
            type=event.type,
            role=event.role,
            text=segments.read_text(event, self.rules),
            tool_name=about.get("tool_name", ""),
            speaker=about.get("speaker", ""),
            file=about.get("file_path", ""),
            failed=about.get("error") == "true",
            titles=about.get(TITLES, ""),
            summarizes=about.get(SUMMARIZES, ""),
        )

    def _gap(self, earlier: Event, later: Event) -> bool:
        return later.at_ms - earlier.at_ms >= self.rules.time_gap_ms

    def _is_paused(self, segment: Segment) -> bool:
        return self.clock.now() - segment.last.at_ms >= self.rules.time_gap_ms


def _classify_bullet(bullet: Bullet) -> Bullet:
    """Return a bullet that a model wrote before bullets had kinds with the one its words show."""
    if bullet.kind is not HighlightKind.NOTE:
        return bullet
    kind = speech_acts.classify(bullet.text, report=True).kind
    return replace(bullet, kind=kind or HighlightKind.NOTE)
