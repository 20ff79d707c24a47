"""The store of the daemons that tests start: RocksDB, or with TEST_STORE=postgres a tenant of a
real PostgreSQL server for each data folder.

It is chosen as users choose it, in config.toml. Other homes of tests call `choose_store` too.
"""

import os
import shutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg

from agent_memory import config
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.rocks import RocksEngine
from agent_memory.platform.store.transacted import open_transacted
from tests.postgres_server import name_tenant, share_server

CHOSEN = os.environ.get("TEST_STORE", "rocksdb")
IS_POSTGRES = CHOSEN == "postgres"
# In a data folder, the files of RocksDB: everything, or what is derived for indexes on a server.
DATABASE = "local" if IS_POSTGRES else "db"
_DELETE_ROWS = "DELETE FROM agent_memory.kv WHERE tenant = %s"
_DELETE_HEAD = "DELETE FROM agent_memory.head WHERE tenant = %s"
_HAS_STORED = """
    SELECT count(*) FROM agent_memory.kv WHERE tenant = %s AND position(%b IN key || value) > 0
"""
assert CHOSEN in ("rocksdb", "postgres"), f"TEST_STORE={CHOSEN}: rocksdb or postgres"


def choose_store(environ: Mapping[str, str]) -> None:
    """Add the chosen store to config.toml, unless it names one or cannot be read.

    Call it before each process: a test may have replaced or removed the file.
    """
    if not IS_POSTGRES:
        return
    folders = config.folders(environ)
    file = folders.config_file
    text = file.read_text() if file.exists() else ""
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    if "storage" in settings:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as end:
        end.write(("\n" if text else "") + describe_store(folders.data))


def describe_store(data: Path) -> str:
    """Return the lines of config.toml for a data folder: it always has the same tenant."""
    url, tenant = share_server().url, name_tenant(data)
    return f'[storage]\nurl = "{url}"\ntenant = "{tenant}"\n'


def remove_store(text: str, data: Path) -> str:
    """Return the text of a config.toml without what `choose_store` has added."""
    if not IS_POSTGRES:
        return text
    added = describe_store(data)
    return text.removesuffix(f"\n{added}").removesuffix(added)


def locate_store(data: Path) -> str:
    """Return where the store of a data folder is, as `status` names it."""
    if not IS_POSTGRES:
        return str(data / "db")
    return f"postgresql://{share_server().host}/memory (tenant {name_tenant(data)})"


def name_first_key(data: Path) -> str:
    """Return the name of a daemon's own key: each of several on a server has one."""
    return f"default-{(data / 'writer-id').read_text()[:8]}" if IS_POSTGRES else "default"


def has_stored(data: Path, text: str) -> bool:
    """Tell whether the store of a data folder has a text in any row or file."""
    if not IS_POSTGRES:
        files = [path for path in (data / "db").iterdir() if path.is_file()]
        return any(text.encode() in path.read_bytes() for path in files)
    with psycopg.connect(share_server().superuser_url) as connection:
        asked = connection.execute(_HAS_STORED, (name_tenant(data), text.encode()))
        return asked.fetchone() != (0,)


def lose_store(data: Path) -> None:
    """Delete a data folder with its store, as a machine that is lost. No daemon may run there."""
    shutil.rmtree(data)
    if IS_POSTGRES:
        with psycopg.connect(share_server().superuser_url) as connection:
            connection.execute(_DELETE_ROWS, (name_tenant(data),))
            connection.execute(_DELETE_HEAD, (name_tenant(data),))


def open_left_store(data: Path, watch: Callable[[StoreHealth], None]) -> OrderedStore:
    """Open the store of a daemon that has ended: in its data folder, or on the server."""
    if (data / "db").exists():
        return CommittedStore(RocksEngine(data / "db"), watch)
    database = PostgresDatabase(share_server().url, name_tenant(data))
    holder = (data / "writer-id").read_text()  # of a killed one, whose lease has not ended yet
    return open_transacted(database, watch, holder=holder, label="a test")
