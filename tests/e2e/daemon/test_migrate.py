"""`memory-daemon admin migrate` with real daemons and a real PostgreSQL server, there and back."""

import re
import shlex
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_memory.bootstrap.build_server_store import open_migration_side
from agent_memory.features.maintenance.services.migration import OUTBOX
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store import codec, families, keys, migration_mark, schema
from agent_memory.platform.store.batches import Batch, Put, SetCounter
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.migration_mark import MigrationMark
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.rocks import RocksEngine
from bench.postgres_server import PostgresServer
from tests.command_runner import Answer, Home, wait_until
from tests.memory_client import Client, message
from tests.memory_commands import (
    INVALID,
    MISSING,
    OK,
    STORAGE,
    USAGE,
    MemoryCommand,
    assert_refused,
)
from tests.postgres_server import share_server

pytestmark = pytest.mark.rocksdb("it copies from files to a server, and back")

START_MS = 1_738_281_600_000
EVENTS = 300
SECRET = "sesame-of-forty-thieves"  # noqa: S105  # must never be shown
ROWS, KILLS = 30_000, 3


@pytest.fixture(scope="module")
def server() -> PostgresServer:
    return share_server()


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as home:
        yield home


def with_password(server: PostgresServer) -> str:
    """The address of the server with a password, which it does not ask for."""
    return server.url.replace("///", f"//memory:{SECRET}@/").replace("&user=memory", "")


def migrate(home: Home, source: str | Path, target: str | Path, *words: str) -> Answer:
    return home.run_forked(
        "memory-daemon", "admin", "migrate", "--from", str(source), "--to", str(target), *words
    )


def migrate_all(home: Home, source: str | Path, target: str | Path, *words: str) -> dict[str, Any]:
    answer = migrate(home, source, target, *words, "--format", "json")
    assert (answer.code, answer.errors) == (OK, "")
    assert SECRET not in answer.text
    report: dict[str, Any] = answer.json()
    assert report["same"]
    assert all(family["same"] for family in report["families"])
    return report


def take_steps(home: Home, report: dict[str, Any]) -> None:
    """Run the commands that the report proposes, but start the daemon as tests do."""
    *steps, last = report["next"]
    assert last == "memory-daemon start"
    for step in steps:
        answer = home.run(*shlex.split(step))
        assert answer.code == OK, answer
    home.serve()


def end_leases(database: PostgresDatabase) -> None:
    """Let time pass for all leases of a tenant."""
    rows = database.scan(families.LEASES, b"lease-end:", b"lease-end;", limit=99, reverse=False)
    transaction = database.begin([])
    transaction.commit(
        [Put(families.LEASES, key, codec.encode_millis(Millis(0))) for key, _ in rows],
        transaction.head.outbox,
    )


def run_jobs(home: Home) -> None:
    """Cut segments and fill the indexes now."""
    for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
        answer = home.run("memory-daemon", "scheduler", "run", job)
        assert answer.code == OK, answer


def connect(home: Home) -> Client:
    return Client(f"127.0.0.1:{home.status()['grpc_port']}")


def list_events(home: Home) -> list[str]:
    with connect(home) as client:
        return [event.event_id for event in client.all_events()]


def test_everything_is_found_there_and_back(home: Home, server: PostgresServer) -> None:
    memory = MemoryCommand(home, home.work)
    home.serve()
    with connect(home) as client:
        client.ingest_all(
            [message(f"event-{n}", START_MS + n, f"The keeper saw ship {n}") for n in range(EVENTS)]
        )
    name = memory.capture("decisions", "We store tide tables in Parquet files")
    assert home.run("memory-daemon", "token", "create", "dashboard").code == OK
    run_jobs(home)
    events, listed = list_events(home), memory.json("list", "--domain", "project")
    ships = [hit["id"] for hit in memory.json("recall", "keeper ship 7")["results"]]
    assert ships
    home.stop()
    canary = home.data / "index/canary"  # goes when the indexes are made anew
    canary.touch()

    report = migrate_all(home, home.data / "db", with_password(server), "--tenant", "there")
    rows = {it["name"]: it["target"]["rows"] for it in report["families"]}
    assert rows["events"] == EVENTS
    assert rows["memories"] == 1
    take_steps(home, report)

    status = home.status()
    assert status["db_path"].endswith("(tenant there)")
    assert (status["events"], list_events(home)) == (EVENTS, events)
    assert memory.json("list", "--domain", "project") == listed
    run_jobs(home)
    assert memory.recall_ids("tide tables") == [name]
    assert [hit["id"] for hit in memory.json("recall", "keeper ship 7")["results"]] == ships
    assert not canary.exists()
    canary.touch()
    assert "dashboard" in home.run("memory-daemon", "token", "list").text
    with connect(home) as client:
        assert client.ingest(message("on-the-server", START_MS + EVENTS)).created
    run_jobs(home)
    home.stop()

    (home.data / "db").rename(home.data / "db-before")
    report = migrate_all(home, server.url, home.data / "db", "--tenant", "there")
    assert report["next"] == ["memory config unset storage.url", "memory-daemon start"]
    take_steps(home, report)

    assert home.status()["db_path"] == str(home.data / "db")
    assert list_events(home) == [*events, "on-the-server"]
    run_jobs(home)
    assert not canary.exists()
    assert [hit["id"] for hit in memory.json("recall", "keeper ship 7")["results"]] == ships
    assert memory.recall_ids("tide tables") == [name]
    with connect(home) as client:
        assert not client.ingest(message("event-3", START_MS + 3)).created
        assert client.ingest(message("back", START_MS + EVENTS + 1)).created
    assert home.run("memory-daemon", "admin", "verify").code == OK


