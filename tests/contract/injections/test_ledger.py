"""The Ledger port, over every store."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from agent_memory.features.injections.adapters.ledger_store import StoredLedger
from agent_memory.features.injections.model.injections import LedgerEntry
from agent_memory.features.injections.ports import Ledger
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from tests.contract.stores import OpenStore, commit, everything


def make_entry(number: int, *items: str, at_ms: int | None = None) -> LedgerEntry:
    """Make the entry that the ledger numbers so."""
    return LedgerEntry(
        at_ms=Millis(1_000 * number if at_ms is None else at_ms),
        session_id=SessionId(f"s{number}/agent:é"),
        event_id=EventId(f"e{number}"),
        agent="claude-code",
        project="shop",
        hook="user-prompt",
        items=items or (f"memory://grips/g{number}",),
        tokens=7,
        number=number,
    )


def fill(ledger: Ledger, *entries: LedgerEntry) -> None:
    for entry in entries:
        ledger.add(replace(entry, number=0))


def numbers(ledger: Ledger) -> list[int]:
    return [entry.number for entry in ledger.list_before(None, limit=1_000)]


@pytest.fixture
def ledger(store: OrderedStore) -> Ledger:
    return StoredLedger(store)


class TestReading:
    def test_the_newest_comes_first(self, ledger: Ledger) -> None:
        entries = [make_entry(number) for number in (1, 2, 3)]
        fill(ledger, *entries)
        assert ledger.list_before(None, limit=10) == entries[::-1]

    def test_a_page_continues_before_a_number(self, ledger: Ledger) -> None:
        fill(ledger, *(make_entry(number) for number in range(1, 6)))
        assert [each.number for each in ledger.list_before(None, limit=2)] == [5, 4]
        assert [each.number for each in ledger.list_before(4, limit=2)] == [3, 2]
        assert [each.number for each in ledger.list_before(2, limit=2)] == [1]
        assert ledger.list_before(1, limit=2) == []

    def test_an_empty_ledger_has_nothing(self, ledger: Ledger) -> None:
        assert ledger.list_before(None, limit=10) == []
        assert ledger.revise(lambda _: None) == 0
        ledger.trim(keep=1, since=Millis(0))

    def test_an_entry_without_items_comes_back(self, ledger: Ledger) -> None:
        fill(ledger, replace(make_entry(1), items=()))
        assert ledger.list_before(None, limit=1)[0].items == ()

    def test_a_damaged_entry_is_a_storage_failure(
        self, ledger: Ledger, store: OrderedStore
    ) -> None:
        fill(ledger, make_entry(1))
        assert numbers(ledger) == [1]
        ((key, _),) = everything(store, families.INJECTIONS)
        commit(store, Batch((Put(families.INJECTIONS, key, b"\x01garbage"),)))
        with pytest.raises(StorageFailed):
            ledger.list_before(None, limit=1)

    def test_it_outlives_a_restart(self, open_durable: OpenStore, tmp_path: Path) -> None:
        first = open_durable(tmp_path)
        StoredLedger(first).add(replace(make_entry(1), number=0))
        first.close()  # a normal stop, with the entry just queued
        second = open_durable(tmp_path)
        try:
            stored = StoredLedger(second)
            fill(stored, make_entry(2))
            assert stored.list_before(None, limit=10) == [make_entry(2), make_entry(1)]
        finally:
            second.close()


class TestRevising:
    def test_entries_are_changed_removed_and_kept(self, ledger: Ledger) -> None:
        fill(
            ledger,
            *(make_entry(number, "memory://grips/a", "memory://grips/b") for number in range(1, 4)),
        )

        def change(entry: LedgerEntry) -> LedgerEntry | None:
            if entry.number == 1:
                return None
            return replace(entry, items=entry.items[:1]) if entry.number == 2 else entry

        assert ledger.revise(change) == 2
        newest, changed = ledger.list_before(None, limit=10)
        assert newest.items == ("memory://grips/a", "memory://grips/b")
        assert changed.items == ("memory://grips/a",)

    def test_what_is_queued_is_revised_too(self, ledger: Ledger) -> None:
        for number in range(1, 20):
            ledger.add(replace(make_entry(number), number=0))
        ledger.revise(lambda _: None)
        assert numbers(ledger) == []

    def test_more_than_a_page(self, ledger: Ledger) -> None:
        fill(ledger, *(make_entry(number) for number in range(1, 502)))
        assert ledger.revise(lambda entry: None if entry.number % 2 else entry) == 251
        assert numbers(ledger) == list(range(500, 0, -2))

    def test_two_revisions_at_once_both_hold(self, ledger: Ledger) -> None:
        fill(ledger, *(make_entry(number, "a", "b") for number in range(1, 300)))

        def drop(item: str) -> int:
            return ledger.revise(
                lambda entry: replace(entry, items=tuple(i for i in entry.items if i != item))
            )

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(drop, ("a", "b"))) == [299, 299]
        assert {entry.items for entry in ledger.list_before(None, limit=1_000)} == {()}


class TestTrimming:
    def test_the_last_ones_stay(self, ledger: Ledger) -> None:
        fill(ledger, *(make_entry(number) for number in range(1, 11)))
        ledger.trim(keep=3, since=Millis(0))
        assert numbers(ledger) == [10, 9, 8]

    def test_old_ones_go(self, ledger: Ledger) -> None:
        fill(ledger, *(make_entry(number) for number in range(1, 11)))
        ledger.trim(keep=100, since=Millis(8_000))
        assert numbers(ledger) == [10, 9, 8]

    def test_all_may_go_and_numbers_go_on(self, ledger: Ledger) -> None:
        fill(ledger, *(make_entry(number) for number in range(1, 4)))
        ledger.trim(keep=100, since=Millis(10_000_000))
        assert numbers(ledger) == []
        fill(ledger, make_entry(4))
        assert numbers(ledger) == [4]

    def test_a_clock_that_was_set_back_removes_nothing_new(self, ledger: Ledger) -> None:
        fill(ledger, make_entry(1, at_ms=9_000), make_entry(2, at_ms=1_000))
        ledger.trim(keep=100, since=Millis(5_000))
        assert numbers(ledger) == [2, 1]

    def test_it_stays_bounded(self, ledger: Ledger, store: OrderedStore) -> None:
        for number in range(1, 31):
            fill(ledger, make_entry(number))
            ledger.trim(keep=5, since=Millis(0))
            assert len(everything(store, families.INJECTIONS)) <= 5
