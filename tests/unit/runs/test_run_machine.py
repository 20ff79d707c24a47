"""The machine of a run: every order in which commands and answers can come, and what follows."""

from dataclasses import dataclass, field, replace

import pytest

from agent_memory.features.log.model.metadata import Outcome
from agent_memory.features.runs.model import machine
from agent_memory.features.runs.model.chats import CallId, ReasoningDelta, TextDelta, ToolCall
from agent_memory.features.runs.model.machine import (
    Abort,
    Answered,
    Approve,
    Ask,
    Begin,
    Cancel,
    Completed,
    ContextSnapshot,
    ContextUsed,
    Deny,
    Execute,
    Failed,
    Input,
    InputClosed,
    Output,
    Phase,
    Prepare,
    Prompted,
    Proposal,
    Ready,
    RunCancelled,
    RunError,
    RunFinished,
    RunId,
    Start,
    Started,
    State,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolErrored,
    ToolsCompleted,
    ToolsProposed,
    ToolSucceeded,
    ToolUsed,
    TurnCompleted,
    TurnFinished,
)

NOBODY, RUN, OTHER = RunId(""), RunId("run"), RunId("other")
START = Start(prompt="Mend it")
BEGIN = Begin(RUN, START)
SNAPSHOT = ContextSnapshot(
    context_size=100,
    system_tokens=10,
    tool_tokens=5,
    history_tokens=3,
    memory_tokens=2,
    history_messages=1,
    memory_messages=1,
    history_budget=50,
    messages=(),
)
A, B = (ToolCall(call_id=CallId(name), name="read_file", arguments="{}") for name in "ab")
BOTH = TurnFinished(snapshot=SNAPSHOT, proposals=(Proposal(call=A, preview="-x"), Proposal(call=B)))
DONE = TurnFinished(snapshot=SNAPSHOT)
READY = Ready(session_id="s", agent_name="default", prompt="Mend it", max_turns=2)


def after(*given: Input) -> tuple[State, list[Output]]:
    state, told = State(), list[Output]()
    for each in given:
        state, outputs = machine.step(state, each)
        told += outputs
    return state, told


def last(*given: Input) -> tuple[Output, ...]:
    """What the last of these leads to."""
    state, _ = after(*given[:-1])
    return machine.step(state, given[-1])[1]


def test_a_plain_answer() -> None:
    _, told = after(BEGIN, READY, ReasoningDelta("hm"), TextDelta("o"), TextDelta("k"), DONE)
    assert told == [
        Prepare(RUN, START),
        Prompted("Mend it"),
        Started(run_id=RUN, session_id="s", agent_name="default"),
        Ask(),
        ReasoningDelta("hm"),
        TextDelta("o"),
        TextDelta("k"),
        Answered(content="ok"),
        TurnCompleted(content="ok", reasoning="hm", snapshot=SNAPSHOT),
        ContextUsed(SNAPSHOT),
        RunFinished(outcome=Outcome.COMPLETED),
        Completed(run_id=RUN, content="ok", reasoning="hm"),
    ]


def test_calls_are_done_in_the_models_order_however_they_are_approved() -> None:
    _, told = after(
        BEGIN,
        READY,
        TextDelta("look"),
        BOTH,
        Approve(B.call_id),
        Approve(A.call_id),
        ToolSucceeded(A.call_id, "1"),
        ToolErrored(B.call_id, "2"),
        DONE,
    )
    assert told[5:-4] == [
        Answered(content="look", calls=(A, B)),
        TurnCompleted(content="look", reasoning="", snapshot=SNAPSHOT),
        ContextUsed(SNAPSHOT),
        ToolsProposed(BOTH.proposals),
        ToolCallStarted(A.call_id),
        Execute(A),
        ToolUsed(call=A, outcome=Outcome.COMPLETED, text="1"),
        ToolCallCompleted(A.call_id, "1"),
        ToolCallStarted(B.call_id),
        Execute(B),
        ToolUsed(call=B, outcome=Outcome.FAILED, text="2"),
        ToolCallFailed(B.call_id, "2"),
        ToolsCompleted(),
        Ask(),
        Answered(content=""),
    ]
    assert told[-1] == Completed(run_id=RUN, content="", reasoning="")


def test_a_denied_call_ends_the_run_once_its_siblings_are_done() -> None:
    begun = (BEGIN, READY, BOTH, Deny(A.call_id, "not here"), Approve(B.call_id))
    assert last(*begun[:-1]) == (ToolUsed(call=A, outcome=Outcome.DENIED, text="denied: not here"),)
    assert last(*begun) == (ToolCallStarted(B.call_id), Execute(B))
    assert last(*begun, ToolSucceeded(B.call_id, "2")) == (
        ToolUsed(call=B, outcome=Outcome.COMPLETED, text="2"),
        ToolCallCompleted(B.call_id, "2"),
        ToolsCompleted(),
        RunFinished(outcome=Outcome.DENIED),
        RunCancelled(RUN),
    )


