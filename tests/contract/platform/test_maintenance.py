"""The StoreMaintenance port over a store in use, with concurrent `close`."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from agent_memory.kernel.errors import StorageClosed, StorageFailed
from agent_memory.kernel.status import StoreStats
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.maintenance import GuardedMaintenance
from agent_memory.platform.store.rocks import RocksEngine
from tests.contract.engines import wait_for
from tests.contract.stores import TIMEOUT, commit, everything, unexpected
from tests.memory_engine import MemoryEngine

A = families.EVENTS
MOMENT = 0.05  # time allowed for something that must not happen
ROWS, ROW_BYTES, ROUNDS = 400, 8_000, 20


class HeldMaintenance:
    """Maintenance that is busy until released."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._released = threading.Event()

    def stats(self) -> StoreStats:
        self.compact("")
        return StoreStats(path="", size_bytes=0, families=(), pending_compactions=0, wal_bytes=0)

    def compact(self, _family: str, /) -> None:
        self._entered.set()
        wait_for(self._released)

    def copy_to(self, _path: Path, /) -> None:
        self.compact("")

    def wait_until_busy(self) -> None:
        wait_for(self._entered)

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.mark.parametrize("what", ["stats", "compact", "checkpoint"])
def test_a_close_waits_for_it(pool: ThreadPoolExecutor, what: str) -> None:
    held = HeldMaintenance()
    store = CommittedStore(MemoryEngine(), unexpected)
    guarded = GuardedMaintenance(held, store)
    work = {
        "stats": guarded.stats,
        "compact": lambda: guarded.compact(A),
        "checkpoint": lambda: guarded.copy_to(Path("unused")),
    }
    working = pool.submit(work[what])
    held.wait_until_busy()
    closing = pool.submit(store.close)
    try:
        assert not wait([closing], timeout=MOMENT).done
    finally:
        held.release()
    working.result(TIMEOUT)
    closing.result(TIMEOUT)


def test_a_close_does_not_wait_for_a_compaction_to_finish_and_nothing_is_lost(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    engine = RocksEngine(tmp_path)
    store = CommittedStore(engine, unexpected)
    for number in range(ROUNDS):
        rows = (Put(A, b"%04d:%02d" % (n, number), os.urandom(ROW_BYTES)) for n in range(ROWS))
        commit(store, Batch(tuple(rows)))
    compacting = pool.submit(GuardedMaintenance(engine, store).compact, A)
    until_compacting = threading.Event()
    while not engine.stats().pending_compactions and not compacting.done():
        until_compacting.wait(0.001)

    pool.submit(store.close).result(TIMEOUT)

    failure = compacting.exception(TIMEOUT)
    assert failure is None or isinstance(failure, StorageClosed), failure
    again = CommittedStore(RocksEngine(tmp_path), unexpected)
    assert len(everything(again, A)) == ROWS * ROUNDS
    commit(again, Batch((Put(A, b"more", b"v"),)))
    again.close()


@pytest.mark.parametrize("interrupted", [False, True])
def test_closed_it_says_so(tmp_path: Path, interrupted: bool) -> None:
    engine = RocksEngine(tmp_path)
    store = CommittedStore(engine, unexpected)
    guarded = GuardedMaintenance(engine, store)
    if interrupted:
        engine.interrupt()
        with pytest.raises(StorageClosed):
            guarded.compact(A)
    store.close()
    with pytest.raises(StorageClosed):
        guarded.compact(A)
    with pytest.raises(StorageClosed):
        guarded.stats()


def test_an_interrupted_store_without_compactions_closes_cleanly(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path)
    engine.write([Put(A, b"k", b"v")])
    engine.interrupt()
    engine.interrupt()
    engine.close()
    again = RocksEngine(tmp_path)
    assert again.get(A, b"k") == b"v"
    again.close()


def test_stats_of_a_folder_that_is_gone_are_storage_failed(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    engine = RocksEngine(folder)
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageFailed, match="cannot read the store"):
        engine.stats()
    (tmp_path / "elsewhere").rename(folder)
    engine.close()
