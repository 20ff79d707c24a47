"""Uses of tools: todo lists as lines, patches with their file, and failures."""

import json

import pytest

from agent_memory.features.hooks.model import tool_use
from agent_memory.kernel.json_fields import Fields

PATCH = "*** Begin Patch\n*** Update File: src/gate.py\n+leak = 7\n*** End Patch"


class TestTodoLists:
    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            (
                "TodoWrite",
                {
                    "todos": [
                        {"content": "Find it", "status": "completed", "activeForm": "Finding it"},
                        {"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"},
                        {"content": "Test it", "status": "pending", "activeForm": "Testing it"},
                    ]
                },
            ),
            (
                "update_plan",
                {
                    "plan": [
                        {"step": "Find it", "status": "completed"},
                        {"step": "Fix it", "status": "in_progress"},
                        {"step": "Test\n it", "status": "pending"},
                    ]
                },
            ),
            (
                "write_todos",
                {
                    "todos": [
                        {"description": "Find it", "status": "completed"},
                        {"description": "Fix it", "status": "in_progress"},
                        {"description": "Test it", "status": "pending"},
                    ]
                },
            ),
        ],
    )
    def test_one_line_for_each(self, name: str, arguments: dict[str, object]) -> None:
        use = tool_use.parse_use(name, Fields(arguments))
        said = use.render_text("Todos have been modified successfully.")
        assert said.splitlines() == [name, "[x] Find it", "[~] Fix it", "[ ] Test it"]

    def test_an_explanation_is_the_question(self) -> None:
        given = {"explanation": "It leaks.", "plan": [{"step": "Fix it", "status": "pending"}]}
        use = tool_use.parse_use("update_plan", Fields(given))
        assert use.render_text("") == "update_plan: It leaks.\n[ ] Fix it"

    def test_no_item_is_cut_in_two(self) -> None:
        todos = [{"content": f"{n} " + "step " * 60, "status": "pending"} for n in range(100)]
        said = tool_use.parse_use("TodoWrite", Fields({"todos": todos})).render_text("")
        lines = said.splitlines()[1:]
        assert 10 < len(lines) < 100
        assert all(line.endswith("step") and line.startswith("[ ] ") for line in lines)
        assert len({len(line.split()) for line in lines}) == 1

    @pytest.mark.parametrize(
        ("name", "arguments", "said"),
        [
            ("TaskCreate", {"subject": "Fix it", "description": "The gate."}, "[ ] Fix it"),
            ("TaskUpdate", {"taskId": "3", "status": "completed"}, "[x] #3"),
            (
                "TaskUpdate",
                {"taskId": "3", "status": "in_progress", "subject": "Fix it"},
                "[~] #3 Fix it",
            ),
            ("TaskUpdate", {"taskId": "3", "status": "deleted"}, "[-] #3"),
        ],
    )
    def test_single_tasks(self, name: str, arguments: dict[str, object], said: str) -> None:
        assert tool_use.parse_use(name, Fields(arguments)).written == said

    def test_a_plan_in_words_is_kept(self) -> None:
        use = tool_use.parse_use("ExitPlanMode", Fields({"plan": "1. Find the leak"}))
        assert use.render_text("ok") == "ExitPlanMode\n1. Find the leak\nok"


@pytest.mark.parametrize("field", ["command", "input", "patch"])
def test_a_patch_names_its_file(field: str) -> None:
    use = tool_use.parse_use("apply_patch", Fields({field: PATCH}))
    assert (use.file, use.metadata()["file_path"]) == ("src/gate.py", "src/gate.py")
    assert use.render_text("Success.") == f"apply_patch\n{PATCH}\nSuccess."


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        (json.dumps({"output": "no", "metadata": {"exit_code": 1}}), True),
        (json.dumps({"output": "yes", "metadata": {"exit_code": 0}}), False),
        (json.dumps({"exit_code": 2, "output": "no"}), True),
        ({"content": "no", "success": False}, True),
        ({"content": "yes", "success": True}, False),
        ("Exit code: 1\nWall time: 5.8 seconds\nOutput:\nFAIL", True),
        ("Exit code: 0\nWall time: 5.8 seconds\nOutput:\nExit code: 1", False),
        ("Chunk ID: 7\nProcess exited with code 127\nOutput:\nnot found", True),
        ("Exit code: 1", False),  # the text of a file, for all we know
        ("{broken", False),
        ("Plan updated", False),
        (None, False),
        ([], False),
    ],
)
def test_failures_of_codex_tools(output: object, failed: bool) -> None:
    assert tool_use.is_failure(output) is failed
