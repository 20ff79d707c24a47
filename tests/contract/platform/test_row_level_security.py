"""Row-level security, on a real server: a mistake of ours shows nothing of another tenant.

The mistake is a statement without the tenant, over our own connection or in our own statements.
"""

import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.store import families, postgres
from agent_memory.platform.store.batches import Append, Batch, Delete, DeleteRange, Put
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.transacted import TransactedStore, open_transacted
from bench.postgres_server import PostgresServer, list_programs
from tests.contract.stores import unexpected
from tests.postgres_server import name_tenant, share_server, start_server

A = families.EVENTS
SEEDS, STEPS = 4, 60


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own: its tests drop policies."""
    server = start_server()
    yield server
    server.remove()


@pytest.fixture(params=["owner", "other role"])
def url(request: pytest.FixtureRequest, server: PostgresServer) -> str:
    """The address of a role without BYPASSRLS that owns the tables, or that may only use them."""
    PostgresDatabase(server.url, "first").close()
    if request.param == "owner":
        return server.url
    with suppress(psycopg.errors.DuplicateObject):
        return server.create_role("app")
    return server.url.replace("user=memory", "user=app")


class Tenants:
    """Two tenants with stores of their own, and what each has."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.databases = [PostgresDatabase(url, name) for name in ("ours", "theirs")]
        self.stores = [
            open_transacted(each, unexpected, holder="test", label="a test")
            for each in self.databases
        ]
        for store in self.stores:
            stack.callback(store.close)
            store.submit([Batch((DeleteRange(A, b"", b"\xff"),))]).result()


@pytest.fixture
def tenants(url: str) -> Iterator[Tenants]:
    with ExitStack() as stack:
        yield Tenants(url, stack)


def execute(database: PostgresDatabase, statement: str, *parameters: Any) -> list[Any]:
    """Run a statement over our own connection, as a mistake in our code would."""
    with database._lend() as connection:  # noqa: SLF001
        done = connection.execute(statement.encode(), parameters)
        return done.fetchall() if done.description else [done.rowcount]


def put(store: TransactedStore, *rows: tuple[bytes, bytes]) -> None:
    store.submit([Batch(tuple(Put(A, *row) for row in rows))]).result()


class TestAForgottenTenant:
    def test_a_read_finds_only_ours(self, tenants: Tenants) -> None:
        for store, value in zip(tenants.stores, (b"ours", b"theirs"), strict=True):
            put(store, (b"k", value))
        ours = tenants.databases[0]
        assert execute(ours, "SELECT value FROM agent_memory.kv WHERE key = 'k'") == [(b"ours",)]
        assert {name for (name,) in execute(ours, "SELECT tenant FROM agent_memory.kv")} == {"ours"}
        assert execute(ours, "SELECT tenant FROM agent_memory.head") == [("ours",)]
        assert execute(ours, "SELECT key FROM agent_memory.kv WHERE tenant = 'theirs'") == []

    def test_a_change_reaches_only_ours(self, tenants: Tenants) -> None:
        for store in tenants.stores:
            put(store, (b"k", b"before"))
        ours, theirs = tenants.databases[0], tenants.stores[1]
        assert execute(ours, "UPDATE agent_memory.kv SET value = 'x' WHERE key = 'k'") == [1]
        assert execute(ours, "DELETE FROM agent_memory.kv WHERE tenant = 'theirs'") == [0]
        assert execute(ours, "UPDATE agent_memory.head SET outbox = 9 WHERE tenant <> 'ours'") == [
            0
        ]
        assert theirs.get(A, b"k") == b"before"

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO agent_memory.kv VALUES ('theirs', 'events', 'new', 'x')",
            "INSERT INTO agent_memory.head VALUES ('new-team', 0)",
            "UPDATE agent_memory.kv SET tenant = 'theirs'",
            """INSERT INTO agent_memory.kv VALUES ('theirs', 'events', 'k', 'x')
            ON CONFLICT (tenant, family, key) DO UPDATE SET value = excluded.value""",
        ],
    )
    def test_writing_a_row_of_another_tenant_fails(self, tenants: Tenants, statement: str) -> None:
        for store in tenants.stores:
            put(store, (b"k", b"before"))
        with pytest.raises(StorageFailed, match="row-level security"):
            execute(tenants.databases[0], statement)
        assert [row[0] for row in tenants.stores[1].scan(A, b"", b"z", limit=9)] == [b"k"]

    def test_a_connection_without_a_tenant_sees_nothing(self, tenants: Tenants, url: str) -> None:
        put(tenants.stores[0], (b"k", b"ours"))
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            assert connection.execute("SELECT FROM agent_memory.kv").fetchall() == []
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("INSERT INTO agent_memory.head VALUES ('ours2', 0)")

    @pytest.mark.parametrize("reset", ["RESET ALL", "DISCARD ALL", "RESET agent_memory.tenant"])
    def test_nothing_resets_the_tenant_of_a_connection(self, tenants: Tenants, reset: str) -> None:
        put(tenants.stores[0], (b"k", b"ours"))
        ours = tenants.databases[0]
        with ours._lend() as connection:  # noqa: SLF001
            connection.execute(reset.encode(), prepare=False)
            found = connection.execute("SELECT DISTINCT tenant FROM agent_memory.kv", prepare=False)
            assert found.fetchall() == [("ours",)]