def test_a_kill_at_any_moment_is_survived(home: Home, server: PostgresServer) -> None:
    source = home.folder / "elsewhere"
    with closing(CommittedStore(RocksEngine(source), lambda _: None)) as store:
        schema.prepare(store)
        for start in range(0, ROWS, 1_000):
            puts = [
                Put(families.EVENTS, b"%08d" % n, b"x" * 700) for n in range(start, start + 1_000)
            ]
            store.submit([Batch((*puts, SetCounter(*OUTBOX, b"%d" % start)))]).result()
    words = ("--tenant", "killed")
    with closing(PostgresDatabase(server.url, "killed")) as database:

        def read_mark() -> MigrationMark | None:
            return migration_mark.read_mark(lambda family, key: database.get_many(family, [key])[0])

        for _ in range(KILLS):
            before = read_mark()
            arguments = ("--from", str(source), "--to", server.url, *words)
            with home.begin("memory-daemon", "admin", "migrate", *arguments) as running:
                wait_until(lambda: read_mark() not in (None, before), "it goes on")  # noqa: B023
                running.send_signal(signal.SIGKILL)
                assert running.wait() == -signal.SIGKILL
            mark = read_mark()
            assert mark is not None
            assert families.EVENTS not in mark.copied

        home.configure(f'[storage]\nurl = "{server.url}"\ntenant = "killed"\n')
        refused = home.fail_to_serve()
        assert refused.code == STORAGE
        assert f"the migration from {source} to this store is not finished" in refused.errors
        assert "memory-daemon admin migrate" in refused.errors

        report = migrate_all(home, source, server.url, *words)
        assert report["resumed"]
        assert 0 < report["copied"] < ROWS
        assert read_mark() is None
        assert (
            len(database.scan(families.EVENTS, b"", keys.LAST, limit=ROWS + 1, reverse=False))
            == ROWS
        )
        assert database.read_head().outbox == ROWS - 1_000
    home.serve()
    assert home.status()["db_path"].endswith("(tenant killed)")


