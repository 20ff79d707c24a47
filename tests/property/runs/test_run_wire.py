"""Runs on the wire: whatever is said arrives as it was said, both ways."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.interfaces import run_wire
from agent_memory.features.runs.model import machine
from agent_memory.features.runs.model.chats import CallId, ReasoningDelta, TextDelta, ToolCall
from agent_memory.proto import kontekst_pb2 as pb

texts = st.text(st.characters(codec="utf-8"), max_size=20)
ids = texts.map(CallId)
run_ids = texts.map(machine.RunId)
counts = st.integers(0, (1 << 31) - 1)
skills = st.builds(machine.SkillInvocation, texts, texts)
stats = st.builds(machine.MessageStats, role=texts, tokens=counts, source=texts)
small = st.integers(0, 1 << 20)  # their sum must fit, too
snapshots = st.builds(
    machine.ContextSnapshot,
    context_size=counts,
    system_tokens=small,
    tool_tokens=small,
    history_tokens=small,
    memory_tokens=small,
    history_messages=counts,
    memory_messages=counts,
    history_budget=counts,
    messages=st.lists(stats, max_size=3).map(tuple),
)
calls = st.builds(ToolCall, call_id=ids, name=texts, arguments=texts)
proposals = st.builds(machine.Proposal, call=calls, preview=texts)

commands = st.one_of(
    st.builds(
        machine.Start,
        prompt=texts,
        session_id=texts,
        agent_name=texts,
        working_dir=texts,
        skill=st.none() | skills,
    ),
    st.builds(machine.Approve, ids),
    st.builds(machine.Deny, ids, texts),
    st.builds(machine.Cancel),
)
events = st.one_of(
    st.builds(machine.Started, run_id=run_ids, session_id=texts, agent_name=texts),
    st.builds(TextDelta, texts),
    st.builds(ReasoningDelta, texts),
    st.builds(machine.TurnCompleted, content=texts, reasoning=texts, snapshot=snapshots),
    st.builds(machine.ContextUsed, snapshots),
    st.builds(machine.ToolsProposed, st.lists(proposals, max_size=3).map(tuple)),
    st.builds(machine.ToolCallStarted, ids),
    st.builds(machine.ToolCallCompleted, ids, texts),
    st.builds(machine.ToolCallFailed, ids, texts),
    st.builds(machine.ToolsCompleted),
    st.builds(machine.Completed, run_id=run_ids, content=texts, reasoning=texts),
    st.builds(machine.RunCancelled, run_ids),
    st.builds(machine.Failed, run_ids, texts),
)


@given(commands)
def test_a_command_arrives_as_it_was_sent(command: machine.Command) -> None:
    sent = run_wire.command_to_proto(command).SerializeToString()
    assert run_wire.parse_command(pb.RunCommand.FromString(sent)) == command


@given(events)
def test_an_event_arrives_as_it_was_told(event: machine.RunEvent) -> None:
    sent = run_wire.event_to_proto(event).SerializeToString()
    assert run_wire.parse_event(pb.RunEvent.FromString(sent)) == event


def test_what_nobody_knows_is_nothing() -> None:
    assert run_wire.parse_command(pb.RunCommand()) is None
    assert run_wire.parse_event(pb.RunEvent()) is None
