"""`memory lessons` on a real daemon: what a conversation taught, what the user says of it, and that
nothing is left once it is forgotten."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.command_runner import Home, wait_until
from tests.http_client import Web
from tests.memory_commands import INVALID, MISSING, OK, MemoryCommand, assert_refused
from tests.transcript_files import Claude, write

RULE = "Please never use pandas in this repo, the lambda has no room for it."
SESSION = "0ddba11a"


def write_talk(home: Home) -> None:
    said = Claude(session=SESSION, cwd=str(home.work))
    lines = [
        said.line("user", message={"role": "user", "content": "Write the daily report."}),
        said.line(
            "assistant",
            message={"role": "assistant", "content": [{"type": "text", "text": "It is written."}]},
        ),
        said.line("user", message={"role": "user", "content": RULE}),
    ]
    write(home.folder / ".claude" / "projects" / "-work" / f"{SESSION}.jsonl", lines)


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        write_talk(found)
        found.serve()
        yield found


@pytest.fixture
def memory(home: Home) -> MemoryCommand:
    return MemoryCommand(home, home.work)


def learn(memory: MemoryCommand) -> None:
    """Import the conversation, and wait until its lessons are learned."""
    memory.text("import", "--from", "claude-code")
    wait_until(
        lambda: memory.home.status()["indexes"]["words_waiting"] == 0, "all is learned", 60.0
    )


def list_lessons(memory: MemoryCommand, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = memory.json("lessons", *options)["lessons"]
    return found


def test_what_is_rejected_stays_so_until_all_is_forgotten(memory: MemoryCommand) -> None:
    assert "No lessons yet" in memory.text("lessons")
    learn(memory)
    (rule,) = list_lessons(memory, "--state", "new")
    assert (rule["kind"], rule["trust"], rule["session_id"]) == ("rule", "user", SESSION)
    assert "never use pandas" in rule["text"]
    listed = memory.text("lessons", "list", "--words", "PANDAS", "--since", "2020-01-01")
    assert f"  {rule['id'][:8]}  Please never use pandas" in listed
    assert list_lessons(memory, "--until", "2020-01-01") == []

    rejected = memory.json("lessons", "reject", rule["id"][:8], "--reason", "we moved to polars")
    assert (rejected["state"], rejected["to_review"]) == ("rejected", False)
    assert RULE in rejected["events"][0]["text"]
    learn(memory)
    memory.text("import", "--from", "claude-code")
    assert [each["state"] for each in list_lessons(memory)] == ["rejected"]
    assert "we moved to polars" in memory.text("lessons", "show", rule["uri"])
    assert memory.json("lessons", "accept", rule["id"])["state"] == "active"
    edited = memory.json("lessons", "edit", rule["id"], "Use polars, never pandas")
    assert (edited["text"], edited["said"]) == ("Use polars, never pandas", rule["text"])

    shown = memory.json("show", rule["uri"])
    assert (shown["kind"], shown["text"], shown["lesson"]) == ("lesson", edited["text"], "rule")
    assert [event["text"] for event in shown["excerpt_events"]] == [RULE]
    assert memory.json("why", rule["id"])["uri"] == rule["uri"]

    memory.text("forget", "--session", SESSION, "--yes")  # it fails if it finds remains
    assert list_lessons(memory) == []
    assert_refused(memory("lessons", "show", rule["id"]), MISSING, "no lesson")


def test_only_the_user_says_that_one_holds(memory: MemoryCommand, home: Home) -> None:
    learn(memory)
    (rule,) = list_lessons(memory)
    agent = {"CLAUDECODE": "1"}
    assert_refused(memory("lessons", "accept", rule["id"], env=agent), INVALID, "only you can")
    assert_refused(memory("lessons", "edit", rule["id"], "x", env=agent), INVALID, "only you can")
    assert memory("lessons", "reject", rule["id"], env=agent).code == OK
    (retired,) = list_lessons(memory)
    assert (retired["state"], retired["to_review"]) == ("rejected", True)
    assert memory.json("lessons", "accept", rule["id"])["state"] == "active"
    assert home.status()["running"]


def test_programs_ask_over_http(memory: MemoryCommand, home: Home) -> None:
    learn(memory)
    with Web(home).client() as web:
        listed = web.get("/api/v1/lessons/", params={"kind": "rule", "words": "pandas"}).json()
        assert listed["total"] == 1
        path = f"/api/v1/lessons/{listed['lessons'][0]['id']}/"
        assert web.get(path).json()["events"][0]["text"] == RULE
        rejected = web.post(f"{path}reject/", json={"reason": "outdated"}).json()
        assert (rejected["state"], rejected["to_review"]) == ("rejected", True)
        assert web.post(f"{path}accept/", json={}).status_code == 403
        assert web.patch(path, json={"text": "x"}).status_code == 403
        assert web.get("/api/v1/lessons/unknown/").status_code == 404


def test_a_rejection_goes_with_the_archive(memory: MemoryCommand) -> None:
    learn(memory)
    (rule,) = list_lessons(memory)
    memory.text("lessons", "reject", rule["id"])
    archive = memory.folder / "all.jsonl"
    memory.text("export", "--all", str(archive))
    with Home() as other:
        other.serve()
        there = MemoryCommand(other, other.work)
        there.text("import", str(archive))
        wait_until(lambda: bool(list_lessons(there)), "it is learned there", 60.0)
        assert [each["state"] for each in list_lessons(there)] == ["rejected"]


class TestReview:
    def test_new_rules_are_accepted_or_rejected(self, memory: MemoryCommand) -> None:
        learn(memory)
        (rule,) = list_lessons(memory)
        listed = memory.text("review")
        assert rule["uri"] in listed
        assert f"rule  {rule['project']}  20" in listed
        assert "To review: 1 rule from your words" in memory.text("status")
        week = {"given": 0, "heeded": 0, "repeated": 0, "to_review": 1}
        assert memory.json("status")["lessons"] == week
        listed = memory.json("review", "--domain", "project")
        assert [each["source"]["text"] for each in listed["lessons"]] == [RULE]
        assert (listed["total"], listed["lessons_total"]) == (0, 1)
        assert memory.json("review", "--domain", "user")["lessons"] == []
        discarded = memory.json("review", "--discard", rule["id"][:8])
        assert [each["state"] for each in discarded["lessons"]] == ["rejected"]
        assert memory.json("review")["lessons"] == []
        assert_refused(memory("review", "--discard", rule["uri"]), INVALID, "not await review")

    def test_what_an_agent_rejected_waits_for_the_user(
        self, memory: MemoryCommand, home: Home
    ) -> None:
        learn(memory)
        (rule,) = list_lessons(memory)
        memory("lessons", "reject", rule["id"], env={"CLAUDECODE": "1"})
        assert "rejected by an agent" in memory.text("review")
        with home.on_terminal("memory", "review") as screen:
            screen.read_until("[q]uit: ")
            assert "It was rejected by an agent" in screen.text
            screen.type("e")
            screen.read_until("New words (Enter goes back): ")
            screen.type("Use polars, never pandas\n")
            screen.read_until("Accept 1, discard 0?")
            screen.type("\n")
            assert screen.finish() == OK
            assert "Accepted: Use polars, never pandas" in screen.text
        (kept,) = list_lessons(memory, "--state", "active")
        assert kept["text"] == "Use polars, never pandas"

    def test_the_page_decides_too(self, memory: MemoryCommand, home: Home) -> None:
        learn(memory)
        with Web(home).open_page(on_terminal=True) as page:
            (rule,) = page.get("/api/v1/inbox/").json()["lessons"]
            decision = {"id": rule["uri"], "decision": "accept"}
            answer = page.post("/api/v1/inbox/", json={"decisions": [decision]}).json()
            assert [each["state"] for each in answer["lessons"]] == ["active"]
            again = page.post("/api/v1/inbox/", json={"decisions": [decision]}).json()
            assert (again["lessons"], len(again["skipped"])) == ([], 1)
