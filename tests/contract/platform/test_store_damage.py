"""Damaged stores: sound data stays, lost data is reported, and the damaged files are preserved."""

import atexit
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest
import rocksdict

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType, SessionPosition
from agent_memory.features.maintenance.adapters import salvage
from agent_memory.kernel.errors import FeatureUnavailable, StorageFailed
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.kernel.status import Damage
from agent_memory.platform.store import acknowledged, damage, families, keys, schema
from agent_memory.platform.store.batches import Put
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import Gap, RocksEngine
from tests.contract.stores import unexpected

NOW = Millis(1_738_300_000_000)
FIRST_MS = 1_738_281_600_000
EVENTS = 600
IN_TABLES = 400

# Written by another process that ends without closing anything, like a crash.
_WRITE = """
import os, sys
from pathlib import Path
from tests.contract.platform.test_store_damage import IN_TABLES, EVENTS, event, unexpected
from agent_memory.platform.store import families, schema
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.platform.store import acknowledged
from agent_memory.platform.store.rocks import RocksEngine
acknowledged.SYNC_SECONDS = 0.0
engine = RocksEngine(Path(sys.argv[1]))
store = CommittedStore(engine, unexpected)
schema.prepare(store)
log = StoredEventLog(store)
for number in range(IN_TABLES):
    log.append([event(number)]).result()
if sys.argv[2] == "tables":
    for family in families.ALL:
        engine.compact(family)
for number in range(IN_TABLES, EVENTS):
    log.append([event(number)]).result()
    if sys.argv[2] == "logs" and number % 50 == 0:
        engine.compact(families.META)  # begins a log: the events stay in the one before
os._exit(0)
"""


def event(number: int) -> Event:
    return Event(
        event_id=EventId(f"event-{number:04}"),
        session_id=SessionId("session"),
        at_ms=Millis(FIRST_MS + 1000 * number),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=Random(number).randbytes(200).hex(),
    )


@cache
def _crashed(how: str) -> Path:
    path = Path(mkdtemp(prefix="am-damage-"))
    atexit.register(shutil.rmtree, path)
    subprocess.run([sys.executable, "-c", _WRITE, str(path / "db"), how], check=True)
    return path / "db"


def crashed(path: Path, how: str = "log") -> Path:
    """Return a store that was not closed, with all events in its log or mostly in tables."""
    return Path(shutil.copytree(_crashed(how), path))


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * place) if place < 1 else -int(place)] ^= 0x10
    path.write_bytes(content)


def largest(path: Path, pattern: str) -> Path:
    return max(path.glob(pattern), key=lambda each: each.stat().st_size)


@contextmanager
def opened(path: Path) -> Iterator[StoredEventLog]:
    engine = RocksEngine(
        path,
        lambda each: damage.mend_logs(each, NOW),
        lambda missing: damage.report_missing(path, missing, NOW),
    )
    store = CommittedStore(engine, unexpected)
    try:
        schema.prepare(store)
        yield StoredEventLog(store)
    finally:
        store.close()


def stored(path: Path) -> set[str]:
    """Return the stored events, and check that each is unchanged and known by its id."""
    with opened(path) as log:
        found = {number for number in range(EVENTS) if log.get(event(number).event_id)}
        for number in found:
            assert log.get(event(number).event_id) == event(number)
        page = log.list_session(SessionId("session"), after=None, limit=EVENTS)
        listed = {each.event_id for each in page.events}
    assert listed == {event(number).event_id for number in found}
    return {str(each) for each in listed}


