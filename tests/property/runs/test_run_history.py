"""Whatever happens in a run: what is read back of it is what the run itself had."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.runs.model import machine
from agent_memory.features.runs.model.chats import (
    CallId,
    Message,
    MessageRole,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)
from agent_memory.features.runs.model.machine import (
    Approve,
    Begin,
    Cancel,
    ContextSnapshot,
    Deny,
    Input,
    Phase,
    Proposal,
    Ready,
    Recorded,
    RunError,
    RunId,
    Start,
    State,
    ToolErrored,
    ToolSucceeded,
    ToolUsed,
    TurnFinished,
)
from agent_memory.features.runs.services.recorder import RunMemory
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.kernel.ids import Millis, SessionId
from agent_memory.kernel.text.untrusted import replace_hidden
from tests.contract.stores import memory
from tests.conversation_samples import START
from tests.run_samples import build_chat, check_chat, make_about

WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
ARGUMENTS = st.one_of(
    st.dictionaries(st.sampled_from(("path", "command", "content", "x")), WORDS).map(json.dumps),
    WORDS,
)
NAMES = st.sampled_from(("read_file", "write_file", "run_command", "nothing", "web_fetch"))
IDS = tuple(map(CallId, "abc"))
ANY_ID = st.sampled_from(IDS)
UNUSED = ContextSnapshot(
    context_size=1,
    system_tokens=0,
    tool_tokens=0,
    history_tokens=0,
    memory_tokens=0,
    history_messages=0,
    memory_messages=0,
    history_budget=0,
    messages=(),
)


@st.composite
def turns(draw: st.DrawFn) -> TurnFinished:
    ids = draw(st.lists(ANY_ID, unique=True, min_size=draw(st.sampled_from((0, 1, 1, 1)))))
    calls = [ToolCall(call_id=each, name=draw(NAMES), arguments=draw(ARGUMENTS)) for each in ids]
    return TurnFinished(
        snapshot=UNUSED,
        proposals=tuple(Proposal(call=each) for each in calls),
        whole=draw(st.booleans()),
    )


@st.composite
def inputs(draw: st.DrawFn, phase: Phase) -> Input:
    """What fits the moment, mostly; what ends a run comes seldom."""
    words, fate = draw(WORDS), draw(st.integers(0, 19))
    if fate == 0:
        return Cancel() if draw(st.booleans()) else RunError(words)
    if phase is Phase.THINKING and fate > 1:
        return (
            TextDelta(words) if fate < 8 else ReasoningDelta(words) if fate < 10 else draw(turns())
        )
    call_id = draw(ANY_ID)
    if fate < 4:
        return Deny(call_id, words) if draw(st.booleans()) else ToolErrored(call_id, words)
    return Approve(call_id) if fate < 12 else ToolSucceeded(call_id, words)


@st.composite
def what_is_kept(draw: st.DrawFn) -> Sequence[Recorded]:
    state, stored = State(), list[Recorded]()
    ready = Ready(session_id="s", agent_name="default", prompt=draw(WORDS), max_turns=4)
    given: Input = Begin(RunId("r"), Start(prompt="x"))
    for number in range(draw(st.integers(2, 40))):
        state, outputs = machine.step(state, given)
        stored += [each for each in outputs if isinstance(each, Recorded)]
        given = ready if number == 0 else draw(inputs(state.phase))
        if state.phase is Phase.ENDED:
            break
    return stored


class Stopped:
    def now(self) -> Millis:
        return Millis(START)


def settled(stored: Sequence[Recorded]) -> list[Message]:
    """What the run had, as far as anything came of it: what is proposed and not yet done is not
    kept, nor an answer without words."""
    used = [id(each.call) for each in stored if isinstance(each, ToolUsed)]
    messages = [
        replace(each, calls=tuple(one for one in each.calls if id(one) in used))
        for each in build_chat(stored)
    ]
    return [
        each
        for each in messages
        if each.role is not MessageRole.ASSISTANT or each.content or each.calls
    ]


@settings(deadline=None, max_examples=2 * settings().max_examples)
@given(st.lists(what_is_kept(), min_size=1, max_size=3))
def test_any_run_is_read_back_as_it_was(some: Sequence[Sequence[Recorded]]) -> None:
    store = memory(Path())
    log = StoredEventLog(store)
    remembered = RunMemory(
        ingest=Ingest(log=log, secrets=PassThrough(), on_record=lambda: None),
        log=log,
        knowledge=StoredKnowledge(store),
        clock=Stopped(),  # so that only the ids tell what came first
    )
    for number, stored in enumerate(some):
        diary = remembered.open_recorder(make_about(run=f"r{number}"))
        for each in stored:
            diary.record(each)
        diary.flush()
    found = remembered.history(SessionId("s"))
    store.close()
    check_chat([each for exchange in found for each in exchange])
    assert len(found) == len(some)
    for exchange, stored in zip(found, some, strict=True):
        expected = [replace(each, content=replace_hidden(each.content)) for each in settled(stored)]
        assert list(exchange[: len(expected)]) == expected
        added = exchange[len(expected) :]
        assert len(added) == (0 if expected[-1].role is MessageRole.ASSISTANT else 1)
        assert all(each.content.startswith("[") for each in added)
