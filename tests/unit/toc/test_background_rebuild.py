"""Nodes of an older edition are rebuilt step by step, once, and a crash loses nothing."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.outbox import SegmentChanged
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.editions import EDITION, EditionRecord, RebuildProgress
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment, SegmentRules
from agent_memory.features.toc.model.summaries import Dialogue, Digest, PeriodSummary, Summary
from agent_memory.features.toc.model.toc import TocChange, TocNode
from agent_memory.features.toc.services.background_rebuild import BATCH, BackgroundRebuild
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.kernel.status import ContentsStatus
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Delete, Row
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import TIMEOUT, everything, unexpected
from tests.inline_worker import InlineWorker
from tests.memory_engine import MemoryEngine
from tests.toc_harness import (
    SetClock,
    age_contents,
    build_rollup,
    build_segmenting,
    list_nodes,
    rewrite_nodes,
)

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_769_783_400_000  # 2026-01-30 14:30
STORY = [("a", 0), ("a", 5), ("a", 60), ("b", 3), ("b", 2 * 1440), ("c", 40 * 1440), ("a", 80)]
MODEL = "a model"


class CutOff(Exception):
    """The process was killed."""


class CutOffToc(StoredToc):
    """A table whose process is killed before one of its commits."""

    def __init__(self, store: OrderedStore, commits: int) -> None:
        super().__init__(store)
        self._left = commits

    def commit(self, change: TocChange, /) -> None:
        if not self._left:
            raise CutOff
        self._left -= 1
        super().commit(change)


class SilentModel:
    """A model that must not be asked."""

    name = MODEL

    def summarize(self, _: Sequence[Dialogue], /) -> list[Summary]:
        raise AssertionError("the model was asked for a summary")

    def digest(self, _: Sequence[PeriodSummary], /) -> list[Digest]:
        raise AssertionError("the model was asked for a digest")


class WritingModel(ExtractiveSummarizer):
    """A model whose summaries name it."""

    name = MODEL

    def summarize(self, conversations: Sequence[Dialogue], /) -> list[Summary]:
        return [
            replace(each, text="by the model", source=MODEL)
            for each in super().summarize(conversations)
        ]


@dataclass
class OldStore:
    """A store and its rebuild."""

    store: OrderedStore = field(
        default_factory=lambda: CommittedStore(MemoryEngine(), watch=unexpected)
    )
    clock: SetClock = field(default_factory=lambda: SetClock(START + 60 * DAY))
    begun: list[RebuildProgress] = field(default_factory=list)
    ended: list[RebuildProgress] = field(default_factory=list)

    @property
    def toc(self) -> StoredToc:
        return StoredToc(self.store)

    def append(self, said: Sequence[tuple[str, int]]) -> None:
        """Record what sessions say, each at a minute."""
        events = [
            Event(
                event_id=EventId(f"{session}:{minute:06}"),
                session_id=SessionId(session),
                at_ms=Millis(START + minute * MINUTE),
                type=EventType.USER_MESSAGE,
                role=EventRole.USER,
                text=f"We decided to rename module {minute} of {session}.",
                metadata={"project": "forge"},
            )
            for session, minute in said
        ]
        StoredEventLog(self.store).append(events).result(TIMEOUT)

    def build(self) -> None:
        """Let the live jobs build the table."""
        segmenting = build_segmenting(self.store, self.clock, SegmentRules())
        while segmenting.step():
            pass
        segmenting.seal()
        build_rollup(self.store, self.clock).run(lambda _: None)

    def rebuilding(
        self, *, cut_off: int | None = None, model: SilentModel | None = None
    ) -> BackgroundRebuild:
        """Build the rebuild of a new process, which is killed before one of its commits."""
        writer = self.toc if cut_off is None else CutOffToc(self.store, cut_off)
        segmenting = build_segmenting(self.store, self.clock, SegmentRules())
        rollup = build_rollup(self.store, self.clock)
        if model is not None:
            segmenting = replace(segmenting, summarizer=model)
            rollup = replace(rollup, summarizer=model)
        return BackgroundRebuild(
            reader=self.toc,
            writer=writer,
            editions=self.toc,
            segmenting=segmenting,
            rollup=rollup,
            toc_lock=nullcontext(),
            on_begin=self.begun.append,
            on_end=self.ended.append,
        )

    def records(self) -> dict[str, list[Row]]:
        return {family: everything(self.store, family) for family in families.ALL}


@pytest.fixture
def old() -> Iterator[OldStore]:
    created = OldStore()
    yield created
    created.store.close()


@pytest.fixture
def aged(old: OldStore) -> OldStore:
    """A store that an older version left."""
    old.append(STORY)
    old.build()
    age_contents(old.store)
    old.clock.at_ms += DAY
    return old


def finish(rebuild: BackgroundRebuild) -> int:
    steps = 0
    while rebuild.step():
        steps += 1
    return steps


def contents(nodes: Sequence[TocNode]) -> list[TocNode]:
    """Return the nodes without their history."""
    return [replace(node, version=0, created_ms=Millis(0)) for node in nodes]


def test_a_new_store_has_the_present_edition_at_once(old: OldStore) -> None:
    rebuild = old.rebuilding()
    rebuild.mark_new_store()
    assert old.toc.get_edition() == EditionRecord(edition=EDITION)
    old.append(STORY)
    old.build()
    assert (rebuild.is_due(), rebuild.status(), rebuild.step()) == (False, None, False)
    assert (old.begun, old.ended) == ([], [])


def test_the_first_run_marks_a_new_store_too(old: OldStore) -> None:
    assert not old.rebuilding().step()
    assert old.toc.get_edition() == EditionRecord(edition=EDITION)


def test_segments_without_a_record_are_of_the_first_edition(aged: OldStore) -> None:
    rebuild = aged.rebuilding()
    rebuild.mark_new_store()
    assert aged.toc.get_edition() is None
    assert rebuild.is_due()
    assert rebuild.status() == ContentsStatus(segments=0, total=5)
    assert rebuild.step()
    record = aged.toc.get_edition()
    assert record is not None
    assert (record.edition, record.rebuild is not None) == (1, True)


def test_it_happens_once(aged: OldStore) -> None:
    rebuild = aged.rebuilding()
    finish(rebuild)
    assert aged.toc.get_edition() == EditionRecord(edition=EDITION)
    assert (rebuild.is_due(), rebuild.status()) == (False, None)
    before = aged.records()
    assert not aged.rebuilding().step()
    assert aged.records() == before
    (begun,), (ended,) = aged.begun, aged.ended
    assert (begun.total, begun.done) == (5, 0)
    assert (ended.total, ended.done, ended.written) == (5, 5, len(list_nodes(aged.store)))


def test_the_newest_days_come_first_each_after_its_segments(aged: OldStore) -> None:
    rebuild = aged.rebuilding()
    reached: list[NodeId] = []
    while rebuild.step():
        record = aged.toc.get_edition()
        assert record is not None
        assert record.rebuild is not None
        assert record.rebuild.reached is not None
        reached.append(record.rebuild.reached)
    kinds = [node_id.split(":")[1] for node_id in reached]
    assert kinds == [*["segment", "day"] * 3, "week", "month", "year"]
    days = [node_id for node_id in reached if node_id.startswith("toc:day:")]
    assert days == ["toc:day:2026-03-11", "toc:day:2026-02-01", "toc:day:2026-01-30"]


def test_progress_counts_segments(aged: OldStore) -> None:
    rebuild = aged.rebuilding()
    seen = []
    while rebuild.step():
        status = rebuild.status()
        assert status is not None
        assert status.total == 5
        seen.append(status.segments)
    assert seen == [1, 1, 2, 2, 5, 5, 5, 5, 5]


def test_a_long_day_takes_several_steps(old: OldStore) -> None:
    old.append([(f"session {number}", number) for number in range(2 * BATCH + 1)])
    old.build()
    age_contents(old.store)
    rebuild = old.rebuilding()
    assert finish(rebuild) == 3 + 4  # and the day, week, month and year


def test_cut_off_at_any_step_it_ends_as_if_it_had_not_been() -> None:
    def build_aged() -> OldStore:
        created = OldStore()
        created.append(STORY)
        created.build()
        age_contents(created.store)
        created.clock.at_ms += DAY
        return created

    whole = build_aged()
    steps = finish(whole.rebuilding())
    expected = whole.records()
    for number in range(steps + 1):
        created = build_aged()
        with pytest.raises(CutOff):
            finish(created.rebuilding(cut_off=number))
        finish(created.rebuilding())
        assert created.records() == expected, number
        created.store.close()
    whole.store.close()


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 100 * 1440)),
        min_size=1,
        max_size=25,
        unique=True,
    ),
    st.integers(0, 9),
)
def test_the_rebuilt_table_equals_one_built_from_scratch(
    said: list[tuple[str, int]], cut_off: int
) -> None:
    old = OldStore(clock=SetClock(START + 50 * DAY))  # some of it is still to come
    old.append(said)
    old.build()
    scratch = contents(list_nodes(old.store))
    age_contents(old.store)
    old.clock.at_ms += DAY
    try:
        finish(old.rebuilding(cut_off=cut_off))
    except CutOff:
        finish(old.rebuilding())
    assert contents(list_nodes(old.store)) == scratch
    old.store.close()


def test_a_rebuilt_closed_segment_keeps_its_history(aged: OldStore) -> None:
    finish(aged.rebuilding())
    for node in list_nodes(aged.store):
        versions = aged.toc.list_versions(node.node_id, limit=9)
        assert node.version == 2
        assert [each.version for each in versions] == (
            [2, 1] if node.level is Level.SEGMENT else [2]
        )


def test_the_index_learns_of_every_rewritten_segment_and_of_no_other(aged: OldStore) -> None:
    newest = StoredEventLog(aged.store).watermark()
    finish(aged.rebuilding())
    entries = [entry for _, entry in StoredOutbox(aged.store).read(newest, limit=99)]
    assert len(set(entries)) == len(entries) == 5
    assert all(isinstance(entry, SegmentChanged) for entry in entries)
    newest = StoredEventLog(aged.store).watermark()
    aged.toc.commit(TocChange(edition=EditionRecord(edition=EDITION - 1)))
    finish(aged.rebuilding())  # every node is as it should be
    assert StoredOutbox(aged.store).read(newest, limit=99) == []


def test_an_edition_that_rises_during_a_rebuild_begins_it_anew(aged: OldStore) -> None:
    progress = RebuildProgress(edition=EDITION - 1, total=5, reached=NodeId("toc:year:2026"))
    aged.toc.commit(TocChange(edition=EditionRecord(edition=0, rebuild=progress)))
    rebuild = aged.rebuilding()
    assert rebuild.status() == ContentsStatus(segments=0, total=5)
    finish(rebuild)
    assert all(node.summary != "as it was once" for node in list_nodes(aged.store))


def test_an_open_segment_stays_open(old: OldStore) -> None:
    old.append([("a", 0), ("a", 1)])
    old.clock.at_ms = START + 2 * MINUTE
    old.build()
    before = contents(list_nodes(old.store))
    age_contents(old.store)
    finish(old.rebuilding())
    build_rollup(old.store, old.clock).run(lambda _: None)
    (segment,) = old.toc.list_open_segments(limit=9)
    assert old.toc.list_versions(segment.node_id, limit=9) == []
    assert contents(list_nodes(old.store)) == before
    bullets = [grip for node in list_nodes(old.store) for grip in node.grip_ids()]
    assert None not in old.toc.get_grips(bullets)


def test_live_changes_meanwhile_do_no_harm(aged: OldStore) -> None:
    aged.append([("a", 1), ("d", 41 * 1440), ("c", 40 * 1440 + 7)])
    rebuild = aged.rebuilding()
    rebuild.step()
    aged.build()
    rebuild.step()
    aged.append([("b", 4), ("e", 50 * 1440)])
    finish(rebuild)
    aged.build()
    scratch = OldStore(clock=aged.clock)
    scratch.append([*STORY, ("a", 1), ("d", 41 * 1440), ("c", 40 * 1440 + 7), ("b", 4)])
    scratch.append([("e", 50 * 1440)])
    scratch.build()
    assert contents(list_nodes(aged.store)) == contents(list_nodes(scratch.store))
    scratch.store.close()


def test_a_node_whose_events_are_lost_stays(aged: OldStore) -> None:
    gone = [key for key, _ in everything(aged.store, families.SESSION_EVENTS) if b"ses:c:" in key]
    deletes = tuple(Delete(families.SESSION_EVENTS, key) for key in gone)
    aged.store.submit([Batch(deletes)]).result(TIMEOUT)
    events = [key for key, _ in everything(aged.store, families.EVENTS) if b":c:" in key]
    aged.store.submit([Batch(tuple(Delete(families.EVENTS, key) for key in events))]).result(
        TIMEOUT
    )
    finish(aged.rebuilding())
    left = [node for node in list_nodes(aged.store) if node.summary == "as it was once"]
    assert [node.node_id[:23] for node in left] == ["toc:segment:2026-03-11:"]


class TestWithAModel:
    @pytest.fixture
    def written(self, old: OldStore) -> OldStore:
        """A store whose summaries a model wrote, except those of session b, which waits for it."""
        segmenting = build_segmenting(old.store, old.clock, SegmentRules())
        old.append([said for said in STORY if said[0] != "b"])
        model = replace(segmenting, summarizer=WritingModel(InlineWorker()))
        while model.step():
            pass
        old.append([said for said in STORY if said[0] == "b"])
        waiting = replace(segmenting, summarizer=FailedModel(InlineWorker()))
        while waiting.step():
            pass
        build_rollup(old.store, old.clock).run(lambda _: None)
        return old

    def test_it_is_not_asked_and_its_words_stay(self, written: OldStore) -> None:
        rewrite_nodes(written.store, lambda node: replace(node, session="", project=""))
        rewrite_nodes(
            written.store,
            lambda node: (
                node if node.level is Level.SEGMENT else replace(node, summary="by the model")
            ),
        )
        written.toc.commit(TocChange(edition=EditionRecord(edition=EDITION - 1)))
        before = written.toc.list_unfinished_segments(limit=9)
        written.clock.at_ms += 365 * DAY  # every period is over
        finish(written.rebuilding(model=SilentModel()))
        nodes = list_nodes(written.store)
        assert {node.summary for node in nodes if node.session != "b"} == {"by the model"}
        assert {node.project for node in nodes if node.level is Level.SEGMENT} == {"forge"}
        assert written.toc.list_unfinished_segments(limit=9) == before

    def test_old_segments_do_not_start_to_wait_for_it(self, aged: OldStore) -> None:
        finish(aged.rebuilding(model=SilentModel()))
        assert aged.toc.list_unfinished_segments(limit=9) == []
        segments = [node for node in list_nodes(aged.store) if node.level is Level.SEGMENT]
        assert all(node.summary != "as it was once" for node in segments)

    def test_those_that_wait_for_it_still_do(self, written: OldStore) -> None:
        waiting = written.toc.list_unfinished_segments(limit=9)
        assert {segment.session_id for segment in waiting} == {"b"}
        age_contents(written.store)
        finish(written.rebuilding(model=SilentModel()))
        assert written.toc.list_unfinished_segments(limit=9) == waiting
        assert all(find_node(written, each).summary != "as it was once" for each in waiting)


class FailedModel(ExtractiveSummarizer):
    """A model that fails: the fallback answers."""

    name = MODEL


def find_node(old: OldStore, segment: Segment) -> TocNode:
    (node,) = old.toc.get_nodes([segment.node_id])
    assert node is not None
    return node


def test_the_segment_of_a_node_is_found_with_and_without_its_session(old: OldStore) -> None:
    # Two sessions and two segments of one begin in the same millisecond.
    old.append([("a", 0), ("b", 0)])
    same = [
        Event(
            event_id=EventId(f"c:{number}"),
            session_id=SessionId("c"),
            at_ms=Millis(START),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text="word " * 2_000,
        )
        for number in range(3)
    ]
    StoredEventLog(old.store).append(same).result(TIMEOUT)
    old.build()
    segmenting = build_segmenting(old.store, old.clock, SegmentRules())
    nodes = [node for node in list_nodes(old.store) if node.level is Level.SEGMENT]
    assert len(nodes) == 5
    beginning = Position(at_ms=Millis(0), event_id=EventId(""))
    expected = {
        segment.node_id: segment
        for name in "abc"
        for segment in old.toc.list_segments(SessionId(name), beginning, limit=9)
    }
    for node in nodes:
        assert segmenting.find_segment(node) == expected[node.node_id]
        assert segmenting.find_segment(replace(node, session="")) == expected[node.node_id]
    assert segmenting.find_segment(replace(nodes[0], node_id=NodeId("toc:segment:x"))) is None
