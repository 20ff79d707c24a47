"""After an upgrade the daemon rebuilds the table of contents by itself, once, and shows how far."""

import json
import signal
from pathlib import Path
from typing import Any

from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.editions import EDITION, EditionRecord
from agent_memory.kernel.status import StoreHealth
from agent_memory.proto import memory_pb2 as pb
from tests.chosen_store import IS_POSTGRES, open_left_store
from tests.command_runner import Home, wait_until
from tests.memory_client import Client
from tests.toc_conversations import (
    EVERYTHING,
    MINUTE,
    OUTBOX,
    REBUILD,
    SECONDS,
    Toc,
    make_event,
    millis,
)
from tests.toc_harness import age_contents

SEGMENTS = 6  # of EVERYTHING
OLD = "as it was once"


def open_client(home: Home) -> Client:
    return Client(f"127.0.0.1:{home.status()['grpc_port']}")


def take_in(home: Home, events: list[pb.Event]) -> list[pb.TocNode]:
    """Record events and return the nodes that they get."""
    home.serve()
    with open_client(home) as client:
        client.ingest_all(events)
        toc = Toc(client)
        toc.settle()
        return toc.tree()


def age(home: Home) -> None:
    """Stop the daemon and leave a table of contents as an older version wrote it."""
    home.stop()
    failures: list[StoreHealth] = []
    store = open_left_store(home.data, failures.append)
    assert StoredToc(store).get_edition() == EditionRecord(edition=EDITION)
    age_contents(store)
    store.close()
    assert not failures


def scheduler(home: Home, verb: str, job: str = REBUILD) -> None:
    assert home.run("memory-daemon", "scheduler", verb, job).code == 0


def wait_rebuilt(home: Home) -> None:
    def is_rebuilt() -> bool:
        status = home.status()  # without a daemon that answers yet, it has no contents
        return "contents" in status and status["contents"] is None

    wait_until(is_rebuilt, "the contents are rebuilt", SECONDS)


def read_tree(home: Home) -> list[pb.TocNode]:
    with open_client(home) as client:
        return Toc(client).tree()


def list_logged(home: Home, event: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in home.log().splitlines())
    return [line for line in lines if line["event"] == event]


def test_it_is_rebuilt_with_progress_and_once(tmp_path: Path) -> None:
    with Home() as home:
        tree = take_in(home, EVERYTHING)
        assert home.status()["contents"] is None
        assert "Contents:" not in home.run("memory-daemon", "status").text
        scheduler(home, "pause")
        age(home)

        home.serve()
        assert home.status()["contents"] == {"segments": 0, "total": SEGMENTS}
        line = f"Contents: rebuilding, 0 of {SEGMENTS} segments\n"
        assert line in home.run("memory-daemon", "status").text
        assert line in home.run("memory", "status").text
        shown = home.run("memory", "status", "--format", "json").json()
        assert shown["contents"] == {"segments": 0, "total": SEGMENTS}
        assert {node.summary for node in read_tree(home)} == {OLD}
        backup = tmp_path / "backup"
        if not IS_POSTGRES:  # which has backups of its own
            assert home.run("memory-daemon", "admin", "backup", str(backup)).code == 0

        scheduler(home, "resume")
        wait_rebuilt(home)
        assert read_tree(home) == tree
        assert "Contents:" not in home.run("memory", "status").text
        (begun,) = list_logged(home, "contents.rebuild_begun")
        (rebuilt,) = list_logged(home, "contents.rebuilt")
        assert (begun["segments"], begun["edition"]) == (SEGMENTS, EDITION)
        assert (rebuilt["segments"], rebuilt["edition"]) == (SEGMENTS, EDITION)
        assert rebuilt["written"] == len(tree)

        home.stop()
        home.serve()
        scheduler(home, "run")  # as at the start: there is nothing to do
        assert len(list_logged(home, "contents.rebuild_begun")) == 1
        assert read_tree(home) == tree

        if IS_POSTGRES:
            return
        home.stop()
        answer = home.run("memory-daemon", "admin", "restore", str(backup), "--force")
        assert answer.code == 0, answer.errors
        home.serve()
        scheduler(home, "resume")  # the backup was made while the job was paused
        wait_rebuilt(home)
        assert read_tree(home) == tree
        assert len(list_logged(home, "contents.rebuilt")) == 2


def test_killed_in_between_it_goes_on() -> None:
    start = millis("2026-01-05 08:00")
    said = "We decided to replace the pump {} first, because it leaks. "
    events = [
        make_event(f"s{number % 7}", number, start + number * 40 * MINUTE, "user", said * 20)
        for number in range(150)
    ]
    with Home() as home:
        tree = take_in(home, events)
        age(home)
        pid = home.serve()

        def has_begun() -> bool:
            contents = home.status()["contents"]
            return contents is None or contents["segments"] > 0

        wait_until(has_begun, "some segments are done", SECONDS)
        home.stop(signal.SIGKILL)
        assert home.serve() != pid
        wait_rebuilt(home)
        assert read_tree(home) == tree
        assert len(list_logged(home, "contents.rebuild_begun")) == 1
        assert len(list_logged(home, "contents.rebuilt")) == 1


def test_it_waits_while_the_index_is_behind() -> None:
    with Home() as home:
        tree = take_in(home, EVERYTHING)
        for job in (OUTBOX, REBUILD):
            scheduler(home, "pause", job)
        start = millis("2026-02-02 08:00")
        many = [make_event("many", n, start + n, "user", f"Pump {n}.") for n in range(1_100)]
        age(home)
        home.serve()
        with open_client(home) as client:
            for part in (many[:600], many[600:]):
                client.ingest_all(part)
        scheduler(home, "resume")
        scheduler(home, "run")
        contents = home.status()["contents"]
        assert contents["segments"] == 0
        scheduler(home, "resume", OUTBOX)
        wait_rebuilt(home)
        rebuilt = {node.node_id: node for node in read_tree(home)}
        segments = [node for node in tree if node.level == pb.TOC_LEVEL_SEGMENT]
        assert [rebuilt[node.node_id] for node in segments] == segments


def test_a_rebuild_by_hand_is_enough() -> None:
    with Home() as home:
        tree = take_in(home, EVERYTHING)
        scheduler(home, "pause")
        age(home)
        home.serve()
        words = ("memory-daemon", "admin", "rebuild-toc", "--from-date", "2026-01-30")
        assert home.run(*words).code == 0
        assert home.status()["contents"] is not None
        assert home.run("memory-daemon", "admin", "rebuild-toc").code == 0
        assert home.status()["contents"] is None
        scheduler(home, "resume")
        scheduler(home, "run")
        assert list_logged(home, "contents.rebuild_begun") == []
        assert read_tree(home) == tree
