"""`memory forget`: everything in reach is removed, proven to be gone, and does not return."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests import git_repositories
from tests.command_runner import Home
from tests.git_repositories import Repository
from tests.memory_client import message
from tests.memory_commands import INVALID, MISSING, OK, USAGE, MemoryCommand, assert_refused
from tests.search_client import connect

_numbers = count()


@pytest.fixture
def word() -> str:
    """Return a word that no other test uses."""
    return f"heliotrope{next(_numbers)}"


@pytest.fixture
def content(word: str) -> str:
    return f"The {word} lives in the safe under the stairs of the house {word}"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture
def repository(home: Home) -> Repository:
    return git_repositories.make_repository(home.work / f"app{next(_numbers)}")


@pytest.fixture
def memory(home: Home, repository: Repository) -> MemoryCommand:
    return MemoryCommand(home, repository.folder)


def holding(folder: Path, word: str) -> list[str]:
    """Return the files below a folder that contain a word."""
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and word.encode() in path.read_bytes()
    ]


class TestMemories:
    def test_it_leaves_store_note_index_and_files(
        self, home: Home, memory: MemoryCommand, repository: Repository, word: str, content: str
    ) -> None:
        name = memory.capture("decisions", f"The word is {word}", "--content", content)
        stays = memory.capture("decisions", "The word is kept in the safe")
        memory.json("sync")
        assert memory.recall_ids(word)[0] == name
        report = memory.json("forget", name)
        assert report["memories"] == 1
        assert report["proof"]["found_in"] == []
        assert report["proof"]["needles"] > 0
        assert any("--rewrite-notes" in each for each in report["unreachable"])
        assert memory.list_ids("--status", "all") == [stays]
        assert name not in memory.recall_ids(word)
        assert word.encode() not in repository.note()
        assert b"status: tombstone" in repository.note()
        assert holding(home.data, word) == []
        assert_refused(memory("show", name), MISSING)

    def test_the_history_of_notes_goes_only_when_asked(
        self, memory: MemoryCommand, repository: Repository, word: str, content: str
    ) -> None:
        name = memory.capture("decisions", f"The word is {word}", "--content", content)
        stays = memory.capture("decisions", "Something that stays")
        memory.json("sync")
        memory.json("forget", name)
        assert word.encode() in repository.objects()
        report = memory.json("forget", name, "--rewrite-notes")
        assert not any("--rewrite-notes" in each for each in report["unreachable"])
        assert word.encode() not in repository.objects()
        assert repository.succeeds("fsck", "--strict")
        assert memory.list_ids() == [stays]
        assert b"Something that stays" in repository.note()

    def test_it_does_not_come_back(
        self, home: Home, memory: MemoryCommand, repository: Repository, word: str
    ) -> None:
        """It returns neither by a capture of the same words, nor an import, nor from a clone."""
        remote = git_repositories.clone_repository(repository, home.work / f"{word}.git", "--bare")
        repository.git("remote", "add", "origin", str(remote.folder))
        name = memory.capture("decisions", f"The word is {word}")
        exported = memory.text("export", "--domain", "project", "--format", "jsonl").encode()
        memory.json("sync", "--remote", "--domain", "project")
        with Home() as elsewhere:
            clone = git_repositories.clone_repository(remote, elsewhere.work / "clone")
            other = MemoryCommand(elsewhere, clone.folder)
            other.json("sync", "--fetch", "--domain", "project")
            assert other.list_ids() == [name]
            memory.json("forget", name)
            assert_refused(memory("capture", "decisions", f"The word is {word}"), INVALID)
            told = memory("import", "--format", "jsonl", given=exported)
            assert (told.code, "was forgotten" in told.errors) == (INVALID, True)
            other("resolve", name)
            other.json("sync", "--push", "--domain", "project")
            memory.json("sync", "--remote", "--domain", "project")
            assert memory.list_ids("--status", "all") == []
            other.json("sync", "--fetch", "--domain", "project")
            assert other.list_ids("--status", "all") == []
            assert word.encode() not in clone.note()

    def test_words_that_also_stand_elsewhere_are_told(
        self, memory: MemoryCommand, content: str
    ) -> None:
        first = memory.capture("decisions", "The word", "--content", content)
        memory.capture("learnings", "The word again", "--content", content)
        report = memory.json("forget", first)
        assert report["proof"]["shared"] > 0
        assert report["proof"]["found_in"] == []


class TestEvents:
    def test_by_event_by_session_and_by_time(
        self, home: Home, memory: MemoryCommand, word: str
    ) -> None:
        with connect(home) as client:
            for number, session in enumerate(("one", "one", "two", "three")):
                said = f"{word} number {number} is what was said in {session}"
                client.ingest(
                    message(
                        f"e{number}",
                        1_700_000_000_000 + number * 3_600_000,
                        said,
                        session_id=session,
                    )
                )
        report = memory.json("forget", "--event", "e0")
        assert (report["events"], report["proof"]["found_in"]) == (1, [])
        assert memory.json("forget", "--session", "two")["events"] == 1
        spoken = memory.json("recall", word, "--in", "events")["results"]
        assert {each["event_id"] for each in spoken} == {"e1", "e3"}
        report = memory.json("forget", "--from", "2023-11-14", "--to", "2023-11-15")
        assert (report["events"], report["proof"]["found_in"]) == (2, [])
        assert memory.json("recall", word, "--in", "all")["results"] == []
        assert holding(home.data, word) == []

    def test_the_report_can_be_asked_for_again(
        self, home: Home, memory: MemoryCommand, word: str
    ) -> None:
        with connect(home) as client:
            client.ingest(message(f"e-{word}", 1_700_000_000_000, f"{word} is it", session_id=word))
        report = memory.json("forget", "--session", word)
        again = memory("forget", "--session", word, "--format", "json")
        assert again.json() == report
        assert again.errors == "note: an earlier call forgot them; this is its report\n"

    def test_what_is_not_there_cannot_be_forgotten(self, memory: MemoryCommand) -> None:
        assert_refused(memory("forget", "--event", "none"), MISSING, "nothing was forgotten")
        assert_refused(memory("forget", "--session", "none"), MISSING)
        assert_refused(memory("forget", "decisions:0123456789ab:0"), MISSING)


class TestAsking:
    def test_one_thing_at_a_time(self, memory: MemoryCommand) -> None:
        for words in ((), ("abcd", "--event", "x"), ("--event", "x", "--session", "y")):
            assert_refused(memory("forget", *words), USAGE, "ids of memories")
        assert_refused(memory("forget", "--from", "2026-01-01"), INVALID, "needs both")

    def test_whoever_says_no_keeps_it(self, home: Home, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "Something to keep")
        with home.on_terminal("memory", "forget", name) as screen:
            screen.read_until("[y/N]")
            screen.type("n\n")
            assert screen.finish() != OK
        assert memory.list_ids() == [name]
