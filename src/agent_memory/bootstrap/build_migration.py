"""Build the migration of a memory between files and a database server."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_memory.bootstrap.build_store import ignore_health, loading_driver, open_store
from agent_memory.features.index.adapters import index_folder
from agent_memory.features.maintenance.services.migration import (
    MigrationReport,
    MigrationSide,
    StoreMigration,
)
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.kernel.progress import OnProgress
from agent_memory.platform.clock import SystemClock
from agent_memory.platform.folders import folder_beside
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """The memory of a tenant on a server. `url` may have a password."""

    url: str
    tenant: str


Place = Path | ServerPlace


def migrate(
    source: Place, target: Place, own_db: Path, data: Path, on_progress: OnProgress
) -> MigrationReport:
    """Copy a memory to an empty place, or go on where that was cut off, and verify it.

    `data` is a data folder that the caller has locked, with the database `own_db`: leases are taken
    in its name, and its indexes are made again by the next daemon.
    """
    with (
        _open_side(source, data, is_source=True) as one,
        _open_side(target, data, is_source=False) as other,
    ):
        report = StoreMigration(one, other, clock=SystemClock(), on_progress=on_progress).run()
    if report.same and not report.ended:
        _empty_indexes(own_db if isinstance(target, ServerPlace) else target)
    return report


def refuse_same(source: Place, target: Place) -> None:
    """Raise InvalidInput if both are the same place."""
    if _name_place(source) == _name_place(target):
        raise InvalidInput(f"--from and --to are the same: {_name_place(source)}")


def _name_place(place: Place) -> str:
    if isinstance(place, Path):
        return str(place.resolve())
    with loading_driver():
        from agent_memory.platform.store import postgres
    return postgres.name_place(place.url, place.tenant)


def hide_password(url: str) -> str:
    """Return an address of a server without its password."""
    with loading_driver():  # late: it takes time to load
        from agent_memory.platform.store import postgres
    return postgres.hide_password(url)


def _empty_indexes(db_path: Path) -> None:
    """Remove what was derived from the store that a data folder had before."""
    for name in ("index", "local"):
        folder = folder_beside(db_path, name)
        if os.path.lexists(folder):
            index_folder.empty(folder)


def _open_side(
    place: Place, data: Path, *, is_source: bool
) -> AbstractContextManager[MigrationSide]:
    if isinstance(place, ServerPlace):
        with loading_driver():
            from agent_memory.bootstrap.build_server_store import open_migration_side
        return open_migration_side(place.url, place.tenant, data, is_source=is_source)
    return _open_source(place) if is_source else _open_target(place)


@contextmanager
def _open_source(path: Path) -> Iterator[MigrationSide]:
    if not RocksEngine.is_store(path):
        inside = path / "db"
        hint = f"; there is one at {inside}" if RocksEngine.is_store(inside) else ""
        raise NotFound(f"there is no database at {path}{hint}")
    opened = open_store(path, ignore_health, SystemClock(), None)
    try:
        known = frozenset(opened.list_damages())  # reports of damage that was repaired

        yield MigrationSide(
            location=str(path),
            store=opened.store,
            rows=sum(family.entries for family in opened.maintenance.stats().families),
            list_damages=lambda: [it.what for it in opened.list_damages() if it not in known],
        )
    finally:
        opened.store.close()


@contextmanager
def _open_target(path: Path) -> Iterator[MigrationSide]:
    if path.is_dir() and not RocksEngine.is_store(path) and any(path.iterdir()):
        raise InvalidInput(f"{path} is not empty and no database: choose a new folder")
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"{path} is not a folder")
    engine = RocksEngine(path)
    store = CommittedStore(engine, ignore_health)
    try:
        yield MigrationSide(
            location=str(path),
            store=store,
            rows=sum(family.entries for family in engine.stats().families),
            list_damages=lambda: [f"a table of {gap.family}" for gap in engine.gaps],
        )
    finally:
        store.close()
