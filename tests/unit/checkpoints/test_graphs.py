"""Graph checkpoints: limits, what pruning leaves, and the pages of the service."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base.id import uuid6

from agent_memory.features.checkpoints.adapters.graph_store import StoredGraphs
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.checkpoints.adapters.graph_threads import StoredGraphThreads
from agent_memory.features.checkpoints.model import graphs as rules
from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointScope,
    Strategy,
    ThreadId,
)
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.kernel.errors import InvalidInput
from tests.contract.stores import TIMEOUT, memory
from tests.graph_values import checkpoint, place, write

T = ThreadId("t")


@pytest.fixture
def graphs() -> Iterator[Graphs]:
    store = memory(Path())
    tally = GraphTally(store)
    yield Graphs(
        checkpoints=StoredGraphs(store, tally),
        threads=StoredGraphThreads(store, tally),
        secrets=PassThrough(),
    )
    store.close()


class TestLimits:
    @pytest.mark.parametrize(
        ("build", "told"),
        [
            (lambda: checkpoint(blob=bytes(rules.MAX_BLOB_BYTES + 1)), "15 MiB"),
            (lambda: checkpoint(much="x" * rules.MAX_METADATA_BYTES), "512 KiB"),
            (lambda: checkpoint(checkpoint=""), "checkpoint_id is required"),
            (lambda: checkpoint(thread="x" * 257), "257 characters; the limit is 256"),
            (lambda: checkpoint(thread="a\0b"), "unprintable"),
            (lambda: checkpoint(thread="\udc80"), "unprintable"),
            (lambda: checkpoint(ns="x" * 2049), "2048"),
            (lambda: checkpoint(parent=""), "parent_checkpoint_id is required"),
            (lambda: replace(checkpoint(), type="x" * 33), "type has 33"),
            (lambda: replace(checkpoint(), metadata="[]").info, "must be a JSON object"),
            (lambda: replace(checkpoint(), metadata="{").info, "metadata is not JSON"),
            (lambda: replace(checkpoint(), metadata="[" * 99_999).info, "metadata is not JSON"),
            (lambda: replace(checkpoint(), metadata='"\udc80"'), "not valid Unicode"),
            (lambda: write(task=""), "task_id is required"),
            (lambda: write(index=1 << 31), "32 bits"),
            (lambda: write(value=bytes(rules.MAX_BLOB_BYTES + 1)), "15 MiB"),
            (lambda: rules.parse_strategy("most"), "keep_latest, delete"),
            (lambda: rules.read_filter("7"), "filter must be a JSON object"),
            (lambda: rules.check_ids("ids", ["a"] * 1001), "1000"),
        ],
    )
    def test_what_is_refused_names_the_limit(self, build: Callable[[], Any], told: str) -> None:
        with pytest.raises(InvalidInput, match=told):
            build()

    def test_the_longest_names_are_taken(self) -> None:
        made = checkpoint("ü" * 256, "é" * 256, "n|" * 1024, run_id="r" * 256)
        assert made.info.run_id == "r" * 256

    def test_metadata_of_other_types_is_kept_but_not_told(self) -> None:
        info = checkpoint(step="one", source=7, run_id="r" * 257).info
        assert (info.step, info.source, info.run_id) == (None, None, None)
        assert json.loads(info.metadata)["step"] == "one"


class TestFilters:
    def test_all_that_is_wanted_must_be_there(self) -> None:
        info = checkpoint(a=1, b={"c": [2]}, d=None).info
        assert rules.matches(info, {})
        assert rules.matches(info, {"a": 1, "b": {"c": [2]}})
        assert rules.matches(info, {"d": None, "e": None})
        assert not rules.matches(info, {"a": 1, "b": {"c": [3]}})
        assert not rules.matches(info, {"e": 1})


class TestPruning:
    def test_each_namespace_keeps_its_latest(self) -> None:
        history = [checkpoint(checkpoint=c, ns=n).info for n in ("", "n") for c in ("a", "c", "b")]
        gone = rules.find_superfluous(history)
        assert sorted(gone) == sorted(place(checkpoint=c, ns=n) for n in ("", "n") for c in "ab")

    def test_what_the_latest_is_a_difference_of_stays(self) -> None:
        def build(name: str, parent: str | None, **counters: list[int]) -> rules.CheckpointInfo:
            known: dict[str, Any] = {"counters_since_delta_snapshot": counters} if counters else {}
            return checkpoint(checkpoint=name, parent=parent, **known).info

        history = [
            build("1", None, x=[1, 1], y=[1, 1]),
            build("2", "1", y=[2, 2]),  # a snapshot of x
            build("3", "2", x=[1, 1]),  # a snapshot of y
            build("3 forked", "2"),
            build("4", "3", x=[2, 2], y=[0, 1]),
        ]
        gone = rules.find_superfluous(history)
        assert gone == [place(checkpoint="1"), place(checkpoint="3 forked")]

    @given(st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.integers(-1, 20)), max_size=20))
    def test_the_latest_always_stays_and_it_always_ends(
        self, drawn: list[tuple[int, bool, int]]
    ) -> None:
        history = [
            checkpoint(
                checkpoint=f"{number:02}",
                parent=None if parent < 0 else f"{parent:02}",
                counters_since_delta_snapshot={"x": [1, 1]} if delta else {},
            ).info
            for number, delta, parent in drawn
        ]
        gone = rules.find_superfluous(history)
        places = {info.place for info in history}
        assert set(gone) <= places - ({max(places)} if places else set())


class TestPages:
    def test_rows_and_their_number(self, graphs: Graphs) -> None:
        for number in range(5):
            graphs.put(
                graphs.clean(checkpoint("tu"[number % 2], f"c{number}", step=number))
            ).result(TIMEOUT)
        rows, total = graphs.list_infos(None, limit=2, offset=1)
        assert [row.step for row in rows] == [3, 2]
        assert total == 5
        rows, total = graphs.list_infos(T, limit=500, offset=0)
        assert ([row.step for row in rows], total) == ([4, 2, 0], 3)
        assert graphs.list_infos(ThreadId("v"), limit=1, offset=0) == ([], 0)
        assert graphs.list_infos(None, limit=1, offset=10**18) == ([], 5)
        for wrong in ({"limit": 0, "offset": 0}, {"limit": 501, "offset": 0}):
            with pytest.raises(InvalidInput, match="limit"):
                graphs.list_infos(None, **wrong)
        with pytest.raises(InvalidInput, match="offset"):
            graphs.list_infos(None, limit=1, offset=-1)

    def test_what_is_named_is_deleted_and_the_rest_stays(self, graphs: Graphs) -> None:
        for thread in "tuv":
            for name in ("c1", "c2"):
                made = checkpoint(thread, name, run_id=f"{thread}{name}")
                graphs.put(graphs.clean(made)).result(TIMEOUT)
        graphs.delete_threads(["t", "nobody"])
        graphs.delete_for_runs(["uc1", "none"])
        assert [row.place for row in graphs.list_infos(None, limit=9, offset=0)[0]] == [
            place("v", "c2"), place("u", "c2"), place("v", "c1")
        ]  # fmt: skip
        graphs.delete_checkpoints(["c2", "c3"])
        graphs.prune(["v"], Strategy.KEEP_LATEST)
        assert [row.place for row in graphs.list_infos(None, limit=9, offset=0)[0]] == [
            place("v", "c1")
        ]
        graphs.prune(["v"], Strategy.DELETE)
        assert graphs.list_infos(None, limit=9, offset=0) == ([], 0)

    def test_a_search_that_finds_little_is_answered_in_pieces(self, graphs: Graphs) -> None:
        graphs = replace(graphs, read_at_most=3)
        for number in range(10):
            graphs.put(graphs.clean(checkpoint(checkpoint=f"c{number}", step=number))).result(
                TIMEOUT
            )
        found: list[str] = []
        after: rules.CheckpointKey | None = None
        for _ in range(4):
            page, after = graphs.list(
                CheckpointScope(T), wanted={"step": 4}, only=None, before=None, after=after, limit=5
            )
            found += [each.checkpoint.place.checkpoint_id for each in page]
        assert (found, after) == (["c4"], None)

    def test_a_namespace_needs_its_thread(self, graphs: Graphs) -> None:
        with pytest.raises(InvalidInput, match="thread_id is required"):
            graphs.list(
                CheckpointScope(None, "n"), wanted={}, only=None, before=None, after=None, limit=1
            )
        with pytest.raises(InvalidInput, match="checkpoint_id"):
            graphs.get(T, "", CheckpointId(""))
        with pytest.raises(InvalidInput, match="1000"):
            graphs.put_writes(place(), [write()] * 1_001)


class TestSecrets:
    SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"

    @pytest.fixture
    def careful(self, graphs: Graphs) -> Graphs:
        return replace(graphs, secrets=Re2Filter(mode="redact"))

    def test_ids_are_kept_without_them_and_found_with_them(self, careful: Graphs) -> None:
        made = checkpoint(self.SECRET, "c1", run_id=self.SECRET)
        careful.put(careful.clean(made)).result(TIMEOUT)
        found = careful.get(ThreadId(self.SECRET), made.place.checkpoint_ns)
        assert found is not None
        assert self.SECRET not in repr(found)
        assert found.checkpoint.blob == made.blob
        assert careful.get(ThreadId(self.SECRET + "9"), made.place.checkpoint_ns) is None
        (listed,), _ = careful.list(
            CheckpointScope(ThreadId(self.SECRET)),
            wanted={"run_id": self.SECRET},
            only=None,
            before=None,
            after=None,
            limit=5,
        )
        assert listed == found
        careful.delete_for_runs([self.SECRET])
        assert careful.get(ThreadId(self.SECRET), made.place.checkpoint_ns) is None

    def test_metadata_is_cleaned_by_its_names_too(self, careful: Graphs) -> None:
        told: dict[str, Any] = {
            "writes": {"password": "hunter2x"},
            "n": [1, None, f"use {self.SECRET}"],
        }
        clean = json.loads(careful.clean(checkpoint(**told)).metadata)
        assert clean == {
            "writes": {"password": "[REDACTED:password]"},
            "n": [1, None, "use [REDACTED:github-token]"],
        }

    def test_what_holds_none_stays_as_it_was(self, careful: Graphs) -> None:
        made = replace(checkpoint(), metadata='{"a":  "é", "b": 1.0}')
        assert careful.clean(made) == made


class TestThreads:
    def test_they_are_listed_by_their_latest_checkpoint(self, graphs: Graphs) -> None:
        for thread, name in (("a", "c1"), ("b", "c2"), ("a", "c3"), ("c", "c0")):
            graphs.put(graphs.clean(checkpoint(thread, name))).result(TIMEOUT)
        threads, total = graphs.list_threads(limit=2, offset=0)
        assert total == 3
        assert [(each.thread_id, each.checkpoints) for each in threads] == [("a", 2), ("b", 1)]
        assert threads[0].latest.place.checkpoint_id == "c3"
        rest, _ = graphs.list_threads(limit=2, offset=2)
        assert [each.thread_id for each in rest] == ["c"]

    def test_ids_of_langgraph_tell_the_time(self) -> None:
        before = time.time_ns() // 1_000_000
        told = rules.read_time(str(uuid6()))
        assert told is not None
        assert before <= told <= time.time_ns() // 1_000_000
        assert rules.read_time("6f1c1f6e-6c0e-4f0f-9b0e-0d2a9a1f5a11") is None
        assert rules.read_time("c1") is None
