"""The ports GraphCheckpoints and GraphThreads over every store."""

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.features.checkpoints.adapters import graph_layout
from agent_memory.features.checkpoints.adapters.graph_store import StoredGraphs
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.checkpoints.adapters.graph_threads import StoredGraphThreads
from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointKey,
    CheckpointScope,
    GraphCheckpoint,
    GraphRunId,
    ThreadId,
    WriteKey,
)
from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Delete, Put
from tests.contract.stores import TIMEOUT, OpenStore, commit, everything
from tests.contract.stores import memory as in_memory
from tests.graph_values import checkpoint, place, write

T = ThreadId("t")


EVERYWHERE = CheckpointScope()


@dataclass(frozen=True)
class Kept:
    graphs: StoredGraphs
    threads: StoredGraphThreads

    @classmethod
    def on(cls, store: OrderedStore, *, page: int = 10_000) -> "Kept":
        tally = GraphTally(store, page=page)
        return cls(StoredGraphs(store, tally), StoredGraphThreads(store, tally))

    def put(self, *checkpoints: GraphCheckpoint) -> None:
        for each in checkpoints:
            self.graphs.put(each).result(TIMEOUT)

    def ids(
        self,
        scope: CheckpointScope = EVERYWHERE,
        *,
        limit: int = 100,
        **more: object,
    ) -> list[str]:
        wanted: dict[str, object] = {"after": None, "before": None, **more}
        found = self.graphs.list_infos(scope, limit=limit, **wanted)  # type: ignore[arg-type]
        return [info.place.checkpoint_id for info in found]

    def writes(self, at: CheckpointKey) -> list[tuple[str, int, bytes]]:
        page = self.graphs.list_writes(at, after=None, max_bytes=1 << 30, at_least_one=True)
        return [(each.task_id, each.index, each.value) for each in page.writes]


@pytest.fixture
def graph_store(store: OrderedStore) -> Kept:
    return Kept.on(store)


class TestCheckpoints:
    def test_what_was_put_is_given_back_as_it_was(self, graph_store: Kept) -> None:
        created = checkpoint(parent="c0", blob=bytes(range(256)), step=3, source="loop", run_id="r")
        graph_store.put(created)
        assert graph_store.graphs.get(T, "", CheckpointId("c1")) == created
        (info,) = graph_store.graphs.list_infos(
            CheckpointScope(T, ""), after=None, before=None, limit=9
        )
        assert info == created.info
        assert (info.step, info.source, info.run_id, info.blob_size) == (3, "loop", "r", 256)

    def test_what_is_not_there_is_none(self, graph_store: Kept) -> None:
        graph_store.put(checkpoint())
        assert graph_store.graphs.get(T, "", CheckpointId("c")) is None
        assert graph_store.graphs.get(T, "child", None) is None
        assert graph_store.graphs.get(ThreadId("other"), "", None) is None

    def test_the_latest_is_the_one_with_the_greatest_id(self, graph_store: Kept) -> None:
        graph_store.put(*(checkpoint(checkpoint=each) for each in ("c2", "c10", "c3", "c1")))
        latest = graph_store.graphs.get(T, "", None)
        assert latest is not None
        assert latest.place == place(checkpoint="c3")

    def test_names_that_begin_alike_are_kept_apart(self, graph_store: Kept) -> None:
        names = [
            ("t", "", "a"),
            ("t", "n", "b"),
            ("t:", "", "c"),
            ("t:", "n|m:1", "d"),
            ("tn", "", "e"),
        ]
        for thread, ns, name in names:
            graph_store.put(checkpoint(thread, name, ns))
        for thread, ns, name in names:
            assert graph_store.ids(CheckpointScope(ThreadId(thread), ns)) == [name]
        assert graph_store.ids(CheckpointScope(T)) == ["b", "a"]
        assert graph_store.ids() == ["e", "d", "c", "b", "a"]

    def test_threads_are_counted_with_their_latest(self, graph_store: Kept) -> None:
        for thread, ns, name in (
            ("a", "", "c2"),
            ("a", "n", "c3"),
            ("a", "", "c1"),
            ("b", "", "c0"),
        ):
            graph_store.put(checkpoint(thread, name, ns))
        assert graph_store.threads.count_by_thread() == {
            "a": (3, CheckpointKey(ThreadId("a"), "n", CheckpointId("c3"))),
            "b": (1, CheckpointKey(ThreadId("b"), "", CheckpointId("c0"))),
        }

    def test_one_that_is_put_again_is_replaced_and_counted_once(self, graph_store: Kept) -> None:
        graph_store.put(checkpoint(run_id="before"), checkpoint(blob=b"again", run_id="after"))
        found = graph_store.graphs.get(T, "", None)
        assert found is not None
        assert found.blob == b"again"
        assert graph_store.graphs.count(None) == graph_store.graphs.count(T) == 1
        assert graph_store.threads.find_by_run(GraphRunId("before")) == []
        assert graph_store.threads.find_by_run(GraphRunId("after")) == [place()]

    def test_it_survives_a_restart(self, open_durable: OpenStore, tmp_path: Path) -> None:
        store = open_durable(tmp_path / "store")
        Kept.on(store).put(checkpoint())
        Kept.on(store).graphs.put_writes(place(), [write()]).result(TIMEOUT)
        store.close()
        again = open_durable(tmp_path / "store")
        try:
            graph_store = Kept.on(again)
            assert graph_store.graphs.get(T, "", None) == checkpoint()
            assert graph_store.writes(place()) == [("task", 0, b"value")]
            assert graph_store.graphs.count(None) == 1
        finally:
            again.close()

    def test_a_state_that_is_lost_or_damaged_is_told(
        self, store: OrderedStore, graph_store: Kept
    ) -> None:
        graph_store.put(checkpoint())
        key = graph_layout.key(graph_layout.BLOB, *place())
        commit(store, Batch((Put(families.GRAPH_CHECKPOINTS, key, b"\x01\xffmsg"),)))
        with pytest.raises(StorageFailed):
            graph_store.graphs.get(T, "", None)
        commit(store, Batch((Delete(families.GRAPH_CHECKPOINTS, key),)))
        with pytest.raises(StorageFailed, match="no state"):
            graph_store.graphs.get(T, "", None)


