"""Snapshots of a real store: what is refused, what is kept, and a migration that is backed up."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.backups.adapters import sources
from agent_memory.features.backups.model import backups
from agent_memory.features.backups.model.backups import BackupFile, Manifest, Retention, Snapshot
from agent_memory.features.backups.services.backup_record import BackupRecord
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import BackupStatus
from agent_memory.platform.store import families, schema
from agent_memory.platform.store.batches import Batch, Put
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine
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
    (first,) = sources.list_snapshots(target)
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
        assert schema.read_header(store.get)[0] == 1
        for _ in range(2):
            schema.prepare(store, version=2, migrations={2: migrate}, before=before)
        assert seen == [1, 1]
        assert schema.read_header(store.get)[0] == 2
    finally:
        store.close()


@given(
    st.lists(st.integers(0, 200 * DAY_MS), unique=True, min_size=1, max_size=60),
    st.integers(1, 8),
    st.integers(0, 8),
)
def test_what_is_kept_are_the_newest_and_one_of_each_week(
    times: Sequence[int], newest: int, weekly: int
) -> None:
    ours = [snapshot(at) for at in times]
    foreign = [snapshot(at, "b" * 32) for at in times]
    created = max(ours, key=lambda each: each.manifest.made_ms)
    gone = backups.select_outdated(
        [*foreign, *ours], created, Retention(newest=newest, weekly=weekly)
    )
    assert all(each in ours for each in gone)
    stored = sorted(set(times) - {each.manifest.made_ms for each in gone}, reverse=True)
    expected = sorted(times, reverse=True)
    assert stored[:newest] == expected[:newest]

    def week(at: int) -> tuple[int, int]:
        found = datetime.fromtimestamp(at / 1000, UTC).isocalendar()
        return found.year, found.week

    last = datetime.fromtimestamp(expected[0] / 1000, UTC)
    wanted = {week(int((last - timedelta(weeks=n)).timestamp() * 1000)) for n in range(weekly)}
    newest_of_week = {
        max(at for at in times if week(at) == each) for each in wanted & {week(at) for at in times}
    }
    assert set(stored) == set(expected[:newest]) | newest_of_week


@given(
    st.lists(st.integers(0, 200 * DAY_MS), unique=True, min_size=1, max_size=20),
    st.integers(1, 8),
    st.integers(0, 8),
    st.data(),
)
def test_the_one_just_made_stays_and_what_is_dated_later_takes_no_place_of_what_is_not(
    times: Sequence[int], newest: int, weekly: int, data: st.DataObject
) -> None:
    found = [snapshot(at) for at in times]
    created = data.draw(st.sampled_from(found))
    gone = backups.select_outdated(found, created, Retention(newest=newest, weekly=weekly))
    assert created not in gone
    earlier = sorted((at for at in times if at < created.manifest.made_ms), reverse=True)
    assert not {each.manifest.made_ms for each in gone} & set(earlier[: newest - 1])
    assert len(found) - len(gone) >= min(newest, len(found))


def test_a_manifest_with_a_file_of_a_part_that_it_does_not_have_is_refused() -> None:
    manifest = snapshot(1).manifest
    key = BackupFile(path="key", size=1, sha256="0" * 64)
    whole = replace(manifest, parts=("db", "key"), files=(key,))
    assert backups.parse(backups.dump(whole).encode()) == whole
    with pytest.raises(InvalidInput, match="no part that the backup has"):
        backups.parse(backups.dump(replace(manifest, files=(key,))).encode())


def test_what_is_damaged_is_named_without_a_word_about_a_restore(tmp_path: Path) -> None:
    backup_kills.make_data(tmp_path / "data", 5)
    backup_kills.back_up(tmp_path / "data", tmp_path / "backups")
    (created,) = sources.list_snapshots(tmp_path / "backups")
    (created / "key").unlink()
    (created / "key").write_text("another")
    with pytest.raises(StorageFailed, match=r"checksum differs\Z"):
        sources.verify(sources.open_backup(created), lambda: None)
    with pytest.raises(StorageFailed, match="nothing was restored"):
        backup_kills.restore(tmp_path / "other", created)


def test_the_record_of_backups_is_replaced_and_written_through_no_link(tmp_path: Path) -> None:
    data, victim = tmp_path / "data", tmp_path / "victim"
    data.mkdir()
    victim.write_text("precious")
    (data / "backup.json").symlink_to(victim)
    record = BackupRecord(data)
    status = BackupStatus(path="a", made_ms=Millis(1), scheduled="b", scheduled_ms=Millis(2))
    record.save(status)
    assert record.load() == status
    assert victim.read_text() == "precious"
    assert [each.name for each in data.iterdir()] == ["backup.json"]
    assert (data / "backup.json").stat().st_mode & 0o777 == 0o600
    (data / "backup.json").write_text('{"path": "a", "made_ms": 1, "before_upgrade": "c"}')
    assert record.load() == BackupStatus(path="a", made_ms=Millis(1), before_upgrade="c")


def test_names_sort_by_time_also_within_a_second() -> None:
    first, second = (
        backups.format_name(Millis(ms), "0a1b2c3d4e")
        for ms in (1_700_000_000_007, 1_700_000_000_080)
    )
    assert first == "20231114T221320.007Z-0a1b2c3d"
    assert first < second
    assert all(map(backups.is_name, (first, second, "20231114T221320Z-0a1b2c3d")))
