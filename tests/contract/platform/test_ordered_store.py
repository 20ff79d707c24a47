"""The contract of the OrderedStore port, run over every implementation."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_memory.kernel.errors import StorageClosed, StorageFailed
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import (
    Absent,
    Append,
    Batch,
    Committed,
    Conflict,
    Delete,
    DeleteRange,
    Equals,
    Operation,
    Put,
)
from tests.contract.stores import HIGHEST, TIMEOUT, OpenStore, commit, everything

A, B = families.EVENTS, families.TOC_NODES
UNKNOWN = "no_such_family"


def fill(store: OrderedStore, *keys: bytes, family: str = A) -> None:
    commit(store, Batch(tuple(Put(family, key, b"v" + key) for key in keys)))


def found(store: OrderedStore, start: bytes, end: bytes, *, limit: int = 100) -> list[bytes]:
    return [key for key, _ in store.scan(A, start, end, limit=limit)]


def found_reverse(
    store: OrderedStore, start: bytes, end: bytes, *, limit: int = 100
) -> list[bytes]:
    return [key for key, _ in store.scan(A, start, end, limit=limit, reverse=True)]


class TestReading:
    def test_an_unknown_key_gives_none(self, store: OrderedStore) -> None:
        assert store.get(A, b"k") is None

    def test_get_gives_the_value_put(self, store: OrderedStore) -> None:
        commit(store, Batch((Put(A, b"k", b"v"),)))
        assert store.get(A, b"k") == b"v"

    def test_an_empty_value_is_not_an_absent_key(self, store: OrderedStore) -> None:
        commit(store, Batch((Put(A, b"k", b""),)))
        assert store.get(A, b"k") == b""

    def test_keys_and_values_may_hold_any_byte(self, store: OrderedStore) -> None:
        every = bytes(range(256))
        commit(store, Batch((Put(A, every, every), Put(A, b"\0", b"\0"))))
        assert everything(store, A) == [(b"\0", b"\0"), (every, every)]

    def test_families_are_separate(self, store: OrderedStore) -> None:
        commit(store, Batch((Put(A, b"k", b"in a"), Put(B, b"k", b"in b"))))
        commit(store, Batch((DeleteRange(A, b"", HIGHEST),)))
        assert (store.get(A, b"k"), store.get(B, b"k")) == (None, b"in b")

    def test_get_many_answers_in_the_order_asked(self, store: OrderedStore) -> None:
        fill(store, b"1", b"2")
        asked = [b"2", b"absent", b"1", b"2"]
        assert store.get_many(A, asked) == [b"v2", None, b"v1", b"v2"]

    def test_get_many_of_no_keys_is_empty(self, store: OrderedStore) -> None:
        assert store.get_many(A, []) == []

    def test_scan_includes_its_start_and_excludes_its_end(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b", b"c", b"d")
        assert found(store, b"b", b"d") == [b"b", b"c"]

    def test_scan_bounds_need_not_be_keys(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b", b"c", b"d")
        assert found(store, b"aa", b"cc") == [b"b", b"c"]

    def test_scan_gives_keys_with_their_values_in_byte_order(self, store: OrderedStore) -> None:
        fill(store, b"\xff", b"b", b"\0", b"ab", b"a")
        assert store.scan(A, b"", HIGHEST, limit=100) == [
            (b"\0", b"v\0"),
            (b"a", b"va"),
            (b"ab", b"vab"),
            (b"b", b"vb"),
            (b"\xff", b"v\xff"),
        ]

    def test_scan_stops_at_its_limit(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b", b"c")
        assert found(store, b"", HIGHEST, limit=2) == [b"a", b"b"]

    def test_reverse_scan_has_the_same_bounds(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b", b"c", b"d")
        assert found_reverse(store, b"b", b"d") == [b"c", b"b"]

    def test_reverse_scan_bounds_need_not_be_keys(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b", b"c", b"d")
        assert found_reverse(store, b"aa", b"cc") == [b"c", b"b"]

    def test_reverse_scan_may_end_beyond_the_last_key(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b")
        assert found_reverse(store, b"", HIGHEST) == [b"b", b"a"]

    def test_reverse_scan_limits_from_the_end(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b", b"c")
        assert found_reverse(store, b"", HIGHEST, limit=2) == [b"c", b"b"]

    @pytest.mark.parametrize(("start", "end"), [(b"b", b"b"), (b"c", b"a"), (b"bb", b"c")])
    def test_an_empty_range_has_no_rows(
        self, store: OrderedStore, start: bytes, end: bytes
    ) -> None:
        fill(store, b"a", b"b", b"c")
        assert found(store, start, end) == found_reverse(store, start, end) == []

    def test_an_empty_family_has_no_rows(self, store: OrderedStore) -> None:
        assert found(store, b"", HIGHEST) == found_reverse(store, b"", HIGHEST) == []


class TestWriting:
    def test_put_replaces(self, store: OrderedStore) -> None:
        commit(store, Batch((Put(A, b"k", b"old"),)))
        commit(store, Batch((Put(A, b"k", b"new"),)))
        assert everything(store, A) == [(b"k", b"new")]

    def test_delete_removes_only_its_key(self, store: OrderedStore) -> None:
        fill(store, b"k", b"k\0", b"k1")
        commit(store, Batch((Delete(A, b"k"),)))
        assert found(store, b"", HIGHEST) == [b"k\0", b"k1"]

    def test_deleting_an_absent_key_is_no_error(self, store: OrderedStore) -> None:
        assert commit(store, Batch((Delete(A, b"k"),))) == [Committed()]

    def test_delete_range_includes_its_start_and_excludes_its_end(
        self, store: OrderedStore
    ) -> None:
        fill(store, b"a", b"b", b"c", b"d")
        commit(store, Batch((DeleteRange(A, b"b", b"d"),)))
        assert found(store, b"", HIGHEST) == [b"a", b"d"]

    @pytest.mark.parametrize(("start", "end"), [(b"b", b"b"), (b"c", b"a")])
    def test_deleting_an_empty_range_removes_nothing(
        self, store: OrderedStore, start: bytes, end: bytes
    ) -> None:
        fill(store, b"a", b"b", b"c")
        assert commit(store, Batch((DeleteRange(A, start, end),))) == [Committed()]
        fill(store, b"d")
        assert found(store, b"", HIGHEST) == [b"a", b"b", b"c", b"d"]

    def test_operations_of_a_batch_apply_in_order(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b")
        commit(
            store,
            Batch(
                (
                    DeleteRange(A, b"", HIGHEST),
                    Put(A, b"b", b"again"),
                    Put(A, b"c", b"short-lived"),
                    Delete(A, b"c"),
                )
            ),
        )
        assert everything(store, A) == [(b"b", b"again")]

    def test_a_batch_may_span_families(self, store: OrderedStore) -> None:
        commit(store, Batch((Put(A, b"k", b"1"), Put(B, b"k", b"2"))))
        assert (store.get(A, b"k"), store.get(B, b"k")) == (b"1", b"2")

    def test_a_batch_without_operations_is_committed(self, store: OrderedStore) -> None:
        assert commit(store, Batch(())) == [Committed()]

    def test_submitting_no_batch_gives_no_outcome(self, store: OrderedStore) -> None:
        assert commit(store) == []


class TestExpectations:
    def test_absent_holds_for_a_key_never_put(self, store: OrderedStore) -> None:
        assert commit(store, Batch((Put(A, b"k", b"v"),), (Absent(A, b"k"),))) == [Committed()]
        assert store.get(A, b"k") == b"v"

    def test_absent_holds_again_after_a_delete(self, store: OrderedStore) -> None:
        fill(store, b"k")
        commit(store, Batch((Delete(A, b"k"),)))
        assert commit(store, Batch((), (Absent(A, b"k"),))) == [Committed()]

    def test_absent_fails_for_a_key_that_is_there(self, store: OrderedStore) -> None:
        fill(store, b"k")
        expected = Absent(A, b"k")
        assert commit(store, Batch((Put(A, b"k", b"new"),), (expected,))) == [Conflict(expected)]
        assert store.get(A, b"k") == b"vk"

    def test_absent_fails_for_an_empty_value(self, store: OrderedStore) -> None:
        commit(store, Batch((Put(A, b"k", b""),)))
        assert commit(store, Batch((), (Absent(A, b"k"),))) == [Conflict(Absent(A, b"k"))]

    def test_equals_holds_for_exactly_that_value(self, store: OrderedStore) -> None:
        fill(store, b"k")
        assert commit(store, Batch((Put(A, b"k", b"new"),), (Equals(A, b"k", b"vk"),))) == [
            Committed()
        ]
        assert store.get(A, b"k") == b"new"

    @pytest.mark.parametrize("value", [b"v", b"vk0", b""])
    def test_equals_fails_for_another_value(self, store: OrderedStore, value: bytes) -> None:
        fill(store, b"k")
        expected = Equals(A, b"k", value)
        assert commit(store, Batch((Delete(A, b"k"),), (expected,))) == [Conflict(expected)]
        assert store.get(A, b"k") == b"vk"

    def test_equals_fails_for_an_absent_key_even_if_empty(self, store: OrderedStore) -> None:
        expected = Equals(A, b"k", b"")
        assert commit(store, Batch((), (expected,))) == [Conflict(expected)]

    def test_expectations_look_into_their_own_family(self, store: OrderedStore) -> None:
        fill(store, b"k", family=B)
        assert commit(store, Batch((), (Absent(A, b"k"),))) == [Committed()]

    def test_a_conflict_names_the_expectation_that_failed(self, store: OrderedStore) -> None:
        fill(store, b"k")
        failing = Equals(A, b"k", b"other")
        outcome = commit(store, Batch((), (Absent(A, b"free"), failing, Absent(A, b"k"))))
        assert outcome == [Conflict(failing)]

    def test_a_batch_in_conflict_writes_nothing_at_all(self, store: OrderedStore) -> None:
        fill(store, b"taken")
        operations: tuple[Operation, ...] = (
            Put(A, b"new", b"v"),
            Put(B, b"new", b"v"),
            Delete(A, b"taken"),
            Append(B, b"n:", b"v"),
        )
        commit(store, Batch(operations, (Absent(A, b"taken"),)))
        assert everything(store, A) == [(b"taken", b"vtaken")]
        assert everything(store, B) == []
        assert store.get_sequence(B, b"n:") == 0


class TestBatchesOfOneSubmit:
    def test_a_conflict_fails_only_its_own_batch(self, store: OrderedStore) -> None:
        fill(store, b"taken")
        assert commit(
            store,
            Batch((Put(A, b"before", b"v"),)),
            Batch((Put(A, b"never", b"v"),), (Absent(A, b"taken"),)),
            Batch((Put(A, b"behind", b"v"),)),
        ) == [Committed(), Conflict(Absent(A, b"taken")), Committed()]
        assert found(store, b"", HIGHEST) == [b"before", b"behind", b"taken"]

    def test_a_put_is_seen_by_a_later_absent(self, store: OrderedStore) -> None:
        assert commit(
            store,
            Batch((Put(A, b"k", b"first"),), (Absent(A, b"k"),)),
            Batch((Put(A, b"k", b"second"),), (Absent(A, b"k"),)),
        ) == [Committed(), Conflict(Absent(A, b"k"))]
        assert store.get(A, b"k") == b"first"

    def test_a_put_is_seen_by_a_later_equals(self, store: OrderedStore) -> None:
        fill(store, b"k")
        assert commit(
            store,
            Batch((Put(A, b"k", b"1"),)),
            Batch((Put(A, b"k", b"2"),), (Equals(A, b"k", b"1"),)),
            Batch((Put(A, b"k", b"3"),), (Equals(A, b"k", b"1"),)),
        ) == [Committed(), Committed(), Conflict(Equals(A, b"k", b"1"))]
        assert store.get(A, b"k") == b"2"

    def test_a_batch_in_conflict_is_not_seen_by_later_ones(self, store: OrderedStore) -> None:
        fill(store, b"taken")
        assert commit(
            store,
            Batch((Put(A, b"k", b"v"),), (Absent(A, b"taken"),)),
            Batch((), (Absent(A, b"k"),)),
        ) == [Conflict(Absent(A, b"taken")), Committed()]

    def test_a_delete_is_seen_by_a_later_absent(self, store: OrderedStore) -> None:
        fill(store, b"k")
        outcomes = commit(store, Batch((Delete(A, b"k"),)), Batch((), (Absent(A, b"k"),)))
        assert outcomes == [Committed(), Committed()]

    def test_a_range_delete_is_seen_by_a_later_absent(self, store: OrderedStore) -> None:
        fill(store, b"stored")
        assert commit(
            store,
            Batch((Put(A, b"pending", b"v"),)),
            Batch((DeleteRange(A, b"", HIGHEST),)),
            Batch((), (Absent(A, b"stored"), Absent(A, b"pending"))),
        ) == [Committed(), Committed(), Committed()]

    def test_a_range_delete_clears_no_more_than_its_range(self, store: OrderedStore) -> None:
        fill(store, b"a", b"b")
        fill(store, b"a", family=B)
        assert commit(
            store,
            Batch((Put(A, b"c", b"vc"), DeleteRange(A, b"a", b"b"))),
            Batch((), (Equals(A, b"b", b"vb"), Equals(A, b"c", b"vc"), Equals(B, b"a", b"va"))),
        ) == [Committed(), Committed()]

    def test_a_put_after_a_range_delete_is_seen_by_a_later_equals(
        self, store: OrderedStore
    ) -> None:
        fill(store, b"k")
        assert commit(
            store,
            Batch((DeleteRange(A, b"", HIGHEST),)),
            Batch((Put(A, b"k", b"new"),)),
            Batch((Put(A, b"k", b"newer"),), (Equals(A, b"k", b"new"),)),
        ) == [Committed(), Committed(), Committed()]
        assert everything(store, A) == [(b"k", b"newer")]

    def test_an_append_is_seen_by_a_later_equals(self, store: OrderedStore) -> None:
        key = b"n:%020d" % 1
        assert commit(
            store, Batch((Append(A, b"n:", b"v"),)), Batch((), (Equals(A, key, b"v"),))
        ) == [Committed((1,)), Committed()]


class TestSequences:
    def test_appends_are_numbered_from_1(self, store: OrderedStore) -> None:
        assert commit(store, Batch((Append(A, b"n:", b"x"),))) == [Committed((1,))]
        assert everything(store, A) == [(b"n:00000000000000000001", b"x")]

    def test_numbers_ascend_over_batches_and_submits(self, store: OrderedStore) -> None:
        one = Append(A, b"n:", b"x")
        assert commit(store, Batch((one, one)), Batch((one,))) == [
            Committed((1, 2)),
            Committed((3,)),
        ]
        assert commit(store, Batch((one,))) == [Committed((4,))]

    def test_committed_gives_the_numbers_in_the_order_of_the_appends(
        self, store: OrderedStore
    ) -> None:
        commit(store, Batch((Append(A, b"n:", b"x"),)))
        batch = Batch(
            (
                Append(B, b"m:", b"1"),
                Put(A, b"k", b"v"),
                Append(A, b"n:", b"2"),
                Append(B, b"m:", b"3"),
            )
        )
        assert commit(store, batch) == [Committed((1, 2, 2))]
        assert store.get(B, b"m:%020d" % 2) == b"3"

    def test_each_family_and_prefix_has_its_own_numbers(self, store: OrderedStore) -> None:
        commit(store, Batch((Append(A, b"n:", b""), Append(A, b"n:", b""), Append(A, b"m:", b""))))
        assert [
            store.get_sequence(A, b"n:"),
            store.get_sequence(A, b"m:"),
            store.get_sequence(B, b"n:"),
        ] == [
            2,
            1,
            0,
        ]

    def test_byte_order_is_number_order(self, store: OrderedStore) -> None:
        commit(store, Batch(tuple(Append(A, b"n:", b"%d" % n) for n in range(1, 12))))
        assert [value for _, value in everything(store, A)] == [b"%d" % n for n in range(1, 12)]

    def test_a_conflict_uses_up_no_number(self, store: OrderedStore) -> None:
        one = Append(A, b"n:", b"x")
        fill(store, b"k")
        outcomes = commit(store, Batch((one,)), Batch((one,), (Absent(A, b"k"),)), Batch((one,)))
        assert outcomes == [Committed((1,)), Conflict(Absent(A, b"k")), Committed((2,))]

    def test_numbers_are_not_reused_after_everything_was_deleted(self, store: OrderedStore) -> None:
        one = Append(A, b"n:", b"x")
        commit(store, Batch((one, one)))
        clear = DeleteRange(A, b"", HIGHEST)
        assert commit(store, Batch((clear, one)), Batch((clear,)), Batch((one,))) == [
            Committed((3,)),
            Committed(),
            Committed((4,)),
        ]
        commit(store, Batch((clear,)))
        assert store.get_sequence(A, b"n:") == 4


class TestUnknownFamilies:
    def test_reading_one_fails(self, store: OrderedStore) -> None:
        with pytest.raises(StorageFailed, match=UNKNOWN):
            store.get(UNKNOWN, b"k")
        with pytest.raises(StorageFailed, match=UNKNOWN):
            store.get_many(UNKNOWN, [b"k"])
        with pytest.raises(StorageFailed, match=UNKNOWN):
            store.scan(UNKNOWN, b"", HIGHEST, limit=1)

    @pytest.mark.parametrize(
        "batch",
        [
            Batch((Put(A, b"k", b"v"), Put(UNKNOWN, b"k", b"v"))),
            Batch((Put(A, b"k", b"v"), Delete(UNKNOWN, b"k"))),
            Batch((Put(A, b"k", b"v"), DeleteRange(UNKNOWN, b"a", b"b"))),
            Batch((Put(A, b"k", b"v"), Append(UNKNOWN, b"n:", b"v"))),
            Batch((Put(A, b"k", b"v"),), (Absent(UNKNOWN, b"k"),)),
            Batch((Put(A, b"k", b"v"),), (Equals(UNKNOWN, b"k", b"v"),)),
        ],
        ids=["put", "delete", "delete_range", "append", "absent", "equals"],
    )
    def test_a_batch_that_names_one_fails_whole(self, store: OrderedStore, batch: Batch) -> None:
        with pytest.raises(StorageFailed, match=UNKNOWN):
            commit(store, batch)
        assert everything(store, A) == []

    def test_the_store_goes_on_after_one(self, store: OrderedStore) -> None:
        with pytest.raises(StorageFailed):
            commit(store, Batch((Append(A, b"n:", b"lost"), Put(UNKNOWN, b"k", b"v"))))
        assert commit(store, Batch((Append(A, b"n:", b"kept"),))) == [Committed((1,))]
        assert everything(store, A) == [(b"n:%020d" % 1, b"kept")]


class TestClosing:
    def test_close_commits_submitted_batches(self, open_durable: OpenStore, tmp_path: Path) -> None:
        store = open_durable(tmp_path / "store")
        futures = [store.submit([Batch((Put(A, b"%d" % n, b"v"),))]) for n in range(5)]
        store.close()
        assert [future.result(0) for future in futures] == [[Committed()]] * 5
        again = open_durable(tmp_path / "store")
        assert len(everything(again, A)) == 5
        again.close()

    def test_close_may_be_called_again(self, store: OrderedStore) -> None:
        store.close()
        store.close()

    def test_submit_after_close_is_refused(self, store: OrderedStore) -> None:
        store.close()
        with pytest.raises(StorageClosed):
            store.submit([Batch((Put(A, b"k", b"v"),))])

    def test_reads_after_close_are_refused(self, store: OrderedStore) -> None:
        store.close()
        with pytest.raises(StorageClosed):
            store.get(A, b"k")
        with pytest.raises(StorageClosed):
            store.get_many(A, [b"k"])
        with pytest.raises(StorageClosed):
            store.scan(A, b"", HIGHEST, limit=1)
        with pytest.raises(StorageClosed):
            store.get_sequence(A, b"n:")

    def test_reopening_keeps_rows_deletions_and_numbers(
        self, open_durable: OpenStore, tmp_path: Path
    ) -> None:
        store = open_durable(tmp_path / "store")
        fill(store, b"a", b"b", b"c")
        commit(store, Batch((Append(B, b"n:", b"x"), Append(B, b"n:", b"y"))))
        commit(store, Batch((Delete(A, b"a"), DeleteRange(B, b"", HIGHEST))))
        store.close()

        again = open_durable(tmp_path / "store")
        assert everything(again, A) == [(b"b", b"vb"), (b"c", b"vc")]
        assert everything(again, B) == []
        assert again.get_sequence(B, b"n:") == 2
        assert commit(again, Batch((Append(B, b"n:", b"z"),))) == [Committed((3,))]
        again.close()


class TestConcurrentCallers:
    def test_of_many_that_expect_a_key_absent_exactly_one_wins(self, store: OrderedStore) -> None:
        callers = 8
        together = threading.Barrier(callers)
        expected = Absent(A, b"k")

        def claim(caller: int) -> bool:
            mine = b"%d" % caller
            together.wait(TIMEOUT)
            (outcome,) = commit(store, Batch((Put(A, b"k", mine),), (expected,)))
            # After an answer, every reader sees the write.
            assert (store.get(A, b"k") == mine) is (outcome == Committed())
            return outcome == Committed()

        with ThreadPoolExecutor(callers) as pool:
            won = list(pool.map(claim, range(callers), timeout=TIMEOUT))
        assert won.count(True) == 1
        assert store.get(A, b"k") == b"%d" % won.index(True)

    def test_every_append_has_a_number_of_its_own(self, store: OrderedStore) -> None:
        callers, each = 8, 25
        together = threading.Barrier(callers)

        def append(caller: int) -> list[int]:
            together.wait(TIMEOUT)
            batches = [Batch((Append(A, b"n:", b"%d" % caller),))] * each
            futures = [store.submit([batch]) for batch in batches]
            outcomes = [future.result(TIMEOUT)[0] for future in futures]
            return [n for done in outcomes if isinstance(done, Committed) for n in done.sequences]

        with ThreadPoolExecutor(callers) as pool:
            numbers = list(pool.map(append, range(callers), timeout=TIMEOUT))
        assert all(mine == sorted(mine) for mine in numbers)
        assert sorted(n for mine in numbers for n in mine) == list(range(1, callers * each + 1))
        assert store.get_sequence(A, b"n:") == callers * each
