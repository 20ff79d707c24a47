"""Runs on the wire: whatever is said arrives as it was said, both ways."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.domain import runs
from agent_memory.domain.chats import Call, CallId, Text, Thought
from agent_memory.interfaces import run_wire
from agent_memory.proto import kontekst_pb2 as pb

texts = st.text(st.characters(codec="utf-8"), max_size=20)
ids = texts.map(CallId)
run_ids = texts.map(runs.RunId)
counts = st.integers(0, (1 << 31) - 1)
skills = st.builds(runs.SkillInvocation, texts, texts)
stats = st.builds(runs.MessageStats, role=texts, tokens=counts, source=texts)
small = st.integers(0, 1 << 20)  # their sum must fit, too
snapshots = st.builds(
    runs.Snapshot,
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
proposals = st.builds(runs.Proposal, call=calls, preview=texts)

commands = st.one_of(
    st.builds(
        runs.Start,
        prompt=texts,
        session_id=texts,
        agent_name=texts,
        working_dir=texts,
        skill=st.none() | skills,
    ),
    st.builds(runs.Approve, ids),
    st.builds(runs.Deny, ids, texts),
    st.builds(runs.Cancel),
)
events = st.one_of(
    st.builds(runs.Started, run_id=run_ids, session_id=texts, agent_name=texts),
    st.builds(Text, texts),
    st.builds(Thought, texts),
    st.builds(runs.TurnCompleted, content=texts, reasoning=texts, snapshot=snapshots),
    st.builds(runs.ContextUsed, snapshots),
    st.builds(runs.ToolsProposed, st.lists(proposals, max_size=3).map(tuple)),
    st.builds(runs.ToolStarted, ids),
    st.builds(runs.ToolCompleted, ids, texts),
    st.builds(runs.ToolFailed, ids, texts),
    st.builds(runs.ToolsCompleted),
    st.builds(runs.Completed, run_id=run_ids, content=texts, reasoning=texts),
    st.builds(runs.RunCancelled, run_ids),
    st.builds(runs.Failed, run_ids, texts),
)


@given(commands)
def test_a_command_arrives_as_it_was_sent(command: runs.Command) -> None:
    sent = run_wire.command_out(command).SerializeToString()
    assert run_wire.command_in(pb.RunCommand.FromString(sent)) == command


@given(events)
def test_an_event_arrives_as_it_was_told(event: runs.Event) -> None:
    sent = run_wire.event_out(event).SerializeToString()
    assert run_wire.event_in(pb.RunEvent.FromString(sent)) == event


def test_what_nobody_knows_is_nothing() -> None:
    assert run_wire.command_in(pb.RunCommand()) is None
    assert run_wire.event_in(pb.RunEvent()) is None
