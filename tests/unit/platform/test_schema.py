"""The schema version of a store: set, preserved, migrated, refused."""

from collections.abc import Iterator

import pytest

from agent_memory.kernel.errors import StorageFailed, StorageTooNew
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families, schema
from agent_memory.platform.store.batches import Append, Batch, Put
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.schema import Migration
from tests.memory_engine import MemoryEngine

KEY = b"schema"


class Crash(Exception):
    """The process ends here."""


def unexpected(health: StoreHealth) -> None:
    raise AssertionError(f"a write failed: {health.reason}")


@pytest.fixture
def store() -> Iterator[OrderedStore]:
    opened = CommittedStore(MemoryEngine(), watch=unexpected)
    yield opened
    opened.close()


def recorded(store: OrderedStore) -> bytes | None:
    return store.get(families.META, KEY)


def record(store: OrderedStore, version: bytes) -> None:
    store.submit([Batch((Put(families.META, KEY, version),))]).result()


def noting(version: int) -> Migration:
    """Build a migration that records that it ran, and the version at that time."""

    def migrate(store: OrderedStore) -> None:
        note = b"%d after %s" % (version, recorded(store) or b"nothing")
        store.submit([Batch((Append(families.TOC_NODES, b"note:", note),))]).result()

    return migrate


def crashing(version: int) -> Migration:
    """Build a migration that does its work and dies before it is recorded."""

    def migrate(store: OrderedStore) -> None:
        noting(version)(store)
        raise Crash

    return migrate


def notes(store: OrderedStore) -> list[bytes]:
    return [value for _, value in store.scan(families.TOC_NODES, b"", b"\xff", limit=100)]


def test_a_fresh_store_gets_our_version(store: OrderedStore) -> None:
    schema.prepare(store)
    assert recorded(store) == b"%d" % schema.VERSION


def test_a_fresh_store_needs_no_migration(store: OrderedStore) -> None:
    schema.prepare(store, version=3, migrations={2: noting(2), 3: noting(3)})
    assert recorded(store) == b"3"
    assert notes(store) == []


def test_a_store_of_our_version_is_left_as_it_is(store: OrderedStore) -> None:
    schema.prepare(store, version=2)
    schema.prepare(store, version=2, migrations={1: noting(1), 2: noting(2), 3: noting(3)})
    assert recorded(store) == b"2"
    assert notes(store) == []


def test_every_version_of_ours_can_be_reached() -> None:
    assert sorted(schema.MIGRATIONS) == list(range(2, schema.VERSION + 1))


def test_an_older_store_is_migrated_step_by_step(store: OrderedStore) -> None:
    schema.prepare(store, version=1)
    schema.prepare(store, version=3, migrations={2: noting(2), 3: noting(3)})
    assert notes(store) == [b"2 after 1", b"3 after 2"]
    assert recorded(store) == b"3"


def test_versions_are_compared_as_numbers(store: OrderedStore) -> None:
    schema.prepare(store, version=9)
    schema.prepare(store, version=10, migrations={10: noting(10)})
    assert recorded(store) == b"10"
    with pytest.raises(StorageTooNew):
        schema.prepare(store, version=9)


def test_a_newer_store_is_refused_and_not_touched(store: OrderedStore) -> None:
    schema.prepare(store, version=3)
    with pytest.raises(StorageTooNew, match=r"schema 3, .* supports 2: upgrade"):
        schema.prepare(store, version=2, migrations={2: noting(2)})
    assert recorded(store) == b"3"
    assert notes(store) == []


def test_a_crash_before_the_record_runs_that_migration_again(store: OrderedStore) -> None:
    schema.prepare(store, version=1)
    with pytest.raises(Crash):
        schema.prepare(store, version=3, migrations={2: noting(2), 3: crashing(3)})
    assert recorded(store) == b"2"

    schema.prepare(store, version=3, migrations={2: noting(2), 3: noting(3)})
    assert recorded(store) == b"3"
    assert notes(store) == [b"2 after 1", b"3 after 2", b"3 after 2"]


def test_a_missing_migration_fails_with_the_steps_before_it_recorded(store: OrderedStore) -> None:
    schema.prepare(store, version=1)
    with pytest.raises(StorageFailed, match="there is no migration to schema 3"):
        schema.prepare(store, version=4, migrations={2: noting(2), 4: noting(4)})
    assert recorded(store) == b"2"
    assert notes(store) == [b"2 after 1"]


def test_a_record_that_changes_meanwhile_fails(store: OrderedStore) -> None:
    schema.prepare(store, version=1)
    with pytest.raises(StorageFailed, match="changed while the store was being opened"):
        schema.prepare(store, version=2, migrations={2: lambda store: record(store, b"7")})
    assert recorded(store) == b"7"


@pytest.mark.parametrize("damaged", [b"", b"x", b"1.0", b"-1"])
def test_a_damaged_record_fails(store: OrderedStore, damaged: bytes) -> None:
    record(store, damaged)
    with pytest.raises(StorageFailed):
        schema.prepare(store, version=2, migrations={})
    assert recorded(store) == damaged
