"""Real daemons that share one memory on PostgreSQL."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import product

import psycopg
import pytest

from agent_memory.kernel.jobs import ROLLUP, SEGMENTS
from bench.postgres_server import PostgresServer
from tests.command_runner import Home, wait_until
from tests.http_client import Web
from tests.memory_client import message
from tests.memory_commands import OK, MemoryCommand
from tests.postgres_server import end_leases, start_server
from tests.search_client import SECONDS, connect, count_waiting
from tests.toc_conversations import EVERYTHING, Toc, assert_every_bullet_leads_to_its_events

TENANT = "shared"
JOBS = (SEGMENTS, ROLLUP)
START_MS = 1_738_281_600_000


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = start_server()
    yield server
    server.remove()


def open_home(server: PostgresServer) -> Home:
    home = Home(embedder="bge")
    home.configure(f'[storage]\nurl = "{server.url}"\ntenant = "{TENANT}"\n')
    return home


@pytest.fixture(scope="module")
def homes(server: PostgresServer) -> Iterator[tuple[Home, Home]]:
    with open_home(server) as one, open_home(server) as two:
        one.serve()
        two.serve()
        yield one, two


def settle(*homes: Home) -> None:
    wait_until(lambda: not any(map(count_waiting, homes)), "they have indexed all", SECONDS)


def test_each_finds_what_the_other_has_recorded(homes: tuple[Home, Home]) -> None:
    one, two = homes
    with connect(one) as first, connect(two) as second:
        for number, event in enumerate(EVERYTHING):
            (first, second)[number % 2].ingest(event)
        expected = Counter(event.event_id for event in EVERYTHING)
        for client in (first, second):
            assert Counter(event.event_id for event in client.all_events()) == expected
            Toc(client).settle()
            assert_every_bullet_leads_to_its_events(Toc(client), EVERYTHING)
        assert Toc(first).tree() == Toc(second).tree()
        settle(one, two)
        for home in homes:
            memory = MemoryCommand(home, home.work)
            found = memory.json("recall", "bikes have no price online", "--in", "events")
            assert found["results"], found
            assert found["warning"] is None


def test_a_memory_that_one_changes_is_the_same_in_the_other(homes: tuple[Home, Home]) -> None:
    here, there = (MemoryCommand(home, home.work) for home in homes)
    name = here.capture("decisions", "The harbour uses tidal gates", "--domain", "user")
    wait_until(
        lambda: name in json.dumps(there.json("list", "--domain", "user")), "the other lists it"
    )
    assert there("archive", name).code == OK
    assert here.show(name)["status"] == "archived"
    wait_until(
        lambda: name not in json.dumps(here.json("list", "--domain", "user")),
        "it leaves the list",
    )


def test_a_key_that_one_revokes_opens_no_other(homes: tuple[Home, Home]) -> None:
    one, two = homes
    created = one.run("memory-daemon", "token", "create", "ci", "--format", "json").json()
    web = Web(two)

    def ask() -> int:
        with web.client(key=created["token"]) as client:
            return client.get("/api/v1/status/").status_code

    wait_until(lambda: ask() == 200, "the other daemon knows the key")
    assert one.run("memory-daemon", "token", "revoke", "ci").code == OK
    wait_until(lambda: ask() == 401, "the other daemon refuses it")


def test_what_one_forgets_is_in_no_file_of_the_other(homes: tuple[Home, Home]) -> None:
    one, two = homes
    word = "zqcormorantnest"
    with connect(one) as client:
        client.ingest(message("secret-nest", START_MS, f"The {word} is behind the third buoy."))
    there = MemoryCommand(two, two.work)
    settle(one, two)
    assert word in there.text("recall", word)
    for home in (two, one):  # neither of them leads always
        if word not in MemoryCommand(home, home.work).text("recall", word):
            continue
        report = home.run("memory", "forget", "--event", "secret-nest", "--yes", "--format", "json")
        assert report.code == OK, report
        assert report.json()["proof"]["found_in"] == []
    for home in homes:
        assert word not in MemoryCommand(home, home.work).text("recall", word)
    wait_until(
        lambda: not any(find_in_files(home, word) for home in homes), "no file has it", SECONDS
    )


def find_in_files(home: Home, word: str) -> list[str]:
    """Return the files of a daemon's indexes that have a word."""
    found = []
    for folder in ("index", "local"):
        for path in (home.data / folder).rglob("*"):
            try:
                if path.is_file() and word.encode() in path.read_bytes():
                    found.append(str(path))
            except FileNotFoundError:
                continue  # a merge has removed it
    return found


