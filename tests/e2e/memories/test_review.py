"""`memory review` on a real terminal: what hooks noted waits for the user; no agent settles it."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from agent_memory.features.recall.model.contexts import UNCONFIRMED
from tests.command_runner import Home, Screen
from tests.git_repositories import Repository, make_repository
from tests.hook_inputs import CLAUDE_CODE, encode_input
from tests.http_client import Web
from tests.memory_commands import INVALID, OK, USAGE, MemoryCommand, assert_refused

SAID = "We use PostgreSQL for the orders [decision] because of JSONB"
BLOCKER = "[blocker] The staging key has expired"
LESSON = "[learned] The sandbox resets at midnight"
SUMMARY = "We use PostgreSQL for the orders"
CAPTURING = {"hooks.user_prompt.auto_capture": "true"}
QUESTION = "[q]uit: "

_numbers = count()


@dataclass(frozen=True, slots=True)
class Project:
    """A repository in which an agent works."""

    home: Home
    repository: Repository

    @property
    def memory(self) -> MemoryCommand:
        return MemoryCommand(self.home, self.repository.folder)

    def hook(self, event: str, **fields: Any) -> str:
        given = {
            name: value
            for name, value in CLAUDE_CODE[event].items()
            if name not in ("prompt_id", "tool_use_id")
        }
        data = encode_input(
            given, **{"session_id": "first", "cwd": str(self.repository.folder), **fields}
        )
        answer = self.memory("hook", "auto", given=data, env=CAPTURING)
        found = answer.json()
        return str(found["hookSpecificOutput"]["additionalContext"]) if found else ""

    def note(self, *prompts: str) -> list[str]:
        """Return the ids of what hooks capture from these prompts, the first one first."""
        for prompt in prompts:
            assert "awaits the user's review" in self.hook("UserPromptSubmit", prompt=prompt)
        return self.list_pending()[::-1]

    def list_pending(self) -> list[str]:
        found = self.memory.json("review", "--domain", "project")
        return [each["id"] for each in found["memories"]]

    def list_noted(self) -> list[str]:
        """Sync, and return the refs of the notes."""
        self.memory.text("sync", "--domain", "project")
        return [name for name in self.repository.refs() if name.startswith("refs/notes/")]

    def review(self, *words: str, env: dict[str, str] | None = None) -> Screen:
        command = self.home.command("memory", "review", "--domain", "project", *words)
        environ = {**self.home.environ, **(env or {})}
        return Screen(command, environ, self.repository.folder, 120, 24, None)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture
def project(home: Home) -> Project:
    return Project(home, make_repository(home.work / f"app{next(_numbers)}"))


def finish(screen: Screen, code: int = OK) -> str:
    assert screen.finish() == code, screen.text
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.text)


class TestOnATerminal:
    def test_one_key_decides_and_notes_follow(self, project: Project) -> None:
        decision, blocker, lesson = project.note(
            SAID,
            BLOCKER,
            LESSON,
        )
        assert project.list_noted() == []
        with project.review() as screen:
            screen.read_until(QUESTION)
            assert "[1/3] learnings | project:" in screen.text
            assert "Session: first" in screen.text
            assert f"Said (user): {LESSON}" in screen.text
            assert f"a git note in {project.repository.home}" in screen.text
            screen.type("x?e")  # keys without a meaning do nothing
            edit = "New summary (Enter goes back): "
            screen.read_until(edit)
            screen.type("\n")
            screen.read_until("[1/3] learnings", times=2)
            screen.type("e")
            screen.read_until(edit, times=2)
            screen.type(f"{'x' * 101}\n")
            screen.read_until("the limit is 100")
            screen.read_until(edit, times=3)  # what is typed before a question is discarded
            screen.type("It resets at 00:00\n")
            screen.read_until("[2/3] blockers")
            screen.type("a")
            screen.read_until("[3/3] decisions")
            screen.type("b")  # that was wrong
            screen.read_until("Your decision so far: accepted")
            screen.type("d")
            screen.read_until("[3/3] decisions", times=2)
            screen.type("d")
            screen.read_until("Accept 1, discard 2? [Enter] yes  [b]ack: ")
            screen.type("b")  # that was wrong too
            screen.read_until("Your decision so far: discarded")
            screen.type("a")
            screen.read_until("Accept 2, discard 1? [Enter] yes  [b]ack: ")
            screen.type("\n")
            shown = finish(screen)
        assert f"Accepted: {decision}" in shown
        assert f"Discarded: {blocker}" in shown
        assert project.list_pending() == []
        listed = {each["summary"]: each for each in project.memory.json("list")["memories"]}
        assert listed[SUMMARY]["status"] == listed["It resets at 00:00"]["status"] == "active"
        assert listed["It resets at 00:00"]["session_id"] == "first"
        # In other words it is another memory, and the first one is gone as the discarded one is.
        for gone in (lesson, blocker):
            assert project.memory("show", gone).code != OK
        assert project.list_noted() == ["refs/notes/mem/decisions", "refs/notes/mem/learnings"]
        for prompt in (BLOCKER, LESSON):
            assert project.hook("UserPromptSubmit", prompt=prompt, session_id="second") == ""
        assert project.list_pending() == []

    def test_what_is_skipped_waits_and_ctrl_c_drops_all(self, project: Project) -> None:
        waiting = project.note(SAID, BLOCKER)
        with project.review() as screen:
            screen.read_until(QUESTION)
            screen.type("a")
            screen.read_until("[2/2]")
            screen.interrupt()
            finish(screen, 130)
            assert screen.echoes
        assert project.list_pending()[::-1] == waiting
        with project.review() as screen:
            screen.read_until(QUESTION)
            screen.type("sq")
            assert "Nothing changed; 2 memories to review." in finish(screen)
        assert project.list_pending()[::-1] == waiting

    def test_in_other_words_where_the_repository_is_gone(self, project: Project) -> None:
        (name,) = project.note("[learned] The canal freezes in January")
        domain = project.memory.show(name)["domain"]
        shutil.rmtree(project.repository.folder)
        elsewhere = replace(project, repository=make_repository(project.home.work / "elsewhere"))
        command = project.home.command("memory", "review", name)
        folder = elsewhere.repository.folder
        with Screen(command, project.home.environ, folder, 120, 24, None) as screen:
            screen.read_until(QUESTION)
            screen.type("e")
            screen.read_until("New summary (Enter goes back): ")
            screen.type("It freezes in winter\n")
            screen.read_until("Accept 1, discard 0? [Enter] yes  [b]ack: ")
            screen.type("\n")
            shown = finish(screen)
        assert "Accepted: " in shown
        listed = elsewhere.memory.json("list", "--domain", "all", "--status", "active")["memories"]
        (stored,) = [each for each in listed if each["domain"] == domain]
        assert stored["summary"] == "It freezes in winter"
        elsewhere.memory.text(
            "forget", stored["id"], "--yes"
        )  # other tests verify that all is noted

    def test_by_their_ids(self, project: Project) -> None:
        first, second = project.note(SAID, BLOCKER)
        with project.review("--accept", first) as screen:
            assert f"Accepted: {first}" in finish(screen)
        assert project.list_pending() == [second]
        with project.review("--accept", first) as screen:
            assert "does not await review: it is active" in finish(screen, INVALID)
        assert project.memory.text("review", "--discard", second) == f"✓ Discarded: {second}\n"
        assert project.memory.text("review", "--domain", "project") == "Nothing to review.\n"
        assert_refused(project.memory("review", "--accept"), USAGE, "give the ids")
        assert_refused(project.memory("review", "--accept-all", first), USAGE, "takes no ids")


class TestUntilThen:
    def test_it_is_found_with_its_mark_and_given_as_unsettled(self, project: Project) -> None:
        (name,) = project.note(SAID)
        settled = project.memory.capture("decisions", "We use Redis for the sessions")
        assert f"{SUMMARY} (to review)" in project.memory.text("list", "--status", "pending")
        assert f"{name} (to review)" in project.memory.text("recall", "PostgreSQL", "orders")
        (hit,) = project.memory.json(
            "recall", "--status", "pending", "--domain", "project", "orders"
        )["results"]
        assert (hit["id"], hit["status"]) == (name, "pending")
        assert "To review: 1 memory" in project.memory.text("status", "--domain", "project")
        context = project.hook("SessionStart", session_id="second")
        before, _, after = context.partition(UNCONFIRMED)
        assert "We use Redis for the sessions" in before
        assert SUMMARY in after
        assert "1 memory awaits review" in after
        assert settled in project.memory.list_ids("--status", "active")

    def test_it_survives_a_restart_and_damages_nothing(self, project: Project) -> None:
        (name,) = project.note(SAID)
        project.home.stop()
        project.home.serve()
        assert project.list_pending() == [name]
        verified = project.memory.json("status", "--verify")["verified"]
        assert verified["problems"] == []
        assert project.list_noted() == []

    def test_the_same_words_by_hand_accept_it(self, project: Project) -> None:
        (name,) = project.note(SAID)
        content = project.memory.show(name)["content"]
        answer = project.memory("capture", "decisions", SUMMARY, "--content", content)
        assert "it awaited review and is accepted now" in answer.errors
        assert project.memory.show(name)["status"] == "active"
        assert project.list_noted() == ["refs/notes/mem/decisions"]

    def test_a_setting_keeps_it_from_waiting(self, project: Project) -> None:
        project.home.configure("hooks.review = false")
        assert "auto_captured" in project.hook("UserPromptSubmit", prompt=SAID)
        project.home.config_file.unlink()
        assert project.list_pending() == []
        assert project.memory.list_ids("--status", "active")


class TestAgents:
    def test_they_cannot_accept_in_their_shell(self, project: Project) -> None:
        (name,) = project.note(SAID)
        for words in (("--accept", name), ("--accept-all",)):
            refused = project.memory("review", *words)
            assert_refused(refused, INVALID, "only you can accept", "is not a terminal")
        with project.review("--accept", name, env={"CLAUDECODE": "1"}) as screen:
            assert "this is the shell of Claude Code" in finish(screen, INVALID)
        agent = {"CLAUDECODE": "1"}
        refused = project.memory("review", "--discard", name, env=agent)
        assert_refused(refused, INVALID, "only you can discard", "Claude Code")
        refused = project.memory("config", "set", "hooks.review", "false", env=agent)
        assert_refused(refused, INVALID, "only you can change hooks.review")
        with project.review(env={"CODEX_THREAD_ID": "t"}) as screen:
            assert f"{name[:17]} " in finish(screen)  # listed: nothing is asked
        for verb, back in (("resolve", "--reopen"), ("archive", "--restore")):
            assert_refused(project.memory(verb, name), INVALID, "awaits review")
            assert_refused(project.memory(verb, back, name), INVALID, "awaits review")
        assert_refused(project.memory("edit", name, "--tags", "x"), INVALID, "awaits review")
        content = project.memory.show(name)["content"]
        captured = project.memory(
            *("capture", "decisions", SUMMARY, "--content", content), env={"CLAUDECODE": "1"}
        )
        assert "awaits the user's review" in captured.errors
        assert project.list_pending() == [name]

    def test_over_http_they_only_see_what_waits(self, project: Project) -> None:
        (name,) = project.note(SAID)
        domain = project.memory.show(name)["domain"]
        with Web(project.home).client() as api:
            path = f"/api/v1/memories/{name.replace(':', '/', 1)}/"
            listed = api.get("/api/v1/memories/", params={"status": "pending", "domain": domain})
            assert [each["id"] for each in listed.json()["results"]] == [name]
            assert api.get(path, params={"domain": domain}).json()["status"] == "pending"
            assert api.get("/api/v1/status/").json()["to_review"] >= 1
            for change in ({"status": "active"}, {"status": "resolved"}, {"add_tags": ["mine"]}):
                answer = api.patch(path, params={"domain": domain}, json=change)
                assert (answer.status_code, "review" in answer.json()["detail"]) == (422, True)
            for method in ("PUT", "POST"):
                assert api.request(method, path, json={"status": "active"}).status_code == 405
        assert project.list_pending() == [name]
