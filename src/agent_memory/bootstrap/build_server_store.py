"""Build the store on a database server. Importing this module loads the driver."""

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from agent_memory.bootstrap.build_store import OnProgress, OpenStore
from agent_memory.kernel.errors import StorageFailed, StorageLocked
from agent_memory.kernel.status import StoreCheck, StoreHealth
from agent_memory.platform import durable
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families, keys, schema
from agent_memory.platform.store.maintenance import GuardedMaintenance
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.transacted import StoreView, open_transacted

log = structlog.get_logger()

_PAGE = 1_000


def open_server_store(
    url: str, tenant: str, data: Path, watch: Callable[[StoreHealth], None]
) -> OpenStore:
    """Open the memory of a tenant on a server. Raises StorageLocked if a daemon uses it already."""
    database = PostgresDatabase(url, tenant)
    try:
        store = open_transacted(
            database,
            watch,
            holder=_read_holder(data / "writer-id"),
            label=f"on {socket.gethostname()}, PID {os.getpid()}, data folder {data}",
        )
    except StorageLocked as exc:
        database.close()
        raise StorageLocked(f"{database.path}: {exc}") from exc
    except BaseException:
        database.close()
        raise
    try:
        schema.prepare(store, before=lambda number: log.warning("store.migrating", schema=number))
    except BaseException:
        store.close()
        raise

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
        maintenance=GuardedMaintenance(database, store),
        open_view=open_view,
        check=check,
        list_damages=lambda: (),
        sees_other_tenants=database.bypasses_policies,
    )


def _count_rows(store: OrderedStore, on_progress: OnProgress) -> int:
    """Read every row: the server checks its pages as it reads them."""
    count = 0
    for family in families.ALL:
        start = b""
        while rows := store.scan(family, start, keys.LAST, limit=_PAGE):
            count += len(rows)
            on_progress(count)
            start = keys.after(rows[-1][0])
    return count


def _read_holder(path: Path) -> str:
    """Return the name under which this data folder holds the lease, and create it if needed.

    The next daemon of the same folder need not wait for the lease of one that was killed: the lock
    of the folder proves that it has ended.
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
