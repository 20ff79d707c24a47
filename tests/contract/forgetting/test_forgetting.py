"""The ports of forgetting, over every store: plan, removal, erasure, search for traces."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.features.checkpoints.adapters.graph_store import StoredGraphs
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.forgetting.adapters.forgetting_plan import (
    StoredForgettingPlan,
)
from agent_memory.features.forgetting.adapters.traces import StoredTraces
from agent_memory.features.forgetting.model.forgetting import (
    ErasureProof,
    ForgettingReport,
    NeedleMatch,
)
from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.index.adapters.vectors import FlatVectors
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import SessionPosition
from agent_memory.features.log.model.outbox import EventChanged
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.toc import Erasure, TocChange
from agent_memory.kernel.errors import Cancelled, IndexFailed, StorageClosed, StorageFailed
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from tests import graph_values
from tests.contract.documents import ANYTHING, by_owner, document, scratch, unit
from tests.contract.stores import TIMEOUT, OpenStore, commit, everything, memory
from tests.contract.toc.test_toc_store import (
    DAY,
    GRIP,
    OTHER,
    SEGMENT,
    grip,
    node,
    segment_node,
    write,
)
from tests.forgetting_parts import ManualClock
from tests.memory_engine import MemoryEngine
from tests.recall_parts import make_event

ODD = "s:1 %ä"


def place(name: str, at_ms: int = 5, session: str = ODD) -> SessionPosition:
    return SessionPosition(
        SessionId(session), Position(at_ms=Millis(at_ms), event_id=EventId(name))
    )


def nothing(_: int) -> None:
    """Who is told how far it is, and goes on."""


class TestPlan:
    def test_it_keeps_what_was_added_by_session_and_time(self, store: OrderedStore) -> None:
        plan = StoredForgettingPlan(store, ManualClock())
        added = [place("b", 9), place("a:b", 5), place("z", 7, session="r")]
        plan.add(added)
        plan.add(added[:1])
        plan.add_segments([place("first", 1)])
        assert plan.list_events() == [added[2], added[1], added[0]]
        assert plan.list_segments() == [place("first", 1)]

    def test_it_is_decided_only_when_all_is_listed(self, store: OrderedStore) -> None:
        plan = StoredForgettingPlan(store, ManualClock())
        plan.add([place("a")])
        assert plan.get_decision() is None
        plan.decide("chosen")
        assert plan.get_decision() == "chosen"

    def test_cleared_it_leaves_nothing_and_touches_nothing_else(self, store: OrderedStore) -> None:
        other = (b"checkpoint:job", b"\x01x")
        commit(store, Batch((Put(families.PROGRESS, *other),)))
        plan = StoredForgettingPlan(store, ManualClock())
        plan.add([place("a")])
        plan.add_segments([place("a")])
        plan.add_needles({b"the lantern"})
        plan.decide("chosen")
        plan.clear()
        assert plan.get_decision() is None
        assert everything(store, plan.family) == [other]

    def test_it_outlives_a_restart(self, open_durable: OpenStore, tmp_path: Path) -> None:
        store = open_durable(tmp_path)
        plan = StoredForgettingPlan(store, ManualClock())
        plan.add([place("a")])
        plan.add_needles({b"the lantern"})
        plan.add_needles({b"the attic", b"\x00\xff"})
        plan.decide("chosen")
        store.close()
        again = open_durable(tmp_path)
        assert StoredForgettingPlan(again, ManualClock()).get_decision() == "chosen"
        assert StoredForgettingPlan(again, ManualClock()).list_needles() == {
            b"the lantern",
            b"the attic",
            b"\x00\xff",
        }
        assert StoredForgettingPlan(again, ManualClock()).list_events() == [place("a")]
        again.close()

    def test_what_is_to_be_searched_for_is_not_found_in_it(self, store: OrderedStore) -> None:
        plan = StoredForgettingPlan(store, ManualClock())
        plan.add_needles({b"the lantern"})
        rows = everything(store, plan.family)
        assert not any(b"lantern" in part for row in rows for part in row)


class TestReports:
    def test_the_newest_of_each_name_is_found(self, store: OrderedStore) -> None:
        clock = ManualClock()
        plan = StoredForgettingPlan(store, clock)
        proof = ErasureProof(needles=3, found_in=("events",))
        for count in (1, 2):
            clock.at_ms += 1
            plan.save_report(
                "a", ForgettingReport(events=count, proof=proof, unreachable=("copies",))
            )
        assert plan.find_report("a") == ForgettingReport(
            events=2, proof=proof, unreachable=("copies",)
        )
        assert plan.find_report("b") is None

    def test_the_oldest_make_room(self, store: OrderedStore) -> None:
        clock = ManualClock()
        plan = StoredForgettingPlan(store, clock)
        for number in range(103):
            clock.at_ms += 1
            plan.save_report(f"{number:03}", ForgettingReport(events=number))
        left = [n for n in range(103) if plan.find_report(f"{n:03}") is not None]
        assert left == list(range(3, 103))


class TestRemoval:
    def test_event_and_entry_go_and_the_id_stays(self, store: OrderedStore) -> None:
        log = StoredEventLog(store)
        gone, stays = make_event("one", 5, session=ODD), make_event("two", 6, session=ODD)
        log.append([gone, stays]).result(TIMEOUT)
        log.remove([SessionPosition(gone.session_id, gone.position)])
        assert log.get(gone.event_id) is None
        assert log.get_at([gone.position, stays.position]) == [stays]
        assert log.list_session(gone.session_id, after=None, limit=9).events == (stays,)
        assert log.list_between(Millis(0), Millis(9), after=None, limit=9).events == (stays,)
        assert log.append([gone]).result(TIMEOUT) == [False]
        assert [key for key, _ in everything(store, families.EVENT_IDS)] == [
            b"eid:" + each.event_id.encode() for each in (gone, stays)
        ]

    def test_the_indexes_are_told_once(self, store: OrderedStore) -> None:
        log, outbox = StoredEventLog(store), StoredOutbox(store)
        event = make_event("one", 5)
        log.append([event]).result(TIMEOUT)
        for _ in range(2):
            log.remove([SessionPosition(event.session_id, event.position), place("unknown")])
        entries = [entry for _, entry in outbox.read(0, limit=9)]
        assert entries == [EventChanged(at=event.position)] * 2  # its coming, and its going


class TestErasure:
    def test_only_the_named_versions_go(self, store: OrderedStore) -> None:
        toc = StoredToc(store)
        for version in (1, 2, 3):
            write(toc, node(version=version), kept=True)
        toc.erase(Erasure(versions=((DAY, 1), (DAY, 2))))
        assert [each.version for each in toc.list_versions(DAY, limit=9)] == [3]
        assert toc.get_nodes([DAY]) == [node(version=3)]

    def test_grips_of_an_event_are_found_and_go_with_their_marks(self, store: OrderedStore) -> None:
        toc = StoredToc(store)
        toc.commit(TocChange(grips=(grip(GRIP), grip(OTHER))))
        toc.commit(TocChange(stale_grips=(OTHER,)))
        write(toc, node(grips=(GRIP,)), kept=True)  # pins it
        at = Position(at_ms=Millis(1_769_783_400_000), event_id=EventId("first"))
        assert toc.find_grips(at) == [grip(GRIP)]
        assert toc.find_grips(Position(at_ms=at.at_ms, event_id=EventId("other"))) == []
        toc.erase(Erasure(grips=(GRIP,)))
        assert toc.get_grips([GRIP, OTHER]) == [None, grip(OTHER)]
        marks = [key for key, _ in everything(store, families.TOC_STATE)]
        assert marks == [b"stale:" + OTHER.encode()]

    def test_one_that_nobody_holds_is_collected_once_it_is_not_pinned(
        self, store: OrderedStore
    ) -> None:
        toc = StoredToc(store)
        toc.commit(TocChange(grips=(grip(GRIP), grip(OTHER))))
        write(toc, segment_node(grips=(GRIP,)), kept=True)
        write(toc, node(grips=(GRIP, OTHER)), kept=True)
        toc.erase(Erasure(stale_grips=(GRIP, OTHER), unpinned=(OTHER,)))
        assert toc.remove_stale_grips() == 1
        assert toc.get_grips([GRIP, OTHER]) == [grip(GRIP), None]
        assert toc.get_nodes([SEGMENT]) == [segment_node(grips=(GRIP,))]


class TestTraces:
    def test_keys_and_values_of_every_family_are_searched(self, store: OrderedStore) -> None:
        wanted = {f"needle-{name}".encode() for name in families.ALL}
        for number, name in enumerate(families.ALL):
            needle = f"needle-{name}".encode()
            row = (b"x" + needle, b"\x01") if number % 2 else (b"x", b"\x01y" + needle + b"z")
            commit(store, Batch((Put(name, *row),)))
        traces = StoredTraces(store, list)
        stored = (families.EVENTS, families.MEMORIES, families.FACTS, families.GRAPH_CHECKPOINTS)
        assert traces.search_kept(wanted) == {f"needle-{name}".encode() for name in stored}
        found = traces.search_rows(wanted, nothing)
        assert found == {
            NeedleMatch(name, f"needle-{name}".encode())
            for name in families.ALL
            if name not in stored
        }

    def test_the_states_of_graphs_are_searched_as_what_is_kept(self, store: OrderedStore) -> None:
        graphs = StoredGraphs(store, GraphTally(store))
        state = graph_values.checkpoint(blob=b"in a state", much="in metadata")
        graphs.put(state).result(TIMEOUT)
        writes = [graph_values.write(value=b"in a write")]
        graphs.put_writes(state.place, writes).result(TIMEOUT)
        wanted = {b"in a state", b"in metadata", b"in a write", b"nowhere"}
        traces = StoredTraces(store, list)
        assert traces.search_kept(wanted) == wanted - {b"nowhere"}
        assert traces.search_rows(wanted, nothing) == frozenset()

    def test_files_are_searched_over_the_ends_of_pieces(
        self, store: OrderedStore, tmp_path: Path
    ) -> None:
        folder = tmp_path / "data"
        (folder / "below").mkdir(parents=True)
        piece = 4 << 20
        for number, at in enumerate((0, piece - 5, piece, 2 * piece - 1, 3 * piece - 12)):
            content = bytearray(3 * piece)
            content[at : at + 12] = b"twelve-bytes"
            (folder / "below" / f"{number}").write_bytes(content)
        (folder / "clean").write_bytes(os.urandom(1 << 16))
        (folder / "LOG").write_bytes(b"twelve-bytes")
        (folder / "link").symlink_to("below/0")
        found = StoredTraces(store, lambda: [folder, tmp_path / "none"]).search_files(
            {b"twelve-bytes", b"absent-bytes"}, nothing
        )
        assert found.traces == {NeedleMatch(f"data/below/{n}", b"twelve-bytes") for n in range(5)}
        assert found.files == 6
        assert found.size_bytes >= 15 * piece

    def test_in_what_is_kept_case_and_blanks_do_not_matter(self, store: OrderedStore) -> None:
        commit(store, Batch((Put(families.EVENTS, b"k", b"\x01So  WE\nsaw the Ships today"),)))
        wanted = {b"we saw the ships", b"saw the SHIPS", b"we saw no ships"}
        assert StoredTraces(store, list).search_kept(wanted) == wanted - {b"we saw no ships"}

    def test_of_many_only_long_ones_are_looked_for_in_tables(
        self, store: OrderedStore, tmp_path: Path
    ) -> None:
        long = b"long enough that it is not there by chance"
        for name in ("1.sst", "1.log"):
            (tmp_path / name).write_bytes(b"short one, " + long)
        traces = StoredTraces(store, lambda: [tmp_path])
        few = {b"short one", long}
        assert len(traces.search_files(few, nothing).traces) == 4
        many = few | {b"other-%06d" % n for n in range(2_000)}
        found = {
            (Path(place).name, needle) for place, needle in traces.search_files(many, nothing)[2]
        }
        assert found == {("1.sst", long), ("1.log", long), ("1.log", b"short one")}

    def test_a_file_that_cannot_be_read_is_told(self, store: OrderedStore, tmp_path: Path) -> None:
        (tmp_path / "shut").write_bytes(b"twelve-bytes")
        (tmp_path / "shut").chmod(0)
        found = StoredTraces(store, lambda: [tmp_path]).search_files({b"twelve-bytes"}, nothing)
        readable = os.access(tmp_path / "shut", os.R_OK)  # to root every file is
        assert found.unreadable == (() if readable else (f"{tmp_path.name}/shut",))

    def test_it_can_be_stopped(self, store: OrderedStore, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        traces = StoredTraces(store, lambda: [tmp_path])

        def stop(_: int) -> None:
            raise Cancelled

        with pytest.raises(Cancelled):
            traces.search_rows({b"needle"}, stop)
        with pytest.raises(Cancelled):
            traces.search_files({b"needle"}, stop)

    # Few bytes, so that needles begin alike and lie in one another.
    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.text("ab", min_size=6, max_size=14), max_size=8),
        st.text("ab", max_size=200),
        st.integers(0, 20),
    )
    def test_it_finds_just_what_is_there(self, wanted: list[str], text: str, cut_off: int) -> None:
        needles = {each.encode() for each in wanted} | {b"other-%d" % n for n in range(300)}
        data = text.encode()[: max(0, len(text) - cut_off)]
        with scratch() as folder:
            (folder / "file").write_bytes(data)
            with closing(memory(folder)) as store:
                found = StoredTraces(store, lambda: [folder]).search_files(needles, nothing)
        assert {trace.needle for trace in found.traces} == {n for n in needles if n in data}


class TestMaintenanceInMemory:
    def test_it_counts_and_has_nothing_to_compact(self) -> None:
        engine = MemoryEngine()
        engine.write([Put(families.EVENTS, b"key", b"value")])
        stats = engine.stats()
        assert [each.name for each in stats.families] == list(families.ALL)
        assert (stats.entries(families.EVENTS), stats.size_bytes) == (1, 8)
        engine.compact(families.EVENTS)
        with pytest.raises(StorageFailed):
            engine.compact("nobody")
        engine.close()
        with pytest.raises(StorageClosed):
            engine.stats()


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as found:
        yield found


class TestLexicalAfresh:
    @pytest.fixture
    def index(self, folder: Path) -> Iterator[TantivyIndex]:
        found = TantivyIndex(folder / "lexical")
        yield found
        found.close()

    def test_what_was_removed_is_in_no_file(self, index: TantivyIndex, folder: Path) -> None:
        index.replace(by_owner([document("a", "zanzibar"), document("b", "harbour")]), cursor=1)
        index.replace({document("a").owner: []}, cursor=2)
        before = {each.name for each in (folder / "lexical").iterdir() if "-" not in each.name}
        # Removed, and there until a merge: in the dictionary of terms, which is compressed.
        assert index.get_statistics(["zanzibar"]).frequencies == {"zanzibar": 1}
        index.begin(afresh=True)
        assert _names(index, "harbour") == ["b"]  # it answers meanwhile
        index.replace(by_owner([document("b", "harbour")]))
        index.finish(cursor=3)
        after = {each.name for each in (folder / "lexical").iterdir()}
        assert {name for name in before & after if not name.endswith((".json", ".lock"))} == set()
        assert index.get_statistics(["zanzibar"]).frequencies == {"zanzibar": 0}
        assert _names(index, "harbour") == ["b"]
        assert index.cursor() == 3
        assert sorted(each.name for each in folder.iterdir()) == ["lexical"]

    def test_it_goes_on_afterwards(self, index: TantivyIndex, folder: Path) -> None:
        index.begin(afresh=True)
        index.replace(by_owner([document("a", "harbour")]))
        index.finish(cursor=1)
        index.replace(by_owner([document("b", "harbour")]), cursor=2)
        assert sorted(_names(index, "harbour")) == ["a", "b"]
        index.close()
        again = TantivyIndex(folder / "lexical")
        assert sorted(_names(again, "harbour")) == ["a", "b"]
        assert again.cursor() == 2
        again.close()

    @pytest.mark.parametrize("how", ["step", "fill", "restart"])
    def test_broken_off_it_is_as_it_was(self, index: TantivyIndex, folder: Path, how: str) -> None:
        index.replace(by_owner([document("a", "harbour")]), cursor=1)
        index.begin(afresh=True)
        index.replace(by_owner([document("b", "harbour")]))
        if how == "step":
            index.replace(by_owner([document("c", "harbour")]), cursor=2)
            assert sorted(_names(index, "harbour")) == ["a", "c"]
        elif how == "fill":
            index.begin()
            index.replace(by_owner([document("c", "harbour")]))
            index.finish(cursor=2)
            assert _names(index, "harbour") == ["c"]
        else:
            index.close()
            again = TantivyIndex(folder / "lexical")
            assert _names(again, "harbour") == ["a"]
            again.close()
        assert sorted(each.name for each in folder.iterdir()) == ["lexical"]

    def test_killed_between_two_folders_it_is_to_be_filled(
        self, index: TantivyIndex, folder: Path
    ) -> None:
        index.replace(by_owner([document("a", "harbour")]), cursor=1)
        index.close()
        (folder / "lexical").rename(folder / "lexical.old")
        (folder / "lexical.fresh").mkdir()
        again = TantivyIndex(folder / "lexical")
        assert again.cursor() is None
        again.close()
        assert sorted(each.name for each in folder.iterdir()) == ["lexical"]


class TestVectorsPurged:
    def test_what_was_removed_is_in_no_file(self, folder: Path) -> None:
        index = FlatVectors(folder, "model/1")
        gone, stays = document("gone-name", "zanzibar"), document("stays", "harbour")
        east, north = unit(1, 0, 0), unit(0, 1, 0)
        index.replace({gone.owner: [(gone, [east])], stays.owner: [(stays, [north])]})
        index.mark_complete()
        index.replace({gone.owner: []})
        assert _holding(folder, b"gone-name")
        index.purge()
        assert _holding(folder, b"gone-name") == []
        assert [len(each.read_bytes()) for each in folder.glob("vectors-*")] == [6]
        assert [hit.id for hit in index.find_nearest(east, ANYTHING, limit=9)] == ["stays"]
        again = FlatVectors(folder, "model/1")
        assert again.is_complete
        assert again.get_vectors([stays]) == index.get_vectors([stays]) != [[]]

    def test_where_nothing_was_removed_nothing_is_written(self, folder: Path) -> None:
        index = FlatVectors(folder, "model/1")
        one = document("one")
        index.replace({one.owner: [(one, [unit(1, 0)])]})
        before = sorted(each.name for each in folder.iterdir())
        index.purge()
        assert sorted(each.name for each in folder.iterdir()) == before

    def test_where_it_cannot_be_written_that_is_told(self, folder: Path) -> None:
        index = FlatVectors(folder, "model/1")
        one = document("one")
        index.replace({one.owner: [(one, [unit(1, 0)])]})
        index.replace({one.owner: []})
        (folder / "vectors-1.f16").mkdir()
        with pytest.raises(IndexFailed, match="still in its files"):
            index.purge()
        (folder / "vectors-1.f16").rmdir()
        index.purge()
        assert index.stats().documents == 0


def _holding(folder: Path, needle: bytes) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if needle in path.read_bytes()]


def _names(index: TantivyIndex, term: str) -> list[str]:
    return [hit.id for hit in index.find([term], ANYTHING, limit=9)]
