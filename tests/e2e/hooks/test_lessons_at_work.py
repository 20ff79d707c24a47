"""What one session of an agent teaches reaches the next one at the moment it acts: real launchers,
a real daemon, and the calls that Claude Code makes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent_memory.features.toc.model.segments import estimate_tokens
from tests.command_runner import Home, patch_launcher, wait_until
from tests.git_repositories import make_repository
from tests.memory_commands import MemoryCommand

LODASH = 'import sortBy from "lodash/sortBy"'
ERROR = "ImportError while loading conftest\nModuleNotFoundError: No module named 'quayside'\n"
RULE = "Please never use lodash in this repository, plain functions only."
_calls = count()


@dataclass(slots=True)
class ClaudeSession:
    """A session in a folder. Each method is a hook call, and returns what the agent is given."""

    home: Home
    folder: Path
    launcher: Path
    name: str = field(default_factory=lambda: f"at-work-{next(_calls)}")

    def call(self, event: str, **fields: Any) -> str:
        given = {
            "hook_event_name": event,
            "session_id": self.name,
            "cwd": str(self.folder),
            "transcript_path": str(self.folder / "none.jsonl"),
            **fields,
        }
        answer = self.home.run(
            "memory",
            "hook",
            "auto",
            "--agent",
            "claude-code",
            given=json.dumps(given).encode(),
            cwd=self.folder,
            launcher=self.launcher,
        )
        assert answer.code == 0, answer
        told = answer.json().get("hookSpecificOutput", {})
        assert "permissionDecision" not in told
        context = told.get("additionalContext", "")
        assert isinstance(context, str)
        return context

    def start(self) -> str:
        return self.call("SessionStart", source="startup")

    def prompt(self, text: str) -> str:
        return self.call("UserPromptSubmit", prompt=text)

    def before(self, tool: str, call: str = "", **given: Any) -> str:
        name = call or f"toolu_{next(_calls)}"
        return self.call("PreToolUse", tool_name=tool, tool_input=given, tool_use_id=name)

    def after(self, command: str, output: str, call: str = "", *, failed: bool) -> str:
        fields = {
            "tool_name": "Bash",
            "tool_input": {"command": command},
            "tool_use_id": call or f"toolu_{next(_calls)}",
        }
        if failed:
            return self.call("PostToolUseFailure", error=output, **fields)
        result = {"stdout": output, "stderr": ""}
        return self.call("PostToolUse", tool_response=result, **fields)

    def stop(self, said: str) -> None:
        self.call("Stop", stop_hook_active=False, last_assistant_message=said)


@dataclass(frozen=True, slots=True)
class Desk:
    home: Home
    folder: Path
    launcher: Path

    @property
    def memory(self) -> MemoryCommand:
        return MemoryCommand(self.home, self.folder)

    def open(self) -> ClaudeSession:
        return ClaudeSession(self.home, self.folder, self.launcher)

    def list_lessons(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.memory.json("lessons")["lessons"]
        return found

    def teach(self) -> None:
        """Have a session in which a rule is set and a failure is mended."""
        session = self.open()
        session.prompt("Make the list of berths sortable by arrival.")
        session.after("pytest tests/test_berths.py", ERROR, failed=True)
        mended = "pip install -e . && pytest tests/test_berths.py"
        session.after(mended, "Successfully installed quayside-1.0\n4 passed", failed=False)
        session.stop("The package was not installed; after pip install -e . all 4 tests pass.")
        session.prompt(RULE)
        session.stop("Understood, I replaced it.")
        wait_until(lambda: len(self.list_lessons()) >= 2, "both lessons are learned", 60.0)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    launcher = patch_launcher(tmp_path, "allow(answer_seconds)", "allow(60.0)")
    with Home() as home:
        home.serve()
        yield Desk(home, make_repository(home.work / "quay").folder, launcher)


def test_at_the_start_before_a_tool_and_after_a_failure(desk: Desk) -> None:
    desk.teach()
    session = desk.open()
    start = session.start()
    assert "never use lodash" in start
    assert estimate_tokens(start) <= 700

    asked = {
        "file_path": str(desk.folder / "list.ts"),
        "content": 'import sortBy from "lodash/sortBy"',
    }
    warned = session.before("Write", **asked)
    assert "never use lodash" in warned
    assert estimate_tokens(warned) <= 100
    assert session.before("Write", **asked) == ""  # once in a session
    harmless = {**asked, "content": "const byName = (a, b) => a.name > b.name"}
    assert desk.open().before("Write", **harmless) == ""

    assert "pip install -e ." in session.before("Bash", command="pytest tests/test_berths.py -q")
    assert session.before("Bash", command="git status") == ""
    after = desk.open().after("pytest tests/test_cranes.py", ERROR, failed=True)
    assert "pip install -e ." in after

    memory = desk.memory
    given = {row["id"]: row["given"] for row in desk.list_lessons()}
    assert sorted(given.values())[-1] >= 1
    listed = memory.json("injections")["injections"]
    assert any(item["kind"] == "lesson" for each in listed for item in each["items"])


def test_what_came_of_it_and_what_a_user_objects_to(desk: Desk) -> None:
    desk.teach()
    session = desk.open()
    command = "pytest tests/test_berths.py"
    assert "pip install -e ." in session.before("Bash", "call-1", command=command)
    session.after(command, ERROR, "call-1", failed=True)
    session.after(command, "4 passed", "call-2", failed=False)

    def find(kind: str) -> dict[str, Any]:
        return next(each for each in desk.list_lessons() if each["kind"] == kind)

    wait_until(lambda: find("failure")["heeded"] == 1, "it is counted", 30.0)

    edit = {
        "file_path": str(desk.folder / "list.ts"),
        "content": 'import sortBy from "lodash/sortBy"',
    }
    assert "never use lodash" in session.before("Write", **edit)
    session.prompt("that's outdated for lodash by now")
    wait_until(lambda: find("rule")["state"] == "rejected", "it is retired", 30.0)
    assert desk.open().before("Write", **edit) == ""
    assert find("rule")["to_review"]  # the user confirms it
    assert "retired by what you said in a session" in desk.memory.text("review")


def test_what_is_rejected_is_not_kept_for_a_start_without_a_daemon(desk: Desk) -> None:
    desk.teach()
    kept = desk.home.data / "last-contexts"

    def read_kept() -> str:
        return "".join(each.read_text() for each in kept.glob("*.json"))

    assert "never use lodash" in desk.open().start()
    wait_until(lambda: "never use lodash" in read_kept(), "it is kept")
    rule = next(each for each in desk.list_lessons() if each["kind"] == "rule")
    desk.memory.json("lessons", "reject", rule["id"])
    assert read_kept() == ""
    assert "lodash" not in desk.open().start()


def test_where_it_is_switched_off(desk: Desk) -> None:
    desk.teach()
    (desk.folder / "memory.toml").write_text('[hooks]\npush = "start"\n')
    session = desk.open()
    assert "never use lodash" in session.start()
    assert session.before("Bash", command="pytest tests/test_berths.py") == ""
    (desk.folder / "memory.toml").write_text('[hooks]\npush = "off"\n')
    assert desk.open().start() == ""
    (desk.folder / "memory.toml").write_text('[hooks]\npush = "none"\n')
    assert desk.open().start() == ""
    assert "agents are given nothing unasked" in desk.memory("doctor").text
