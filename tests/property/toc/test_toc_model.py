"""The table of contents against its own rules, with events in any order and with restarts.

Once everything is processed and rolled up, it equals what a new store gives for the same events.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, count, pairwise
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.features.log.ports import Outbox
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model import periods, segments
from agent_memory.features.toc.model.highlights import NEVER
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment, SegmentRules
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from tests.contract.stores import TIMEOUT, OpenStore, everything, memory, rocks
from tests.toc_harness import SetClock, build_rollup, build_segmenting

RULES = SegmentRules(
    time_gap_ms=60_000,
    max_tokens=40,
    overlap_ms=50_000,
    overlap_tokens=20,
    max_tool_result_chars=80,
)
SESSIONS = (SessionId("one"), SessionId("two:2"))
STEP = 20_000  # three fit into a gap
# Before midnight: of a plain day, and of a year that ends in the middle of a week.
ORIGINS = [1_769_731_020_000, 1_767_225_420_000]
ALL = 100_000
BEGINNING = Position(at_ms=Millis(0), event_id=EventId(""))
ROLES = {
    EventType.USER_MESSAGE: EventRole.USER,
    EventType.ASSISTANT_MESSAGE: EventRole.ASSISTANT,
    EventType.TOOL_RESULT: EventRole.TOOL,
    EventType.SESSION_START: EventRole.SYSTEM,
    EventType.SESSION_END: EventRole.SYSTEM,
}
SENTENCES = [
    "",
    "Ask about the tenants.",
    "We saw bananas. We saw weather. We saw tenants. We saw rivers. We saw mountains.",
    "Why does the login fail with a timeout?",
    "The token expired. We decided to refresh it one minute early.",
    "Fixed: the cache key lacked the tenant id!",
    "ok",
    "TypeError: expected str, got None\n  File app.py, line 3",
    "Let us move the rollup to RocksDB, because SQLite locks.",
    "naïve Ünïcode — 日本語のテキスト。 🎉",
    "The release is planned for Friday. " * 6,
    "word " * 60,
]

Saying = tuple[SessionId, int, EventType, str]
sayings = st.tuples(
    st.sampled_from([SESSIONS[0], SESSIONS[0], SESSIONS[1]]),
    st.builds(
        lambda origin, steps, odd: origin + steps * STEP + odd,
        st.sampled_from(ORIGINS),
        st.integers(0, 15),
        st.sampled_from([0, 0, 1, 19_999]),
    ),
    st.sampled_from(
        [EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE] * 3
        + [EventType.TOOL_RESULT] * 2
        + [EventType.SESSION_START, EventType.SESSION_END]
    ),
    st.sampled_from(SENTENCES),
)


class SmallReads:
    """An outbox that returns no more than `most` entries at a time."""

    def __init__(self, inner: Outbox) -> None:
        self.inner = inner
        self.most = ALL

    def read(self, after: int, /, *, limit: int) -> list[tuple[int, OutboxEntry]]:
        return self.inner.read(after, limit=min(limit, self.most))

    def trim(self, up_to: int, /) -> None:
        self.inner.trim(up_to)


@dataclass(frozen=True)
class TocParts:
    """The parts of a table of contents over one store."""

    store: OrderedStore
    log: StoredEventLog
    outbox: SmallReads
    toc: StoredToc
    segmenting: Segmenter
    rollup: Rollup

    def append(self, events: Sequence[Event]) -> None:
        assert all(self.log.append(events).result(TIMEOUT))

    def finish(self) -> None:
        self.outbox.most = ALL
        while self.segmenting.step():
            pass
        self.segmenting.seal()
        self.rollup.run(lambda _: None)

    def present(self) -> dict[NodeId, TocNode]:
        names = self.toc.list_ids("toc:", after=None, limit=ALL)
        found = dict(zip(names, self.toc.get_nodes(names), strict=True))
        assert None not in found.values(), "a pointer leads to no node"
        return {name: node for name, node in found.items() if node is not None}

    def segments(self) -> list[Segment]:
        return [
            each for name in SESSIONS for each in self.toc.list_segments(name, BEGINNING, limit=ALL)
        ]


def over(store: OrderedStore, clock: SetClock) -> TocParts:
    outbox = SmallReads(StoredOutbox(store))
    return TocParts(
        store=store,
        log=StoredEventLog(store),
        outbox=outbox,
        toc=StoredToc(store),
        segmenting=build_segmenting(store, clock, RULES, outbox),
        rollup=build_rollup(store, clock),
    )


def place(event: Event) -> tuple[int, bytes]:
    return event.at_ms, event.event_id.encode()


def sort_key(at: Position) -> tuple[int, bytes]:
    return at.at_ms, at.event_id.encode()


class TocMachine(RuleBasedStateMachine):
    opens: OpenStore = staticmethod(memory)
    survives = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = SetClock(ORIGINS[1])
        self.parts = over(self._open(), self.clock)
        self.numbers = count()
        self.events: list[Event] = []
        self.newest: dict[NodeId, int] = {}
        self.kept: dict[tuple[NodeId, int], TocNode] = {}

    def _open(self) -> OrderedStore:
        return type(self).opens(Path(self.folder.name) / "store")

    @initialize(given=st.lists(sayings, min_size=6, max_size=20))
    def begin(self, given: list[Saying]) -> None:
        self._ingest(given)
        self.take_in_all()

    @rule(given=st.lists(sayings, min_size=1, max_size=8), in_order=st.booleans())
    def ingest(self, given: list[Saying], in_order: bool) -> None:
        self._ingest(sorted(given, key=lambda saying: saying[1]) if in_order else given)

    @rule(given=st.lists(sayings, min_size=1, max_size=2))
    def take_in_a_few_at_once(self, given: list[Saying]) -> None:
        self._ingest(given)
        self.take_in_all()

    def _ingest(self, given: list[Saying]) -> None:
        created = [
            # Ids that do not sort in order of creation: within a millisecond the order is by id.
            Event(
                event_id=EventId(f"{number * 7 % 10}-{number}"),
                session_id=session,
                at_ms=Millis(at_ms),
                type=kind,
                role=ROLES[kind],
                text=text,
            )
            for number, (session, at_ms, kind, text) in zip(self.numbers, given, strict=False)
        ]
        self.parts.append(created)
        self.events += created

    @rule(most=st.integers(1, 4))
    def take_in_some(self, most: int) -> None:
        self.parts.outbox.most = most
        self.parts.segmenting.step()

    @rule()
    def take_in_all(self) -> None:
        self.parts.outbox.most = ALL
        while self.parts.segmenting.step():
            pass

    @rule(by_ms=st.sampled_from([1, 60_000, 900_000, 3_600_000]))
    def pass_time_and_seal(self, by_ms: int) -> None:
        self.clock.at_ms += by_ms
        self.parts.segmenting.seal()

    @rule()
    def roll_up(self) -> None:
        self.parts.rollup.run(lambda _: None)

    @rule(session=st.sampled_from(SESSIONS))
    def rebuild(self, session: SessionId) -> None:
        self.parts.toc.commit(self.parts.segmenting.plan_rebuild(session))

    @rule()
    def trim(self) -> None:
        self.parts.outbox.trim(self.parts.toc.cursor())

    @precondition(lambda self: self.survives)
    @rule()
    def restart(self) -> None:
        self.parts.store.close()
        self.parts = over(self._open(), self.clock)

    @rule()
    def settle(self) -> None:
        self.clock.at_ms = max([self.clock.at_ms, *(event.at_ms for event in self.events)])
        self.clock.at_ms += RULES.time_gap_ms
        self.parts.finish()
        self.versions_only_grow()
        self._check_events()
        self._check_nodes()
        self._check_grips()
        self._check_marks()
        self._check_against_a_new_store()

    @invariant()
    def versions_only_grow(self) -> None:
        present = self.parts.present()
        for name, node in present.items():
            assert node.version >= self.newest.get(name, 1), f"{name} went back"
            self.newest[name] = node.version
        for (name, number), was in self.kept.items():
            assert self.parts.toc.get_version(name, number) == was, (
                f"{name} v{number} was rewritten"
            )
        for name in self.newest:
            history = self.parts.toc.list_versions(name, limit=ALL)
            assert all(newer.version > older.version for newer, older in pairwise(history))
            for node in history:
                self.kept[name, node.version] = node

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            self.parts.store.close()
            self.folder.cleanup()

    def _check_events(self) -> None:
        """Check that the leaves have every event exactly once, cut by the rules."""
        for name in SESSIONS:
            held = sorted((e for e in self.events if e.session_id == name), key=place)
            found = self.parts.toc.list_segments(name, BEGINNING, limit=ALL)
            assert found == segments.cut(held, RULES)
            inside = [
                [e for e in held if sort_key(each.first) <= place(e) <= sort_key(each.last)]
                for each in found
            ]
            assert list(chain.from_iterable(inside)) == held
            assert [len(each) for each in inside] == [each.count for each in found]

    def _check_nodes(self) -> None:
        present = self.parts.present()
        leaves = {each.node_id: each for each in self.parts.segments()}
        assert leaves.keys() == {n for n, node in present.items() if node.level is Level.SEGMENT}
        listed = Counter(child for node in present.values() for child in node.child_ids)
        assert listed == Counter(n for n, node in present.items() if node.level is not Level.YEAR)
        for name, node in present.items():
            children = [present[child] for child in node.child_ids]
            starts = [child.start_ms for child in children]
            assert starts == sorted(starts)
            period = periods.parse(name)
            assert period is not None
            if node.level is Level.SEGMENT:
                leaf = leaves[name]
                assert (node.start_ms, node.end_ms) == (leaf.first.at_ms, leaf.last.at_ms)
                assert period == periods.find_day(leaf.first.at_ms)
                continue
            assert children, "a period without anything in it"
            assert (node.title, node.start_ms, node.end_ms) == (
                period.title,
                period.start_ms,
                period.end_ms,
            )
            for child in node.child_ids:
                below = periods.parse(child)
                assert below is not None
                assert (below if node.level is Level.DAY else below.parent) == period

    def _check_grips(self) -> None:
        """Check that every bullet leads to words of an event in its segment."""
        leaves = {each.node_id: each for each in self.parts.segments()}
        for node in self.parts.present().values():
            for bullet in node.bullets:
                assert bullet.text
                assert bullet.grip_ids
                for grip_id in bullet.grip_ids:
                    grip = self.parts.toc.get_grips([grip_id])[0]
                    assert grip is not None, f"{node.node_id} has a grip that leads nowhere"
                    assert grip.event_id_start == grip.event_id_end
                    event = self.parts.log.get(grip.event_id_start)
                    assert event is not None
                    assert grip.excerpt
                    assert grip.excerpt in event.text
                    assert grip.at_ms == event.at_ms
                    leaf = leaves[grip.node_id]
                    assert leaf.session_id == event.session_id
                    assert sort_key(leaf.first) <= place(event) <= sort_key(leaf.last)

    def _check_marks(self) -> None:
        for level in Level:
            assert self.parts.toc.list_dirty(level, limit=ALL) == []
        assert self.parts.toc.list_open_segments(limit=ALL) == []
        assert self.parts.toc.list_unfinished_segments(limit=ALL) == []
        marks = everything(self.parts.store, families.TOC_STATE)
        assert [key for key, _ in marks if key.startswith(b"stale:")] == []
        needed = {
            grip.encode()
            for node in [*self.parts.present().values(), *self.kept.values()]
            for grip in node.grip_ids()
        }
        assert {key for key, _ in everything(self.parts.store, families.GRIPS)} <= needed

    def _check_against_a_new_store(self) -> None:
        fresh = over(memory(Path()), self.clock)
        try:
            if self.events:
                fresh.append(sorted(self.events, key=place))
            fresh.finish()
            ours, theirs = self.parts.present(), fresh.present()
            assert bare(ours) == bare(theirs)
            held = {grip for node in ours.values() for grip in node.grip_ids()}
            for grip in held:
                assert self.parts.toc.get_grips([grip])[0] == fresh.toc.get_grips([grip])[0]
        finally:
            fresh.store.close()


def bare(nodes: dict[NodeId, TocNode]) -> dict[NodeId, TocNode]:
    """Return a node without what a rebuild may change."""
    return {name: replace(node, version=0, created_ms=NEVER) for name, node in nodes.items()}


class RocksTocMachine(TocMachine):
    opens = staticmethod(rocks)
    survives = True


def said(name: str, second: int, text: str, kind: EventType = EventType.USER_MESSAGE) -> Event:
    return Event(
        event_id=EventId(name),
        session_id=SESSIONS[0],
        at_ms=Millis(ORIGINS[0] + second * 1_000),
        type=kind,
        role=ROLES[kind],
        text=text,
    )


END = EventType.SESSION_END
TOPICS = "We saw bananas. We saw weather. We saw tenants. We saw rivers. We saw mountains."


@pytest.mark.parametrize(
    ("early", "late"),
    [
        (
            [said("a", 0, "Hello, friend."), said("b", 200, TOPICS)],
            said("late", 5, "Ask about the tenants."),
        ),
        (
            [said("a", 0, "", END), said("b", 10, "", END), said("c", 20, TOPICS)],
            said("late", -5, "Ask about the tenants."),
        ),
    ],
    ids=["over a pause", "over a short segment"],
)
def test_a_late_event_changes_the_segment_it_is_context_for(
    early: list[Event], late: Event
) -> None:
    clock = SetClock(ORIGINS[0] + 86_400_000)
    with closing(memory(Path())) as store, closing(memory(Path())) as new:
        ours, theirs = over(store, clock), over(new, clock)
        for given in (early, [late]):
            ours.append(given)
            ours.finish()
        theirs.append([*early, late])
        theirs.finish()
        assert bare(ours.present()) == bare(theirs.present())


def test_a_segment_that_comes_back_goes_on_with_its_history() -> None:
    clock = SetClock(ORIGINS[0] + 86_400_000)
    with closing(memory(Path())) as store:
        parts = over(store, clock)
        steps = [
            [said("a", 0, "a" * 120), said("d", 30, "d" * 80)],
            [said("b", 10, "b" * 60)],  # the segment of d is now the one of b
            [said("c", 20, "c" * 120)],  # and is its own again
        ]
        found: list[TocNode | None] = []
        (name,) = [each.node_id for each in segments.cut(steps[0][1:], RULES)]
        for given in steps:
            clock.at_ms += 3_600_000
            parts.append(given)
            parts.finish()
            found += parts.toc.get_nodes([name])
        first, gone, last = found
        assert first is not None
        assert gone is None
        assert last is not None
        assert (first.version, last.version) == (1, 2)
        assert parts.toc.list_versions(name, limit=9) == [last, first]


def test_so_does_one_that_was_still_open_when_it_left() -> None:
    clock = SetClock(ORIGINS[0] + 40_000)
    with closing(memory(Path())) as store:
        parts = over(store, clock)
        first = said("c", 30, "c" * 80)
        (name,) = [each.node_id for each in segments.cut([first], RULES)]
        versions: list[int | None] = []
        for given in (
            [first],
            [said("d", 31, "d" * 20)],
            [said("a", 10, "a" * 60)],  # all are one segment now
            [said("b", 20, "b" * 120)],
        ):
            parts.append(given)
            parts.finish()
            (node,) = parts.toc.get_nodes([name])
            versions.append(None if node is None else node.version)
        assert versions == [1, 2, None, 3]


_EXAMPLES = settings().max_examples  # more in a soak
TocMachine.TestCase.settings = settings(max_examples=_EXAMPLES // 3, stateful_step_count=20)
RocksTocMachine.TestCase.settings = settings(max_examples=_EXAMPLES // 10, stateful_step_count=20)
TestTocInMemory = TocMachine.TestCase
TestTocOnRocks = RocksTocMachine.TestCase
