"""Build the store on a database server. Importing this module loads the driver."""

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import structlog

from agent_memory.bootstrap.build_store import OnProgress, ignore_health, log_other_store
from agent_memory.features.index.adapters import index_folder
from agent_memory.features.maintenance.services.migration import MigrationSide
from agent_memory.kernel.errors import StorageFailed, StorageLocked
from agent_memory.kernel.status import StoreCheck, StoreHealth
from agent_memory.platform import durable
from agent_memory.platform.folders import DaemonFolders
from agent_memory.platform.leadership import LeasedLeadership
from agent_memory.platform.opened_store import OpenStore, SharedStore
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.removing import remove_tree
from agent_memory.platform.store import anchors, families, keys, leases, rows, schema
from agent_memory.platform.store.change_marks import ChangeMarks
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.leases import JOBS, MIGRATION, StoreLease
from agent_memory.platform.store.maintenance import GuardedMaintenance, SplitMaintenance
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.rocks import RocksEngine
from agent_memory.platform.store.transacted import StoreView, TransactedStore, open_transacted
from agent_memory.platform.store.watching import StoreWatch

log = structlog.get_logger()

_PAGE = 1_000
_ANCHOR_SECONDS = 10.0


def open_server_store(
    url: str, tenant: str, folders: DaemonFolders, watch: Callable[[StoreHealth], None]
) -> OpenStore:
    """Open the memory of a tenant on a server, which other daemons may use at the same time."""
    holder = _read_holder(folders.data / "writer-id")
    label = f"on {socket.gethostname()}, PID {os.getpid()}, data folder {folders.data}"
    database = PostgresDatabase(url, tenant)
    try:
        marks = ChangeMarks(database)
        store = open_transacted(database, watch, holder=holder, label=label, marks=marks)
    except BaseException:
        database.close()
        raise
    try:
        _refuse_migration(database.path, store, holder)
        schema.prepare(store, before=lambda number: log.warning("store.migrating", schema=number))
        engine = _open_local_engine(folders, store)
        local = _open_local(engine)
    except BaseException:
        store.close()
        raise

    lease = StoreLease(store, JOBS, store.read_clock, holder=holder, label=label)
    leadership = LeasedLeadership(lease)
    looking = StoreWatch(database, marks)
    looking.on_look(leadership.keep_up)

    def close() -> None:
        """Close what uses the store before it closes."""
        looking.close()
        leadership.close()
        local.close()

    store.before_close(close)

    @contextmanager
    def open_view() -> Iterator[OrderedStore]:
        with database.view() as rows:
            yield StoreView(rows)

    def check(on_progress: OnProgress) -> StoreCheck:
        with open_view() as view:
            return StoreCheck(rows=_count_rows(view, on_progress), damages=())

    return OpenStore(
        location=database.path,
        store=store,
        local=local,
        leadership=leadership,
        sharing=SharedStore(
            daemon=holder,
            marks=marks,
            watch=looking,
            report_reached=partial(_report_reached, store, looking, folders.index / "anchor"),
            find_slowest=lambda: leases.find_slowest(store, store.read_clock(), own=holder),
        ),
        maintenance=SplitMaintenance(
            GuardedMaintenance(database, store),
            GuardedMaintenance(engine, local),
            local_families=families.LOCAL,
        ),
        open_view=open_view,
        check=check,
        list_damages=lambda: (),
        sees_other_tenants=database.bypasses_policies,
    )


@contextmanager
def open_migration_side(
    url: str, tenant: str, data: Path, *, is_source: bool
) -> Iterator[MigrationSide]:
    """Open the memory of a tenant to copy it, or an empty one to fill it. No daemon may use it, and
    none can start on it meanwhile.

    The caller has locked the data folder, in whose name the lease is taken.
    """
    holder = _read_holder(data / "writer-id")
    label = f"a migration on {socket.gethostname()}, PID {os.getpid()}, data folder {data}"
    database = PostgresDatabase(url, tenant, create=not is_source)
    try:
        store = open_transacted(
            database, ignore_health, holder=holder, label=label, lease=MIGRATION
        )
    except StorageLocked as exc:
        database.close()
        raise StorageLocked(f"{database.path}: {exc}") from exc
    except BaseException:
        database.close()
        raise
    try:
        user = leases.fence_daemons(store, store.read_clock(), holder)
        if user is not None:
            raise StorageLocked(
                f"{database.path}: a daemon uses it: {user}. Stop every daemon on this memory first"
            )
        rows = sum(family.entries for family in database.stats().families)
        yield MigrationSide(location=database.path, store=store, rows=rows)
    finally:
        store.close()


def _refuse_migration(location: str, store: TransactedStore, holder: str) -> None:
    """Raise StorageLocked if the memory is being copied. Its migration looks for our lease, which
    we have taken before, so that one of us sees the other."""
    user = leases.find_holder(store, MIGRATION, store.read_clock(), besides=holder)
    if user is not None:
        raise StorageLocked(
            f"{location} is being copied by {user}: start again when that has ended"
        )


def _open_local_engine(folders: DaemonFolders, store: OrderedStore) -> RocksEngine:
    """Open the files that belong to this daemon's indexes. If those were made from another store or
    from another history of this one, all of it is made again."""
    path = folders.local
    if not anchors.holds_anchor(folders.index / "anchor", store):
        log.warning("index.of_another_history", path=str(folders.index))
        index_folder.empty(folders.index)
        remove_tree(path, ignore_errors=True)
    index_folder.prepare(path, schema.ensure_identity(store))
    return RocksEngine(path)


def _open_local(engine: RocksEngine) -> CommittedStore:
    local = CommittedStore(engine, log_other_store)
    try:
        schema.prepare(local)
    except BaseException:
        local.close()
        raise
    return local


def _report_reached(
    store: TransactedStore, looking: StoreWatch, anchor: Path, get_reached: Callable[[], int]
) -> None:
    """Tell the other daemons how far this one has read, and remember it beside the indexes."""
    store.report_reached(get_reached)
    saved, at = 0, time.monotonic()

    def save() -> None:
        nonlocal saved, at
        number = get_reached()
        if number != saved and time.monotonic() - at >= _ANCHOR_SECONDS:
            saved, at = number, time.monotonic()
            anchors.save_anchor(anchor, store, number)

    looking.on_look(save)


def _count_rows(store: OrderedStore, on_progress: OnProgress) -> int:
    """Read every row: the server checks its pages as it reads them."""
    count = 0
    for family in families.ALL:
        for page in rows.iter_pages(store, family, b"", keys.LAST, limit=_PAGE):
            count += len(page)
            on_progress(count)
    return count


def _read_holder(path: Path) -> str:
    """Return the name of the daemons of this data folder, and create it if needed.

    The lock of the folder proves that there is only one at a time.
    """
    try:
        holder = path.read_text("ascii").strip()
    except FileNotFoundError:
        holder = ""
    except (OSError, ValueError) as exc:
        raise StorageFailed(f"cannot read {path}: {exc}") from exc
    if not holder:
        holder = secrets.token_hex(16)
        durable.write_atomic(path, holder.encode())
    return holder