class TestWrites:
    def test_they_come_by_task_and_index(self, graph_store: Kept) -> None:
        writes = [write("b", 1), write("a", 10), write("a", 2), write("a", -3)]
        graph_store.graphs.put_writes(place(), writes).result(TIMEOUT)
        assert [each[:2] for each in graph_store.writes(place())] == [
            ("a", -3), ("a", 2), ("a", 10), ("b", 1)
        ]  # fmt: skip

    def test_the_first_of_an_index_counts_and_the_last_of_a_negative_one(
        self, graph_store: Kept
    ) -> None:
        for value in (b"first", b"last"):
            writes = [write(index=0, value=value), write(index=-1, value=value)]
            graph_store.graphs.put_writes(place(), writes).result(TIMEOUT)
        assert graph_store.writes(place()) == [("task", -1, b"last"), ("task", 0, b"first")]

    def test_they_belong_to_one_checkpoint_of_one_namespace(self, graph_store: Kept) -> None:
        graph_store.graphs.put_writes(place(ns="child"), [write()]).result(TIMEOUT)
        for other in (place(), place(ns="child", checkpoint="c"), place(ns="chil")):
            assert graph_store.writes(other) == []

    def test_they_are_read_in_pages_of_bytes(self, graph_store: Kept) -> None:
        writes = [write(index=number, value=bytes(1000)) for number in range(10)]
        graph_store.graphs.put_writes(place(), writes).result(TIMEOUT)
        found: list[int] = []
        after: WriteKey | None = None
        pages = 0
        while True:
            page = graph_store.graphs.list_writes(
                place(), after=after, max_bytes=3500, at_least_one=True
            )
            found += [each.index for each in page.writes]
            pages += 1
            after = page.next
            if after is None:
                break
        assert found == list(range(10))
        assert pages == 4
        nothing = graph_store.graphs.list_writes(
            place(), after=None, max_bytes=10, at_least_one=False
        )
        assert nothing.writes == ()
        assert nothing.next is not None
        one = graph_store.graphs.list_writes(
            place(), after=nothing.next, max_bytes=10, at_least_one=True
        )
        assert [each.index for each in one.writes] == [0]


