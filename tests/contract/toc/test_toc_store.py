"""The TocReader and TocWriter ports, over every store."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.editions import EditionRecord, RebuildProgress
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.toc import Bullet, Grip, GripId, NodeWrite, TocChange, TocNode
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from tests.contract.stores import OpenStore, commit, everything

ULID = "01KG7N3T00ABCDEFGHJKMNPQRS"
DAY = NodeId("toc:day:2026-01-30")
SEGMENT = NodeId(f"toc:segment:2026-01-30:{ULID}")
GRIP = GripId(f"grip:1769783400000:{ULID}")
OTHER = GripId(f"grip:1769783400001:{ULID}")
BEGINNING = Position(at_ms=Millis(0), event_id=EventId(""))


@pytest.fixture
def toc(store: OrderedStore) -> StoredToc:
    return StoredToc(store)


def node(
    node_id: str = DAY,
    *,
    version: int = 1,
    title: str = "Title",
    level: Level = Level.DAY,
    grips: tuple[GripId, ...] = (),
) -> TocNode:
    return TocNode(
        node_id=NodeId(node_id),
        level=level,
        title=title,
        summary="Sätze. 😀",
        bullets=(Bullet(text="one", grip_ids=grips, weight=0.25),) if grips else (),
        keywords=("key", "wörd"),
        child_ids=(NodeId("toc:segment:a"), NodeId("toc:segment:b")),
        start_ms=Millis(-5),
        end_ms=Millis(9_999_999_999_999),
        version=version,
        created_ms=Millis(1_769_783_400_000 + version),
    )


def segment_node(*, version: int = 1, grips: tuple[GripId, ...] = ()) -> TocNode:
    return node(SEGMENT, version=version, level=Level.SEGMENT, grips=grips)


def write(toc: StoredToc, *nodes: TocNode, kept: bool = False) -> None:
    toc.commit(TocChange(nodes=tuple(NodeWrite(node=each, kept=kept) for each in nodes)))


def grip(grip_id: GripId = GRIP) -> Grip:
    return Grip(
        grip_id=grip_id,
        excerpt="words, verbatim\n",
        event_id_start=EventId("first"),
        event_id_end=EventId("läst"),
        at_ms=Millis(7),
        source="extractive",
        node_id=SEGMENT,
    )


def segment(name: str, at_ms: int, *, session: str = "s", ended: bool = False) -> Segment:
    return Segment(
        session_id=SessionId(session),
        first=Position(at_ms=Millis(at_ms), event_id=EventId(name)),
        last=Position(at_ms=Millis(at_ms + 9), event_id=EventId(f"{name}:last")),
        tokens=12,
        count=3,
        ended=ended,
    )


def change(*segments: Segment, sealed: bool = False) -> TocChange:
    return TocChange(segments=segments, sealed=frozenset(segments if sealed else ()))


class TestNodes:
    @pytest.mark.parametrize("kept", [True, False])
    def test_one_comes_back_as_it_was(self, toc: StoredToc, kept: bool) -> None:
        given = node(grips=(GRIP, OTHER))
        write(toc, given, kept=kept)
        assert toc.get_nodes([DAY]) == [given]
        assert toc.get_version(DAY, 1) == given

    def test_every_level_comes_back(self, toc: StoredToc) -> None:
        given = [node(f"toc:{level.name.lower()}:x", level=level) for level in Level]
        write(toc, *given)
        assert toc.get_nodes([each.node_id for each in given]) == given

    def test_nodes_come_in_order_with_none_for_missing_ones(self, toc: StoredToc) -> None:
        a, b = node("toc:day:a"), node("toc:day:b")
        write(toc, a, b)
        asked = [NodeId("toc:day:b"), DAY, NodeId("toc:day:a"), NodeId("toc:day:b")]
        assert toc.get_nodes(asked) == [b, None, a, b]
        assert toc.get_nodes([]) == []

    def test_the_latest_is_the_one_written_last(self, toc: StoredToc) -> None:
        for version, kept in [(1, False), (2, True), (3, False), (4, False), (5, True)]:
            write(toc, node(version=version), kept=kept)
            assert toc.get_nodes([DAY]) == [node(version=version)]

    def test_below_gives_ids_in_order_page_by_page(self, toc: StoredToc) -> None:
        names = [NodeId(f"toc:year:{year}") for year in (2024, 2025, 2026)]
        write(toc, *(node(name) for name in reversed(names)), node("toc:month:2026:01"), node())
        assert toc.list_ids("toc:year:", after=None, limit=9) == names
        assert toc.list_ids("toc:year:", after=None, limit=2) == names[:2]
        assert toc.list_ids("toc:year:", after=names[0], limit=9) == names[1:]
        assert toc.list_ids("toc:year:", after=None, limit=9, reverse=True) == names[::-1]
        assert toc.list_ids("toc:year:", after=None, limit=2, reverse=True) == names[:0:-1]
        assert toc.list_ids("toc:year:", after=names[2], limit=9, reverse=True) == names[1::-1]
        assert toc.list_ids("toc:year:", after="toc:year:2025:", limit=9, reverse=True) == [
            names[1],
            names[0],
        ]
        assert toc.list_ids("toc:year:", after=names[2], limit=9) == []

    def test_a_node_with_several_versions_is_listed_once(self, toc: StoredToc) -> None:
        for version in range(1, 4):
            write(toc, node(version=version), kept=True)
        assert toc.list_ids("toc:day:", after=None, limit=9) == [DAY]


class TestVersions:
    def test_kept_versions_stay_and_others_are_replaced(self, toc: StoredToc) -> None:
        for version, kept in [(1, True), (2, False), (3, True), (4, False)]:
            write(toc, node(version=version), kept=kept)
        assert [toc.get_version(DAY, number) is not None for number in range(6)] == [
            False, True, False, True, True, False,
        ]  # fmt: skip
        assert toc.get_version(DAY, 1) == node(version=1)
        assert toc.get_version(DAY, 4) == node(version=4)

    def test_history_has_the_kept_versions_newest_first(self, toc: StoredToc) -> None:
        for version in range(1, 13):
            write(toc, node(version=version), kept=version % 2 == 0)
        found = toc.list_versions(DAY, limit=9)
        assert found == [node(version=version) for version in (12, 10, 8, 6, 4, 2)]
        assert toc.list_versions(DAY, limit=2) == found[:2]
        assert toc.list_versions(NodeId("toc:day:2026-01-3"), limit=9) == []

    def test_an_open_node_is_kept_when_it_is_closed(self, toc: StoredToc) -> None:
        write(toc, node(version=2))
        assert toc.list_versions(DAY, limit=9) == []
        write(toc, node(version=2), kept=True)
        assert toc.list_versions(DAY, limit=9) == [node(version=2)]
        assert toc.get_nodes([DAY]) == [node(version=2)]

    def test_a_removed_node_keeps_its_history(self, toc: StoredToc) -> None:
        write(toc, node(version=1), kept=True)
        write(toc, node(version=2))
        toc.commit(TocChange(gone=(DAY,)))
        assert toc.get_nodes([DAY]) == [None]
        assert toc.list_ids("toc:", after=None, limit=9) == []
        assert toc.list_versions(DAY, limit=9) == [node(version=1)]
        assert toc.get_version(DAY, 1) == node(version=1)
        assert toc.get_version(DAY, 2) is None

    def test_an_unknown_node_has_none(self, toc: StoredToc) -> None:
        assert toc.get_version(DAY, 1) is None
        assert toc.list_versions(DAY, limit=9) == []


class TestGripIds:
    def test_grips_are_listed_by_the_beginning_of_their_id(self, toc: StoredToc) -> None:
        toc.commit(TocChange(grips=(grip(GRIP), grip(OTHER))))
        assert toc.list_grips("grip:176978340000", limit=9) == [grip(GRIP), grip(OTHER)]
        assert toc.list_grips("grip:176978340000", limit=1) == [grip(GRIP)]
        assert toc.list_grips(OTHER, limit=9) == [grip(OTHER)]
        assert toc.list_grips("gripe", limit=9) == []


class TestSegments:
    def test_one_comes_back_as_it_was(self, toc: StoredToc) -> None:
        given = segment("e:1", 5, session="a:b%c", ended=True)
        toc.commit(change(given))
        assert toc.list_segments(given.session_id, BEGINNING, limit=9) == [given]

    def test_from_a_place_on_and_back_from_it_that_place_included(self, toc: StoredToc) -> None:
        given = [segment(str(at), at) for at in (10, 20, 30)]
        toc.commit(change(*given, segment("x", 20, session="t")))

        def names(at_ms: int, name: str, *, limit: int = 9, reverse: bool = False) -> list[str]:
            start = Position(at_ms=Millis(at_ms), event_id=EventId(name))
            found = toc.list_segments(SessionId("s"), start, limit=limit, reverse=reverse)
            return [each.first.event_id for each in found]

        assert names(20, "20") == ["20", "30"]
        assert names(20, "20!") == ["30"]
        assert names(0, "", limit=2) == ["10", "20"]
        assert names(20, "20", reverse=True) == ["20", "10"]
        assert names(20, "1", reverse=True) == ["10"]
        assert names(99, "", reverse=True, limit=1) == ["30"]
        assert names(5, "", reverse=True) == []

    def test_sessions_with_similar_names_are_apart(self, toc: StoredToc) -> None:
        similar = ["a", "a:b", "a%3Ab", "a%", "ab"]
        toc.commit(change(*(segment("e", 5, session=name) for name in similar)))
        for name in similar:
            assert [
                s.session_id for s in toc.list_segments(SessionId(name), BEGINNING, limit=9)
            ] == [name]

    def test_one_is_open_until_it_is_sealed(self, toc: StoredToc) -> None:
        a, b = segment("a", 1, session="x:1"), segment("b", 2)
        toc.commit(change(a, b))
        assert set(toc.list_open_segments(limit=9)) == {a, b}
        assert len(toc.list_open_segments(limit=1)) == 1
        toc.commit(change(a, sealed=True))
        assert toc.list_open_segments(limit=9) == [b]

    def test_one_that_grows_is_replaced(self, toc: StoredToc) -> None:
        small = segment("a", 1)
        large = replace(small, count=9, last=Position(at_ms=Millis(99), event_id=EventId("z")))
        toc.commit(change(small))
        toc.commit(change(large))
        assert toc.list_segments(SessionId("s"), BEGINNING, limit=9) == [large]
        assert toc.list_open_segments(limit=9) == [large]

    def test_a_segment_is_unfinished_until_it_is_written_again(self, toc: StoredToc) -> None:
        given = segment("a", 1)
        waiting = replace(change(given, sealed=True), unfinished=frozenset({given}))
        toc.commit(waiting)
        assert toc.list_unfinished_segments(limit=9) == [given]
        toc.commit(change(given, sealed=True))
        assert toc.list_unfinished_segments(limit=9) == []

    def test_a_lost_segment_is_removed_everywhere(self, toc: StoredToc) -> None:
        given = segment("a", 1)
        toc.commit(replace(change(given), unfinished=frozenset({given})))
        toc.commit(TocChange(lost_segments=(given,)))
        assert toc.list_segments(SessionId("s"), BEGINNING, limit=9) == []
        assert toc.list_open_segments(limit=9) == []
        assert toc.list_unfinished_segments(limit=9) == []


class TestDirty:
    def test_marks_are_per_level_and_in_order(self, toc: StoredToc) -> None:
        week, month = NodeId("toc:week:2026:W05"), NodeId("toc:month:2026:01")
        later = NodeId("toc:day:2026-01-31")
        toc.commit(TocChange(dirty=frozenset({later, DAY, week, month})))
        assert toc.list_dirty(Level.DAY, limit=9) == [DAY, later]
        assert toc.list_dirty(Level.DAY, limit=1) == [DAY]
        assert toc.list_dirty(Level.WEEK, limit=9) == [week]
        assert toc.list_dirty(Level.MONTH, limit=9) == [month]
        assert toc.list_dirty(Level.YEAR, limit=9) == []

    def test_a_change_that_cleans_and_marks_a_node_leaves_it_dirty(self, toc: StoredToc) -> None:
        toc.commit(TocChange(dirty=frozenset({DAY})))
        toc.commit(TocChange(clean=frozenset({DAY}), dirty=frozenset({DAY})))
        assert toc.list_dirty(Level.DAY, limit=9) == [DAY]
        toc.commit(TocChange(clean=frozenset({DAY})))
        assert toc.list_dirty(Level.DAY, limit=9) == []


class TestGrips:
    def test_one_comes_back_as_it_was(self, toc: StoredToc) -> None:
        toc.commit(TocChange(grips=(grip(),)))
        assert toc.get_grips([GRIP])[0] == grip()
        assert toc.get_grips([OTHER])[0] is None
        assert toc.get_grips([""])[0] is None

    def test_stale_ones_are_there_until_they_are_collected(self, toc: StoredToc) -> None:
        toc.commit(TocChange(grips=(grip(), grip(OTHER))))
        toc.commit(TocChange(stale_grips=(GRIP,)))
        assert toc.get_grips([GRIP])[0] == grip()
        assert toc.remove_stale_grips() == 1
        assert toc.get_grips([GRIP])[0] is None
        assert toc.get_grips([OTHER])[0] == grip(OTHER)
        assert toc.remove_stale_grips() == 0

    def test_one_that_is_written_again_is_no_longer_stale(self, toc: StoredToc) -> None:
        toc.commit(TocChange(grips=(grip(),)))
        toc.commit(TocChange(stale_grips=(GRIP,)))
        toc.commit(TocChange(grips=(grip(),)))
        assert toc.remove_stale_grips() == 0
        assert toc.get_grips([GRIP])[0] == grip()

    def test_a_kept_version_of_a_period_pins_its_grips(self, toc: StoredToc) -> None:
        toc.commit(TocChange(grips=(grip(), grip(OTHER))))
        write(toc, node(grips=(GRIP,)), kept=True)
        write(toc, node(version=2, grips=(OTHER,)))
        toc.commit(TocChange(stale_grips=(GRIP, OTHER)))
        assert toc.remove_stale_grips() == 1
        assert toc.get_grips([GRIP])[0] == grip()
        assert toc.get_grips([OTHER])[0] is None

    def test_more_than_a_page_of_them_are_collected(
        self, toc: StoredToc, store: OrderedStore
    ) -> None:
        names = [GripId(f"grip:{number:013}:{ULID}") for number in range(1_001)]
        toc.commit(TocChange(grips=tuple(map(grip, names)), stale_grips=()))
        toc.commit(TocChange(stale_grips=tuple(names)))
        assert toc.remove_stale_grips() == 1_001
        assert everything(store, families.GRIPS) == []
        assert everything(store, families.TOC_STATE) == []


class TestCommit:
    def test_the_cursor_starts_at_0_and_is_stored(self, toc: StoredToc) -> None:
        assert toc.cursor() == 0
        toc.commit(TocChange(cursor=41))
        toc.commit(TocChange(dirty=frozenset({DAY})))
        assert toc.cursor() == 41
        toc.commit(TocChange(cursor=1_000_000_000_000))
        assert toc.cursor() == 1_000_000_000_000

    def test_no_change_writes_nothing(self, toc: StoredToc, store: OrderedStore) -> None:
        toc.commit(TocChange())
        assert [everything(store, family) for family in families.ALL] == [[]] * len(families.ALL)

    def test_a_change_is_one_batch(self, store: OrderedStore) -> None:
        """No reader and no crash may see half of it."""

        class Counting:
            submitted = 0

            def __getattr__(self, name: str) -> object:
                self.submitted += name == "submit"
                return getattr(store, name)

        counting = Counting()
        toc = StoredToc(counting)  # type: ignore[arg-type]
        given = segment("a", 1)
        toc.commit(
            TocChange(
                nodes=(
                    NodeWrite(node=segment_node(grips=(GRIP,)), kept=True),
                    NodeWrite(node=node(), kept=False),
                ),
                gone=(NodeId("toc:year:2020"),),
                grips=(grip(),),
                stale_grips=(OTHER,),
                segments=(given,),
                lost_segments=(segment("b", 2),),
                dirty=frozenset({DAY}),
                cursor=7,
            )
        )
        assert counting.submitted == 1
        assert toc.get_nodes([SEGMENT, DAY]) == [segment_node(grips=(GRIP,)), node()]
        assert toc.cursor() == 7

    def test_it_all_outlives_a_restart(self, open_durable: OpenStore, tmp_path: Path) -> None:
        first = open_durable(tmp_path)
        given = segment("a", 1)
        toc = StoredToc(first)
        write(toc, segment_node(grips=(GRIP,)), kept=True)
        toc.commit(TocChange(grips=(grip(),), segments=(given,), dirty=frozenset({DAY}), cursor=3))
        first.close()
        second = open_durable(tmp_path)
        try:
            again = StoredToc(second)
            assert again.get_nodes([SEGMENT]) == [segment_node(grips=(GRIP,))]
            assert again.list_versions(SEGMENT, limit=9) == [segment_node(grips=(GRIP,))]
            assert again.get_grips([GRIP])[0] == grip()
            assert again.list_open_segments(limit=9) == [given]
            assert again.list_dirty(Level.DAY, limit=9) == [DAY]
            assert again.cursor() == 3
        finally:
            second.close()


DAMAGED = [b"", b"\x00", b"\x02abc", b"\x01", b"\x01garbage", b"\x01\x91\x01", b"\x01\xc1"]


@pytest.mark.parametrize("value", DAMAGED, ids=ascii)
class TestDamage:
    def damage(self, store: OrderedStore, family: str, value: bytes) -> None:
        rows = everything(store, family)
        assert rows
        commit(store, Batch(tuple(Put(family, key, value) for key, _ in rows)))

    def test_of_a_node(self, toc: StoredToc, store: OrderedStore, value: bytes) -> None:
        write(toc, node(), kept=True)
        self.damage(store, families.TOC_NODES, value)
        with pytest.raises(StorageFailed):
            toc.get_nodes([DAY])
        with pytest.raises(StorageFailed):
            toc.get_version(DAY, 1)
        with pytest.raises(StorageFailed):
            toc.list_versions(DAY, limit=9)

    def test_of_a_pointer(self, toc: StoredToc, store: OrderedStore, value: bytes) -> None:
        write(toc, node())
        self.damage(store, families.TOC_LATEST, value)
        with pytest.raises(StorageFailed):
            toc.get_nodes([DAY])

    def test_of_a_grip(self, toc: StoredToc, store: OrderedStore, value: bytes) -> None:
        toc.commit(TocChange(grips=(grip(),)))
        self.damage(store, families.GRIPS, value)
        with pytest.raises(StorageFailed):
            toc.get_grips([GRIP])[0]

    def test_of_a_segment(self, toc: StoredToc, store: OrderedStore, value: bytes) -> None:
        toc.commit(change(segment("a", 1)))
        self.damage(store, families.SEGMENTS, value)
        with pytest.raises(StorageFailed):
            toc.list_segments(SessionId("s"), BEGINNING, limit=9)
        with pytest.raises(StorageFailed):
            toc.list_open_segments(limit=9)

    def test_of_the_cursor(self, toc: StoredToc, store: OrderedStore, value: bytes) -> None:
        toc.commit(TocChange(cursor=3))
        self.damage(store, families.PROGRESS, value)
        with pytest.raises(StorageFailed):
            toc.cursor()


class TestEdition:
    def test_a_store_has_none_until_it_is_written(self, toc: StoredToc) -> None:
        assert toc.get_edition() is None

    @pytest.mark.parametrize(
        "record",
        [
            EditionRecord(edition=2),
            EditionRecord(edition=1, rebuild=RebuildProgress(edition=2, total=9)),
            EditionRecord(
                edition=1,
                rebuild=RebuildProgress(
                    edition=3, total=10**9, reached=SEGMENT, done=7, written=6, spent_ms=10**12
                ),
            ),
        ],
    )
    def test_it_comes_back_as_it_was(self, toc: StoredToc, record: EditionRecord) -> None:
        toc.commit(TocChange(edition=EditionRecord(edition=1)))
        toc.commit(TocChange(edition=record))
        assert toc.get_edition() == record

    def test_a_change_without_one_leaves_it(self, toc: StoredToc) -> None:
        toc.commit(TocChange(edition=EditionRecord(edition=2)))
        write(toc, node())
        assert toc.get_edition() == EditionRecord(edition=2)

    def test_only_present_segments_are_counted(self, toc: StoredToc) -> None:
        assert toc.count_segments() == 0
        write(toc, node(), segment_node(version=1), kept=True)
        write(toc, segment_node(version=2), kept=True)
        assert toc.count_segments() == 1
        toc.commit(TocChange(gone=(SEGMENT,)))
        assert toc.count_segments() == 0

    def test_a_redrafted_segment_is_announced_and_keeps_its_marks(
        self, toc: StoredToc, store: OrderedStore
    ) -> None:
        waiting, growing = segment("a", 1), segment("b", 2)
        toc.commit(
            TocChange(
                segments=(waiting, growing),
                sealed=frozenset({waiting}),
                unfinished=frozenset({waiting}),
            )
        )
        nodes = [node(each.node_id, level=Level.SEGMENT) for each in (waiting, growing)]
        toc.commit(
            TocChange(
                nodes=tuple(NodeWrite(node=each, kept=False) for each in nodes),
                redrafted=(waiting, growing),
            )
        )
        assert toc.list_unfinished_segments(limit=9) == [waiting]
        assert toc.list_open_segments(limit=9) == [growing]
        assert len(everything(store, families.OUTBOX)) == 2