@contextmanager
def pause_jobs(homes: Sequence[Home]) -> Iterator[None]:
    for home, job in product(homes, JOBS):
        assert home.run("memory-daemon", "scheduler", "pause", job).code == OK
    yield
    for home, job in product(homes, JOBS):
        assert home.run("memory-daemon", "scheduler", "resume", job).code == OK


def test_a_job_that_is_asked_for_runs_whoever_leads(homes: tuple[Home, Home]) -> None:
    with pause_jobs(homes):
        for number, home in enumerate(homes):  # one of them does not lead
            start = START_MS + (number + 1) * 86_400_000
            with connect(home) as client:
                lamp = message(f"asked-{number}", start, f"Lighthouse {number} has a new lamp.")
                client.ingest(lamp)
                for job in JOBS:
                    answer = home.run("memory-daemon", "scheduler", "run", job)
                    assert answer.code == OK, answer
                day = datetime.fromtimestamp(start / 1000, UTC).date().isoformat()
                assert f"toc:day:{day}" in {node.node_id for node in Toc(client).tree()}


def test_another_does_the_work_of_one_that_is_killed(
    homes: tuple[Home, Home], server: PostgresServer
) -> None:
    one, two = homes
    os.kill(two.serve(), signal.SIGKILL)
    wait_until(lambda: two.pid() is None, "it has ended")
    end_leases(server, TENANT, b"lease-end:jobs", *daemon_ends(two))
    with connect(one) as client:
        client.ingest(message("after-the-kill", START_MS + 5, "The ferry sails at noon now."))
        Toc(client).settle()
    two.serve()
    with connect(two) as client:
        assert "after-the-kill" in {event.event_id for event in client.all_events()}
    settle(two)
    assert "ferry sails" in MemoryCommand(two, two.work).text("recall", "when does the ferry sail")


def test_one_that_was_away_for_too_long_stops_and_comes_back_whole(
    homes: tuple[Home, Home], server: PostgresServer
) -> None:
    one, two = homes
    pid = two.serve()
    os.kill(pid, signal.SIGSTOP)
    try:
        end_leases(server, TENANT, b"lease-end:jobs", *daemon_ends(two))
        with connect(one) as client:
            client.ingest(message("meanwhile", START_MS + 9, "The crane was sold meanwhile."))
        wait_until(lambda: not has_lease(server, two), "it counts as gone", SECONDS)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: two.pid() is None, "it has stopped", SECONDS)
    assert "counts as gone" in two.log()
    two.serve()
    settle(two)
    memory = MemoryCommand(two, two.work)
    assert "crane was sold" in memory.text("recall", "what became of the crane")


def daemon_ends(home: Home) -> list[bytes]:
    return [b"lease-end:daemon:" + (home.data / "writer-id").read_bytes()]


def has_lease(server: PostgresServer, home: Home) -> bool:
    key = b"lease:daemon:" + (home.data / "writer-id").read_bytes()
    with psycopg.connect(server.superuser_url) as connection:
        found = connection.execute(
            "SELECT 1 FROM agent_memory.kv WHERE tenant = %s AND family = 'leases' AND key = %b",
            (TENANT, key),
        )
        return found.fetchone() is not None


def test_one_that_moves_to_another_memory_begins_its_files_anew(server: PostgresServer) -> None:
    with open_home(server) as home:
        home.serve()
        marks = [home.data / folder / "store" for folder in ("index", "local")]
        before = [mark.read_bytes() for mark in marks]
        home.stop()
        home.configure(f'[storage]\nurl = "{server.url}"\ntenant = "another"\n')
        home.serve()
        assert all(mark.read_bytes() != old for mark, old in zip(marks, before, strict=True))
        assert MemoryCommand(home, home.work).json("recall", "bikes")["results"] == []