STATEMENTS = ("_SCAN", "_READ_KEYS", "_NEIGHBORS", "_SAMPLE")


@pytest.fixture
def forget_the_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the mistake in our own statements: they no longer ask for the tenant."""
    for name in STATEMENTS:
        statement = getattr(postgres, name)
        forgetful = statement.replace("tenant = %s", "%s <> ''")
        assert forgetful != statement
        monkeypatch.setattr(postgres, name, forgetful)


def fuzz(tenants: Tenants, seed: int) -> str | None:
    """Write and read at random through the store port. Return what crossed, if anything did."""
    chance = random.Random(seed)
    expected: list[dict[bytes, bytes]] = [{}, {}]
    for step in range(STEPS):
        side = chance.randrange(2)
        store, rows = tenants.stores[side], expected[side]
        key = b"k%02d" % chance.randrange(20)
        match chance.randrange(6):
            case 0 | 1:
                value = b"%s %d" % ((b"ours", b"theirs")[side], step)
                append = Append(families.INJECTIONS, b"given:", value)
                store.submit([Batch((Put(A, key, value), append))]).result()
                rows[key] = value
            case 2:
                store.submit([Batch((Delete(A, key),))]).result()
                rows.pop(key, None)
            case 3:
                found = dict(store.scan(A, b"", key, limit=99, reverse=chance.random() < 0.5))
                if found != {name: value for name, value in rows.items() if name < key}:
                    return f"seed {seed}, step {step}: a scan found {found}"
            case 4:
                read = store.get_many(A, [key, b"k00"])
                if read != [rows.get(key), rows.get(b"k00")]:
                    return f"seed {seed}, step {step}: {read} at {key!r}"
            case _:
                (near,) = store.get_neighbors(A, [key], reach=3)
                if any(rows.get(name) != value for name, value in near):
                    return f"seed {seed}, step {step}: {near} near {key!r}"
    return None


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_crosses_through_the_store(tenants: Tenants, seed: int) -> None:
    assert fuzz(tenants, seed) is None


@pytest.mark.usefixtures("forget_the_tenant")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_crosses_when_our_statements_forget_the_tenant(tenants: Tenants, seed: int) -> None:
    assert fuzz(tenants, seed) is None


@pytest.mark.usefixtures("forget_the_tenant")
def test_the_same_without_policies_is_found(server: PostgresServer, tenants: Tenants) -> None:
    with psycopg.connect(server.superuser_url, autocommit=True) as database:
        database.execute("ALTER TABLE agent_memory.kv DISABLE ROW LEVEL SECURITY")
        try:
            assert any(fuzz(tenants, seed) is not None for seed in range(SEEDS))
        finally:
            database.execute("ALTER TABLE agent_memory.kv ENABLE ROW LEVEL SECURITY")


class TestTablesOfAnEarlierVersion:
    @pytest.fixture
    def unprotected(self, server: PostgresServer) -> PostgresServer:
        PostgresDatabase(server.url, "first").close()
        with psycopg.connect(server.superuser_url, autocommit=True) as database:
            for table in ("kv", "head"):
                database.execute(f"DROP POLICY own_tenant ON agent_memory.{table}")
                database.execute(f"ALTER TABLE agent_memory.{table} DISABLE ROW LEVEL SECURITY")
        return server

    def test_their_owner_protects_them(self, unprotected: PostgresServer) -> None:
        PostgresDatabase(unprotected.url, "first").close()
        with psycopg.connect(unprotected.superuser_url) as database:
            found = database.execute("SELECT tablename FROM pg_policies WHERE cmd = 'ALL'")
            assert {name for (name,) in found} == {"kv", "head"}

    def test_another_role_says_who_must(self, unprotected: PostgresServer) -> None:
        with suppress(psycopg.errors.DuplicateObject):
            unprotected.create_role("app")
        with pytest.raises(StorageFailed, match="start the daemon once with the role that does"):
            PostgresDatabase(unprotected.url.replace("user=memory", "user=app"), "first")
        PostgresDatabase(unprotected.url, "first").close()


def test_a_dump_has_all_tenants_or_is_refused(tenants: Tenants, server: PostgresServer) -> None:
    put(tenants.stores[1], (b"k", b"theirs"))
    program = next(list_programs()) / "pg_dump"
    dumps = [
        subprocess.run(
            [program, "--schema=agent_memory", "--data-only", "--inserts", url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for url in (server.url, server.superuser_url)
    ]
    assert dumps[0].returncode != 0
    assert "row-level security" in dumps[0].stderr
    assert dumps[1].returncode == 0
    assert "'theirs'" in dumps[1].stdout


def test_a_superuser_is_known_to_bypass_them(tmp_path: Path) -> None:
    server, tenant = share_server(), name_tenant(tmp_path)
    for url, bypasses in ((server.url, False), (server.superuser_url, True)):
        with closing(PostgresDatabase(url, tenant)) as database:
            assert database.bypasses_policies() == bypasses
