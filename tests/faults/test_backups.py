"""Backups on a forgetful disk: once one is made, it is whole after every power cut."""

from pathlib import Path

import pytest

from agent_memory import __version__
from agent_memory.features.backups.adapters import sources
from agent_memory.features.backups.adapters.snapshots import DataSnapshots
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store import schema
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine
from tests.contract.stores import unexpected
from tests.faults import mounting
from tests.faults.disk import Temper, temper_of, write_folder
from tests.faults.mounting import Mounted

SEEDS = [
    next(seed for seed in range(100) if temper_of(seed) is temper)
    for temper in (Temper.SYNCED, Temper.NAMES)
]


@pytest.mark.skipif(bool(mounting.obstacle()), reason=mounting.obstacle())
def test_a_snapshot_is_whole_after_every_power_cut(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with Mounted(disk, {}) as mounted:
        engine = RocksEngine(disk / "db")
        store = CommittedStore(engine, unexpected)
        schema.prepare(store)
        snapshots = DataSnapshots(
            checkpoint=engine.copy_to,
            db_path=disk / "db",
            data=None,
            version=__version__,
            now=lambda: Millis(1_780_000_000_000),
        )
        created = snapshots.create(str(disk / "backups"), on_progress=lambda _: None)
        recording = mounted.recording()
        store.close()

    for seed in SEEDS:
        place = tmp_path / f"cut-{seed}"
        place.mkdir()
        write_folder(recording.crash_image(len(recording.log), seed), place)
        sources.verify(
            sources.open_backup(place / Path(created.path).relative_to(disk)), lambda: None
        )
