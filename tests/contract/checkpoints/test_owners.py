"""A thread of a graph on a team server is its person's, over every store."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from agent_memory.features.checkpoints.adapters.graph_store import StoredGraphs
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.checkpoints.adapters.graph_threads import StoredGraphThreads
from agent_memory.features.checkpoints.adapters.guarded_graphs import GuardedGraphs, GuardedThreads
from agent_memory.features.checkpoints.model.graphs import Strategy, ThreadId
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.kernel import access
from agent_memory.kernel.access import OWNER, Principal, Role
from agent_memory.kernel.errors import InvalidInput
from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import TIMEOUT
from tests.graph_values import checkpoint, place, write

ADA = Principal(person="ada", role=Role.WRITER)
BOB = Principal(person="bob", role=Role.ADMIN)
LONG = "t" * 253


@dataclass(frozen=True)
class Team:
    graphs: Graphs

    @contextmanager
    def by(self, caller: Principal) -> Iterator[Graphs]:
        with access.work_for(caller):
            yield self.graphs

    def put(self, caller: Principal, thread: str, name: str = "c1", run: str = "") -> None:
        about: dict[str, Any] = {"run_id": run} if run else {}
        created = checkpoint(thread, name, **about)
        with self.by(caller) as graphs:
            graphs.put(graphs.clean(created)).result(TIMEOUT)
            graphs.put_writes(created.place, [write()]).result(TIMEOUT)

    def show(self, caller: Principal) -> object:
        """Return everything that a caller can read."""
        with self.by(caller) as graphs:
            threads, count = graphs.list_threads(limit=100, offset=0)
            infos, total = graphs.list_infos(None, limit=100, offset=0)
            second, _ = graphs.list_infos(None, limit=1, offset=1)
            return (
                [(each.thread_id, each.checkpoints) for each in threads],
                count,
                [tuple(info.place) for info in infos],
                total,
                [tuple(info.place) for info in second],
                [graphs.get(ThreadId(name), "") for name in ("t", "t@ada", "t@bob", "old")],
                graphs.writes(place("t"), None),
            )


@pytest.fixture
def team(store: OrderedStore) -> Team:
    tally = GraphTally(store)
    threads = StoredGraphThreads(store, tally)
    return Team(
        Graphs(
            checkpoints=GuardedGraphs(StoredGraphs(store, tally), threads),
            threads=GuardedThreads(threads),
            secrets=PassThrough(),
        )
    )


def test_what_others_have_does_not_show(team: Team) -> None:
    team.put(ADA, "t")
    team.put(ADA, "t", "c2")
    alone = team.show(ADA)
    empty = team.show(BOB)
    for thread in ("t", "t@ada", "u", "t@bob"):
        team.put(BOB, thread)
        team.put(BOB, thread, "c3")
    team.put(OWNER, "old")
    assert team.show(ADA) == alone
    with team.by(BOB) as graphs:
        graphs.delete_threads(["t", "t@ada", "u", "t@bob"])
    assert (team.show(ADA), team.show(BOB)) == (alone, empty)


def test_nobody_removes_or_copies_what_is_anothers(team: Team) -> None:
    team.put(ADA, "t", "c1", run="r1")
    alone = team.show(ADA)
    with team.by(BOB) as graphs:
        for name in ("t", "t@ada"):
            graphs.delete_threads([name])
            graphs.prune([name], Strategy.DELETE)
            graphs.prune([name], Strategy.KEEP_LATEST)
            graphs.copy_thread(ThreadId(name), ThreadId("mine"))
        graphs.delete_checkpoints(["c1"])
        graphs.delete_for_runs(["r1"])
        assert graphs.get(ThreadId("mine"), "") is None
    assert team.show(ADA) == alone
    with team.by(ADA) as graphs:
        graphs.copy_thread(ThreadId("t"), ThreadId("copy"))
        assert graphs.get(ThreadId("copy"), "") is not None
        graphs.delete_for_runs(["r1"])
        assert graphs.list_threads(limit=9, offset=0) == ([], 0)


def test_the_operator_hands_over_a_thread_from_before(team: Team) -> None:
    team.put(OWNER, "old")  # as every thread was stored
    with team.by(ADA) as graphs:
        assert graphs.get(ThreadId("old"), "") is None
    with team.by(OWNER) as graphs:
        graphs.copy_thread(ThreadId("old"), ThreadId("old@ada"))
        graphs.delete_threads(["old"])
        assert [each.thread_id for each in graphs.list_threads(limit=9, offset=0)[0]] == ["old@ada"]
    with team.by(ADA) as graphs:
        found = graphs.get(ThreadId("old"), "")
        assert found is not None
        assert found.checkpoint.place == place("old")


def test_an_id_that_leaves_no_room_for_its_owner_is_refused(team: Team) -> None:
    with pytest.raises(InvalidInput, match="yours may have 252"):
        team.put(ADA, LONG)
