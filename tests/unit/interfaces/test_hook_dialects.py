"""Hook inputs of agents that name events and fields in their own way."""

import json
from typing import Any

import pytest

from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.interfaces.hooks import inputs, outputs
from agent_memory.interfaces.hooks.inputs import Contract, Delivery, HookRequest

FOLDER = "/home/ada/lighthouse"


def parse(agent: str, found: dict[str, Any]) -> HookRequest:
    return inputs.parse_delivery(
        Delivery(
            name="auto",
            agent=agent,
            folder=FOLDER,
            environ={},
            nonce="n0nce",
            at_ms=1,
            data=json.dumps(found).encode(),
        )
    )


class TestCopilot:
    """As the command line sends it, and as VS Code's documentation has it."""

    def parse(self, event: str, **more: Any) -> HookCall:
        common = {
            "hook_event_name": event,
            "session_id": "6713bde5",
            "timestamp": "2026-11-17T14:52:30.617Z",
            "cwd": "/code/app",
        }
        return parse("copilot", {**common, **more}).call

    def test_a_tool_result(self) -> None:
        text = "hello\n<shellId: 0 completed with exit code 0>"
        call = self.parse(
            "PostToolUse",
            tool_name="Bash",
            tool_input={"command": "echo hello"},
            tool_result={"result_type": "success", "text_result_for_llm": text},
        )
        assert (call.kind, call.text) == (HookKind.TOOL, text)
        assert (call.use.name, call.use.asked) == ("Bash", "echo hello")
        assert (call.session, call.folder) == ("6713bde5", "/code/app")

    def test_a_failed_tool(self) -> None:
        result = {"result_type": "failure", "text_result_for_llm": "no such file"}
        call = self.parse("PostToolUse", tool_name="View", tool_input={}, tool_result=result)
        assert (call.kind, call.text) == (HookKind.TOOL_FAILURE, "no such file")

    @pytest.mark.parametrize(("code", "kind"), [("0", "post-tool"), ("3", "post-tool-failure")])
    def test_a_command_is_a_success_to_copilot_whatever_its_exit_code(
        self, code: str, kind: str
    ) -> None:
        text = f"no such file\n<shellId: 1 completed with exit code {code}>"
        result = {"result_type": "success", "text_result_for_llm": text}
        call = self.parse("PostToolUse", tool_name="Bash", tool_input={}, tool_result=result)
        assert (call.kind, call.text) == (kind, text)

    def test_a_call_before_a_tool(self) -> None:
        call = self.parse("PreToolUse", tool_name="Bash", tool_input={"command": "make"})
        assert (call.kind, call.use.command, call.text) == (HookKind.BEFORE_TOOL, "make", "")

    def test_vs_code_names_the_event_and_the_session_differently(self) -> None:
        found = {"hookEventName": "UserPromptSubmit", "sessionId": "s1", "cwd": "/code/app"}
        call = parse("copilot", {**found, "prompt": "Why?"}).call
        assert (call.kind, call.text, call.session) == (HookKind.PROMPT, "Why?", "s1")

    def test_the_context_is_where_each_of_them_looks_for_it(self) -> None:
        request = parse("copilot", {"hook_event_name": "SessionStart", "session_id": "s1"})
        assert json.loads(outputs.render_answer(request, "lamp")) == {
            "additionalContext": "lamp",
            "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "lamp"},
        }