@pytest.mark.parametrize("end", [Cancel(), RunError("no power")])
def test_an_early_end_leaves_no_call_without_a_result(end: Cancel | RunError) -> None:
    told = last(BEGIN, READY, BOTH, Approve(A.call_id), end)
    assert told[:3] == (
        Abort(),
        ToolUsed(call=A, outcome=Outcome.CANCELLED, text=machine.STOPPED),
        ToolUsed(call=B, outcome=Outcome.CANCELLED, text=machine.NOT_RUN),
    )
    assert told[3:] == (
        (RunFinished(outcome=Outcome.CANCELLED), RunCancelled(RUN))
        if isinstance(end, Cancel)
        else (RunFinished(outcome=Outcome.FAILED, error="no power"), Failed(RUN, "no power"))
    )


def test_what_was_said_before_a_cancel_is_remembered_as_cut() -> None:
    told = last(BEGIN, READY, TextDelta("half a"), Cancel())
    assert told[:2] == (Abort(), Answered(content="half a", whole=False))


def test_a_second_start_fails_and_the_first_goes_on() -> None:
    second = Begin(OTHER, START)
    assert last(BEGIN, READY, second) == (Failed(OTHER, machine.SECOND_START),)
    _, told = after(BEGIN, second, READY, second, TextDelta("ok"), second, DONE)
    assert told[-1] == Completed(run_id=RUN, content="ok", reasoning="")
    assert last(BEGIN, READY, DONE, second) == ()


@pytest.mark.parametrize("first", [Approve(A.call_id), Deny(A.call_id), Cancel()])
def test_the_first_command_must_be_a_start(first: Input) -> None:
    state, told = after(first)
    assert told == [Failed(RunId(""), machine.NOT_STARTED)]
    assert state.phase is Phase.ENDED


def test_what_cannot_be_prepared_leaves_no_trace() -> None:
    _, told = after(BEGIN, RunError("there is no agent 'x'"))
    assert told == [Prepare(RUN, START), Abort(), Failed(RUN, "there is no agent 'x'")]


def test_an_endless_loop_of_tools_is_stopped_by_the_limit_of_turns() -> None:
    turn = (BOTH, Approve(A.call_id), Approve(B.call_id))
    work = (ToolSucceeded(A.call_id, "1"), ToolSucceeded(B.call_id, "2"))
    _, told = after(BEGIN, READY, *turn, *work, *turn, *work)
    end = told[-1]
    assert isinstance(end, Failed)
    assert "after 2 turns" in end.error
    assert told.count(Ask()) == 2


def test_a_client_that_closed_its_input_gets_its_answer_and_decides_nothing() -> None:
    _, told = after(BEGIN, READY, InputClosed(), TextDelta("ok"), DONE)
    assert told[-1] == Completed(run_id=RUN, content="ok", reasoning="")
    denied = [
        ToolUsed(call=call, outcome=Outcome.DENIED, text=f"denied: {machine.CLIENT_CLOSED}")
        for call in (A, B)
    ]
    end = [ToolsCompleted(), RunFinished(outcome=Outcome.DENIED), RunCancelled(RUN)]
    assert after(BEGIN, READY, InputClosed(), BOTH)[1][-5:] == [*denied, *end]
    assert after(BEGIN, READY, BOTH, InputClosed())[1][-5:] == [*denied, *end]
    went_on = after(
        BEGIN, READY, BOTH, Approve(A.call_id), InputClosed(), ToolSucceeded(A.call_id, "1")
    )[1]
    assert ToolCallCompleted(A.call_id, "1") in went_on
    assert went_on[-4:] == [denied[1], *end]


@dataclass(frozen=True)
class Seen:
    """What an onlooker remembers of a run, to tell whether the next thing may happen."""

    own: RunId = NOBODY
    asked: bool = False  # the model, the tools or the preparation, and no answer yet
    started: bool = False
    prompted: bool = False
    finished: bool = False
    ended: bool = False
    alone: bool = False  # the client has hung up
    proposed: frozenset[CallId] = frozenset()
    approved: frozenset[CallId] = frozenset()
    denied: frozenset[CallId] = frozenset()
    open: tuple[CallId, ...] = field(default=())  # remembered calls without a result


