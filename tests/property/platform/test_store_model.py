"""The store against a plain model: alone with reopening, and with several writers."""

import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import (
    Absent,
    Append,
    Batch,
    CommitOutcome,
    Committed,
    Conflict,
    Delete,
    DeleteRange,
    Equals,
    Expectation,
    Operation,
    Put,
    Row,
)
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine

TIMEOUT = 20.0
A, B = families.EVENTS, families.OUTBOX
HIGHEST = b"\xff" * 8
KEYS = (b"", b"a", b"a\0", b"ab", b"b", b"n:", b"n:%020d" % 1, b"n:%020d" % 2, b"\xff")
PREFIXES = (b"n:", b"b")

in_families = st.sampled_from((A, B))
keys = st.sampled_from(KEYS)
values = st.sampled_from((b"", b"1", b"2"))
prefixes = st.sampled_from(PREFIXES)
writes: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Put, in_families, keys, values),
    st.builds(Delete, in_families, keys),
    st.builds(DeleteRange, in_families, keys, keys),
)
operations = writes | st.builds(Append, in_families, prefixes, values)
expectations: st.SearchStrategy[Expectation] = st.one_of(
    st.builds(Absent, in_families, keys),
    st.builds(Equals, in_families, keys, values),
)


def batches(
    of: st.SearchStrategy[Operation], *, most_expectations: int = 2
) -> st.SearchStrategy[Batch]:
    return st.builds(
        Batch,
        st.lists(of, max_size=4).map(tuple),
        st.lists(expectations, max_size=most_expectations).map(tuple),
    )


