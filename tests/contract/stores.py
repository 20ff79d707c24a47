"""Every implementation of the OrderedStore port, and helpers for their tests."""

from collections.abc import Callable, Mapping
from pathlib import Path

from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store.batches import Batch, CommitOutcome, Row
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.rocks import RocksEngine
from agent_memory.platform.store.transacted import open_transacted
from tests.memory_database import MemoryDatabase, MemoryServer, RealTime
from tests.memory_engine import MemoryEngine
from tests.postgres_server import name_tenant, share_server

TIMEOUT = 20.0  # for something that must happen: only a failing test waits it out
HIGHEST = b"\xff" * 8

OpenStore = Callable[[Path], OrderedStore]


def unexpected(health: StoreHealth) -> None:
    """Fail the test from the committer's thread: no write may fail."""
    raise AssertionError(f"a write failed: {health.reason}")


def rocks(path: Path) -> OrderedStore:
    return CommittedStore(RocksEngine(path), watch=unexpected)


def memory(_: Path) -> OrderedStore:
    return CommittedStore(MemoryEngine(), watch=unexpected)


def postgres(path: Path) -> OrderedStore:
    database = PostgresDatabase(share_server().url, name_tenant(path))
    return open_transacted(database, unexpected, holder="test", label="a test")


def transacted(_: Path) -> OrderedStore:
    database = MemoryDatabase(MemoryServer(), RealTime())
    return open_transacted(database, unexpected, holder="test", label="a test")


# Add a new implementation here, and below if it keeps its data when closed.
STORES: Mapping[str, OpenStore] = {
    "rocks": rocks,
    "memory": memory,
    "postgres": postgres,
}
# The port itself is also tested on the database that simulations use.
PORT_STORES: Mapping[str, OpenStore] = {
    **STORES,
    "transacted": transacted,
}
DURABLE: Mapping[str, OpenStore] = {
    "rocks": rocks,
    "postgres": postgres,
}


def commit(store: OrderedStore, *batches: Batch) -> list[CommitOutcome]:
    return store.submit(batches).result(TIMEOUT)


def everything(store: OrderedStore, family: str) -> list[Row]:
    return store.scan(family, b"", HIGHEST, limit=100_000)
