"""The version of the tables in PostgreSQL: steps are taken while others read and write."""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pytest

from agent_memory.kernel.errors import StorageFailed, StorageTooNew
from agent_memory.platform.store import families, tables
from agent_memory.platform.store.batches import Put
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.tables import TableSteps
from bench import postgres_server
from tests.contract.stores import TIMEOUT
from tests.postgres_server import share_server

COLUMN = "ALTER TABLE agent_memory.kv ADD COLUMN IF NOT EXISTS written_by text DEFAULT 'nobody'"
DROP = "DROP INDEX CONCURRENTLY IF EXISTS agent_memory.kv_written_by"
INDEX = "CREATE INDEX CONCURRENTLY kv_written_by ON agent_memory.kv (tenant, written_by)"
NEXT = TableSteps(((COLUMN, DROP, INDEX),))
_numbers = count()


@pytest.fixture
def url() -> Iterator[str]:
    """A database without our tables."""
    server, name = share_server().superuser_url, f"tables_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield server.replace("///memory?", f"///{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def start(url: str, steps: TableSteps = tables.OURS) -> "closing[PostgresDatabase]":
    return closing(PostgresDatabase(url, "ada", steps=steps))


def read_version(url: str) -> int:
    with psycopg.connect(url) as connection:
        ((number,),) = connection.execute(tables.READ_VERSION).fetchall()
        return int(number)


def put(database: PostgresDatabase, key: bytes) -> None:
    transaction = database.begin([])
    transaction.commit([Put(families.EVENTS, key, b"value")], transaction.head.outbox)


def list_keys(database: PostgresDatabase) -> list[bytes]:
    rows = database.scan(families.EVENTS, b"", b"\xff", limit=100, reverse=False)
    return [key for key, _ in rows]


def list_indexes(url: str) -> dict[str, bool]:
    """The indexes of `kv`, and whether each is valid."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT indexrelid::regclass::text, indisvalid FROM pg_index"
            " WHERE indrelid = 'agent_memory.kv'::regclass"
        )
        return dict(rows.fetchall())


def test_new_tables_have_our_version(url: str) -> None:
    with start(url):
        assert read_version(url) == tables.OURS.version == 1 + len(tables.OURS.steps)


def test_tables_without_a_version_are_the_first(url: str) -> None:
    with start(url) as database:
        put(database, b"before")
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE agent_memory.version")
    with start(url) as database:
        assert list_keys(database) == [b"before"]
    assert read_version(url) == 1


def test_a_daemon_of_the_version_before_goes_on_and_none_starts(url: str) -> None:
    with start(url) as older:
        put(older, b"1 before")
        with start(url, NEXT) as newer:
            assert read_version(url) == 2
            assert list_indexes(url)["agent_memory.kv_written_by"]
            put(older, b"2 by the older")
            put(newer, b"3 by the newer")
            assert list_keys(older) == list_keys(newer)
            assert len(list_keys(newer)) == 3
    with pytest.raises(StorageTooNew, match=r"tables of version 2.*supports 1: upgrade it"):
        PostgresDatabase(url, "ada")
    with pytest.raises(StorageTooNew, match="version 2"):
        PostgresDatabase(url, "ada", create=False)


def test_daemons_that_start_together_take_each_step_once(url: str) -> None:
    # Without IF NOT EXISTS: a second time would fail.
    once = TableSteps(
        (
            (
                "ALTER TABLE agent_memory.kv ADD COLUMN once text",
                INDEX.replace("written_by)", "once)"),
            ),
        )
    )
    with start(url), ThreadPoolExecutor(4) as threads:
        opened = [threads.submit(PostgresDatabase, url, f"t{n}", steps=once) for n in range(4)]
        for each in opened:
            each.result(TIMEOUT).close()
    assert read_version(url) == 2
    assert list_indexes(url)["agent_memory.kv_written_by"]


def test_a_step_that_waits_for_a_long_reader_lets_others_pass(url: str) -> None:
    with start(url) as older, ThreadPoolExecutor(1) as threads:
        put(older, b"1")
        with psycopg.connect(url) as reader:
            reader.execute("SELECT count(*) FROM agent_memory.kv")  # in a transaction: it locks
            step = threads.submit(PostgresDatabase, url, "ada", steps=NEXT)
            for number in range(20):
                put(older, b"2 %02d" % number)
                assert list_keys(older)[-1] == b"2 %02d" % number
            assert read_version(url) == 1
            assert not step.done()
        step.result(TIMEOUT).close()
        assert read_version(url) == 2
        assert len(list_keys(older)) == 21


def test_a_step_that_was_cut_off_is_taken_again(url: str) -> None:
    broken = TableSteps(((COLUMN, DROP, INDEX.replace("INDEX C", "UNIQUE INDEX C"), "oops"),))
    with start(url) as database:
        put(database, b"1")
        put(database, b"2")
    with pytest.raises(StorageFailed, match="could not create unique index"):
        PostgresDatabase(url, "ada", steps=broken)
    assert (read_version(url), list_indexes(url)["agent_memory.kv_written_by"]) == (1, False)
    with start(url, NEXT) as database:
        assert list_keys(database) == [b"1", b"2"]
    assert (read_version(url), list_indexes(url)["agent_memory.kv_written_by"]) == (2, True)


def test_a_role_that_may_not_change_tables_is_told_who_may(url: str) -> None:
    with start(url):
        pass
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
        try:
            connection.execute("GRANT USAGE ON SCHEMA agent_memory TO guest")
            connection.execute(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA agent_memory TO guest"
            )
            as_guest = url.replace("user=postgres", "user=guest")
            with start(as_guest) as database:
                put(database, b"1")
            with pytest.raises(
                StorageFailed, match="start the daemon once with the role that owns"
            ):
                PostgresDatabase(as_guest, "ada", steps=NEXT)
            assert read_version(url) == 1
        finally:
            connection.execute("DROP OWNED BY guest")
            connection.execute("DROP ROLE guest")


def test_a_source_is_never_created(url: str) -> None:
    with pytest.raises(StorageFailed, match=r"there is no memory in .*tenant ada"):
        PostgresDatabase(url, "ada", create=False)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regnamespace('agent_memory')").fetchone() == (None,)
    with start(url):
        PostgresDatabase(url, "ada", create=False).close()
    with pytest.raises(StorageFailed, match="tenant bob"):
        PostgresDatabase(url, "bob", create=False)


def test_a_dump_that_is_restored_elsewhere_has_everything(url: str, tmp_path: Path) -> None:
    programs, dump = next(postgres_server.list_programs()), str(tmp_path / "memory.dump")
    with start(url, NEXT) as database:
        put(database, b"kept")
    for name, *words in (
        ("pg_dump", "--schema=agent_memory", "--format=custom", f"--file={dump}", url),
        ("pg_restore", "--clean", "--if-exists", "--no-owner", f"--dbname={url}", dump),
    ):
        subprocess.run([programs / name, *words], check=True, timeout=TIMEOUT)
    with start(url, NEXT) as database:
        assert list_keys(database) == [b"kept"]
    assert read_version(url) == 2