class TestLog:
    @pytest.mark.parametrize("place", [0.1, 0.5, 0.9, 30])
    def test_one_flipped_byte_costs_one_event_which_is_named(
        self, tmp_path: Path, place: float
    ) -> None:
        db = crashed(tmp_path / "db")
        flip(largest(db, "*.log"), place)
        assert len(stored(db)) == EVENTS - 1
        # The last record of the log is also what it ends before.
        report = damage.read_reports(db)[0]
        assert len(damage.read_reports(db)) == 1 + (place == 30)
        assert report.events == 1
        lost = {event(n).at_ms for n in range(EVENTS)} - {
            event(int(name[-4:])).at_ms for name in stored(db)
        }
        assert {report.first_ms} == {report.last_ms} == lost
        assert report.noticed_ms == NOW

    def test_a_hole_is_reported_with_the_times_around_it(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        log = largest(db, "*.log")
        content = bytearray(log.read_bytes())
        middle = len(content) // 2
        content[middle : middle + 4096] = bytes(4096)
        log.write_bytes(content)
        lost = {event(n).at_ms for n in range(EVENTS)} - {
            event(int(name[-4:])).at_ms for name in stored(db)
        }
        assert len(lost) > 3
        (report,) = damage.read_reports(db)
        assert report.events is None
        assert report.first_ms is not None
        assert report.last_ms is not None
        assert report.first_ms <= min(lost) <= max(lost) <= report.last_ms
        assert report.last_ms - report.first_ms <= max(lost) - min(lost) + 2000

    def test_a_damaged_record_that_only_names_events_loses_none(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        engine = RocksEngine(db)
        names = b"\n".join(keys.event(event(n).at_ms, event(n).event_id) for n in range(40))
        engine.write([Put(families.TOC_NODES, b"toc:x", b"\n" + names + b"\n7")])
        engine.write([Put(families.META, b"more", b"7")])
        engine.flush()
        gone = tmp_path / "killed"
        shutil.copytree(db, gone)
        engine.close()
        flip(largest(gone, "*.log"), 0.01)
        assert len(stored(gone)) == EVENTS
        (report,) = damage.read_reports(gone)
        assert report.events == 0
        assert report.first_ms is None

    def test_the_damaged_log_is_preserved_for_its_owner_only(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        log = largest(db, "*.log")
        flip(log, 0.5)
        content = log.read_bytes()
        stored(db)
        saved = Path(damage.read_reports(db)[0].kept)
        assert (saved / log.name).read_bytes() == content
        assert saved.stat().st_mode & 0o077 == 0

    def test_a_last_write_that_was_never_acknowledged_is_no_loss(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        largest(db, acknowledged.NAME).unlink()
        log = largest(db, "*.log")
        os.truncate(log, log.stat().st_size - 5)
        assert len(stored(db)) == EVENTS - 1
        assert damage.read_reports(db) == []

    def test_nor_is_one_of_which_some_sectors_never_reached_the_disk(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        largest(db, acknowledged.NAME).unlink()
        log = largest(db, "*.log")
        content = bytearray(log.read_bytes())
        content[-300:-200] = bytes(100)
        log.write_bytes(content)
        assert len(stored(db)) == EVENTS - 1
        assert damage.read_reports(db) == []

    def test_a_sound_store_has_no_report(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        assert len(stored(db)) == EVENTS
        assert damage.read_reports(db) == []

    def test_without_someone_to_mend_it_a_damaged_log_is_refused(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        flip(largest(db, "*.log"), 0.5)
        with pytest.raises(StorageFailed, match="Corruption"):
            RocksEngine(db)

    def test_an_unreadable_report_is_still_listed(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        flip(largest(db, "*.log"), 0.5)
        stored(db)
        (Path(damage.read_reports(db)[0].kept) / damage.REPORT).write_text("{")
        assert "report cannot be read" in damage.read_reports(db)[0].what


class TestAcknowledged:
    """A log that was cut or removed looks like one that a crash ended early."""

    @pytest.mark.parametrize("share", [0.0, 0.4, 0.999])
    def test_a_log_that_was_cut_is_reported_with_what_it_lacks(
        self, tmp_path: Path, share: float
    ) -> None:
        db = crashed(tmp_path / "db")
        log = largest(db, "*.log")
        os.truncate(log, int(log.stat().st_size * share))
        left = len(stored(db))
        assert left < EVENTS
        (report,) = damage.read_reports(db)
        assert f"of {EVENTS - left:,} records" in report.what
        assert report.final
        assert report.last_ms is not None

    def test_a_log_that_was_removed_is_reported(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db", "tables")
        largest(db, "*.log").unlink()
        assert len(stored(db)) == IN_TABLES
        (report,) = damage.read_reports(db)
        assert f"of {EVENTS - IN_TABLES:,} records" in report.what

    @pytest.mark.parametrize("hurt", [Path.unlink, lambda path: os.truncate(path, 20_000)])
    def test_so_is_a_log_before_the_newest(
        self, tmp_path: Path, hurt: Callable[[Path], object]
    ) -> None:
        db = crashed(tmp_path / "db", "logs")
        logs = sorted(db.glob("*.log"))
        assert len(logs) > 2
        hurt(logs[1])
        assert len(stored(db)) < EVENTS
        report = damage.read_reports(db)[0]
        assert logs[1].name in report.what

    def test_a_loss_is_reported_once(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        largest(db, "*.log").unlink()
        stored(db)
        shutil.rmtree(damage.read_reports(db)[0].kept)
        stored(db)
        assert damage.read_reports(db) == []

    @pytest.mark.parametrize("how", ["log", "logs", "tables"])
    def test_nothing_is_reported_of_a_store_that_lacks_nothing(
        self, tmp_path: Path, how: str
    ) -> None:
        db = crashed(tmp_path / "db", how)
        for _ in range(2):
            assert len(stored(db)) == EVENTS
        assert damage.read_reports(db) == []

    def test_a_damaged_mark_claims_nothing(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        for mark in db.glob(acknowledged.NAME):
            mark.write_bytes(bytes(each ^ 1 for each in mark.read_bytes()))
        largest(db, "*.log").unlink()
        stored(db)
        assert damage.read_reports(db) == []


def nothing(db: Path) -> None:
    """Leave the store unchanged."""


def block(db: Path) -> None:
    flip(largest(db, "*.sst"), 0.3)


def footer(db: Path) -> None:
    flip(largest(db, "*.sst"), 10)


def manifest(db: Path) -> None:
    largest(db, "MANIFEST-*").write_bytes(b"no manifest")


def current(db: Path) -> None:
    (db / "CURRENT").unlink()


class TestRepair:
    @pytest.mark.parametrize(
        ("harm", "most_lost"),
        [(nothing, 0), (block, 60), (footer, IN_TABLES), (manifest, 0), (current, 0)],
    )
    def test_a_repair_saves_all_readable_rows(
        self, tmp_path: Path, harm: Callable[[Path], None], most_lost: int
    ) -> None:
        db = crashed(tmp_path / "db", "tables")
        harm(db)
        done = salvage.repair(db, NOW, lambda _: None)
        left = stored(db)
        assert EVENTS - most_lost <= len(left) <= EVENTS
        assert bool(done.damages) == (harm is not nothing)
        assert sum(each.events or 0 for each in done.damages) == EVENTS - len(left)
        assert salvage.check(db, lambda _: None).damages == ()

    def test_a_young_store_is_saved_from_its_log_alone(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db")
        manifest(db)
        salvage.repair(db, NOW, lambda _: None)
        assert len(stored(db)) == EVENTS

    def test_the_damaged_store_is_preserved(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db", "tables")
        block(db)
        before = {each.name: each.read_bytes() for each in db.glob("*.sst")}
        done = salvage.repair(db, NOW, lambda _: None)
        saved = Path(done.kept)
        assert before == {each.name: each.read_bytes() for each in saved.glob("*.sst")}

    def test_a_lost_event_can_be_imported_again_and_a_forgotten_one_cannot(
        self, tmp_path: Path
    ) -> None:
        db = crashed(tmp_path / "db", "tables")
        with opened(db) as log:
            forgotten = event(0)
            at = Position(at_ms=forgotten.at_ms, event_id=forgotten.event_id)
            log.remove([SessionPosition(session_id=forgotten.session_id, at=at)])
        block(db)
        salvage.repair(db, NOW, lambda _: None)
        with opened(db) as log:
            created = log.append([event(number) for number in range(EVENTS)]).result()
            gone = [number for number, new in enumerate(created) if new]
            assert 0 not in gone
            assert 0 < len(gone) <= 60
            assert log.get(event(gone[0]).event_id) == event(gone[0])

    def test_numbers_of_the_outbox_go_on(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db", "tables")
        with opened(db) as log:
            before = log.watermark()
        block(db)
        salvage.repair(db, NOW, lambda _: None)
        with opened(db) as log:
            assert log.watermark() >= before
            log.append([event(EVENTS)]).result()
            assert log.watermark() > before

    def test_cut_off_while_the_stores_change_places_it_is_finished(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db", "tables")
        db.rename(tmp_path / "db.replaced")
        shutil.copytree(tmp_path / "db.replaced", tmp_path / "db.salvaged")
        salvage.finish(db)
        assert len(stored(db)) == EVENTS
        assert sorted(each.name for each in tmp_path.iterdir()) == ["db"]

    def test_a_repair_interrupted_early_changes_nothing(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db", "tables")
        (tmp_path / "db.salvaged").mkdir()
        salvage.finish(db)
        assert len(stored(db)) == EVENTS
        assert sorted(each.name for each in tmp_path.iterdir()) == ["db"]

    def test_without_a_store_there_is_nothing_to_repair(self, tmp_path: Path) -> None:
        with pytest.raises(FeatureUnavailable):
            salvage.repair(tmp_path / "db", NOW, lambda _: None)
        assert list(tmp_path.iterdir()) == []

    def test_a_failed_copy_leaves_no_report_and_an_unchanged_store(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db", "tables")
        block(db)
        (db / "000999.log").mkdir()
        (db / "000998.log").symlink_to(tmp_path / "nowhere")
        before = sorted(each.name for each in db.iterdir())
        with pytest.raises(OSError, match="000998"):
            damage.put_aside(db, [db / "000998.log"], Damage(what="x", noticed_ms=NOW))
        assert damage.read_reports(db) == []
        assert sorted(each.name for each in db.iterdir()) == before

    def test_a_store_that_lacks_a_family_can_be_read(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db", "tables")
        raw = rocksdict.Rdict(
            str(db),
            options=rocksdict.Options(raw_mode=True),
            column_families={name: rocksdict.Options(raw_mode=True) for name in families.ALL},
        )
        raw.drop_column_family(families.JOURNAL)
        raw.close()
        assert salvage.check(db, lambda _: None).damages == ()


class TestCheck:
    def test_it_counts_every_row(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db", "tables")
        found = salvage.check(db, lambda _: None)
        assert found.rows >= 4 * EVENTS
        assert found.damages == ()

    def test_a_damaged_table_is_named_with_the_time_of_its_events(self, tmp_path: Path) -> None:
        db = crashed(tmp_path / "db", "tables")
        block(db)
        (found,) = salvage.check(db, lambda _: None).damages
        assert families.EVENTS in found.what
        assert found.first_ms is not None
        assert found.last_ms is not None
        assert FIRST_MS <= found.first_ms < found.last_ms <= FIRST_MS + 1000 * IN_TABLES

    def test_it_reads_a_store_in_use(self, tmp_path: Path) -> None:
        with opened(tmp_path / "db") as log:
            log.append([event(1)]).result()
            assert salvage.check(tmp_path / "db", lambda _: None).rows >= 4
            assert log.get(event(1).event_id) == event(1)

    def test_key_layout_is_the_one_that_times_are_read_from(self) -> None:
        gap = Gap(families.EVENTS, keys.event(Millis(5), EventId("x")), b"evt;")
        (found,) = salvage.describe([gap])
        assert found.first_ms == found.last_ms == 5
