"""Hook inputs as the agents send them, one per event, and those of the simple contract.

Keys are the agent and its event, with a tool where one event takes many shapes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SESSION = "6f1c2e9a-3d47-4c1b-9a55-0c7e7d1f2b11"
FOLDER = "/home/ada/projects/lighthouse"
TRANSCRIPT = f"/home/ada/.claude/projects/-home-ada-projects-lighthouse/{SESSION}.jsonl"
ROLLOUT = "/home/ada/.codex/sessions/2026/11/16/rollout-2026-11-16T10-00-00-019a.jsonl"
CHAT = "/home/ada/.gemini/tmp/9f2c/chats/session-2026-11-16T10-00.json"
AGENT_ID = "a81f3c0"

Input = Mapping[str, Any]

_READ = {"file_path": f"{FOLDER}/src/dimmer.py"}
_EDIT = {
    "file_path": f"{FOLDER}/src/dimmer.py",
    "old_string": "return volt * 0.93",
    "new_string": "return max(volt * 0.93, LOWEST)",
    "replace_all": False,
}


def _claude(event: str, **more: Any) -> Input:
    return {
        "session_id": SESSION,
        "transcript_path": TRANSCRIPT,
        "cwd": FOLDER,
        "permission_mode": "default",
        "hook_event_name": event,
        **more,
    }


def _claude_tool(name: str, given: Input, response: object, call: str) -> Input:
    return _claude(
        "PostToolUse",
        tool_name=name,
        tool_input=given,
        tool_response=response,
        tool_use_id=call,
        duration_ms=12,
    )


def _codex(event: str, **more: Any) -> Input:
    return {
        "session_id": "019a8c52-7d11-7b02-9a4e-2f0de1b1c001",
        "transcript_path": ROLLOUT,
        "cwd": "/home/ada/projects/canal",
        "hook_event_name": event,
        "model": "gpt-5.1-codex",
        "permission_mode": "default",
        **more,
    }


def _gemini(event: str, **more: Any) -> Input:
    return {
        "session_id": "b9b0c0de-1111-4222-8333-444455556666",
        "transcript_path": CHAT,
        "cwd": "/home/ada/projects/mill",
        "hook_event_name": event,
        "timestamp": "2026-11-16T10:00:00.000Z",
        **more,
    }


def _cursor(event: str, **more: Any) -> Input:
    return {
        "conversation_id": "c0ffee00-aaaa-4bbb-8ccc-ddddeeeeffff",
        "generation_id": "9e9e0001-aaaa-4bbb-8ccc-ddddeeeeffff",
        "model": "composer-1",
        "hook_event_name": event,
        "cursor_version": "2.0.77",
        "workspace_roots": ["/home/ada/projects/ferry"],
        "user_email": None,
        **more,
    }


def _simple(event: str, **more: Any) -> Input:
    return {"hook": event, "session_id": "sess_abc123", **more}


CLAUDE_CODE: Mapping[str, Input] = {
    "SessionStart": _claude("SessionStart", source="startup", model="claude-opus-4-5"),
    "SessionStart/compact": _claude("SessionStart", source="compact"),
    "UserPromptSubmit": _claude(
        "UserPromptSubmit",
        prompt="Why does the lamp of the lighthouse flicker?",
        prompt_id="0b6f5f0e-77aa-4b0e-8a7d-1f1f1f1f0001",
    ),
    "PreToolUse": _claude(
        "PreToolUse", tool_name="Read", tool_input=_READ, tool_use_id="toolu_01Read"
    ),
    "PostToolUse/Read": _claude_tool(
        "Read",
        _READ,
        {
            "type": "text",
            "file": {
                "filePath": f"{FOLDER}/src/dimmer.py",
                "content": "def dim(volt):\n    return volt * 0.93\n",
                "numLines": 2,
                "startLine": 1,
                "totalLines": 2,
            },
        },
        "toolu_01Read",
    ),
    "PostToolUse/Edit": _claude_tool(
        "Edit",
        _EDIT,
        {
            "filePath": f"{FOLDER}/src/dimmer.py",
            "oldString": _EDIT["old_string"],
            "newString": _EDIT["new_string"],
            "originalFile": "def dim(volt):\n    return volt * 0.93\n",
            "structuredPatch": [
                {
                    "oldStart": 1,
                    "oldLines": 2,
                    "newStart": 1,
                    "newLines": 2,
                    "lines": [
                        " def dim(volt):",
                        "-    return volt * 0.93",
                        "+    return max(volt * 0.93, LOWEST)",
                    ],
                }
            ],
            "userModified": False,
            "replaceAll": False,
        },
        "toolu_02Edit",
    ),
    "PostToolUse/Write": _claude_tool(
        "Write",
        {"file_path": f"{FOLDER}/docs/lamp.md", "content": "# The lamp\n\nLowest voltage: 11.\n"},
        {
            "type": "create",
            "filePath": f"{FOLDER}/docs/lamp.md",
            "content": "# The lamp\n\nLowest voltage: 11.\n",
            "structuredPatch": [],
        },
        "toolu_03Write",
    ),
    "PostToolUse/Bash": _claude_tool(
        "Bash",
        {"command": "make test", "description": "Run the tests", "timeout": 120000},
        {"stdout": "4 passed in 0.31s", "stderr": "", "interrupted": False, "isImage": False},
        "toolu_04Bash",
    ),
    "PostToolUse/Grep": _claude_tool(
        "Grep",
        {"pattern": "LOWEST", "path": FOLDER, "output_mode": "files_with_matches"},
        {
            "mode": "files_with_matches",
            "filenames": ["src/dimmer.py", "src/lamp.py"],
            "numFiles": 2,
        },
        "toolu_05Grep",
    ),
    "PostToolUse/mcp": _claude_tool(
        "mcp__tides__today",
        {"harbour": "Brest"},
        [{"type": "text", "text": "High water at 16:40"}],
        "toolu_06Mcp",
    ),
    "PostToolUseFailure": _claude(
        "PostToolUseFailure",
        tool_name="Bash",
        tool_input={"command": "make deploy"},
        tool_use_id="toolu_07Fail",
        error="Command failed with exit code 2: no rule to make target 'deploy'",
        is_interrupt=False,
    ),
    "Stop": _claude(
        "Stop",
        stop_hook_active=False,
        prompt_id="0b6f5f0e-77aa-4b0e-8a7d-1f1f1f1f0001",
        last_assistant_message="The dimmer drops below the lamp's voltage: 0.93 is too low.",
    ),
    "SubagentStart": _claude("SubagentStart", agent_id=AGENT_ID, agent_type="Explore"),
    "SubagentStop": _claude(
        "SubagentStop",
        stop_hook_active=False,
        agent_id=AGENT_ID,
        agent_type="Explore",
        agent_transcript_path=f"{TRANSCRIPT[:-6]}/subagents/agent-{AGENT_ID}.jsonl",
        last_assistant_message="Three callers use dim: two with a battery.",
    ),
    "PreCompact": _claude("PreCompact", trigger="auto", custom_instructions=""),
    "PostCompact": _claude(
        "PostCompact", trigger="auto", compact_summary="They spoke of the lamp's voltage."
    ),
    "SessionEnd": _claude("SessionEnd", reason="prompt_input_exit"),
    "Notification": _claude("Notification", message="Claude is waiting", title="Claude Code"),
}

CODEX: Mapping[str, Input] = {
    "SessionStart": _codex("SessionStart", source="startup"),
    "UserPromptSubmit": _codex(
        "UserPromptSubmit", turn_id="turn-1", prompt="Which lock gates leak?"
    ),
    "PreToolUse": _codex(
        "PreToolUse",
        turn_id="turn-1",
        tool_name="Bash",
        tool_input={"command": "grep leak gates.csv"},
        tool_use_id="call_1",
    ),
    "PostToolUse": _codex(
        "PostToolUse",
        turn_id="turn-1",
        tool_name="Bash",
        tool_input={"command": "grep leak gates.csv"},
        tool_response="gate 7: leak\n",
        tool_use_id="call_1",
    ),
    "Stop": _codex(
        "Stop",
        turn_id="turn-1",
        stop_hook_active=False,
        last_assistant_message="Only gate 7 leaks.",
    ),
    "SubagentStart": _codex(
        "SubagentStart", turn_id="turn-1", agent_id="019a-sub", agent_type="worker"
    ),
    "SubagentStop": _codex(
        "SubagentStop",
        turn_id="turn-1",
        agent_id="019a-sub",
        agent_type="worker",
        last_assistant_message="Gates 1 to 6 are dry.",
    ),
    "PreCompact": _codex("PreCompact", turn_id="turn-2", trigger="manual"),
    "PostCompact": _codex("PostCompact", turn_id="turn-2", trigger="manual"),
    "SessionEnd": _codex("SessionEnd", reason="exit"),
}

GEMINI: Mapping[str, Input] = {
    "SessionStart": _gemini("SessionStart", source="startup"),
    "BeforeAgent": _gemini("BeforeAgent", prompt="Is the mill open on Sunday?"),
    "BeforeTool": _gemini(
        "BeforeTool", tool_name="read_file", tool_input={"file_path": "hours.txt"}
    ),
    "AfterTool": _gemini(
        "AfterTool",
        tool_name="read_file",
        tool_input={"file_path": "/home/ada/projects/mill/hours.txt"},
        tool_response={
            "llmContent": [{"text": "Closed on Sundays"}],
            "returnDisplay": "Read 1 line",
        },
    ),
    "AfterTool/error": _gemini(
        "AfterTool",
        tool_name="run_shell_command",
        tool_input={"command": "cat hours.csv"},
        tool_response={
            "llmContent": "cat: hours.csv: No such file or directory",
            "returnDisplay": "failed",
            "error": {"message": "exit code 1", "type": "shell_execute_error"},
        },
    ),
    "AfterTool/exit": _gemini(
        "AfterTool",
        tool_name="run_shell_command",
        tool_input={"command": "make flour"},
        tool_response={
            "llmContent": "<untrusted_context>\nOutput: no wind\nExit Code: 2\n"
            "Process Group PGID: 31663\n</untrusted_context>",
            "returnDisplay": "no wind",
        },
    ),
    "AfterAgent": _gemini(
        "AfterAgent",
        prompt="Is the mill open on Sunday?",
        prompt_response="No, it is closed on Sundays.",
        stop_hook_active=False,
    ),
    "PreCompress": _gemini("PreCompress", trigger="manual"),
    "SessionEnd": _gemini("SessionEnd", reason="exit"),
}

CURSOR: Mapping[str, Input] = {
    "beforeSubmitPrompt": _cursor(
        "beforeSubmitPrompt", prompt="When does the ferry leave?", attachments=[]
    ),
    "afterAgentResponse": _cursor("afterAgentResponse", text="Every hour, at twenty past."),
    "afterFileEdit": _cursor(
        "afterFileEdit",
        file_path="/home/ada/projects/ferry/src/timetable.ts",
        edits=[
            {"old_string": "minute: 15", "new_string": "minute: 20"},
            {"old_string": "// quarter past", "new_string": "// twenty past"},
        ],
    ),
    "beforeShellExecution": _cursor(
        "beforeShellExecution", command="npm test", cwd="/home/ada/projects/ferry"
    ),
    "afterShellExecution": _cursor(
        "afterShellExecution", command="npm test", output="9 passing", duration=812
    ),
    "afterMCPExecution": _cursor(
        "afterMCPExecution",
        tool_name="tides_today",
        tool_input='{"harbour": "Brest"}',
        result_json='{"content": [{"type": "text", "text": "High water at 16:40"}]}',
        duration=90,
    ),
    "stop": _cursor("stop", status="completed", loop_count=0),
}

SIMPLE: Mapping[str, Input] = {
    "SessionStart": _simple(
        "SessionStart",
        project_path="/home/ada/projects/lighthouse",
        project_name="lighthouse",
        git_branch="feature/auth",
        timestamp="2025-01-20T10:00:00Z",
    ),
    "UserPromptSubmit": _simple(
        "UserPromptSubmit",
        prompt="Let's use PostgreSQL for the database [decision] because of JSONB support",
    ),
    "PostToolUse": _simple(
        "PostToolUse",
        tool_name="Read",
        tool_input={"file_path": "/home/ada/projects/lighthouse/src/auth.rs"},
        tool_output="pub fn authenticate(...) { ... }",
    ),
    "PreCompact": _simple(
        "PreCompact",
        conversation_summary="User implemented authentication using JWT...",
        key_decisions=["Use JWT", "Store tokens in httpOnly cookies"],
        remaining_context_tokens=5000,
    ),
    "Stop": _simple(
        "Stop", reason="user_initiated", duration_seconds=1800, tool_calls=45, tokens_used=50000
    ),
}

SAMPLES: Mapping[str, Input] = {
    f"{agent}/{event}": given
    for agent, found in (
        ("claude-code", CLAUDE_CODE),
        ("codex", CODEX),
        ("gemini", GEMINI),
        ("cursor", CURSOR),
        ("004", SIMPLE),
    )
    for event, given in found.items()
}


def encode_input(given: Input, **more: Any) -> bytes:
    """Encode an input as it comes on standard input; `more` replaces fields."""
    return json.dumps({**given, **more}).encode()


def encode_claude(event: str, *, session: str, folder: Path | str, **more: Any) -> bytes:
    """Encode an event of Claude Code, with the fields of its sample except the ids of events."""
    given = {k: v for k, v in CLAUDE_CODE[event].items() if k not in ("prompt_id", "tool_use_id")}
    return encode_input(given, session_id=session, cwd=str(folder), **more)
