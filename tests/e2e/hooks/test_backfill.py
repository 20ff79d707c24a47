"""`memory import --from`: transcripts through the real command and daemon, and found again."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.command_runner import Home
from tests.memory_commands import INVALID, OK, USAGE, MemoryCommand, assert_refused
from tests.search_client import connect, settle
from tests.toc_conversations import Toc
from tests.transcript_files import CONTINUED, START_MS, Claude, plain, rollout, text, write

SESSION = Claude(session="aaaa1111")
HELPER = Claude(session="aaaa1111", agent="a77", at_ms=START_MS + 60_000)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """Return a home whose user has worked with Claude Code before."""
    with Home() as found:
        projects = found.folder / ".claude" / "projects" / "-home-ada-projects-lighthouse"
        write(projects / "aaaa1111.jsonl", [*SESSION.lamp(), "{broken"])
        write(
            projects / "aaaa1111" / "subagents" / "agent-a77.jsonl",
            [
                HELPER.prompt("Count the steps of the tower."),
                HELPER.says("h1", text("There are 199 steps to the lantern room.")),
            ],
        )
        found.serve()
        yield found


@pytest.fixture
def memory(home: Home) -> MemoryCommand:
    return MemoryCommand(home, home.work)


def run_json(memory: MemoryCommand, *words: str) -> dict[str, Any]:
    answer = memory("import", *words, "--output", "json")
    assert answer.code == OK, answer
    found: dict[str, Any] = answer.json()
    return found


def memory_events(home: Home, session: str) -> list[dict[str, Any]]:
    answer = home.run(
        "memory-daemon", "query", "events", "--from", "0", "--to", "9999999999999",
        "--limit", "1000", "--full", "--format", "json",
    )  # fmt: skip
    found: list[dict[str, Any]] = answer.json()["events"]
    return [each for each in found if each["session_id"] == session]


@pytest.fixture(scope="module")
def first(home: Home) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the output of a dry run and of the import, into an empty store."""
    memory = MemoryCommand(home, home.work)
    return run_json(memory, "--from", "claude-code", "--dry-run"), run_json(
        memory, "--from", "claude-code"
    )


