"""Rebuilding the table of contents: unchanged nodes stay, and a dry run writes nothing."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.editions import EDITION, EditionRecord
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.services.rebuild import Rebuild, RebuildResult
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.leadership import SoleLeadership
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Row
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import TIMEOUT, everything, unexpected
from tests.memory_engine import MemoryEngine
from tests.toc_harness import (
    SetClock,
    build_rollup,
    build_segmenting,
    list_nodes,
    rewrite_nodes,
)

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
START = 1_769_783_400_000  # 2026-01-30 14:30


@dataclass(frozen=True)
class RebuildParts:
    store: OrderedStore
    clock: SetClock

    def rebuild(self, rules: SegmentRules) -> Rebuild:
        return Rebuild(
            log=StoredEventLog(self.store),
            segmenting=build_segmenting(self.store, self.clock, rules),
            rollup=build_rollup(self.store, self.clock),
            reader=StoredToc(self.store),
            writer=StoredToc(self.store),
            editions=StoredToc(self.store),
            toc_lock=threading.Lock(),
            leadership=SoleLeadership(),
        )

    def append(self, session: str, *minutes: int) -> None:
        events = [
            Event(
                event_id=EventId(f"{session}:{minute}"),
                session_id=SessionId(session),
                at_ms=Millis(START + minute * MINUTE),
                type=EventType.USER_MESSAGE,
                role=EventRole.USER,
                text=f"We decided to rename module {minute} of {session}.",
            )
            for minute in minutes
        ]
        assert all(StoredEventLog(self.store).append(events).result(TIMEOUT))

    def contents(self) -> dict[str, list[Row]]:
        return {family: everything(self.store, family) for family in families.ALL}

    def records(self) -> dict[str, list[Row]]:
        """Return all rows but the outbox, which may announce a record again."""
        return {
            family: rows
            for family, rows in self.contents().items()
            if family not in (families.OUTBOX, families.META)
        }


@pytest.fixture
def parts() -> Iterator[RebuildParts]:
    store = CommittedStore(MemoryEngine(), watch=unexpected)
    yield RebuildParts(store=store, clock=SetClock(START + 30 * DAY))
    store.close()


def run(rebuild: Rebuild, *, dry_run: bool = False, since: date | None = None) -> RebuildResult:
    return rebuild.run(rebuild.sessions(since), dry_run=dry_run, on_progress=lambda _: None)


def test_an_empty_store_has_nothing_to_rebuild(parts: RebuildParts) -> None:
    assert run(parts.rebuild(SegmentRules())) == RebuildResult(
        sessions=0, written=0, removed=0, rolled_up=0
    )


def test_it_builds_the_table_from_the_events_alone(parts: RebuildParts) -> None:
    parts.append("a", 0, 5, 60)
    parts.append("b", 3)
    found = run(parts.rebuild(SegmentRules()))
    assert found == RebuildResult(sessions=2, written=3, removed=0, rolled_up=4)
    toc = StoredToc(parts.store)
    assert len(toc.list_ids("toc:segment:2026-01-30:", after=None, limit=9)) == 3
    assert len(toc.list_ids("toc:", after=None, limit=99)) == 7


def test_unchanged_nodes_stay_as_they_are(parts: RebuildParts) -> None:
    parts.append("a", 0, 5, 60)
    run(parts.rebuild(SegmentRules()))
    before = parts.records()
    parts.clock.at_ms += DAY
    assert run(parts.rebuild(SegmentRules())) == RebuildResult(
        sessions=1, written=0, removed=0, rolled_up=0
    )
    assert parts.records() == before


def test_a_rebuild_equals_processing_the_events(parts: RebuildParts) -> None:
    parts.append("a", 60, 0, 5)
    rebuild = parts.rebuild(SegmentRules())
    while rebuild.segmenting.step():
        pass
    rebuild.segmenting.seal()
    rebuild.rollup.run(lambda _: None)
    before = parts.records()
    parts.clock.at_ms += DAY
    assert run(rebuild).written == 0
    assert parts.records() == before


def test_other_rules_cut_again_and_old_segments_are_removed(parts: RebuildParts) -> None:
    parts.append("a", 0, 5, 10)
    run(parts.rebuild(SegmentRules(time_gap_ms=MINUTE)))
    parts.clock.at_ms += DAY
    found = run(parts.rebuild(SegmentRules()))
    assert (found.written, found.removed) == (1, 2)
    toc = StoredToc(parts.store)
    (left,) = toc.list_ids("toc:segment:", after=None, limit=9)
    (day,) = toc.get_nodes(toc.list_ids("toc:day:", after=None, limit=9))
    assert day is not None
    assert day.child_ids == (left,)


def test_a_dry_run_counts_changes_and_writes_nothing(parts: RebuildParts) -> None:
    parts.append("a", 0, 5, 10)
    run(parts.rebuild(SegmentRules(time_gap_ms=MINUTE)))
    before = parts.contents()
    parts.clock.at_ms += DAY
    found = run(parts.rebuild(SegmentRules()), dry_run=True)
    assert found == RebuildResult(sessions=1, written=1, removed=2, rolled_up=0)
    assert parts.contents() == before


def test_from_a_day_on_are_the_sessions_that_have_events_then(parts: RebuildParts) -> None:
    parts.append("old", 0)
    parts.append("both", 1, 3 * 24 * 60)
    parts.append("new", 2 * 24 * 60)
    rebuild = parts.rebuild(SegmentRules())
    assert rebuild.sessions(None) == ["old", "both", "new"]
    assert rebuild.sessions(date(2026, 1, 30)) == ["old", "both", "new"]
    assert rebuild.sessions(date(2026, 1, 31)) == ["new", "both"]
    assert rebuild.sessions(date(2026, 2, 3)) == []


def test_progress_is_reported_for_each_session(parts: RebuildParts) -> None:
    for name in "abc":
        parts.append(name, 0)
    told: list[int] = []
    rebuild = parts.rebuild(SegmentRules())
    rebuild.run(rebuild.sessions(None), dry_run=True, on_progress=told.append)
    assert told == [1, 2, 3]


def test_a_complete_rebuild_records_the_edition_and_writes_every_older_period(
    parts: RebuildParts,
) -> None:
    parts.append("a", 0, 5, 60)
    rebuild = parts.rebuild(SegmentRules())
    sessions, toc = rebuild.sessions(None), StoredToc(parts.store)
    rebuild.run(sessions, dry_run=False, on_progress=lambda _: None)
    rebuild.run(sessions, dry_run=True, on_progress=lambda _: None, complete=True)
    assert toc.get_edition() is None
    before = list_nodes(parts.store)
    rewrite_nodes(
        parts.store,
        lambda node: node if node.level is Level.SEGMENT else replace(node, summary="old"),
    )
    parts.clock.at_ms += DAY
    found = rebuild.run(sessions, dry_run=False, on_progress=lambda _: None, complete=True)
    assert (found.written, found.rolled_up) == (0, 4)
    assert toc.get_edition() == EditionRecord(edition=EDITION)
    assert [node.summary for node in list_nodes(parts.store)] == [node.summary for node in before]
    found = rebuild.run(sessions, dry_run=False, on_progress=lambda _: None, complete=True)
    assert found.rolled_up == 0


def test_events_not_yet_taken_in_are_not_lost_by_it(parts: RebuildParts) -> None:
    parts.append("a", 0, 5)
    rebuild = parts.rebuild(SegmentRules())
    run(rebuild)
    toc = StoredToc(parts.store)
    assert toc.cursor() == 0
    before = toc.get_nodes(toc.list_ids("toc:", after=None, limit=99))
    assert rebuild.segmenting.step() == 3  # the events, and the segment that was made of them
    rebuild.rollup.run(lambda _: None)
    assert toc.get_nodes(toc.list_ids("toc:", after=None, limit=99)) == before
