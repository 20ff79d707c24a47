"""`memory export --all` and its import: everything comes back as it was."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_memory.features.backups.interfaces import archive
from agent_memory.features.backups.services.archiving import (
    ArchiveRecord,
    MemoryRecord,
)
from agent_memory.features.checkpoints.archive_records import WriteRecord
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.memories.model.tiers import MemoryUse
from agent_memory.kernel.ids import USER, Millis
from tests import conversation_samples, git_repositories, graph_values
from tests.command_runner import Answer, Home
from tests.http_client import Web
from tests.memory_commands import MemoryCommand

DERIVED = ("toc_node", "project")


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as created:
        created.serve()
        yield created


def written(home: Home, *records: ArchiveRecord) -> Path:
    path = home.folder / "seed.jsonl"
    path.write_text(archive.header("0", Millis(1)) + "".join(map(archive.line, records)))
    return path


def brought(home: Home, path: Path, *options: str) -> Answer:
    return home.run("memory", "import", str(path), "--output", "json", *options)


def exported(home: Home) -> list[dict[str, Any]]:
    """Everything, once all jobs have nothing left to do."""
    for job in ("segment-summarizer", "outbox-processor"):
        assert home.run("memory-daemon", "scheduler", "run", job).code == 0
    answer = home.run("memory", "export", "--all")
    assert answer.code == 0, answer.errors
    return [json.loads(line) for line in answer.text.splitlines()]


def select_records(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines[1:] if line["type"] not in DERIVED]


def filled(home: Home) -> None:
    records: list[ArchiveRecord] = [
        event
        for number in range(3)
        for event in conversation_samples.build_session(
            f"s{number}",
            conversation_samples.THUMBNAILS,
            start=conversation_samples.START + number * 86_400_000,
        )
    ]
    records += conversation_samples.build_session(
        "odd", [("user", "a\u2028b\x85c\r\n\td \N{GRINNING FACE} \0")]
    )
    records.append(graph_values.checkpoint("t", "c1", blob=b"\0\xff state", step=1))
    records.append(graph_values.checkpoint("t", "c2", "ns", parent="c1"))
    noted = replace(
        git_repositories.memory("Noted", domain=USER), status=MemoryStatus.PENDING, commit=""
    )
    records.append(MemoryRecord(memory=noted, use=MemoryUse()))
    records.append(WriteRecord(place=graph_values.place("t", "c1"), write=graph_values.write()))
    answer = brought(home, written(home, *records))
    assert answer.code == 0, answer.errors
    for namespace, text in (("decisions", "Use RocksDB"), ("learnings", "Zażółć gęślą")):
        assert (
            home.run("memory", "capture", namespace, text, "--domain", "user", "--tags", "b,a").code
            == 0
        )
    assert home.run("memory", "recall", "RocksDB", "--domain", "user").code == 0
    with Web(home).client() as api:
        for value in ("tabs", "spaces"):
            fact = {"key": "indent", "value": value, "scope": "global"}
            assert api.post("/api/v1/memories/facts/", json=fact).status_code < 300
        user = {"canonical_id": "email:ann@example.org", "display_name": "Ann"}
        assert api.post("/api/v1/memories/users/", json=user).status_code == 201


def test_everything_comes_back_as_it_was(home: Home) -> None:
    filled(home)
    home.hold_still()
    before = exported(home)
    head = before[0]
    assert head["format"] == "agent-memory-export"
    counts = Counter(line["type"] for line in before[1:])
    assert counts["event"] == 3 * len(conversation_samples.THUMBNAILS) + 1
    assert {"memory", "fact", "former_fact", "episode", "procedure", "tool_chain"} <= set(counts)
    assert {"user", "session", "checkpoint", "checkpoint_write", "toc_node"} <= set(counts)
    file = home.folder / "all.jsonl.gz"
    assert home.run("memory", "export", "--all", str(file)).code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    with gzip.open(file, "rt") as lines:
        assert [json.loads(line) for line in lines][1:] == before[1:]
    assert not list(home.data.glob(".db-*"))
    with Home() as other:
        other.serve()
        answer = brought(other, file)
        assert answer.code == 0, answer.errors
        assert answer.json()["refused"] == 0
        assert answer.json()["taken"] == Counter(line["type"] for line in select_records(before))
        after = exported(other)
        assert select_records(after) == select_records(before)
        assert Counter(line.get("type") for line in after)["toc_node"] > 0
        again = brought(other, file).json()
        assert again["taken"] == {}
        assert again["known"] == len(select_records(before))
        assert select_records(exported(other)) == select_records(before)
        assert other.run("memory", "review", "--format", "quiet").text.startswith("decisions:")
        found = other.run("memory", "recall", "RocksDB", "--domain", "user").text
        assert "Use RocksDB" in found


def test_an_archive_over_a_pipe_is_refused_in_one_line(home: Home) -> None:
    home.serve()
    written_out = home.run("memory", "export", "--all").out
    answer = home.run("memory", "import", given=written_out)
    assert answer.code == 2
    assert "export --all" in answer.errors
    assert len(answer.errors.splitlines()) < 6


def test_what_cannot_be_read_is_named_and_all_else_is_taken_over(home: Home) -> None:
    events = conversation_samples.build_session("s", conversation_samples.THUMBNAILS)
    path = written(home, *events[:2])
    path.write_text(
        path.read_text()
        + "not JSON\n"
        + '{"type": "dream"}\n'
        + '{"type": "event", "event_id": "x"}\n'
        + archive.line(events[2])
    )
    assert brought(home, path, "--dry-run").json()["readable"] == 3
    answer = brought(home, path)
    assert answer.code == 11
    assert answer.json()["taken"] == {"event": 3}
    assert all(f"line {number}" in answer.errors for number in (4, 5, 6))
    later = path.with_name("later.jsonl")
    later.write_text(path.read_text().replace('"format_version": 1', '"format_version": 2'))
    answer = brought(home, later)
    assert (answer.code, "upgrade" in answer.errors) == (11, True)


def test_a_secret_in_an_archive_is_not_stored(home: Home) -> None:
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA2cD4fG6"
    (event,) = conversation_samples.build_session("s", [("user", f"my token is {token}")])
    path = written(home, event)
    memory = {
        "type": "fact",
        "id": "6f1c1f6e-0000-5000-9b0e-0d2a9a1f5a11",
        "key": "token",
        "value": f"it is {token}",
        "created_ms": 1,
        "updated_ms": 1,
        "valued_ms": 1,
    }
    path.write_text(path.read_text() + json.dumps(memory) + "\n")
    brought(home, path)
    text = json.dumps(exported(home))
    assert "my token is" in text
    assert token not in text


@pytest.mark.parametrize("place", [0, 20, -1])
def test_a_damaged_archive_is_named_as_such(home: Home, place: int) -> None:
    """At its start, in what is compressed, and cut off."""
    path = home.folder / "all.jsonl.gz"
    text = written(
        home, *conversation_samples.build_session("s", conversation_samples.THUMBNAILS)
    ).read_bytes()
    data = bytearray(gzip.compress(text))
    if place == -1:
        del data[-20:]
    else:
        data[place] ^= 0xFF
    path.write_bytes(data)
    answer = brought(home, path)
    assert (answer.code, f"{path} is damaged" in answer.errors) == (4, True), answer


def test_export_all_refuses_to_overwrite_and_to_be_mixed(home: Home) -> None:
    there = home.folder / "there.jsonl"
    there.write_text("precious")
    answer = home.run("memory", "export", "--all", str(there))
    assert (answer.code, there.read_text()) == (11, "precious")
    assert home.run("memory", "export", "--all", "--namespace", "decisions").code == 2
    assert home.run("memory", "export", str(home.folder / "x")).code == 2


def test_a_project_of_another_repository_keeps_its_memories_apart(home: Home) -> None:
    """A name in an archive may be that of another project here, which is shared with others."""

    def clone(at: Home, remote: str) -> MemoryCommand:
        created = git_repositories.make_repository(at.work / remote)
        created.git("remote", "add", "origin", f"https://git.example/{remote}.git")
        return MemoryCommand(at, created.folder)

    theirs = clone(home, "acme/shop")
    theirs.capture("decisions", "The shop has a heron")
    with Home() as other:
        other.serve()
        for remote, words in (("client/shop", "The launch is secret"), ("acme/shop", "A stork")):
            memory = clone(other, remote)
            memory.capture("decisions", words)
        fact = {"scope": "project:shop", "key": "launch", "value": "Friday"}
        with Web(other).over_socket() as client:
            assert client.post("/api/v1/memories/facts/", json=fact).is_success
        path = home.folder / "other.jsonl"
        path.write_text(other.run("memory", "export", "--all").text)
    for _ in range(2):  # the second import finds what the first has placed
        answer = brought(home, path)
        assert answer.code == 0, answer.errors
    listed = theirs.json("list", "--domain", "project")["memories"]
    assert {each["summary"] for each in listed} == {"The shop has a heron", "A stork"}
    every = theirs.json("list", "--domain", "all")["memories"]
    (secret,) = (each for each in every if each["summary"] == "The launch is secret")
    assert secret["domain"].startswith("project:shop-")
    with Web(home).over_socket() as client:
        (stated,) = client.get("/api/v1/memories/facts/").json()["items"]
    assert (stated["scope"], stated["value"]) == (secret["domain"], "Friday")