class TestWindsurf:
    def parse(self, action: str, **info: Any) -> HookCall:
        request = parse(
            "windsurf",
            {
                "agent_action_name": action,
                "trajectory_id": "t1",
                "execution_id": "e1",
                "timestamp": "2026-11-17T15:04:31Z",
                "tool_info": info,
            },
        )
        assert request.contract is Contract.SILENT
        return request.call

    def test_a_prompt(self) -> None:
        call = self.parse("pre_user_prompt", user_prompt="Why?")
        assert (call.kind, call.text, call.session) == (HookKind.PROMPT, "Why?", "t1")
        assert (call.call_id, call.folder, call.at_ms) == ("e1", FOLDER, 1_794_927_871_000)

    def test_an_answer(self) -> None:
        call = self.parse("post_cascade_response", response="Because.")
        assert (call.kind, call.text) == (HookKind.STOP, "Because.")

    def test_a_command(self) -> None:
        call = self.parse("post_run_command", command_line="make test", cwd="/code/app")
        assert (call.kind, call.use.name, call.use.asked) == (HookKind.TOOL, "Bash", "make test")

    def test_an_edit(self) -> None:
        edits = [{"old_string": "a", "new_string": "b"}]
        call = self.parse("post_write_code", file_path="/code/app/a.py", edits=edits)
        assert (call.use.file, call.use.written) == ("/code/app/a.py", "b")

    def test_a_tool_of_ours(self) -> None:
        call = self.parse(
            "post_mcp_tool_use",
            mcp_server_name="memory",
            mcp_tool_name="memory_recall",
            mcp_tool_arguments={"query": "lamp"},
            mcp_result="<memory_context/>",
        )
        assert call.use.is_own

    @pytest.mark.parametrize("action", ["pre_read_code", "post_setup_worktree"])
    def test_other_events_are_not_recorded(self, action: str) -> None:
        assert self.parse(action, file_path="/a").kind is HookKind.OTHER


class TestCline:
    """The names of its command line, and those of its extension."""

    COMMON = {  # noqa: RUF012
        "taskId": "conv_1",
        "sessionContext": {"rootSessionId": "root_1"},
        "workspaceRoots": ["/code/app"],
        "agent_id": "agent_1",
        "parent_agent_id": None,
        "timestamp": "2026-11-17T15:04:31.697Z",
    }

    def parse(self, name: str, **more: Any) -> HookCall:
        return parse("cline", {**self.COMMON, "hookName": name, **more}).call

    @pytest.mark.parametrize("name", ["agent_start", "TaskStart"])
    def test_a_start(self, name: str) -> None:
        call = self.parse(name)
        assert (call.kind, call.session) == (HookKind.SESSION_START, "root_1")
        assert (call.folder, call.about["source"]) == ("/code/app", "startup")
        assert self.parse("TaskResume").about["source"] == "resume"

    def test_a_prompt(self) -> None:
        found = {"prompt": "Why?", "attachments": []}
        call = self.parse("UserPromptSubmit", userPromptSubmit=found)
        assert (call.kind, call.text) == (HookKind.PROMPT, "Why?")

    def test_a_tool_result(self) -> None:
        call = self.parse(
            "tool_result",
            tool_result={"id": "call_1", "name": "run", "input": {"command": "make"}},
            postToolUse={"toolName": "run", "parameters": {}, "result": "ok", "success": True},
        )
        assert (call.kind, call.call_id, call.text) == (HookKind.TOOL, "call_1", "ok")
        assert call.use.asked == "make"

    def test_a_failed_tool(self) -> None:
        used = {"toolName": "run", "parameters": {}, "result": "no", "success": False}
        assert self.parse("PostToolUse", postToolUse=used).kind is HookKind.TOOL_FAILURE

    def test_an_answer(self) -> None:
        call = self.parse("agent_end", turn={"outputText": "Because.", "status": "completed"})
        assert (call.kind, call.text) == (HookKind.STOP, "Because.")

    def test_a_subagent_has_a_session_of_its_own(self) -> None:
        call = self.parse("agent_end", parent_agent_id="agent_0")
        assert call.session == "root_1/agent_1"

    def test_the_context_is_where_it_looks_for_it(self) -> None:
        request = parse("cline", {**self.COMMON, "hookName": "TaskStart"})
        assert json.loads(outputs.render_answer(request, "lamp")) == {
            "cancel": False,
            "contextModification": "lamp",
        }
