"""Runs on the wire: whatever is said arrives as it was said, both ways."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.model import machine
from agent_memory.features.runs.model.chats import Call, CallId, Text, Thought
from agent_memory.interfaces import run_wire
from agent_memory.proto import kontekst_pb2 as pb

texts = st.text(st.characters(codec="utf-8"), max_size=20)
ids = texts.map(CallId)
run_ids = texts.map(machine.RunId)
counts = st.integers(0, (1 << 31) - 1)
skills = st.builds(machine.SkillInvocation, texts, texts)
stats = st.builds(machine.MessageStats, role=texts, tokens=counts, source=texts)
small = st.integers(0, 1 << 20)  # their sum must fit, too
snapshots = st.builds(
    machine.Snapshot,
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
calls = st.builds(Call, call_id=ids, name=texts, arguments=texts)
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
    st.builds(Text, texts),
    st.builds(Thought, texts),
    st.builds(machine.TurnCompleted, content=texts, reasoning=texts, snapshot=snapshots),
    st.builds(machine.ContextUsed, snapshots),
    st.builds(machine.ToolsProposed, st.lists(proposals, max_size=3).map(tuple)),
    st.builds(machine.ToolStarted, ids),
    st.builds(machine.ToolCompleted, ids, texts),
    st.builds(machine.ToolFailed, ids, texts),
    st.builds(machine.ToolsCompleted),
    st.builds(machine.Completed, run_id=run_ids, content=texts, reasoning=texts),
    st.builds(machine.RunCancelled, run_ids),
    st.builds(machine.Failed, run_ids, texts),
)


@given(commands)
def test_a_command_arrives_as_it_was_sent(command: machine.Command) -> None:
    sent = run_wire.command_out(command).SerializeToString()
    assert run_wire.command_in(pb.RunCommand.FromString(sent)) == command


@given(events)
def test_an_event_arrives_as_it_was_told(event: machine.Event) -> None:
    sent = run_wire.event_out(event).SerializeToString()
    assert run_wire.event_in(pb.RunEvent.FromString(sent)) == event


def test_what_nobody_knows_is_nothing() -> None:
    assert run_wire.command_in(pb.RunCommand()) is None
    assert run_wire.event_in(pb.RunEvent()) is None
