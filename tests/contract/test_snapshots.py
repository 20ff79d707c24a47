"""Snapshots of a real store: what is refused, what is kept, and a migration that is backed up."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.adapters.backup import sources
from agent_memory.adapters.storage import families, schema
from agent_memory.adapters.storage.committer import CommittedStore
from agent_memory.adapters.storage.rocks import RocksEngine
from agent_memory.domain import backups
from agent_memory.domain.backups import Manifest, Retention, Snapshot
from agent_memory.domain.batches import Batch, Put
from agent_memory.domain.errors import StorageFailed
from agent_memory.domain.events import Millis
from tests import backup_kills
from tests.contract.stores import unexpected

DAY_MS = 86_400_000


def snapshot(made_ms: int, store: str = "a" * 32) -> Snapshot:
    manifest = Manifest(
        made_ms=Millis(made_ms),
        version="1",
        store=store,
        schema=1,
        events=0,
        parts=("db",),
        files=(),
    )
    return Snapshot(path=f"{store}-{made_ms}", manifest=manifest)


def test_a_table_that_changed_since_the_last_snapshot_is_not_backed_up_as_if_it_were_good(
    tmp_path: Path,
) -> None:
    data, target = tmp_path / "data", tmp_path / "backups"
    backup_kills.make_data(data, 5)
    backup_kills.back_up(data, target)
    (first,) = sources.named(target)
    table = max((first / "db").glob("*.sst"), key=lambda each: each.stat().st_size)
    found = bytearray(table.read_bytes())
    found[0] ^= 1
    table.write_bytes(found)  # the store's own file too: it is the same one
    with pytest.raises(StorageFailed, match=table.name):
        backup_kills.back_up(data, target)
    assert [each.name for each in target.iterdir()] == [first.name]


def test_before_a_migration_the_store_is_as_it_was_and_where_that_fails_nothing_is_migrated(
    tmp_path: Path,
) -> None:
    store = CommittedStore(RocksEngine(tmp_path / "db"), unexpected)
    try:
        schema.prepare(store, version=1)
        seen: list[int] = []

        def migrate(_: object) -> None:
            store.submit([Batch((Put(families.META, b"migrated", b"1"),))]).result()

        def before(found: int) -> None:
            assert store.get(families.META, b"migrated") is None
            seen.append(found)
            if len(seen) == 1:
                raise StorageFailed("no room")

        with pytest.raises(StorageFailed, match="no room"):
            schema.prepare(store, version=2, migrations={2: migrate}, before=before)
        assert schema.recorded(store.get)[0] == 1
        for _ in range(2):
            schema.prepare(store, version=2, migrations={2: migrate}, before=before)
        assert seen == [1, 1]
        assert schema.recorded(store.get)[0] == 2
    finally:
        store.close()


@given(
    st.lists(st.integers(0, 200 * DAY_MS), unique=True, max_size=60),
    st.integers(1, 8),
    st.integers(0, 8),
)
def test_what_is_kept_are_the_newest_and_one_of_each_week(
    times: Sequence[int], newest: int, weekly: int
) -> None:
    ours = [snapshot(at) for at in times]
    foreign = [snapshot(at, "b" * 32) for at in times]
    gone = backups.outdated([*foreign, *ours], "a" * 32, Retention(newest=newest, weekly=weekly))
    assert all(each in ours for each in gone)
    kept = sorted(set(times) - {each.manifest.made_ms for each in gone}, reverse=True)
    expected = sorted(times, reverse=True)
    assert kept[:newest] == expected[:newest]
    if times:

        def week(at: int) -> tuple[int, int]:
            found = datetime.fromtimestamp(at / 1000, UTC).isocalendar()
            return found.year, found.week

        last = datetime.fromtimestamp(expected[0] / 1000, UTC)
        wanted = {week(int((last - timedelta(weeks=n)).timestamp() * 1000)) for n in range(weekly)}
        newest_of_week = {
            max(at for at in times if week(at) == each)
            for each in wanted & {week(at) for at in times}
        }
        assert set(kept) == set(expected[:newest]) | newest_of_week