@pytest.mark.usefixtures("first")
class TestImporting:
    def test_everything_is_recorded_once(
        self, home: Home, memory: MemoryCommand, first: tuple[dict[str, Any], dict[str, Any]]
    ) -> None:
        rehearsed, done = first
        assert done == {**rehearsed, "dry_run": False}
        assert (done["recorded"], done["known"], done["sessions"]) == (8, 0, 2)
        assert (done["files"], done["refused"], done["noise"]) == (2, 1, 11)
        assert done["path"] == str(home.folder / ".claude" / "projects")
        again = run_json(memory, "--from", "claude-code")
        assert (again["recorded"], again["known"]) == (0, 8)

    def test_the_table_of_contents_and_recall_cover_it(
        self, home: Home, memory: MemoryCommand
    ) -> None:
        with connect(home) as client:
            toc = Toc(client)
            settle(home, toc)
            assert [node.title for node in toc.list_years()] == ["2026"]
            assert [node.start_time_ms for node in toc.segments()][:1] == [START_MS]
        lamp = memory.json("recall", "--in", "events", "which voltage does the lamp need")
        assert "0.93 is too low" in json.dumps(lamp["results"])
        tower = memory.json("recall", "--in", "events", "--project", "lighthouse", "199 steps")
        best = json.dumps(tower["results"][0])
        assert "199 steps" in best
        assert "aaaa1111/a77" in best

    def test_titles_and_summaries_are_stored_once_and_not_searched(
        self, home: Home, memory: MemoryCommand, tmp_path: Path
    ) -> None:
        session = Claude(session="cccc3333", at_ms=START_MS + 7_200_000)
        written = "The foghorn needs a bigger quixotic compressor."
        after = (
            f"{CONTINUED}\n\nSummary:\n{written}\n\nContinue the conversation from where it left"
        )
        file = write(
            tmp_path / "cccc3333.jsonl",
            [
                session.prompt("Why is the foghorn so quiet?"),
                {"type": "ai-title", "aiTitle": "Zephyrine horn", "sessionId": "cccc3333"},
                session.says("c1", text("Its compressor is too small.")),
                session.prompt(after, isCompactSummary=True, isVisibleInTranscriptOnly=True),
                {"type": "ai-title", "aiTitle": "Zephyrine horn", "sessionId": "cccc3333"},
            ],
        )
        hook = {
            "hook_event_name": "PostCompact",
            "session_id": "cccc3333",
            "cwd": str(home.work),
            "trigger": "auto",
            "compact_summary": f"<analysis>Hm.</analysis>\n<summary>\n{written}\n</summary>",
        }
        answer = home.run("memory", "hook", "auto", given=json.dumps(hook).encode())
        assert (answer.code, answer.text) == (OK, "\n")
        first = run_json(memory, str(file), "--from", "claude-code")
        assert (first["recorded"], first["described"], first["known"]) == (3, 1, 1)
        again = run_json(memory, str(file), "--from", "claude-code")
        assert (again["recorded"], again["described"], again["known"]) == (0, 0, 5)
        with connect(home) as client:
            settle(home, Toc(client))
        said = [each["text"] for each in memory_events(home, "cccc3333") if each["text"]]
        assert said == ["Why is the foghorn so quiet?", "Its compressor is too small."]
        for word in ("quixotic", "Zephyrine"):
            hits = memory.json("recall", "--in", "events", word)["results"]
            assert all(word not in json.dumps(hit) for hit in hits)

    def test_original_times_are_kept(self, home: Home) -> None:
        with connect(home) as client:
            events = client.all_events(START_MS, START_MS + 3_600_000)
        times = [each.timestamp_ms for each in events if each.session_id.startswith("aaaa1111")]
        seconds = [(each - START_MS) // 1000 for each in times]
        assert seconds == [0, 9, 10, 13, 14, 60, 60, 61]

    def test_it_says_what_it_did(self, memory: MemoryCommand) -> None:
        answer = memory("import", "--from", "claude-code")
        assert answer.code == OK
        assert "Recorded 0 events of 2 sessions" in answer.text
        assert "8 already existed; records refused: 1" in answer.text
        assert "aaaa1111.jsonl, line 17: not a JSON object" in answer.errors

    def test_other_agents(self, home: Home, memory: MemoryCommand) -> None:
        write(home.folder / ".codex/sessions/2026/01/01/rollout-1.jsonl", rollout())
        assert run_json(memory, "--from", "codex")["recorded"] == 5
        write(home.work / "talk.jsonl", plain())
        assert run_json(memory, "--from", "jsonl", "talk.jsonl")["recorded"] == 4

    def test_a_place_under_the_callers_home(self, home: Home, memory: MemoryCommand) -> None:
        other = home.folder / "other"
        write(other / "x" / "talk.jsonl", plain("elsewhere"))
        answer = memory("import", "--from", "jsonl", "~/x", env={"HOME": str(other)})
        assert answer.code == OK, answer
        assert "Recorded 4 events" in answer.text


class TestForgetting:
    def test_nothing_is_left_and_nothing_comes_back(
        self, home: Home, memory: MemoryCommand
    ) -> None:
        folder = home.work / "gone"
        at_ms = START_MS + 10 * 86_400_000
        session = Claude(session="bbbb2222", at_ms=at_ms, cwd="/gone/heligoland")
        write(folder / "b.jsonl", [session.prompt("Where do the gulls nest in a hard winter?")])
        helper = replace(session, agent="b88")
        write(folder / "b" / "subagents" / "agent-b88.jsonl", [helper.prompt("Oil the hinges.")])
        assert run_json(memory, "--from", "claude-code", "gone")["recorded"] == 4
        for name in ("bbbb2222", "bbbb2222/b88"):
            answer = memory("forget", "--session", name, "--yes")
            assert "Found nowhere" in answer.text, answer
        again = run_json(memory, "--from", "claude-code", "gone")
        assert (again["recorded"], again["known"]) == (0, 4)


class TestRefusals:
    def test_no_folder_of_the_agent(self, home: Home, memory: MemoryCommand) -> None:
        answer = memory("import", "--from", "claude-code", env={"HOME": str(home.work)})
        assert_refused(
            answer, INVALID, str(home.work / ".claude" / "projects"), "give the file or folder"
        )

    def test_no_such_place(self, memory: MemoryCommand) -> None:
        assert_refused(memory("import", "--from", "codex", "nowhere"), INVALID, "nowhere")

    def test_no_transcripts_there(self, home: Home, memory: MemoryCommand) -> None:
        (home.work / "empty").mkdir()
        answer = memory("import", "--from", "codex", "empty")
        assert_refused(answer, INVALID, "no transcripts", str(Path("work", "empty")))

    def test_plain_transcripts_need_a_place(self, memory: MemoryCommand) -> None:
        assert_refused(memory("import", "--from", "jsonl"), USAGE, "needs a FILE")

    @pytest.mark.parametrize(
        "option", [("--from-format", "yaml"), ("--namespace", "decisions"), ("--domain", "project")]
    )
    def test_options_of_memories(self, memory: MemoryCommand, option: tuple[str, str]) -> None:
        answer = memory("import", "--from", "claude-code", *option)
        assert_refused(answer, USAGE, option[0], "cannot be combined with --from")