ALPHABET: tuple[Input, ...] = (
    BEGIN,
    Begin(OTHER, START),
    READY,
    RunError("broken"),
    TextDelta("x"),
    ReasoningDelta("y"),
    BOTH,
    DONE,
    Approve(A.call_id),
    Approve(B.call_id),
    Approve(CallId("unknown")),
    Deny(A.call_id, "no"),
    Deny(B.call_id, "no"),
    ToolSucceeded(A.call_id, "out"),
    ToolErrored(B.call_id, "error"),
    ToolSucceeded(B.call_id, "out"),
    InputClosed(),
    Cancel(),
)


def test_whatever_comes_in_whatever_order_a_run_stays_sound() -> None:
    """All states that these inputs lead to, in any order and number, within the turns of one run;
    texts longer than a sign are no other state."""
    todo, known = [(State(), Seen())], set[tuple[State, Seen]]()
    while todo:
        state, seen = todo.pop()
        if (state, seen) in known:
            continue
        known.add((state, seen))
        for given in ALPHABET:
            if isinstance(given, Begin) and given.run_id == seen.own:
                continue  # an id is given once
            following, outputs = machine.step(state, given)
            looked = watched(seen, given, outputs)
            assert looked.ended == (following.phase is Phase.ENDED)
            todo.append((replace(following, content=following.content[:1], reasoning=""), looked))
    assert len(known) > 100
    assert {state.phase for state, _ in known} == set(Phase)


def watched(seen: Seen, given: Input, outputs: tuple[Output, ...]) -> Seen:
    """The same after these outputs; fails where one of them must not be."""
    if seen.ended:
        assert outputs == ()
    if isinstance(given, Approve) and given.call_id not in seen.denied:
        seen = replace(seen, approved=seen.approved | ({given.call_id} & seen.proposed))
    if isinstance(given, Deny) and given.call_id not in seen.approved:
        seen = replace(seen, denied=seen.denied | ({given.call_id} & seen.proposed))
    if isinstance(given, InputClosed) and not seen.ended:
        seen = replace(seen, alone=True, denied=seen.denied | (seen.proposed - seen.approved))
    for each in outputs:
        assert not seen.ended, "something after the end"
        seen = one_more(seen, each)
    return seen


def one_more(seen: Seen, output: Output) -> Seen:
    match output:
        case Prepare(run_id=run_id):
            return replace(seen, own=run_id, asked=True)
        case Ask():
            assert not seen.open
            return replace(
                seen, asked=True, proposed=frozenset(), approved=frozenset(), denied=frozenset()
            )
        case Prompted():
            assert not seen.prompted
            return replace(seen, prompted=True)
        case Started():
            assert seen.prompted
            assert not seen.started
            return replace(seen, started=True)
        case TextDelta() | ReasoningDelta() | ContextUsed() | ToolsCompleted():
            assert seen.started
            return seen
        case TurnCompleted():
            return replace(seen, asked=False)
        case Answered():
            assert not seen.open
            return replace(seen, open=tuple(call.call_id for call in output.calls))
        case ToolsProposed():
            names = frozenset(each.call.call_id for each in output.proposals)
            assert names == set(seen.open)
            return replace(seen, proposed=names, denied=names if seen.alone else frozenset())
        case ToolCallStarted():
            assert output.call_id == seen.open[0], "out of the model's order"
            return seen
        case Execute():
            assert output.call.call_id in seen.approved, "not approved"
            assert not seen.asked, "two things at once"
            return replace(seen, asked=True)
        case ToolCallCompleted() | ToolCallFailed():
            return replace(seen, asked=False)
        case ToolUsed():
            assert output.call.call_id == seen.open[0], "out of the model's order"
            if output.outcome in (Outcome.COMPLETED, Outcome.FAILED):
                assert output.call.call_id in seen.approved
            if output.outcome is Outcome.DENIED:
                assert output.call.call_id in seen.denied
            return replace(seen, open=seen.open[1:])
        case Abort():
            return replace(seen, asked=False)
        case RunFinished():
            assert seen.prompted
            assert not seen.finished
            assert not seen.open, "a call without a result"
            return replace(seen, finished=True)
        case Failed(run_id=run_id) if run_id != seen.own:
            return seen  # a second start
        case Completed() | RunCancelled() | Failed():
            assert output.run_id == seen.own
            assert seen.finished == seen.prompted
            assert not seen.asked, "something goes on after the end"
            return replace(seen, ended=True)


def test_the_snapshot_sums_up() -> None:
    assert SNAPSHOT.total_tokens == 20
    assert SNAPSHOT.remaining_tokens == 80
