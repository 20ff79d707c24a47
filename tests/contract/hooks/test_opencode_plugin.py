"""The plugin that OpenCode loads, run by Node.js with a hook command of the test."""

import json
import os
import select
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_memory.features.hooks.adapters.agents.opencode import build_plugin

NODE = shutil.which("node") or ""
SECONDS = 15
START = """
import { AgentMemory } from "./plugin.mjs"
const client = { session: { get: async ({ path }) => ({ data: { id: path.id } }) } }
const hooks = await AgentMemory({ client, directory: process.cwd() })
const ask = async (sessionID, text) => {
  const parts = text ? [{ type: "text", text }] : []
  await hooks["chat.message"]({ sessionID }, { message: { id: `m-${text}` }, parts })
  const output = { system: [] }
  await hooks["experimental.chat.system.transform"]({ sessionID }, output)
  return output.system
}
"""

pytestmark = pytest.mark.skipif(not NODE, reason="Node.js is not installed")


def run_plugin(folder: Path, command: str, steps: str) -> Any:
    """Load the plugin, take the steps, and return what they show as JSON."""
    (folder / "plugin.mjs").write_text(build_plugin(command))
    (folder / "steps.mjs").write_text(START + steps)
    ran = subprocess.run(
        [NODE, "steps.mjs"], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    return json.loads(ran.stdout)


def build_command(folder: Path) -> str:
    """Write a hook that keeps its calls, and answers with the number of the call."""
    script = folder / "hook.sh"
    script.write_text(
        "cat >> calls; echo >> calls; n=$(wc -l < calls)\n"
        """printf '{"hookSpecificOutput": {"additionalContext": "answer %d"}}' $n\n"""
    )
    return f"exec /bin/sh {shlex.quote(str(script))}"


def test_the_answer_to_a_prompt_is_given_until_the_next_prompt(tmp_path: Path) -> None:
    given = run_plugin(
        tmp_path,
        build_command(tmp_path),
        """
        const given = [await ask("s", "one"), await ask("s", "two"), await ask("s", "")]
        console.log(JSON.stringify(given))
        """,
    )
    assert given == [["answer 1", "answer 2"], ["answer 1", "answer 3"], ["answer 1"]]


def test_a_failure_is_recorded_once_in_a_turn(tmp_path: Path) -> None:
    run_plugin(
        tmp_path,
        build_command(tmp_path),
        """
        await ask("s", "one")
        const send = (type, properties) => hooks.event({ event: { type, properties } })
        const state = { status: "error" }
        const part = { type: "tool", sessionID: "s", callID: "c", tool: "bash", state }
        const fail = () => send("message.part.updated", { part })
        await fail()
        await fail()
        await send("session.idle", { sessionID: "s" })
        await fail()
        console.log("null")
        """,
    )
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    names = [call["hook_event_name"] for call in calls]
    failed = "PostToolUseFailure"
    assert names == ["SessionStart", "UserPromptSubmit", failed, "Stop", failed]


USE = """
await ask("s", "one")
const use = async (tool, callID, result) => {
  const call = { tool, sessionID: "s", callID, args: { command: "make" } }
  await hooks["tool.execute.before"](call, { args: call.args })
  await hooks["tool.execute.after"](call, result)
  return result.output
}
"""


def read_calls(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def test_what_is_said_before_and_after_a_tool_comes_with_its_result(tmp_path: Path) -> None:
    given = run_plugin(
        tmp_path,
        build_command(tmp_path),
        USE
        + """
        const given = [await use("bash", "c1", { output: "done" })]
        given.push(await use("grep", "c2", { output: "found" }))
        console.log(JSON.stringify(given))
        """,
    )
    assert given == ["done\n\nanswer 3\n\nanswer 4", "found\n\nanswer 5"]
    calls = read_calls(tmp_path)[2:]
    assert [(call["hook_event_name"], call["tool_use_id"]) for call in calls] == [
        ("PreToolUse", "c1"),
        ("PostToolUse", "c1"),
        ("PostToolUse", "c2"),
    ]
    assert calls[0]["tool_input"] == {"command": "make"}


def test_a_command_with_an_exit_code_has_failed(tmp_path: Path) -> None:
    run_plugin(
        tmp_path,
        build_command(tmp_path),
        USE + 'await use("bash", "c1", { output: "no", metadata: { exit: 2 } }); console.log("1")',
    )
    failed = read_calls(tmp_path)[-1]
    assert (failed["hook_event_name"], failed["error"]) == ("PostToolUseFailure", "no")


def test_what_is_said_of_a_tool_without_a_result_comes_with_the_next_request(
    tmp_path: Path,
) -> None:
    given = run_plugin(
        tmp_path,
        build_command(tmp_path),
        """
        await ask("s", "one")
        const args = { filePath: "a.py" }
        await hooks["tool.execute.before"]({ tool: "edit", sessionID: "s", callID: "c" }, { args })
        const state = { status: "error", error: "no match" }
        const part = { type: "tool", sessionID: "s", callID: "c", tool: "edit", state }
        hooks.event({ event: { type: "message.part.updated", properties: { part } } })
        await new Promise(setImmediate)
        const output = { system: [] }
        await hooks["experimental.chat.system.transform"]({ sessionID: "s" }, output)
        console.log(JSON.stringify(output.system))
        """,
    )
    assert given == ["answer 1", "answer 2", "answer 3", "answer 4"]


def test_opencode_need_not_wait_for_the_ends_of_its_sessions(tmp_path: Path) -> None:
    gate, ended = tmp_path / "gate", tmp_path / "ended"
    os.mkfifo(gate)
    os.mkfifo(ended)
    held, told = os.open(gate, os.O_RDWR), os.open(ended, os.O_RDWR)
    (tmp_path / "hook.sh").write_text(
        'call=$(cat); case $call in *SessionEnd*) read go < gate; echo "$call" > ended;; esac\n'
    )
    try:
        run_plugin(
            tmp_path,
            f"exec /bin/sh {shlex.quote(str(tmp_path / 'hook.sh'))}",
            """
            for (const id of ["a", "b's", "c"]) await ask(id, "hello")
            await hooks.dispose()
            console.log("null")
            """,
        )
        assert not select.select([told], [], [], 0)[0]
        found = b""
        os.write(held, b"go\ngo\ngo\n")
        while found.count(b"\n") < 3:
            assert select.select([told], [], [], SECONDS)[0]
            found += os.read(told, 1 << 16)
    finally:
        os.close(held)
        os.close(told)
    calls = [json.loads(line) for line in found.splitlines()]
    assert [(call["session_id"], call["reason"]) for call in calls] == [
        ("a", "exit"),
        ("b's", "exit"),
        ("c", "exit"),
    ]
