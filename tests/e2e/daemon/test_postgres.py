"""Real daemons on a real PostgreSQL server: every day, a server that crashes, two at once."""

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import grpc
import pytest

from agent_memory.platform.store import families, keys
from agent_memory.platform.store.postgres import PostgresDatabase
from bench.postgres_server import PostgresServer
from tests.command_runner import Home, wait_until
from tests.daemon_process import Daemon
from tests.http_client import Web
from tests.memory_client import message
from tests.memory_commands import CONFIG, OK, STORAGE, MemoryCommand, assert_refused
from tests.postgres_server import start_server

ROOT = Path(__file__).parents[3]
START_MS = 1_738_281_600_000
CRASHES = 2
PER_CRASH = 150  # acknowledgements before each crash


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own: its tests stop it."""
    server = start_server()
    yield server
    server.remove()


def configure(server: PostgresServer, tenant: str) -> str:
    return f'[storage]\nurl = "{server.url}"\ntenant = "{tenant}"\n'


@pytest.fixture(scope="module")
def home(server: PostgresServer) -> Iterator[Home]:
    with Home() as home:
        home.configure(configure(server, "day"))
        home.serve()
        yield home


@pytest.fixture(scope="module")
def memory(home: Home) -> MemoryCommand:
    return MemoryCommand(home, home.work)


class TestEveryDay:
    def test_hooks_capture_and_recall_survive_a_kill(
        self, home: Home, memory: MemoryCommand
    ) -> None:
        spoken = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "s-1",
            "cwd": str(home.work),
            "prompt": "The lighthouse keeper prefers marmalade on Tuesdays",
        }
        assert memory("hook", "auto", given=json.dumps(spoken).encode()).code == OK
        name = memory.capture("decisions", "We store tide tables in Parquet files")
        os.kill(home.serve(), signal.SIGKILL)
        wait_until(lambda: home.pid() is None, "it has ended")
        home.serve()
        assert memory.show(name)["summary"] == "We store tide tables in Parquet files"
        found = memory.json("recall", "marmalade")
        assert "marmalade" in json.dumps(found["results"])

    def test_the_status_names_the_server_and_no_file(self, home: Home) -> None:
        status = home.run("memory-daemon", "status", "--format", "json").json()
        assert status["db_path"].startswith("postgresql://")
        assert status["db_path"].endswith("(tenant day)")
        assert not (home.data / "db").exists()
        stats = home.run("memory-daemon", "admin", "stats").text
        assert "  Column Families:\n    events: " in stats
        assert "RocksDB" not in stats

    def test_files_beside_it_are_not_taken_for_its_database(self, home: Home) -> None:
        """They may be there from before: a migration leaves them."""
        beside = home.data / "db"
        answer = home.run("memory-daemon", "admin", "--db-path", str(beside), "stats")
        assert_refused(answer, CONFIG, f"there is no database at {beside}")

    def test_what_it_keeps_in_files_is_measured(self, home: Home) -> None:
        with Web(home).client() as client:
            parts = client.get("/api/v1/disk/").json()["parts"]
        (store,) = [part["bytes"] for part in parts if part["kind"] == "store"]
        assert store > 0

    def test_an_export_has_everything(self, memory: MemoryCommand, tmp_path: Path) -> None:
        target = tmp_path / "all.jsonl"
        memory.capture("decisions", "The foghorn sounds in B flat")
        assert memory("export", "--all", "--output", str(target)).code == OK
        assert "The foghorn sounds in B flat" in target.read_text()

    def test_it_verifies_compacts_and_forgets(self, home: Home, memory: MemoryCommand) -> None:
        verified = home.run("memory-daemon", "admin", "verify", "--format", "json").json()
        assert verified["sound"]
        assert verified["rows"] > 3
        assert home.run("memory-daemon", "admin", "compact").code == OK
        name = memory.capture("learnings", "Cormorants nest on the northern buoy")
        forgotten = memory("forget", name, "--yes")
        assert forgotten.code == OK, forgotten
        assert "ormorants" not in memory.text("recall", "cormorants buoy")

    def test_what_needs_files_says_what_to_use_instead(self, home: Home, tmp_path: Path) -> None:
        backup = home.run("memory-daemon", "admin", "backup", str(tmp_path / "b"))
        assert_refused(backup, CONFIG, "pg_dump --schema=agent_memory")
        home.stop()
        repair = home.run("memory-daemon", "admin", "verify", "--repair")
        assert_refused(repair, CONFIG, "pg_amcheck", "pg_restore")
        restore = home.run("memory-daemon", "admin", "restore", str(tmp_path / "b"))
        assert_refused(restore, CONFIG, "pg_restore")
        home.serve()


class TestTenants:
    def test_each_has_a_memory_of_its_own(self, home: Home, server: PostgresServer) -> None:
        home.serve()
        with Home() as other:
            other.configure(configure(server, "night"))
            other.serve()
            night = MemoryCommand(other, other.work)
            assert night.json("list", "--domain", "project")["memories"] == []


def test_a_server_that_crashes_under_load_loses_and_doubles_nothing(
    server: PostgresServer, tmp_path: Path
) -> None:
    folder = tmp_path / ".config/agent-memory"
    folder.mkdir(parents=True)
    settings = configure(server, "crash") + "[scheduler]\nenabled = false\n"
    (folder / "config.toml").write_text(settings)
    created: Counter[str] = Counter()
    turn, numbers, enough = threading.Lock(), count(), threading.Event()
    ending = threading.Event()

    def load(daemon: Daemon) -> None:
        """Send each event until it is acknowledged, as a careful client does."""
        with daemon.client() as client:
            while not ending.is_set():
                with turn:
                    name = f"event-{next(numbers)}"
                while True:
                    with suppress(grpc.RpcError):
                        client.ingest(message(name, START_MS))
                        break
                with turn:
                    created[name] += 1
                    if len(created) % PER_CRASH == 0:
                        enough.set()

    with Daemon(tmp_path) as daemon, ThreadPoolExecutor(8) as threads:
        try:
            senders = [threads.submit(load, daemon) for _ in range(8)]
            for _ in range(CRASHES):
                assert enough.wait(60)
                server.stop("immediate")
                server.start()
                enough.clear()
            assert enough.wait(60)
        finally:
            ending.set()
        for sender in senders:
            sender.result(60)
        with daemon.client() as client:
            stored = [event.event_id for event in client.all_events()]
        assert sorted(stored) == sorted(created)
    with closing(PostgresDatabase(server.url, "crash")) as database:
        outbox = database.scan(families.OUTBOX, b"", keys.LAST, limit=100_000, reverse=False)
        assert [int(key[-20:]) for key, _ in outbox] == list(range(1, len(stored) + 1))
        assert database.read_head().outbox == len(stored)


def test_an_address_that_is_none_or_does_not_answer_is_named(tmp_path: Path) -> None:
    with Home() as home:
        home.configure('[storage]\nurl = "mysql://me:sesame@localhost/memory"\n')
        answer = home.fail_to_serve()
        assert (
            answer.code,
            "storage.url must be empty, or an address of PostgreSQL" in answer.errors,
        ) == (CONFIG, True)
        assert "sesame" not in answer.errors
        home.configure(f'[storage]\nurl = "postgresql://me:sesame@/x?host={tmp_path}"\n')
        answer = home.fail_to_serve()
        assert (answer.code, "does not answer" in answer.errors) == (STORAGE, True)
        assert "sesame" not in answer.errors + home.log()
        answer = home.run("memory", "config", "set", "storage.url", "mysql://me:sesame@x/y")
        assert (answer.code, "sesame" in answer.errors) == (CONFIG, False)


def test_a_server_that_refuses_is_not_one_that_does_not_answer(server: PostgresServer) -> None:
    with Home() as home:
        url = server.url.replace("/memory?", "/memroy?")
        assert url != server.url
        home.configure(f'[storage]\nurl = "{url}"\n')
        answer = home.fail_to_serve()
        assert answer.code == STORAGE
        assert "does not answer" not in answer.errors
        assert "Create it with `createdb memroy`" in answer.errors


class TestServeTeam:
    def test_it_serves_with_the_settings_of_the_example(self, server: PostgresServer) -> None:
        example = (ROOT / "deploy/team.toml").read_text()
        settings = example.replace("postgresql://memory@db/memory", server.url)
        settings = settings.replace('"0.0.0.0"\nport = 8443', '"localhost"\nport = 0')  # no TLS
        assert settings.count(server.url) == 1
        with Home() as home:
            file = home.folder / "team.toml"
            file.write_text(settings)
            words = ("serve-team", "--config", str(file))
            with home.begin("memory-daemon", *words, env={"MEMORY_GRPC__PORT": "0"}) as serving:
                wait_until((home.data / "daemon.json").exists, "it serves")
                assert home.pid() == serving.pid
                assert home.status()["db_path"].endswith("(tenant default)")
                serving.send_signal(signal.SIGTERM)
                assert serving.wait() == 0

    def test_it_serves_no_memory_to_all_who_have_a_key(self, server: PostgresServer) -> None:
        with Home() as home:
            file = home.folder / "team.toml"
            file.write_text(f'[storage]\nurl = "{server.url}"\n')
            answer = home.run("memory-daemon", "serve-team", "--config", str(file))
            assert_refused(answer, CONFIG, "team.enabled")

    def test_it_begins_no_memory_in_files(self) -> None:
        with Home() as home:
            file = home.folder / "team.toml"
            file.write_text("[http]\nport = 0\n")
            answer = home.run("memory-daemon", "serve-team", "--config", str(file))
            assert_refused(answer, CONFIG, f"{file} sets no storage.url")
            assert not (home.data / "db").exists()


def test_without_the_driver_it_says_what_to_install() -> None:
    without = (
        "import runpy, sys; sys.modules['psycopg'] = None;"
        "runpy.run_module('agent_memory.daemon', run_name='__main__')"
    )
    with Home() as home:
        home.configure('[storage]\nurl = "postgresql:///memory"\n')
        answer = home.run_words([sys.executable, "-c", without, "--home", str(home.folder)])
        assert (answer.code, answer.text) == (CONFIG, "")
        assert "pip install 'agent-memory[postgres]'" in answer.errors
        assert "Traceback" not in answer.errors
