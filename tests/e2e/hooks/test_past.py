"""`memory import --from` of other programs, and `memory export --conversations`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_runner import Home
from tests.memory_commands import INVALID, OK, USAGE, MemoryCommand, assert_refused
from tests.past_conversations import (
    WORDS,
    build_chatgpt,
    write_chatgpt,
    write_cline,
    write_gemini,
    write_obsidian,
    write_opencode,
)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """Return a home whose user has a past with several programs."""
    with Home() as found:
        write_gemini(found.folder)
        write_opencode(found.folder / ".local/share")
        write_cline(found.folder / ".cline" / "data")
        write_chatgpt(found.work)
        write_obsidian(found.work)
        found.serve()
        yield found


@pytest.fixture(scope="module")
def fresh() -> Iterator[Home]:
    """Return the home of another machine."""
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture
def memory(home: Home) -> MemoryCommand:
    return MemoryCommand(home, home.work)


def count_recorded(memory: MemoryCommand, *words: str) -> int:
    answer = memory("import", *words, "--output", "json")
    assert answer.code == OK, answer
    found = answer.json()
    return int(found["recorded"] + found["described"])


def list_events(home: Home) -> list[dict[str, Any]]:
    answer = home.run(
        *("memory-daemon", "query", "events", "--from", "0", "--to", "9999999999999"),
        *("--limit", "1000", "--full", "--format", "json"),
    )
    found: list[dict[str, Any]] = answer.json()["events"]
    return found


@pytest.fixture(scope="module")
def imported(home: Home) -> None:
    memory = MemoryCommand(home, home.work)
    for words in (("gemini",), ("opencode",), ("cline",), ("chatgpt", "chatgpt.zip")):
        dry = count_recorded(memory, "--from", *words, "--dry-run")
        assert dry == count_recorded(memory, "--from", *words) >= len(WORDS)
        assert count_recorded(memory, "--from", *words) == 0


def test_an_export_that_cannot_be_read_is_an_error(memory: MemoryCommand, tmp_path: Path) -> None:
    (tmp_path / "export.zip").write_bytes(b"PK half a download")
    answer = memory("import", "--from", "chatgpt", str(tmp_path / "export.zip"))
    assert_refused(answer, INVALID, "could be read")
    assert "is the download complete?" in answer.errors


@pytest.mark.usefixtures("imported")
class TestThePast:
    def test_is_found(self, home: Home, memory: MemoryCommand) -> None:
        found = memory.json("recall", "--in", "events", "--agent", "chatgpt", "lamp flicker")
        assert WORDS[0] in json.dumps(found["results"])
        agents = {event["metadata"]["agent"] for event in list_events(home)}
        assert agents >= {"chatgpt", "cline", "gemini", "opencode"}

    def test_is_exported_as_lines_and_comes_back_elsewhere(
        self, home: Home, fresh: Home, memory: MemoryCommand
    ) -> None:
        path = home.work / "talks.jsonl"
        answer = memory("export", "--conversations", str(path), "--format", "jsonl")
        assert answer.code == OK, answer
        assert path.stat().st_mode & 0o777 == 0o600
        lines = path.read_text().splitlines()
        assert count_recorded(memory, str(path)) == 0
        elsewhere = MemoryCommand(fresh, fresh.work)
        assert count_recorded(elsewhere, str(path)) == len(lines)
        array = home.work / "talks.json"
        array.write_text(f"[{','.join(lines)}]")
        assert count_recorded(elsewhere, str(array), "--format", "json") == 0
        assert_refused(memory("export", "--conversations", str(path)), INVALID, "already exists")

    def test_is_exported_to_be_read(self, memory: MemoryCommand) -> None:
        day = ("--since", "2026-01-01", "--until", "2026-01-01")
        answer = memory("export", "--conversations", *day)
        assert answer.code == OK, answer
        assert answer.text.count(WORDS[0]) >= 4
        assert "## 10:00 User" in answer.text
        none = memory("export", "--conversations", "--since", "2027-01-01")
        assert (none.code, none.text) == (OK, "")

    def test_becomes_a_vault_that_keeps_what_is_the_users(
        self, home: Home, fresh: Home, memory: MemoryCommand
    ) -> None:
        assert memory("capture", "decisions", "Lamps: use 0.95 volts").code == OK
        vault = home.work / "vault"
        (vault / "Days").mkdir(parents=True)
        mine = vault / "Days" / "2026-01-01.md"
        mine.write_text("My own day")
        arguments = ("export", "--conversations", "--format", "obsidian", str(vault))
        answer = memory(*arguments)
        assert answer.code == OK, answer
        assert "2026-01-01.md was changed or is not ours" in answer.errors
        assert mine.read_text() == "My own day"
        mine.unlink()
        again = memory(*arguments)
        assert "1 note written" in again.errors
        day = mine.read_text()
        links = [
            line.partition("[[")[2].partition("|")[0] for line in day.splitlines() if "[[" in line
        ]
        assert links
        assert all((vault / f"{link}.md").is_file() for link in links)
        (note,) = (vault / "Memories").glob("Lamps use 0.95 volts (*).md")
        assert "[[Days/" in note.read_text()
        assert count_recorded(memory, "--from", "obsidian", str(vault)) == 0
        elsewhere = MemoryCommand(fresh, fresh.work)
        count_recorded(elsewhere, "--from", "obsidian", str(vault))
        assert count_recorded(elsewhere, "--from", "obsidian", str(vault)) == 0
        texts = elsewhere("export", "--conversations").text
        assert all(word in texts for word in WORDS)

    def test_notes_are_recorded_and_can_be_forgotten(
        self, home: Home, memory: MemoryCommand
    ) -> None:
        assert count_recorded(memory, "--from", "obsidian", "lighthouse") == 3 * len(WORDS)
        sessions = {
            event["session_id"]
            for event in list_events(home)
            if event["metadata"]["agent"] == "obsidian"
        }
        assert len(sessions) == len(WORDS)
        answer = memory("forget", "--session", sessions.pop(), "--yes")
        assert "Found nowhere" in answer.text, answer
        assert count_recorded(memory, "--from", "obsidian", "lighthouse") == 0


class TestMistakes:
    def test_an_export_needs_a_path(self, memory: MemoryCommand) -> None:
        assert_refused(memory("import", "--from", "chatgpt"), USAGE, "needs a FILE")

    @pytest.mark.parametrize("name", ["chatgpt.zip", "conversations.json"])
    def test_an_export_without_its_source(
        self, home: Home, memory: MemoryCommand, name: str
    ) -> None:
        Path(home.work, "conversations.json").write_text(json.dumps([build_chatgpt()]))
        assert_refused(memory("import", name), USAGE, "--from chatgpt")

    def test_an_agent_that_is_not_there(self, home: Home, memory: MemoryCommand) -> None:
        answer = memory("import", "--from", "roo", env={"HOME": str(home.work)})
        assert_refused(answer, INVALID, "roo-cline", "give the file or folder")

    def test_a_vault_needs_a_folder(self, home: Home, memory: MemoryCommand) -> None:
        arguments = ("export", "--conversations", "--format", "obsidian")
        assert_refused(memory(*arguments), USAGE, "needs a folder")
        Path(home.work, "file").write_text("x")
        assert_refused(memory(*arguments, "file"), INVALID, "is not a folder")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--all", "--since", "today"), "--all takes only a FILE"),
            (("--format", "obsidian"), "needs --conversations"),
            (("--conversations", "--namespace", "decisions"), "takes only"),
        ],
    )
    def test_options_that_do_not_fit(
        self, memory: MemoryCommand, options: tuple[str, ...], words: str
    ) -> None:
        assert_refused(memory("export", *options), USAGE, words)

    def test_conversations_are_never_yaml(self, memory: MemoryCommand) -> None:
        answer = memory("export", "--conversations", "--format", "yaml")
        assert (answer.code, answer.text) == (USAGE, "")
        assert yaml.safe_load(answer.errors)["error"]["message"].endswith("not yaml")

    def test_times_that_are_swapped(self, memory: MemoryCommand) -> None:
        times = ("--since", "2026-02-02", "--until", "2026-01-01")
        assert_refused(memory("export", "--conversations", *times), INVALID, "swap them")