class Model:
    """The model of a store: two dicts, and a number for each sequence."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[bytes, bytes]] = {A: {}, B: {}}
        self.numbers: dict[tuple[str, bytes], int] = {}

    def submit(self, batch: Batch) -> CommitOutcome:
        failed = self.first_failing(batch)
        if failed is not None:
            return Conflict(failed)
        assigned: list[int] = []
        for operation in batch.operations:
            rows = self.rows[operation.family]
            match operation:
                case Put(_, key, value):
                    rows[key] = value
                case Delete(_, key):
                    rows.pop(key, None)
                case DeleteRange(_, start, end):
                    for key in [key for key in rows if start <= key < end]:
                        del rows[key]
                case Append(family, prefix, value):
                    number = self.number(family, prefix) + 1
                    self.numbers[family, prefix] = number
                    assigned.append(number)
                    rows[prefix + str(number).rjust(20, "0").encode()] = value
        return Committed(tuple(assigned))

    def first_failing(self, batch: Batch) -> Expectation | None:
        for expected in batch.expectations:
            found = self.rows[expected.family].get(expected.key)
            if found != (expected.value if isinstance(expected, Equals) else None):
                return expected
        return None

    def number(self, family: str, prefix: bytes) -> int:
        return self.numbers.get((family, prefix), 0)

    def scan(self, family: str, start: bytes, end: bytes) -> list[Row]:
        return sorted(row for row in self.rows[family].items() if start <= row[0] < end)


def open_store(path: Path) -> CommittedStore:
    return CommittedStore(RocksEngine(path), watch=unexpected)


def unexpected(health: StoreHealth) -> None:
    raise AssertionError(f"a write failed: {health.reason}")


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.store = open_store(self.path)
        self.model = Model()

    @rule(submitted=st.lists(batches(operations), min_size=1, max_size=4))
    def submit(self, submitted: list[Batch]) -> None:
        outcomes = self.store.submit(submitted).result(TIMEOUT)
        assert outcomes == [self.model.submit(batch) for batch in submitted]

    @rule(submitted=st.lists(batches(operations), min_size=2, max_size=6))
    def submit_each_without_waiting(self, submitted: list[Batch]) -> None:
        futures = [self.store.submit([batch]) for batch in submitted]
        outcomes = [future.result(TIMEOUT) for future in futures]
        assert outcomes == [[self.model.submit(batch)] for batch in submitted]

    @rule(family=in_families, start=keys, end=keys, limit=st.integers(0, 5))
    def scan_a_range(self, family: str, start: bytes, end: bytes, limit: int) -> None:
        expected = self.model.scan(family, start, end)
        assert self.store.scan(family, start, end, limit=limit) == expected[:limit]
        backwards = self.store.scan(family, start, end, limit=limit, reverse=True)
        assert backwards == expected[::-1][:limit]

    @rule(family=in_families, asked=st.lists(keys, max_size=6))
    def get_some(self, family: str, asked: list[bytes]) -> None:
        expected = [self.model.rows[family].get(key) for key in asked]
        assert self.store.get_many(family, asked) == expected
        assert [self.store.get(family, key) for key in asked] == expected

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.path)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        for family in (A, B):
            expected = self.model.scan(family, b"", HIGHEST)
            assert self.store.scan(family, b"", HIGHEST, limit=1_000) == expected
            for prefix in PREFIXES:
                assert self.store.get_sequence(family, prefix) == self.model.number(family, prefix)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


StoreMachine.TestCase.settings = settings(
    max_examples=settings().max_examples // 4,
    stateful_step_count=12,  # 12, more in a soak
)
TestStoreAgainstModel = StoreMachine.TestCase


COMMIT_ORDER = Append(families.GRIPS, b"order:", b"")


@given(
    plans=st.lists(
        st.lists(batches(writes, most_expectations=1), min_size=1, max_size=6),
        min_size=2,
        max_size=4,
    ),
    waiting=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_concurrent_commits_equal_the_same_commits_in_sequence(
    plans: list[list[Batch]], waiting: bool
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_store(Path(folder))) as store,
    ):
        outcomes = submit_at_once(store, plans, waiting=waiting)
        rows = {family: store.scan(family, b"", HIGHEST, limit=1_000) for family in (A, B)}

    commits = [
        (outcome.sequences[0], batch)
        for plan, answers in zip(plans, outcomes, strict=True)
        for batch, outcome in zip(plan, answers, strict=True)
        if isinstance(outcome, Committed)
    ]
    commits.sort(key=lambda commit: commit[0])
    assert [number for number, _ in commits] == list(range(1, len(commits) + 1))

    model = Model()
    states = [deepcopy(model)]  # states[n]: after the commit numbered n
    for _, batch in commits:
        assert model.submit(batch) == Committed()
        states.append(deepcopy(model))
    assert rows == {family: model.scan(family, b"", HIGHEST) for family in (A, B)}

    for plan, answers in zip(plans, outcomes, strict=True):
        for (batch, outcome), (first, last) in zip(
            zip(plan, answers, strict=True), windows(answers, len(commits)), strict=True
        ):
            if isinstance(outcome, Conflict):
                possible = [state.first_failing(batch) for state in states[first : last + 1]]
                assert outcome.failed in possible


def submit_at_once(
    store: CommittedStore, plans: Sequence[Sequence[Batch]], *, waiting: bool
) -> list[list[CommitOutcome]]:
    """Submit each plan in its own thread. Every batch appends, which shows the commit order."""
    together = threading.Barrier(len(plans))

    def run(plan: Sequence[Batch]) -> list[CommitOutcome]:
        together.wait(TIMEOUT)
        futures = []
        for batch in plan:
            marked = Batch((*batch.operations, COMMIT_ORDER), batch.expectations)
            futures.append(store.submit([marked]))
            if waiting:
                futures[-1].result(TIMEOUT)
        return [future.result(TIMEOUT)[0] for future in futures]

    with ThreadPoolExecutor(len(plans)) as pool:
        return list(pool.map(run, plans, timeout=TIMEOUT))


def windows(answers: Sequence[CommitOutcome], commits: int) -> list[tuple[int, int]]:
    """Return for each answer of one thread the states in which its batch can have been judged.

    A thread's batches take effect in its order, so a conflict falls between the thread's commit
    before it and the one after it.
    """
    numbers = [done.sequences[0] if isinstance(done, Committed) else None for done in answers]
    before = [0]
    for number in numbers:
        before.append(before[-1] if number is None else number)
    behind = [commits]
    for number in reversed(numbers):
        behind.append(behind[-1] if number is None else number - 1)
    return list(zip(before[:-1], behind[-2::-1], strict=True))


def test_windows_lie_between_the_commits_around_them() -> None:
    conflict = Conflict(Absent(A, b"k"))
    answers: list[CommitOutcome] = [conflict, Committed((3,)), conflict, Committed((5,)), conflict]
    found = [w for w, done in zip(windows(answers, 7), answers, strict=True) if done == conflict]
    assert found == [(0, 2), (3, 4), (5, 7)]
    assert all(a[0] <= b[0] for a, b in pairwise(windows(answers, 7)))