class TestLists:
    def test_newest_first_over_all_namespaces_of_a_thread(self, graph_store: Kept) -> None:
        graph_store.put(checkpoint(checkpoint="c1"), checkpoint(checkpoint="c2", ns="n"))
        graph_store.put(checkpoint(checkpoint="c3"), checkpoint("u", "c4"))
        assert graph_store.ids(CheckpointScope(T)) == ["c3", "c2", "c1"]
        assert graph_store.ids(CheckpointScope(T, "")) == ["c3", "c1"]
        assert graph_store.ids() == ["c4", "c3", "c2", "c1"]

    @pytest.mark.parametrize(
        "scope", [CheckpointScope(), CheckpointScope(T), CheckpointScope(T, "")]
    )
    def test_before_after_limit_and_offset(self, graph_store: Kept, scope: CheckpointScope) -> None:
        graph_store.put(*(checkpoint(checkpoint=f"c{number}") for number in range(6)))
        assert graph_store.ids(scope, before=CheckpointId("c3")) == ["c2", "c1", "c0"]
        assert graph_store.ids(scope, after=place(checkpoint="c3"), limit=2) == ["c2", "c1"]
        assert graph_store.ids(scope, after=place(checkpoint="c3"), before=CheckpointId("c1")) == [
            "c0"
        ]
        assert graph_store.ids(scope, offset=2, limit=3) == ["c3", "c2", "c1"]
        assert graph_store.ids(scope, offset=5) == ["c0"]
        assert graph_store.ids(scope, offset=9) == []

    def test_an_id_in_two_threads_is_listed_twice(self, graph_store: Kept) -> None:
        graph_store.put(checkpoint("a"), checkpoint("b"), checkpoint("b", ns="n"))
        found = graph_store.graphs.list_infos(CheckpointScope(), after=None, before=None, limit=9)
        places = [info.place for info in found]
        assert places == [place("b", ns="n"), place("b"), place("a")]
        rest = graph_store.graphs.list_infos(
            CheckpointScope(), after=places[0], before=None, limit=9
        )
        assert [info.place for info in rest] == places[1:]
        assert sorted(graph_store.threads.find_by_id(CheckpointId("c1"))) == sorted(places)


class TestThreads:
    def test_a_removed_thread_leaves_nothing_behind(
        self, store: OrderedStore, graph_store: Kept
    ) -> None:
        graph_store.put(checkpoint("u"))
        rest = everything(store, families.GRAPH_CHECKPOINTS)
        graph_store.put(checkpoint(run_id="r"), checkpoint(checkpoint="c2", ns="n:1"))
        for at in (place(), place(checkpoint="never put")):
            graph_store.graphs.put_writes(at, [write(), write(index=-1)]).result(TIMEOUT)
        graph_store.threads.remove_thread(T)
        assert everything(store, families.GRAPH_CHECKPOINTS) == rest
        assert graph_store.graphs.count(None) == 1
        graph_store.threads.remove_thread(T)

    def test_removed_checkpoints_go_with_their_writes(
        self, store: OrderedStore, graph_store: Kept
    ) -> None:
        graph_store.put(checkpoint(checkpoint="c2"))
        rest = everything(store, families.GRAPH_CHECKPOINTS)
        graph_store.put(checkpoint(run_id="r"))
        graph_store.graphs.put_writes(place(), [write()]).result(TIMEOUT)
        graph_store.threads.remove([place(), place(), place(checkpoint="c3")])
        assert everything(store, families.GRAPH_CHECKPOINTS) == rest

    def test_the_checkpoints_of_a_run_are_found_in_all_threads(self, graph_store: Kept) -> None:
        graph_store.put(checkpoint(run_id="r"), checkpoint("u", ns="n", run_id="r"))
        graph_store.put(checkpoint(checkpoint="c2", run_id="r2"), checkpoint(checkpoint="c3"))
        assert sorted(graph_store.threads.find_by_run(GraphRunId("r"))) == sorted(
            [place(), place("u", ns="n")]
        )

    def test_a_copy_has_all_and_the_source_stays(self, graph_store: Kept) -> None:
        graph_store.put(checkpoint(run_id="r"), checkpoint(checkpoint="c2", ns="n", parent="c1"))
        graph_store.graphs.put_writes(place(), [write(), write(index=-2)]).result(TIMEOUT)
        graph_store.threads.copy(T, ThreadId("u"))
        for thread in ("t", "u"):
            assert graph_store.ids(CheckpointScope(ThreadId(thread))) == ["c2", "c1"]
            assert graph_store.writes(place(thread)) == [
                ("task", -2, b"value"),
                ("task", 0, b"value"),
            ]
        created = checkpoint("u", run_id="r")
        assert graph_store.graphs.get(ThreadId("u"), "", None) == created
        assert len(graph_store.threads.find_by_run(GraphRunId("r"))) == 2
        assert graph_store.graphs.count(None) == 4

    def test_a_copy_leaves_what_the_target_has(self, graph_store: Kept) -> None:
        graph_store.put(checkpoint(), checkpoint("u", blob=b"its own"), checkpoint("u", "c2"))
        graph_store.threads.copy(T, ThreadId("u"))
        graph_store.threads.copy(T, T)
        graph_store.threads.copy(ThreadId("nobody"), T)
        assert graph_store.graphs.get(ThreadId("u"), "", CheckpointId("c1")) == checkpoint(
            "u", blob=b"its own"
        )
        assert graph_store.graphs.count(None) == 3


