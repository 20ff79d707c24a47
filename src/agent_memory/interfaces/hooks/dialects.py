"""Dialects: inputs with names of an agent's own, translated to those of Claude Code."""

from collections.abc import Mapping
from typing import Any

from agent_memory.features.hooks.model.tool_use import has_failed
from agent_memory.kernel.json_fields import Fields

Input = Mapping[str, Any]

# The names of Cline's extension, and those of its command line.
_CLINE_EVENTS = {
    "TaskStart": "SessionStart",
    "agent_start": "SessionStart",
    "TaskResume": "SessionStart",
    "agent_resume": "SessionStart",
    "UserPromptSubmit": "UserPromptSubmit",
    "prompt_submit": "UserPromptSubmit",
    "PostToolUse": "PostToolUse",
    "tool_result": "PostToolUse",
    "PreCompact": "PreCompact",
    "pre_compact": "PreCompact",
    "TaskComplete": "Stop",
    "agent_end": "Stop",
    "SessionShutdown": "SessionEnd",
    "session_shutdown": "SessionEnd",
}
_CLINE_RESUMES = ("TaskResume", "agent_resume")
FAILURE = "PostToolUseFailure"


def translate(value: Input) -> Input:
    """Return the input in the words that most agents use. Others are recognized by their fields."""
    if "agent_action_name" in value:
        return _translate_windsurf(Fields(value))
    if "hookName" in value and "taskId" in value:
        return _translate_cline(Fields(value))
    if "hookEventName" in value or "tool_result" in value:
        return _translate_copilot(value)
    return value


def _translate_windsurf(fields: Fields) -> Input:
    action, info = fields.text("agent_action_name"), fields.fields("tool_info")
    common = {
        "hook_event_name": action,
        "session_id": fields.text("trajectory_id"),
        "prompt_id": fields.text("execution_id"),
        "timestamp": fields.value("timestamp"),
    }
    match action:
        case "pre_user_prompt":
            return {
                **common,
                "hook_event_name": "UserPromptSubmit",
                "prompt": info.text("user_prompt"),
            }
        case "post_cascade_response":
            answer = info.text("response")
            return {**common, "hook_event_name": "Stop", "last_assistant_message": answer}
        case "post_run_command":
            return {**common, **_build_tool("Bash", {"command": info.text("command_line")}, "")}
        case "post_write_code":
            edit = {"file_path": info.text("file_path"), "edits": info.value("edits")}
            return {**common, **_build_tool("Edit", edit, "")}
        case "post_mcp_tool_use":
            name = f"mcp__{info.text('mcp_server_name')}__{info.text('mcp_tool_name')}"
            arguments, result = info.value("mcp_tool_arguments"), info.value("mcp_result")
            return {**common, **_build_tool(name, arguments, result)}
        case _:
            return common


def _translate_cline(fields: Fields) -> Input:
    name = fields.text("hookName")
    result, used = fields.fields("tool_result"), fields.fields("postToolUse")
    translated = {
        "hook_event_name": _CLINE_EVENTS.get(name, name),
        "session_id": fields.fields("sessionContext").text("rootSessionId")
        or fields.text("taskId"),
        "timestamp": fields.value("timestamp"),
        "workspace_roots": fields.value("workspaceRoots"),
        "prompt": fields.fields("userPromptSubmit").text("prompt"),
        "last_assistant_message": fields.fields("turn").text("outputText")
        or fields.fields("taskComplete").fields("taskMetadata").text("result"),
    }
    if translated["hook_event_name"] == "SessionStart":
        translated["source"] = "resume" if name in _CLINE_RESUMES else "startup"
    if fields.text("parent_agent_id"):  # the main agent has an id too
        translated["agent_id"] = fields.text("agent_id")
    if "postToolUse" in fields:
        arguments = result.value("input") or used.value("parameters")
        failed = used.value("success") is False
        translated |= _build_tool(
            used.text("toolName"), arguments, used.value("result"), failed=failed
        )
        translated["tool_use_id"] = result.text("id")
    return translated


def _translate_copilot(value: Input) -> Input:
    """Translate the input of VS Code, and the tool results of Copilot CLI."""
    fields = Fields(value)
    translated = {
        **value,
        "hook_event_name": fields.text("hook_event_name", "hookEventName"),
        "session_id": fields.text("session_id", "sessionId"),
    }
    result = fields.fields("tool_result")
    if text := result.text("text_result_for_llm"):
        failed = result.text("result_type") not in ("", "success") or has_failed(text)
        translated |= _build_tool(
            fields.text("tool_name"), fields.value("tool_input"), text, failed=failed
        )
    return translated


def _build_tool(name: str, arguments: object, result: object, *, failed: bool = False) -> Input:
    return {
        "hook_event_name": FAILURE if failed else "PostToolUse",
        "tool_name": name,
        "tool_input": arguments,
        "tool_response": result,
        "error": result if failed else "",
    }
