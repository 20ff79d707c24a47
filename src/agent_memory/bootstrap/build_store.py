"""Build the store: open it, mend it, migrate it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import structlog

from agent_memory.features import import_modules
from agent_memory.features.index.adapters import index_folder
from agent_memory.features.maintenance.adapters import salvage
from agent_memory.features.maintenance.services.admin import Admin
from agent_memory.kernel.errors import FeatureUnavailable
from agent_memory.kernel.status import StoreCheck, StoreHealth, StoreRepair
from agent_memory.platform.clock import SystemClock
from agent_memory.platform.folders import folder_beside
from agent_memory.platform.leadership import SoleLeadership
from agent_memory.platform.opened_store import OpenStore
from agent_memory.platform.ports import Clock, OrderedStore, StoreMaintenance
from agent_memory.platform.store import damage, schema
from agent_memory.platform.store.acknowledged import MissingWrites
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.copies import StoreCopies
from agent_memory.platform.store.maintenance import GuardedMaintenance
from agent_memory.platform.store.rocks import Get, RocksEngine

log = structlog.get_logger()

READ_ONLY = (
    "this sandbox does not let commands connect to the daemon, so memory can only be read here;"
    " the MCP tools of memory can write"
)


OnProgress = Callable[[int], None]


def open_store(
    db_path: Path,
    watch: Callable[[StoreHealth], None],
    clock: Clock,
    data: Path | None,
) -> OpenStore:
    """Open a store. Finish a repair that was cut off, mend the logs, migrate the schema. `data` is
    the folder that records a migration; a copy of a store has none."""
    opened = _open_rocks(db_path, watch, clock, data)
    StoreCopies(opened.maintenance, db_path).remove_leftovers()
    return opened


def _open_rocks(
    db_path: Path,
    watch: Callable[[StoreHealth], None],
    clock: Clock,
    data: Path | None,
) -> OpenStore:
    salvage.finish(db_path)
    engine = RocksEngine(
        db_path,
        lambda path: _mend(path, clock),
        lambda missing: _report_missing(db_path, missing, clock),
    )
    store = CommittedStore(engine, watch)
    maintenance = GuardedMaintenance(engine, store)

    def prepare_migration(number: int) -> None:
        for module in import_modules("store_opening"):
            module.keep_before_migration(number, db_path, data, maintenance)

    try:
        schema.prepare(store, before=prepare_migration)
    except BaseException:
        store.close()
        raise
    return _describe(db_path, engine, store, maintenance)


def open_for_reading(db_path: Path, watch: Callable[[StoreHealth], None]) -> OpenStore:
    """Open a store as it is now, to read it."""
    engine = RocksEngine(db_path, read_only=True)
    store = CommittedStore(engine, watch, StoreHealth(writable=False, reason=READ_ONLY))
    schema.check(store)
    return _describe(db_path, engine, store, GuardedMaintenance(engine, store))


@contextmanager
def offline_admin(db_path: Path) -> Iterator[Admin]:
    """Open a store that no daemon uses."""
    if not RocksEngine.is_store(db_path):
        raise FeatureUnavailable(f"there is no database at {db_path}")
    opened = _open_rocks(db_path, log_other_store, SystemClock(), None)
    try:
        yield Admin(store=opened.maintenance)
    finally:
        opened.store.close()


def _describe(
    db_path: Path, engine: RocksEngine, store: CommittedStore, maintenance: StoreMaintenance
) -> OpenStore:
    copies = StoreCopies(maintenance, db_path)

    @contextmanager
    def open_view() -> Iterator[OrderedStore]:
        with copies.make() as folder:
            copy = CommittedStore(RocksEngine(folder), log_other_store)
            try:
                yield copy
            finally:
                copy.close()

    def check(on_progress: OnProgress) -> StoreCheck:
        lost = tuple(report for report in damage.read_reports(db_path) if report.final)
        with copies.make() as folder:
            return replace(salvage.check(folder, on_progress), lost=lost)

    return OpenStore(
        location=str(db_path),
        store=store,
        local=store,
        leadership=SoleLeadership(),
        sharing=None,
        maintenance=maintenance,
        open_view=open_view,
        check=check,
        list_damages=lambda: [*damage.read_reports(db_path), *salvage.describe(engine.gaps)],
    )


def repair(db_path: Path, on_progress: OnProgress) -> StoreRepair:
    """Save what can be read of a store that no daemon uses."""
    repaired = salvage.repair(db_path, SystemClock().now(), on_progress)
    index = folder_beside(db_path, "index")
    if repaired.kept and os.path.lexists(index):
        index_folder.empty(index)  # it was made from the store as it was
    return repaired


@contextmanager
def loading_driver() -> Iterator[None]:
    """Explain what to install if the driver of PostgreSQL cannot be imported in a block."""
    try:
        yield
    except ImportError as exc:
        if (exc.name or "").startswith("agent_memory"):
            raise
        raise FeatureUnavailable(
            "a database on a server needs the driver of PostgreSQL: install the extra,"
            " `pip install 'agent-memory[postgres]'`"
        ) from exc


def log_other_store(health: StoreHealth) -> None:
    """Log that a store other than the daemon's own fails."""
    log.error("other_store.failing", reason=health.reason)


def ignore_health(_health: StoreHealth) -> None:
    """Say nothing: a command that uses the store fails with the reason."""


def _mend(db_path: Path, clock: Clock) -> Callable[[Get], None] | None:
    settle = damage.mend_logs(db_path, clock.now())
    if settle is None:
        return None

    def report(get: Get) -> None:
        log.critical("store.damaged", **asdict(settle(get)))

    return report


def _report_missing(db_path: Path, missing: MissingWrites, clock: Clock) -> None:
    log.critical("store.lost", **asdict(damage.report_missing(db_path, missing, clock.now())))
