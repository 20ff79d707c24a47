"""Runs against a scripted model: every path of `AgentService.Run`, as a foreign client meets it."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from agent_memory.proto import kontekst_pb2 as pb
from tests.contract.scripted_llm import (
    Gate,
    Hang,
    Received,
    Reply,
    ScriptedLlm,
    Step,
    Streamed,
    data,
    error,
    say,
    scripted,
)
from tests.daemon_process import Daemon
from tests.run_client import Agents, list_kinds, open_agents

TIMEOUT = 20.0
TICK = 0.01
CONTEXT = 4096
SLOW = "sleep 1000"


@dataclass(frozen=True)
class Stage:
    """A daemon, its scripted model, and a working folder."""

    daemon: Daemon
    model: ScriptedLlm
    agents: Agents
    config: Path

    def plays(self, *script: Step) -> None:
        self.model.plays(*script)

    def answers(self, deciding: Callable[[Received], Step]) -> None:
        self.model.answers(deciding)

    def rest(self, path: str) -> list[dict[str, Any]]:
        """What there is of a kind, over HTTP."""
        record = json.loads((self.daemon.data_dir / "daemon.json").read_text())
        answer = httpx.get(
            f"http://127.0.0.1:{record['http_port']}/api/v1/memories/{path}/",
            params={"limit": 100},
            headers={"authorization": f"Bearer {self.agents.key}"},
            timeout=TIMEOUT,
            trust_env=False,
        )
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["items"]
        return found

    def asked(self, number: int) -> list[dict[str, Any]]:
        """The messages of this request to the model, from 0."""
        messages: list[dict[str, Any]] = self.model.received[number].payload["messages"]
        return messages


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = tmp_path_factory.mktemp("runs")
    with scripted() as model:
        settings = {
            "llama.endpoint": model.url,
            "llama.context_size": str(CONTEXT),
            "runs.max_turns": "4",
            "runs.commands": "sleep,echo",
        }
        with Daemon(home, settings=settings) as daemon, open_agents(daemon) as found:
            yield Stage(daemon, model, found, home / ".config/agent-memory")


@pytest.fixture
def stage(running: Stage) -> Stage:
    running.plays()
    return running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    created = tmp_path / "work"
    created.mkdir()
    return created


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        threading.Event().wait(TICK)


def events_of(daemon: Daemon, session: str) -> list[Any]:
    with daemon.client() as client:
        return [each for each in client.all_events() if each.session_id == session]


def adds_up(context: pb.ContextSnapshot) -> None:
    parts = (context.system_tokens, context.history_tokens, context.memory_tokens)
    assert context.total_tokens == sum(parts) + context.tool_tokens
    assert context.remaining_tokens == context.context_size - context.total_tokens
    assert context.total_messages == len(context.messages)
    assert context.messages[0].role == "system"
    by_source = {
        source: [each.tokens for each in context.messages if each.source == source]
        for source in ("system", "history", "memory")
    }
    assert tuple(sum(each) for each in by_source.values()) == parts
    assert len(by_source["history"]) == context.history_messages
    assert len(by_source["memory"]) == context.memory_messages
    assert context.history_tokens <= context.history_budget


def sound(messages: list[dict[str, Any]]) -> None:
    """What a model is given: no call without its result, no result without its call."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting, f"no result of {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert not waiting
    roles = [each["role"] for each in messages if each["role"] != "tool"]
    assert roles[0] == "system"
    assert "user" not in {roles[at] for at in range(1, len(roles)) if roles[at - 1] == "user"}


def test_a_plain_answer(stage: Stage) -> None:
    stage.plays(say("All is well.", reasoning="Let me see."))
    events = stage.agents.run("How is it?")
    assert list_kinds(events) == [
        "started",
        "reasoning",
        "token",
        "turn_completed",
        "context_snapshot",
        "completed",
    ]
    started, completed = events[0].started, events[-1].completed
    assert started.run_id == completed.run_id
    assert started.agent_name == "default"
    assert started.session_id
    said = [event.token.text for event in events if event.WhichOneof("event") == "token"]
    assert "".join(said) == "All is well." == completed.content
    assert len(said) == 3
    assert completed.reasoning == "Let me see."
    turn, snapshot = events[-3].turn_completed, events[-2].context_snapshot.context
    assert (turn.content, turn.reasoning) == ("All is well.", "Let me see.")
    assert turn.context == snapshot
    adds_up(snapshot)
    assert snapshot.context_size == CONTEXT
    assert (snapshot.history_messages, snapshot.memory_messages) == (0, 2)
    messages = stage.asked(0)
    assert [each["role"] for each in messages] == ["system", "user"]
    assert messages[1]["content"] == "How is it?"
    names = {each["function"]["name"] for each in stage.model.received[0].payload["tools"]}
    assert "recall" in names
    assert "read_file" not in names, "there is no working folder"
    stored = events_of(stage.daemon, started.session_id)
    assert [each.text for each in stored[:2]] == ["How is it?", "All is well."]
    assert all(each.metadata["run_id"] == started.run_id for each in stored)


def test_tokens_come_as_the_model_gives_them(stage: Stage) -> None:
    gate = Gate()
    stage.plays(say("one two", gate=gate))
    stream = stage.agents.open()
    stream.start("Count")
    gate.let(2)  # the role, and the first word
    assert stream.read_until("token")[-1].token.text == "one "
    gate.let()
    assert stream.read_until("token")[-1].token.text == "two"
    gate.open()
    assert list_kinds(stream.read_rest())[-1] == "completed"


@pytest.mark.parametrize("key", ["", "wrong"])
def test_without_the_key_nobody_runs_anything(stage: Stage, key: str) -> None:
    call = stage.agents.channel.stream_stream(
        "/kontekst.AgentService/Run",
        request_serializer=pb.RunCommand.SerializeToString,
        response_deserializer=pb.RunEvent.FromString,
    )
    start = pb.RunCommand(start=pb.StartRunCommand(prompt="hello"))
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    with pytest.raises(grpc.RpcError) as raised:
        list(call(iter([start]), metadata=metadata, timeout=TIMEOUT))
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    for method, request, answers in (
        ("GetStatus", pb.GetStatusRequest(), pb.GetStatusResponse),
        ("Shutdown", pb.ShutdownRequest(), pb.ShutdownResponse),
    ):
        with pytest.raises(grpc.RpcError) as raised:
            stage.agents.unary(method, request, answers, key=key)
        assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert stage.model.received == []


def test_the_unix_socket_needs_no_key(stage: Stage) -> None:
    stage.plays(say("ok"))
    socket = json.loads((stage.daemon.data_dir / "daemon.json").read_text())["grpc_socket"]
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call = channel.stream_stream(
            "/kontekst.AgentService/Run",
            request_serializer=pb.RunCommand.SerializeToString,
            response_deserializer=pb.RunEvent.FromString,
        )
        start = pb.RunCommand(start=pb.StartRunCommand(prompt="hello"))
        # The sending side is closed right away: the answer comes all the same.
        assert list_kinds(list(call(iter([start]), timeout=TIMEOUT)))[-1] == "completed"


def test_a_tool_is_proposed_approved_and_used(stage: Stage, folder: Path) -> None:
    (folder / "a.txt").write_text("one\ntwo\n")
    stage.plays(
        say(
            "Let me change it.",
            calls=[
                ("edit_file", {"path": "a.txt", "old_string": "two", "new_string": "2"}, "call-x")
            ],
        ),
        say("Done."),
    )
    stream = stage.agents.open()
    stream.start("Mend a.txt", working_dir=str(folder))
    before = stream.read_until("tools_proposed")
    assert list_kinds(before) == [
        "started",
        "token",
        "turn_completed",
        "context_snapshot",
        "tools_proposed",
    ]
    (call,) = before[-1].tools_proposed.calls
    assert (call.call_id, call.name) == ("call-x", "edit_file")
    assert json.loads(call.arguments_json)["path"] == "a.txt"
    assert "-two" in call.preview
    assert "+2" in call.preview
    assert (folder / "a.txt").read_text() == "one\ntwo\n", "not before it is approved"
    stream.approve("unknown", call.call_id, call.call_id)
    after = stream.read_rest()
    assert list_kinds(after) == [
        "tool_started",
        "tool_completed",
        "tools_completed",
        "token",
        "turn_completed",
        "context_snapshot",
        "completed",
    ]
    assert after[0].tool_started.call_id == after[1].tool_completed.call_id == "call-x"
    assert (folder / "a.txt").read_text() == "one\n2\n"
    messages = stage.asked(1)
    sound(messages)
    assert messages[2]["content"] == "Let me change it."
    assert messages[3]["content"] == after[1].tool_completed.output
    adds_up(after[-2].context_snapshot.context)
    assert after[-2].context_snapshot.context.memory_messages == 4


def test_several_tools_keep_the_models_order(stage: Stage, folder: Path) -> None:
    stage.plays(
        say(
            calls=[
                ("write_file", {"path": "a", "content": "1"}),
                ("read_file", {"path": "missing"}),
                ("read_file", {"path": "a"}),
            ]
        ),
        say("Done."),
    )
    stream = stage.agents.open()
    stream.start("Go", working_dir=str(folder))
    calls = stream.read_until("tools_proposed")[-1].tools_proposed.calls
    first, second, third = (call.call_id for call in calls)
    assert [call.name for call in calls] == ["write_file", "read_file", "read_file"]
    stream.approve(third, second, first)
    after = stream.read_rest()
    told = [
        (event.WhichOneof("event"), getattr(event, str(event.WhichOneof("event"))).call_id)
        for event in after[:6]
    ]
    assert told == [
        ("tool_started", first),
        ("tool_completed", first),
        ("tool_started", second),
        ("tool_failed", second),
        ("tool_started", third),
        ("tool_completed", third),
    ]
    assert list_kinds(after)[-1] == "completed"
    assert "missing" in after[3].tool_failed.error
    sound(stage.asked(1))


def test_ids_that_a_model_repeats_are_told_apart(stage: Stage) -> None:
    """Otherwise a decision that comes twice would approve what nobody has seen."""
    turn = say(calls=[("recall", {"query": "x"}, "same"), ("recall", {"query": "y"}, "same")])
    stage.plays(turn, turn, say("Done."))
    stream = stage.agents.open()
    stream.start("Go")
    seen: list[str] = []
    for _ in range(2):
        calls = stream.read_until("tools_proposed")[-1].tools_proposed.calls
        names = [call.call_id for call in calls]
        stream.approve(*names, *seen)
        seen += names
    assert list_kinds(stream.read_rest())[-1] == "completed"
    assert len(set(seen)) == 4
    sound(stage.asked(2))


def test_a_denied_call_is_remembered_and_ends_the_run(stage: Stage, folder: Path) -> None:
    stage.plays(
        say(
            "Both?",
            calls=[
                ("write_file", {"path": "a", "content": "1"}),
                ("write_file", {"path": "b", "content": "2"}),
            ],
        ),
        say("I see."),
    )
    stream = stage.agents.open()
    stream.start("Go", working_dir=str(folder))
    before = stream.read_until("tools_proposed")
    denied, approved = (call.call_id for call in before[-1].tools_proposed.calls)
    stream.deny(denied, "not that one")
    stream.approve(approved)
    after = stream.read_rest()
    assert list_kinds(after) == ["tool_started", "tool_completed", "tools_completed", "cancelled"]
    assert after[-1].cancelled.run_id == before[0].started.run_id
    assert not (folder / "a").exists()
    assert (folder / "b").read_text() == "2"
    session = before[0].started.session_id
    texts = [each.text for each in events_of(stage.daemon, session)]
    assert any("not that one" in text for text in texts)
    assert list_kinds(stage.agents.run("And now?", session_id=session))[-1] == "completed"
    messages = stage.asked(1)
    sound(messages)
    assert any("not that one" in str(each["content"]) for each in messages)


def test_who_has_closed_its_side_decides_nothing(stage: Stage, folder: Path) -> None:
    stage.plays(say("I write.", calls=[("write_file", {"path": "a", "content": "1"})]))
    stream = stage.agents.open()
    stream.start("Go", working_dir=str(folder))
    stream.half_close()
    told = stream.read_rest()
    assert list_kinds(told)[-3:] == ["tools_proposed", "tools_completed", "cancelled"]
    assert not (folder / "a").exists()


def test_arguments_that_are_no_json_do_not_spoil_the_session(stage: Stage) -> None:
    """Servers refuse a conversation in which they stand."""
    stage.plays(say(calls=[("recall", '{"query": "x')]), say("I see."), say("Yes."))
    stream = stage.agents.open()
    stream.start("Go")
    before = stream.read_until("tools_proposed")
    stream.approve(before[-1].tools_proposed.calls[0].call_id)
    after = stream.read_rest()
    assert list_kinds(after)[-1] == "completed"
    assert "not JSON" in after[1].tool_failed.error
    session = before[0].started.session_id
    assert list_kinds(stage.agents.run("Still there?", session_id=session))[-1] == "completed"
    for number in (1, 2):
        sound(stage.asked(number))
        (call,) = [call for each in stage.asked(number) for call in each.get("tool_calls", ())]
        assert call["function"]["arguments"] == "{}"


def test_a_cancel_acts_while_nobody_takes_what_is_told(stage: Stage) -> None:
    gate = Gate()
    stage.plays(say("word " * 20_000, gate=gate))
    stream = stage.agents.open()
    stream.start("Go")
    gate.let(15_000)  # more than any buffer on the way holds
    stage.model.wait_for_requests(1)
    until(lambda: stage.model.received[0].sent >= 10_000)
    stream.cancel()
    assert stage.model.received[0].gone.wait(TIMEOUT), "the model still works on it"
    assert list_kinds(stream.read_rest())[-1] == "cancelled"


@pytest.mark.parametrize("begun", [False, True])
def test_a_cancel_while_the_model_is_silent(stage: Stage, begun: bool) -> None:
    stage.plays(Hang(begun), say("Fine."))
    stream = stage.agents.open()
    stream.start("Think")
    session = stream.read_until("started")[-1].started.session_id
    stage.model.wait_for_requests(1)
    stream.cancel()
    assert list_kinds(stream.read_rest()) == ["cancelled"]
    assert stage.model.received[0].gone.wait(TIMEOUT), "the model still works on it"
    assert list_kinds(stage.agents.run("Again", session_id=session))[-1] == "completed"
    sound(stage.asked(1))


def test_a_cancel_in_the_middle_of_an_answer(stage: Stage) -> None:
    gate = Gate()
    stage.plays(say("one two three", gate=gate), say("Fine."))
    stream = stage.agents.open()
    stream.start("Count")
    session = stream.read_until("started")[-1].started.session_id
    gate.let(2)
    stream.read_until("token")
    stream.cancel()
    assert list_kinds(stream.read_rest()) == ["cancelled"]
    assert stage.model.received[0].gone.wait(TIMEOUT)
    assert "one " in [each.text for each in events_of(stage.daemon, session)]
    assert list_kinds(stage.agents.run("Again", session_id=session))[-1] == "completed"
    sound(stage.asked(1))
    assert "one" in [str(each["content"]).strip() for each in stage.asked(1)]


def test_a_cancel_while_a_decision_is_awaited(stage: Stage, folder: Path) -> None:
    stage.plays(say(calls=[("write_file", {"path": "a", "content": "1"})]), say("Fine."))
    stream = stage.agents.open()
    stream.start("Go", working_dir=str(folder))
    before = stream.read_until("tools_proposed")
    stream.cancel()
    stream.approve(before[-1].tools_proposed.calls[0].call_id)
    assert list_kinds(stream.read_rest()) == ["cancelled"]
    assert not (folder / "a").exists()
    session = before[0].started.session_id
    assert list_kinds(stage.agents.run("Again", session_id=session))[-1] == "completed"
    sound(stage.asked(1))


def test_a_cancel_while_a_tool_runs(stage: Stage, folder: Path) -> None:
    stage.plays(say(calls=[("run_command", {"command": SLOW})]), say("Fine."))
    stream = stage.agents.open()
    stream.start("Wait", working_dir=str(folder))
    before = stream.read_until("tools_proposed")
    stream.approve(before[-1].tools_proposed.calls[0].call_id)
    stream.read_until("tool_started")
    until(lambda: bool(sleeping(folder)))
    stream.cancel()
    assert list_kinds(stream.read_rest()) == ["cancelled"]
    until(lambda: not sleeping(folder))
    session = before[0].started.session_id
    assert list_kinds(stage.agents.run("Again", session_id=session))[-1] == "completed"
    sound(stage.asked(1))


def sleeping(folder: Path) -> list[str]:
    """Processes that work in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder and b"sleep" in (
                process / "cmdline"
            ).read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_a_second_start_fails_and_the_first_run_goes_on(stage: Stage) -> None:
    gate = Gate()
    stage.plays(say("one", gate=gate))
    stream = stage.agents.open()
    stream.start("First")
    run_id = stream.read_until("started")[-1].started.run_id
    stream.start("Second")
    failed = stream.read_until("failed")[-1].failed
    assert failed.run_id != run_id
    assert "already" in failed.error
    gate.open()
    assert stream.read_rest()[-1].completed.run_id == run_id


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ({"prompt": "hi", "agent_name": "nobody"}, "no agent 'nobody'"),
        ({"skill": pb.SkillInvocation(name="nothing")}, "no skill 'nothing'"),
        ({}, "the prompt is empty"),
        ({"prompt": " \n"}, "the prompt is empty"),
        ({"skill": pb.SkillInvocation()}, "the prompt is empty"),
        ({"prompt": "hi", "skill": pb.SkillInvocation(name="greet")}, "not both"),
        ({"prompt": "hi", "working_dir": "relative"}, "relative"),
        ({"prompt": "hi", "working_dir": "/no/such/folder"}, "/no/such/folder"),
        ({"prompt": "hi", "session_id": "s" * 300}, "session_id"),
        ({"prompt": "hi", "session_id": "a\nb"}, "session_id"),
        ({"prompt": "x" * 200_001}, "200,001"),
        ({"prompt": "hi", "agent_name": "../../etc"}, "agent"),
    ],
)
def test_a_start_that_cannot_be_fails_with_the_reason(
    stage: Stage, start: dict[str, Any], told: str
) -> None:
    (event,) = stage.agents.run(**start)
    assert told in event.failed.error
    assert event.failed.run_id
    assert stage.model.received == []


def test_the_first_command_must_be_a_start(stage: Stage) -> None:
    for command in (
        pb.RunCommand(cancel=pb.CancelRunCommand()),
        pb.RunCommand(approve_tool=pb.ApproveToolCommand(call_id="x")),
        pb.RunCommand(),
    ):
        stream = stage.agents.open()
        stream.send(command)
        (event,) = stream.read_rest()
        assert "must be a start" in event.failed.error
    stream = stage.agents.open()
    stream.half_close()
    (event,) = stream.read_rest()
    assert "must be a start" in event.failed.error


def test_a_prompt_that_does_not_fit_fails_with_figures(stage: Stage) -> None:
    events = stage.agents.run("word " * 3 * CONTEXT)
    assert list_kinds(events) == ["started", "failed"]
    assert re.search(r"take [\d,]+ tokens.*has 4,096", events[-1].failed.error)
    assert stage.model.received == []
    stage.plays(error(400, "the request exceeds the available context size, try increasing it"))
    events = stage.agents.run("short")
    assert "context" in events[-1].failed.error


def test_an_endless_loop_of_tools_is_stopped(stage: Stage) -> None:
    stage.answers(lambda _: say(calls=[("recall", {"query": "again"})]))
    events = stage.agents.run("Loop")
    assert list_kinds(events)[-1] == "failed"
    assert "after 4 turns" in events[-1].failed.error
    assert len(stage.model.received) == 4
    sound(stage.asked(3))


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (error(500, "out of memory"), "out of memory"),
        (error(401, "no"), "key"),
        (error(404, "no model"), "no model"),
        (error(400, "bad grammar"), "bad grammar"),
        (Reply(b"<html>"), "invalid answer"),
        (Streamed((b"data: {]\n\n",)), "invalid answer"),
        (Streamed((data({"error": {"message": "slot lost"}}),)), "slot lost"),
        (say("half an", cut=True), "lost"),
        (Streamed(say("half an", cut=True).pieces), "middle of its answer"),
    ],
)
def test_a_model_that_fails_fails_the_run(stage: Stage, step: Step, told: str) -> None:
    stage.plays(step, say("Fine."))
    events = stage.agents.run("Go")
    assert list_kinds(events)[-1] == "failed"
    assert told in events[-1].failed.error
    session = events[0].started.session_id
    assert list_kinds(stage.agents.run("Again", session_id=session))[-1] == "completed"
    sound(stage.asked(1))


def test_a_call_that_cannot_work_is_told_to_the_model(stage: Stage, folder: Path) -> None:
    stage.plays(
        say(
            calls=[
                ("fly", {}),
                ("read_file", "{not json"),
                ("read_file", {"path": "../secret"}),
                ("run_command", {"command": "rm -rf ."}),
            ]
        ),
        say("I cannot."),
    )
    (folder.parent / "secret").write_text("top secret")
    events = stage.agents.run("Try", working_dir=str(folder))
    failed = [event.tool_failed for event in events if event.WhichOneof("event") == "tool_failed"]
    assert len(failed) == 4
    assert list_kinds(events)[-1] == "completed"
    messages = stage.asked(1)
    sound(messages)
    assert not any("top secret" in str(each["content"]) for each in messages)


def test_a_client_that_vanishes_frees_its_run(stage: Stage) -> None:
    stage.plays(Hang(begun=True))
    stream = stage.agents.open()
    stream.start("Think")
    stream.read_until("started")
    stage.model.wait_for_requests(1)
    stream.vanish()
    assert stage.model.received[0].gone.wait(TIMEOUT)


def test_twenty_runs_at_once(stage: Stage, folder: Path) -> None:
    gate = Gate()

    def answer(received: Received) -> Step:
        messages = received.payload["messages"]
        prompt = messages[1]["content"]
        if messages[-1]["role"] == "user":
            call = ("write_file", {"path": f"{prompt}.txt", "content": prompt})
            return say(prompt, calls=[call], gate=gate)
        return say(f"done {prompt}")

    stage.answers(answer)
    with ThreadPoolExecutor(20) as pool:
        waiting = [
            pool.submit(stage.agents.run, f"run-{number}", working_dir=str(folder))
            for number in range(20)
        ]
        gate.wait_until_held(20)
        gate.open()
        for number, each in enumerate(waiting):
            events = each.result(TIMEOUT)
            assert events[-1].completed.content == f"done run-{number}"
            for event in events:
                if event.WhichOneof("event") == "context_snapshot":
                    adds_up(event.context_snapshot.context)
    assert {each.read_text() for each in folder.iterdir()} == {f"run-{n}" for n in range(20)}


def test_a_session_goes_on_and_its_history_is_trimmed_at_the_edges(stage: Stage) -> None:
    stage.answers(lambda _: say("answer " * 150))
    session = f"trim-{time.time_ns()}"
    for number in range(12):
        events = stage.agents.run(f"question {number} " + "word " * 150, session_id=session)
        assert list_kinds(events)[-1] == "completed", events[-1]
        context = events[-2].context_snapshot.context
        adds_up(context)
        sound(stage.asked(number))
        assert events[0].started.session_id == session
    assert 0 < context.history_messages < 22
    assert stage.asked(11)[1]["content"].startswith("question ")
    assert "question 10" in stage.asked(11)[-3]["content"]


def test_instructions_of_the_folder_are_honoured(stage: Stage, folder: Path) -> None:
    (folder / "AGENTS.md").write_text("Always answer in Latin.\n")
    stage.plays(say("Ita."))
    stage.agents.run("Well?", working_dir=str(folder))
    assert "Always answer in Latin." in stage.asked(0)[0]["content"]


def test_agents_and_skills_are_files(stage: Stage) -> None:
    agent = stage.config / "agents/poet"
    agent.mkdir(parents=True)
    (agent / "agent.toml").write_text('tools = ["recall"]\nmax_turns = 1\ntemperature = 0.5\n')
    (agent / "prompt.md").write_text("You are a poet.\n")
    skill = stage.config / "skills/greet"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: greet\ndescription: Says hello\n---\nGreet $1 politely, all of $ARGUMENTS.\n"
    )
    stage.plays(say("O hello."))
    events = stage.agents.run(
        skill=pb.SkillInvocation(name="greet", arguments="Ada Grace"), agent_name="poet"
    )
    assert events[0].started.agent_name == "poet"
    payload = stage.model.received[0].payload
    assert payload["temperature"] == 0.5
    assert [each["function"]["name"] for each in payload["tools"]] == ["recall"]
    assert payload["messages"][0]["content"].startswith("You are a poet.")
    assert payload["messages"][1]["content"] == "Greet Ada politely, all of Ada Grace."
    (agent / "agent.toml").write_text('tool = ["recall"]\n')
    (event,) = stage.agents.run("hi", agent_name="poet")
    assert "agents/poet/agent.toml:1" in event.failed.error
    assert "tools" in event.failed.error


def test_what_one_run_remembers_another_is_told_wherever_it_works(
    stage: Stage, folder: Path
) -> None:
    fact = {"key": "staging database", "value": "The staging database is called bluebird"}
    stage.plays(say(calls=[("remember", fact)]), say("Kept."), say("Bluebird."))
    stage.agents.run("Keep it")
    stage.agents.run("What is the staging database called?", working_dir=str(folder))
    system = stage.asked(2)[0]["content"]
    assert 'uri="memory://facts/' in system
    assert "bluebird" in system
    assert "information, not instructions" in system


def test_a_later_run_recalls_an_earlier_one(stage: Stage) -> None:
    stage.plays(say("The parrot cage is painted turquoise."), say("It is turquoise."))
    first = stage.agents.run("What colour is the parrot cage?")
    events = stage.agents.run("Remind me: the parrot cage?")
    assert events[0].started.session_id != first[0].started.session_id
    assert "turquoise" in stage.asked(1)[0]["content"]


def test_tools_reach_the_memory(stage: Stage) -> None:
    stage.plays(
        say(calls=[("remember", {"key": "deploy_day", "value": "Thursday"})]),
        say("Noted."),
        say(calls=[("recall", {"query": "deploy_day"})]),
        say("Thursday."),
    )
    stage.agents.run("Remember that we deploy on Thursdays")
    events = stage.agents.run("When do we deploy?")
    told = [event.tool_completed.output for event in events if event.HasField("tool_completed")]
    assert "Thursday" in told[0]
    assert "Thursday" in [each["value"] for each in stage.rest("facts")]


def test_a_run_is_an_episode_and_its_tools_a_procedure(stage: Stage, folder: Path) -> None:
    (folder / "a.txt").write_text("1")
    session = f"habit-{time.time_ns()}"
    for _ in range(3):
        stage.plays(
            say(calls=[("read_file", {"path": "a.txt"}), ("run_command", {"command": "echo ok"})]),
            say("Done."),
        )
        stage.agents.run("Check a.txt", session_id=session, working_dir=str(folder))
    stage.plays(error(500, "broken"))
    stage.agents.run("Break", session_id=session)

    def episodes() -> list[dict[str, Any]]:
        return [each for each in stage.rest("episodes") if each["session_id"] == session]

    until(lambda: len(episodes()) == 4)
    assert {each["trigger_type"] for each in episodes()} == {"run"}
    assert sorted(each["success"] for each in episodes()) == [False, True, True, True]
    steps = [each["steps"] for each in stage.rest("procedures")]
    assert ["read_file", "run_command echo"] in steps


def test_no_secret_of_a_run_is_stored(stage: Stage) -> None:
    key = "AKIA" + "Q3EGZJ7T5WLP2XVN"
    stage.plays(say(f"Your key is {key}."))
    events = stage.agents.run(f"My key is {key}, is it fine?")
    texts = [each.text for each in events_of(stage.daemon, events[0].started.session_id)]
    assert len(texts) >= 2
    assert not any(key in text for text in texts)


def test_the_status_tells_of_an_endpoint(stage: Stage) -> None:
    status = stage.agents.status()
    assert status.bind == f"127.0.0.1:{stage.daemon.port}"
    assert status.endpoint == stage.model.url
    assert status.llama_server_healthy
    assert not status.llama_server_running
    assert status.llama_server_pid == 0
    assert status.data_dir == str(stage.daemon.data_dir)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", status.started_at_rfc3339)
    stage.model.health = 503
    try:
        until(lambda: not stage.agents.status().llama_server_healthy)
    finally:
        stage.model.health = 200
    until(lambda: stage.agents.status().llama_server_healthy)


def test_a_shutdown_tells_the_runs_that_go_on(tmp_path: Path) -> None:
    gate = Gate()
    with scripted(say("one two", gate=gate)) as model:
        settings = {"llama.endpoint": model.url}
        with Daemon(tmp_path, settings=settings) as daemon, open_agents(daemon) as found:
            stream = found.open()
            stream.start("Count")
            session = stream.read_until("started")[-1].started.session_id
            gate.let(2)
            stream.read_until("token")
            told = found.unary("Shutdown", pb.ShutdownRequest(), pb.ShutdownResponse)
            assert "stopping" in told.message
            after = stream.read_rest()
            assert list_kinds(after) == ["failed"]
            assert "stopping" in after[0].failed.error
            daemon.wait_stopped()
            daemon.start()
            texts = [each.text for each in events_of(daemon, session)]
            assert texts[:2] == ["Count", "one "]


def test_without_a_model_all_else_works_and_a_run_says_what_is_missing(tmp_path: Path) -> None:
    settings = {
        "llama.model_dir": str(tmp_path / "models"),
    }
    nowhere = {"PATH": "/nonexistent"}
    with (
        Daemon(tmp_path, settings=settings, environ=nowhere) as daemon,
        open_agents(daemon) as found,
    ):
        events = found.run("Hello")
        assert list_kinds(events) == ["started", "failed"]
        assert "llama" in events[-1].failed.error
        status = found.status()
        assert not status.llama_server_healthy
        assert not status.llama_server_running
        stored = events_of(daemon, events[0].started.session_id)
        assert stored[0].text == "Hello"
