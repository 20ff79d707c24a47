"""Reading the table of contents, down to the events of a bullet, over a real store."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.highlights import Highlight
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.toc import Grip, GripId, NodeWrite, TocChange, TocNode
from agent_memory.features.toc.services.contents import Contents, Expansion, TocBranch
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families, keys
from agent_memory.platform.store.batches import Batch, Delete
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import TIMEOUT, commit, unexpected
from tests.journal_sessions import write_segment
from tests.memory_engine import MemoryEngine

GRIP = GripId("grip:0000000000500:01KG7N3T00ABCDEFGHJKMNPQRS")


@pytest.fixture
def store() -> Iterator[OrderedStore]:
    made = CommittedStore(MemoryEngine(), watch=unexpected)
    yield made
    made.close()


@pytest.fixture
def contents(store: OrderedStore) -> Contents:
    return Contents(log=StoredEventLog(store), toc=StoredToc(store))


def write_days(store: OrderedStore, *days: str) -> None:
    """Write nodes for these days and all their ancestors, as a rollup would."""
    children: dict[periods.Period, set[periods.Period]] = {}
    for day in days:
        chain = periods.list_lineage(periods.Period(level=Level.DAY, first=date.fromisoformat(day)))
        children.setdefault(chain[0], set())
        for child, parent in pairwise(chain):
            children.setdefault(parent, set()).add(child)
    for period, held in children.items():
        by_time = sorted(held, key=lambda each: each.start_ms)
        write(
            store,
            TocNode(
                node_id=period.node_id,
                level=period.level,
                title=period.title,
                summary="",
                bullets=(),
                keywords=(),
                child_ids=tuple(each.node_id for each in by_time),
                start_ms=period.start_ms,
                end_ms=period.end_ms,
                version=1,
            ),
        )


def write(store: OrderedStore, *nodes: TocNode, kept: bool = False) -> None:
    StoredToc(store).commit(TocChange(nodes=tuple(NodeWrite(node=n, kept=kept) for n in nodes)))


def leaves(branches: list[TocBranch] | tuple[TocBranch, ...]) -> list[str]:
    found: list[str] = []
    for branch in branches:
        assert branch.branches or branch.node.level >= Level.DAY, f"{branch.node.node_id} is bare"
        found += leaves(branch.branches) or [branch.node.node_id.removeprefix("toc:day:")]
    return found


def append(store: OrderedStore, session: str, *times: int) -> None:
    events = [
        Event(
            event_id=EventId(f"{session}{at:04}"),
            session_id=SessionId(session),
            at_ms=Millis(at),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text=f"words at {at}",
        )
        for at in times
    ]
    StoredEventLog(store).append(events).result(TIMEOUT)


def write_grip(store: OrderedStore, start: str, end: str | None = None) -> Grip:
    made = Grip(
        grip_id=GRIP,
        excerpt="words",
        event_id_start=EventId(start),
        event_id_end=EventId(end or start),
        at_ms=Millis(500),
        source="extractive",
        node_id=NodeId("toc:segment:x"),
    )
    StoredToc(store).commit(TocChange(grips=(made,)))
    return made


def names(events: tuple[Event, ...]) -> list[str]:
    return [event.event_id for event in events]


class TestNodes:
    def test_an_empty_table_has_no_roots(self, contents: Contents) -> None:
        assert contents.list_years() == []
        assert contents.tree() == []

    def test_roots_are_the_years_newest_first(
        self, contents: Contents, store: OrderedStore
    ) -> None:
        write_days(store, "2024-05-05", "2026-01-30", "2025-07-07")
        assert [node.title for node in contents.list_years()] == ["2026", "2025", "2024"]

    @pytest.mark.parametrize("spelling", ["toc:week:2026:W05", "toc:week:2026-W05"])
    def test_a_node_is_found_in_either_spelling(
        self, contents: Contents, store: OrderedStore, spelling: str
    ) -> None:
        write_days(store, "2026-01-30")
        node = contents.get_node(spelling)
        assert node is not None
        assert node.title == "Week 5 of 2026"
        assert [child.title for child in contents.list_children(spelling).nodes] == [
            "Friday, January 30, 2026"
        ]
        assert contents.version(spelling, 1) == node

    @pytest.mark.parametrize("unknown", ["toc:year:1999", "garbage", "toc:week:2026:W99"])
    def test_an_unknown_node_gives_none(self, contents: Contents, unknown: str) -> None:
        assert contents.get_node(unknown) is None
        assert contents.version(unknown, 1) is None
        assert contents.history(unknown) == []
        assert contents.list_children(unknown).nodes == ()

    def test_history_has_the_kept_versions(self, contents: Contents, store: OrderedStore) -> None:
        write_days(store, "2026-01-30")
        node = contents.get_node("toc:year:2026")
        assert node is not None
        write(store, node, kept=True)
        assert contents.history("toc:year:2026") == [node]

    def test_an_empty_id_is_refused(self, contents: Contents) -> None:
        for ask in (contents.get_node, contents.history, contents.list_children, contents.expand):
            with pytest.raises(InvalidInput, match="must not be empty"):
                ask("")
        with pytest.raises(InvalidInput, match="must not be empty"):
            contents.version("", 1)


class TestChildren:
    @pytest.fixture
    def year(self, store: OrderedStore) -> str:
        days = [f"2026-{month:02}-15" for month in range(1, 13)]
        write_days(store, *days)
        return "toc:year:2026"

    def test_they_come_by_time_page_by_page(self, contents: Contents, year: str) -> None:
        titles: list[str] = []
        offset: int | None = 0
        sizes: list[int] = []
        while offset is not None:
            page = contents.list_children(year, limit=5, offset=offset)
            titles += [node.node_id for node in page.nodes]
            sizes.append(len(page.nodes))
            offset = page.next
        assert titles == [f"toc:month:2026:{month:02}" for month in range(1, 13)]
        assert sizes == [5, 5, 2]

    def test_the_last_full_page_has_no_next(self, contents: Contents, year: str) -> None:
        assert contents.list_children(year, limit=12).next is None
        assert contents.list_children(year, limit=4, offset=8).next is None

    def test_no_limit_means_the_default_and_a_page_past_the_end_is_empty(
        self, contents: Contents, year: str
    ) -> None:
        assert len(contents.list_children(year).nodes) == 12
        assert contents.list_children(year, offset=99).nodes == ()
        assert contents.list_children(year, offset=99).next is None

    @pytest.mark.parametrize(("limit", "expected"), [(0, 20), (100, 100), (5_000, 100)])
    def test_a_page_has_20_by_default_and_at_most_100(
        self, contents: Contents, store: OrderedStore, limit: int, expected: int
    ) -> None:
        write_days(store, "2026-01-30")
        day = contents.get_node("toc:day:2026-01-30")
        assert day is not None
        ids = [NodeId(f"toc:segment:2026-01-30:{number:026}") for number in range(150)]
        write(store, *(_with(day, node_id=each, level=Level.SEGMENT) for each in ids))
        write(store, _with(day, child_ids=tuple(ids)))
        page = contents.list_children("toc:day:2026-01-30", limit=limit)
        assert len(page.nodes) == page.next == expected

    def test_a_day_without_segments_has_none(self, contents: Contents, year: str) -> None:
        assert year
        assert contents.list_children("toc:day:2026-01-15").nodes == ()

    def test_negative_numbers_are_refused(self, contents: Contents, year: str) -> None:
        with pytest.raises(InvalidInput, match="negative"):
            contents.list_children(year, limit=-1)
        with pytest.raises(InvalidInput, match="negative"):
            contents.list_children(year, offset=-1)


def _with(
    node: TocNode,
    *,
    node_id: NodeId | None = None,
    level: Level | None = None,
    child_ids: tuple[NodeId, ...] = (),
) -> TocNode:
    return TocNode(
        node_id=node_id or node.node_id,
        level=level or node.level,
        title=node.title,
        summary="",
        bullets=(),
        keywords=(),
        child_ids=child_ids,
        start_ms=node.start_ms,
        end_ms=node.end_ms,
        version=2,
    )


class TestTree:
    DAYS = ("2025-12-29", "2026-01-15", "2026-01-30", "2026-02-01", "2026-02-02", "2027-01-01")

    def test_it_is_all_there_is_by_time(self, contents: Contents, store: OrderedStore) -> None:
        write_days(store, *self.DAYS)
        assert leaves(contents.tree()) == list(self.DAYS)

    def test_bounds_that_are_swapped_are_refused(self, contents: Contents) -> None:
        with pytest.raises(InvalidInput, match="swap them"):
            contents.tree(date(2026, 3, 1), date(2026, 1, 1))

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            ("2026-01-30", None, ["2026-01-30", "2026-02-01", "2026-02-02", "2027-01-01"]),
            (None, "2026-01-30", ["2025-12-29", "2026-01-15", "2026-01-30"]),
            ("2026-01-15", "2026-01-30", ["2026-01-15", "2026-01-30"]),
            ("2026-01-30", "2026-01-30", ["2026-01-30"]),
            # The parent month or year of a day may not contain it.
            ("2025-12-29", "2025-12-31", ["2025-12-29"]),
            ("2026-02-01", "2026-02-01", ["2026-02-01"]),
            ("2027-01-01", None, ["2027-01-01"]),
            ("2026-02-01", "2026-02-02", ["2026-02-01", "2026-02-02"]),
            # Without a day, none of its ancestors is shown either.
            ("2026-02-03", "2026-02-28", []),
            ("2026-01-16", "2026-01-29", []),
            ("2028-01-01", None, []),
            (None, "2025-12-28", []),
            ("2027-01-01", "9999-12-31", ["2027-01-01"]),
        ],
    )
    def test_bounds_are_days_both_included(
        self,
        contents: Contents,
        store: OrderedStore,
        start: str | None,
        end: str | None,
        expected: list[str],
    ) -> None:
        write_days(store, *self.DAYS)
        found = contents.tree(
            None if start is None else date.fromisoformat(start),
            None if end is None else date.fromisoformat(end),
        )
        assert leaves(found) == expected

    def test_a_depth_leaves_out_the_levels_below(
        self, contents: Contents, store: OrderedStore
    ) -> None:
        write_days(store, *self.DAYS)

        def find_lowest(branches: Sequence[TocBranch]) -> set[Level]:
            below = [find_lowest(branch.branches) or {branch.node.level} for branch in branches]
            return set().union(*below)

        for depth in (Level.YEAR, Level.MONTH, Level.WEEK, Level.DAY):
            assert find_lowest(contents.tree(depth=depth)) == {depth}

    def test_a_project_has_its_own_segments_highlights_and_figures(
        self, contents: Contents, store: OrderedStore
    ) -> None:
        write_days(store, "2026-01-15", "2026-01-30")
        held = [
            write_segment(store, name, "2026-01-15 10:00", [], project=name)
            for name in ("lantern", "harbour")
        ]
        (day,) = StoredToc(store).get_nodes([NodeId("toc:day:2026-01-15")])
        assert day is not None
        said = tuple(
            Highlight(text=f"About the {name}", grip_ids=(), weight=1.0, project=name)
            for name in ("lantern", "harbour")
        )
        ids = tuple(node.node_id for node in held)
        about = replace(day, summary="Of both", highlights=said, child_ids=ids, version=2)
        write(store, about)
        found = contents.tree(project="lantern")
        assert leaves(found) == [held[0].node_id]
        (own,) = found[0].branches[0].branches[0].branches
        assert [bullet.text for bullet in own.node.bullets] == ["About the lantern"]
        assert (own.node.summary, own.node.work.commits) == ("", 1)
        assert found[0].node.work.commits == 1
        assert leaves(contents.tree(project="lantern", depth=Level.DAY)) == ["2026-01-15"]
        assert contents.tree(project="nowhere") == []


class TestExpanding:
    def test_three_events_before_and_after_by_default(
        self, contents: Contents, store: OrderedStore
    ) -> None:
        append(store, "s", *range(100, 1_000, 100))
        grip = write_grip(store, "s0500")
        found = contents.expand(GRIP)
        assert found.grip == grip
        assert names(found.before) == ["s0200", "s0300", "s0400"]
        assert names(found.excerpt) == ["s0500"]
        assert names(found.after) == ["s0600", "s0700", "s0800"]

    def test_an_explicit_zero_means_no_events(
        self, contents: Contents, store: OrderedStore
    ) -> None:
        append(store, "s", 400, 500, 600)
        write_grip(store, "s0500")
        found = contents.expand(GRIP, before=0)
        assert (names(found.before), names(found.after)) == ([], ["s0600"])
        found = contents.expand(GRIP, after=0)
        assert (names(found.before), names(found.after)) == (["s0400"], [])

    def test_a_hundred_is_the_most(self, contents: Contents, store: OrderedStore) -> None:
        append(store, "s", *range(350, 651))
        write_grip(store, "s0500")
        found = contents.expand(GRIP, before=1_000, after=1_000)
        assert names(found.before) == [f"s{at:04}" for at in range(400, 500)]
        assert names(found.after) == [f"s{at:04}" for at in range(501, 601)]

    def test_other_sessions_stay_out(self, contents: Contents, store: OrderedStore) -> None:
        append(store, "s", 400, 500, 600)
        append(store, "t", 401, 499, 500, 501, 599)
        write_grip(store, "s0500")
        found = contents.expand(GRIP)
        assert names(found.before + found.excerpt + found.after) == ["s0400", "s0500", "s0600"]

    def test_events_of_the_same_millisecond_are_not_lost(
        self, contents: Contents, store: OrderedStore
    ) -> None:
        append(store, "s", 500)
        events = [
            Event(
                event_id=EventId(name),
                session_id=SessionId("s"),
                at_ms=Millis(500),
                type=EventType.USER_MESSAGE,
                role=EventRole.USER,
            )
            for name in ("r", "t")
        ]
        StoredEventLog(store).append(events).result(TIMEOUT)
        write_grip(store, "s0500")
        found = contents.expand(GRIP)
        assert (names(found.before), names(found.after)) == (["r"], ["t"])

    def test_a_range_is_all_of_it(self, contents: Contents, store: OrderedStore) -> None:
        append(store, "s", *range(300, 800))
        write_grip(store, "s0350", "s0600")
        found = contents.expand(GRIP, before=1, after=1)
        assert names(found.excerpt) == [f"s{at:04}" for at in range(350, 601)]
        assert (names(found.before), names(found.after)) == (["s0349"], ["s0601"])

    def test_an_unknown_grip_is_empty(self, contents: Contents) -> None:
        assert contents.expand("grip:unknown") == Expansion()

    def test_a_grip_whose_event_is_forgotten_stands_alone(
        self, contents: Contents, store: OrderedStore
    ) -> None:
        append(store, "s", 400, 500, 600)
        grip = write_grip(store, "s0500")
        forgotten = EventId("s0500")
        commit(
            store,
            Batch(
                (
                    Delete(families.EVENTS, keys.event(Millis(500), forgotten)),
                    Delete(families.EVENT_IDS, keys.event_id(forgotten)),
                )
            ),
        )
        assert contents.expand(GRIP) == Expansion(grip=grip)

    def test_negative_numbers_are_refused(self, contents: Contents) -> None:
        with pytest.raises(InvalidInput, match="events_before is -1"):
            contents.expand(GRIP, before=-1)
        with pytest.raises(InvalidInput, match="events_after is -2"):
            contents.expand(GRIP, after=-2)