class TestCounts:
    def test_what_is_made_and_removed_while_others_count_is_counted_once(
        self, store: OrderedStore
    ) -> None:
        before = Kept.on(store)
        before.put(*(checkpoint(checkpoint=f"c{number:03}") for number in range(50)))
        graph_store = Kept.on(store, page=3)

        def make(name: str) -> None:
            for number in range(40):
                graph_store.put(checkpoint(name, f"c{number:03}"))
                if number % 4 == 0:
                    graph_store.put(checkpoint(name, f"c{number:03}", blob=b"again"))
                if number % 5 == 0:
                    graph_store.threads.remove([place(name, f"c{number:03}")])

        makers = [threading.Thread(target=make, args=(name,)) for name in ("a", "m", "z")]
        for maker in makers:
            maker.start()
        seen = [graph_store.graphs.count(None) for _ in range(5)]
        for maker in makers:
            maker.join(TIMEOUT)
        assert all(50 <= each <= 50 + 3 * 40 for each in seen)
        assert graph_store.graphs.count(None) == 50 + 3 * 32 == len(graph_store.ids(limit=1000))
        assert graph_store.graphs.count(ThreadId("a")) == 32


NAMES = st.sampled_from(["t", "t:", "ü", "a b"])
IDS = st.sampled_from(["c1", "c10", "c2", "%", ":", "é"])
SPACES = st.sampled_from(["", "n", "n|m:1"])
PLACES = st.builds(place, NAMES, IDS, SPACES)
STEPS = st.one_of(
    st.tuples(st.just("put"), PLACES, st.binary(max_size=3)),
    st.tuples(st.just("remove"), PLACES, st.just(b"")),
    st.tuples(st.just("remove thread"), PLACES, st.just(b"")),
    st.tuples(st.just("copy"), PLACES, NAMES.map(str.encode)),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=25), st.integers(0, 4))
def test_any_sequence_of_changes_leaves_what_a_dictionary_would_hold(
    steps: list[tuple[str, CheckpointKey, bytes]], offset: int
) -> None:
    store = in_memory(Path())
    try:
        graph_store = Kept.on(store, page=2)
        model: dict[CheckpointKey, bytes] = {}
        for number, (step, at, data) in enumerate(steps):
            match step:
                case "put":
                    graph_store.put(replace(checkpoint(blob=data), place=at))
                    model[at] = data
                case "remove":
                    graph_store.threads.remove([at])
                    model.pop(at, None)
                case "remove thread":
                    graph_store.threads.remove_thread(at.thread_id)
                    model = {k: v for k, v in model.items() if k.thread_id != at.thread_id}
                case _:
                    target = ThreadId(data.decode())
                    graph_store.threads.copy(at.thread_id, target)
                    copied = {
                        k._replace(thread_id=target): v
                        for k, v in model.items()
                        if k.thread_id == at.thread_id
                    }
                    model = {**copied, **model}
            if number % 3 == 0:
                assert graph_store.graphs.count(None) == len(model)
        newest = sorted(model, key=lambda k: (k.checkpoint_id, k.thread_id, k.checkpoint_ns))
        newest.reverse()
        found = graph_store.graphs.list_infos(
            CheckpointScope(), after=None, before=None, limit=100, offset=offset
        )
        assert [info.place for info in found] == newest[offset:]
        for at, blob in model.items():
            got = graph_store.graphs.get(*at)
            assert got is not None
            assert got.blob == blob
            latest = graph_store.graphs.get(at.thread_id, at.checkpoint_ns, None)
            assert latest is not None
            assert latest.place == max(k for k in model if k[:2] == at[:2])
        assert graph_store.graphs.count(None) == len(model)
    finally:
        store.close()
