"""Daemons that share a database, under seeds: no promise is broken, and planted faults are found.

A seed that has found a fault stays in `FOUND`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from agent_memory.platform.leadership import LeasedLeadership
from agent_memory.platform.store.batches import Batch
from agent_memory.platform.store.database import Head, Transaction
from agent_memory.platform.store.group_writer import GroupWriter
from agent_memory.platform.store.plans import Place, Plan
from tests.memory_database import CommitFate, MemoryDatabase, MemoryTransaction
from tests.simulation.daemons import Parts, simulate
from tests.simulation.seeds import assert_found, assert_replays, run_new_seeds, run_seeds

SEEDS = 24
MOST_SEEDS = 300  # within which a planted fault must be found
FOUND: Sequence[int] = (3,)  # a gap that opened between two reads


def test_no_promise_is_broken() -> None:
    met = run_seeds(simulate, (*FOUND, *range(SEEDS)))
    # A simulation in which nothing happens would prove nothing.
    faults = [fate.value for fate in CommitFate if fate is not CommitFate.ANSWERED]
    happened = ["crash", "pause", "lease", "fenced", "unknown", "job", "trim", "rebuilt"]
    assert not {*happened, "take over", *faults} - met.keys()


def test_a_seed_replays_exactly() -> None:
    assert_replays(simulate)


@pytest.mark.soak
def test_no_promise_is_broken_for_as_long_as_one_likes() -> None:
    run_new_seeds(simulate)


class UncheckedLease(GroupWriter):
    """A writer that does not look whether its lease was taken."""

    def _check_lease(self, _plan: Plan) -> None:
        pass


class NoTokenLookup(GroupWriter):
    """A writer that repeats a group without asking whether it was written."""

    def _is_written(
        self, _doubt: object, _batches: Sequence[Batch], _transaction: Transaction
    ) -> bool:
        return False


class NoFence(LeasedLeadership):
    """A leader that writes without looking whether it leads still."""

    @contextmanager
    def lead(self) -> Iterator[bool]:
        held = self._enter()
        try:
            yield held is not None
        finally:
            if held is not None:
                self._leave()


class EarlyNumbers(MemoryDatabase):
    """Takes the number of the outbox before the lock."""

    def begin(self, places: Sequence[Place], /) -> MemoryTransaction:
        outbox = self.read_head().outbox
        transaction = super().begin(places)
        transaction.head = Head(outbox, transaction.head.now_ms)
        return transaction


class EarlyReads(MemoryDatabase):
    """Reads what is expected before the lock: also the token of a lost COMMIT."""

    def begin(self, places: Sequence[Place], /) -> MemoryTransaction:
        values = {(family, key): self.get_many(family, [key])[0] for family, key in places}
        transaction = super().begin(places)
        transaction.values = values
        return transaction


class NoLock(MemoryDatabase):
    """Does not lock the head row."""

    def lock(self, _transaction: MemoryTransaction) -> None:
        pass


@pytest.mark.parametrize(
    "parts",
    [
        Parts(writer=UncheckedLease),
        Parts(writer=NoTokenLookup),
        Parts(database=EarlyNumbers),
        Parts(database=EarlyReads),
        Parts(database=NoLock),
        Parts(leadership=NoFence),
        Parts(has_gap=lambda *_: False),
    ],
    ids=["lease", "token", "numbers", "reads", "lock", "fence", "gap"],
)
def test_a_planted_fault_is_found(parts: Parts) -> None:
    assert_found(lambda seed: simulate(seed, parts), range(MOST_SEEDS))
