"""What this feature does before a store is open: it finishes a restore that was cut off, and copies
the store before a migration."""

from dataclasses import replace
from pathlib import Path

import structlog

from agent_memory import __version__
from agent_memory.features.backups.adapters import restore_journal
from agent_memory.features.backups.services.backup_record import BackupRecord
from agent_memory.platform.clock import SystemClock
from agent_memory.platform.folders import DaemonFolders, folder_beside
from agent_memory.platform.ports import StoreMaintenance

log = structlog.get_logger()


def prepare(folders: DaemonFolders) -> None:
    """Finish a restore of the store that is opened next."""
    place = restore_journal.RestorePlace(
        data=folders.data, db_path=folders.db_path, index=folders.index
    )
    if restore_journal.finish(place):
        log.warning("restore.finished", data=str(folders.data))


def keep_before_migration(
    number: int, db_path: Path, data: Path | None, maintenance: StoreMaintenance
) -> None:
    """Keep the store as it is before it gets schema `number`, and remove older ones of these. The
    record of backups in the folder `data` then names the copy."""
    # Late: migrations are rare, and archives take 30 ms to load.
    from agent_memory.features.backups.adapters.snapshots import DataSnapshots
    from agent_memory.features.backups.model.backups import (
        UPGRADES_KEPT,
        Retention,
        select_outdated,
    )

    snapshots = DataSnapshots(
        checkpoint=maintenance.copy_to,
        db_path=db_path,
        data=None,
        version=__version__,
        now=SystemClock().now,
    )
    folder = str(folder_beside(db_path, "upgrades"))
    made = snapshots.create(folder, on_progress=lambda _: None)
    for snapshot in select_outdated(
        snapshots.list_complete(folder), made, Retention(newest=UPGRADES_KEPT)
    ):
        snapshots.remove(snapshot)
    if data is not None:
        record = BackupRecord(data)
        record.save(replace(record.load(), before_upgrade=made.path))
    log.info("store.backed_up_before_upgrade", path=made.path, schema=number)