def test_ctrl_c_ends_it_and_it_goes_on(home: Home, server: PostgresServer) -> None:
    source = home.folder / "elsewhere"
    with closing(CommittedStore(RocksEngine(source), lambda _: None)) as store:
        schema.prepare(store)
        puts = [Put(families.EVENTS, b"%08d" % n, b"x" * 3_000) for n in range(ROWS // 2)]
        for start in range(0, len(puts), 1_000):
            store.submit([Batch(tuple(puts[start : start + 1_000]))]).result()
    arguments = ("--from", str(source), "--to", server.url, "--tenant", "interrupted")
    with home.on_terminal("memory-daemon", "admin", "migrate", *arguments) as screen:
        screen.read_until("Copying rows")
        screen.interrupt()
        screen.read_until("run the same command again to go on")
        assert screen.finish() == 130
        assert re.search(r"Stopped after [\d,]+ rows?:", screen.text)
    assert migrate_all(home, source, server.url, "--tenant", "interrupted")["resumed"]


class TestRefusal:
    def test_while_a_daemon_runs(self, home: Home, server: PostgresServer) -> None:
        pid = home.serve()
        answer = migrate(home, home.data / "db", with_password(server), "--tenant", "refused")
        assert_refused(answer, STORAGE, f"a daemon (PID {pid}) is running on {home.data}")
        with Home() as other:
            answer = migrate(other, home.data / "db", server.url, "--tenant", "refused")
            assert_refused(answer, STORAGE, f"a daemon (PID {pid}) is running on {home.data}")

    def test_while_a_daemon_uses_the_tenant(self, home: Home, server: PostgresServer) -> None:
        home.configure(f'[storage]\nurl = "{server.url}"\ntenant = "busy"\n')
        pid = home.serve()
        with Home() as other:
            answer = migrate(other, with_password(server), other.folder / "new", "--tenant", "busy")
            assert_refused(answer, STORAGE, f"PID {pid}, data folder {home.data}", "tenant busy")
            assert SECRET not in answer.errors
            assert not (other.folder / "new").exists()

    def test_of_a_daemon_while_the_memory_is_copied(
        self, home: Home, server: PostgresServer
    ) -> None:
        home.configure(f'[storage]\nurl = "{server.url}"\ntenant = "copied"\n')
        home.serve()
        home.stop(signal.SIGKILL)  # its lease goes on
        other = home.folder / "other"
        other.mkdir()
        with closing(PostgresDatabase(server.url, "copied")) as database:
            end_leases(database)
        with open_migration_side(server.url, "copied", other, is_source=True) as copied:
            assert copied.rows > 0
            refused = home.fail_to_serve()
            assert refused.code == STORAGE
            assert f"is being copied by a migration on {socket.gethostname()}" in refused.errors
            assert f"data folder {other}" in refused.errors
        home.serve()

    def test_of_places_that_do_not_fit(self, home: Home, server: PostgresServer) -> None:
        home.serve()
        home.stop()
        database = home.data / "db"
        nowhere = migrate(home, home.data, server.url)
        assert_refused(nowhere, MISSING, f"no database at {home.data}", f"one at {database}")
        empty = migrate(home, server.url, home.folder / "new", "--tenant", "nobody")
        assert_refused(empty, STORAGE, "there is no memory in", "(tenant nobody)")
        full = migrate(home, database, home.work.parent)
        assert_refused(full, INVALID, "is not empty and no database")
        migrate_all(home, database, home.folder / "copy")
        with Home() as other:
            other.serve()
            other.stop()
            used = migrate(other, other.data / "db", home.folder / "copy")
            assert_refused(used, INVALID, f"{home.folder / 'copy'} is not empty")
        same = migrate(home, database, database / ".." / "db")
        assert_refused(same, INVALID, f"--from and --to are the same: {database}")
        same = migrate(home, server.url, with_password(server), "--tenant", "nobody")
        assert_refused(same, INVALID, "--from and --to are the same: postgresql://", "nobody")
        typo = migrate(home, database, "postgres//me@db.example/memory")
        assert_refused(typo, USAGE, "--to is neither a folder nor an address of PostgreSQL")
        name = migrate(home, database, server.url, "--tenant", "a b")
        assert_refused(name, USAGE, "--tenant must be 1 to 63 letters")

    def test_shows_no_password(self, home: Home, tmp_path: Path) -> None:
        home.serve()
        home.stop()
        for url, code in (
            (f"postgresql://me:{SECRET}@/x?host={tmp_path}", STORAGE),
            (f"postgresql://me@/x?host={tmp_path}&password={SECRET}", STORAGE),
            (f"mysql://me:{SECRET}@localhost/x", USAGE),
            (f"postgresql://me:{SECRET}@localhost/x?colour=red", 3),
        ):
            for words in ((), ("--format", "json")):
                answer = migrate(home, home.data / "db", url, *words)
                assert answer.code == code, answer
                assert SECRET not in answer.text + answer.errors


def test_the_text_has_a_table_and_the_next_steps(home: Home, server: PostgresServer) -> None:
    home.serve()
    home.stop()
    answer = migrate(home, home.data / "db", with_password(server), "--tenant", "table")
    assert answer.code == OK, answer
    assert SECRET not in answer.text + answer.errors
    assert re.search(r"^  family +rows +in the target  sha256$", answer.text, re.MULTILINE)
    assert re.search(r"^  events +0 +0  e3b0c44298fc$", answer.text, re.MULTILINE)
    assert re.search(r"^  last change +\d+ +\d+$", answer.text, re.MULTILINE)
    assert "Both sides are the same." in answer.text
    shown = server.url.replace("///", "//memory@/").replace("&user=memory", "")
    assert f"memory config set storage.url '{shown}'" in answer.text
    assert "memory config set storage.tenant table" in answer.text
    again = migrate(home, home.data / "db", with_password(server), "--tenant", "table")
    assert again.code == OK
    assert "Nothing was copied" in again.text
