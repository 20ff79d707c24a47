"""Runs: an agent at work on one prompt, as a machine without I/O.

    idle ── start ──> preparing ──> thinking ──> deciding ──> thinking ...
                          │            │            │
                          └────────────┴────────────┴──> ended: completed, cancelled or failed

`step` takes what a client commands or what the world answers, and gives what the client is to be
told, what is to be done, and what is to be remembered, in this order of happening. Whatever comes
in which order: a run ends once, nothing is told after its end, and no call is remembered without
what came of it.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import NewType, assert_never

from agent_memory.features.log.model.metadata import Outcome
from agent_memory.features.runs.model.chats import (
    CallId,
    Message,
    ReasoningDelta,
    Role,
    TextDelta,
    ToolCall,
)
from agent_memory.kernel.errors import AgentMemoryError

RunId = NewType("RunId", str)

NOT_STARTED = "the first command must be a start"
SECOND_START = "a run goes on in this stream already: start another one in a stream of its own"
NOT_RUN = "not run: the run was ended before it was decided on"
NOBODY_LEFT = "the client had closed its side: nobody could decide"
STOPPED = "stopped: the run was ended while it ran, and a part of it may have been done"


# What a client commands.


@dataclass(frozen=True, slots=True)
class SkillInvocation:
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    prompt: str = ""
    session_id: str = ""
    agent_name: str = ""
    working_dir: str = ""
    skill: SkillInvocation | None = None


@dataclass(frozen=True, slots=True)
class Approve:
    call_id: CallId


@dataclass(frozen=True, slots=True)
class Deny:
    call_id: CallId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    pass


Command = Start | Approve | Deny | Cancel


# What the world answers.


@dataclass(frozen=True, slots=True)
class Begin:
    """A start, with the id that its run is given."""

    run_id: RunId
    start: Start


@dataclass(frozen=True, slots=True)
class InputClosed:
    """The client will command nothing more. It still wants its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """All that the start named is there."""

    session_id: str
    agent_name: str
    prompt: str
    max_turns: int


@dataclass(frozen=True, slots=True)
class RunError:
    """It cannot go on: something named is not there, the model gives no answer, the daemon ends."""

    error: str
    kind: type[AgentMemoryError] = AgentMemoryError


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    call: ToolCall
    preview: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStats:
    role: str
    tokens: int
    source: str  # system, history or memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSnapshot:
    """How the context is used. `memory` is the current run."""

    context_size: int
    system_tokens: int
    tool_tokens: int
    history_tokens: int
    memory_tokens: int
    history_messages: int
    memory_messages: int
    history_budget: int
    messages: tuple[MessageStats, ...]

    @property
    def total_tokens(self) -> int:
        return self.system_tokens + self.tool_tokens + self.history_tokens + self.memory_tokens

    @property
    def remaining_tokens(self) -> int:
        return self.context_size - self.total_tokens

    @property
    def total_messages(self) -> int:
        return len(self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished:
    """The model has said all of this turn."""

    snapshot: ContextSnapshot
    proposals: tuple[Proposal, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class ToolSucceeded:
    call_id: CallId
    output: str


@dataclass(frozen=True, slots=True)
class ToolErrored:
    call_id: CallId
    error: str


Input = (
    Begin
    | Approve
    | Deny
    | Cancel
    | InputClosed
    | Ready
    | RunError
    | TextDelta
    | ReasoningDelta
    | TurnFinished
    | ToolSucceeded
    | ToolErrored
)


# What the client is told.


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    run_id: RunId
    session_id: str
    agent_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompleted:
    content: str
    reasoning: str
    snapshot: ContextSnapshot


@dataclass(frozen=True, slots=True)
class ContextUsed:
    snapshot: ContextSnapshot


@dataclass(frozen=True, slots=True)
class ToolsProposed:
    proposals: tuple[Proposal, ...]


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    call_id: CallId


@dataclass(frozen=True, slots=True)
class ToolCallCompleted:
    call_id: CallId
    output: str


@dataclass(frozen=True, slots=True)
class ToolCallFailed:
    call_id: CallId
    error: str


@dataclass(frozen=True, slots=True)
class ToolsCompleted:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    run_id: RunId
    content: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class RunCancelled:
    run_id: RunId


@dataclass(frozen=True, slots=True)
class Failed:
    run_id: RunId
    error: str
    kind: type[AgentMemoryError] = AgentMemoryError


End = Completed | RunCancelled | Failed
RunEvent = (
    Started
    | TextDelta
    | ReasoningDelta
    | TurnCompleted
    | ContextUsed
    | ToolsProposed
    | ToolCallStarted
    | ToolCallCompleted
    | ToolCallFailed
    | ToolsCompleted
    | End
)


# What is to be done.


@dataclass(frozen=True, slots=True)
class Prepare:
    """Find what the start names. Answered with Ready or Broken."""

    run_id: RunId
    start: Start


@dataclass(frozen=True, slots=True)
class Ask:
    """Have the model go on. Answered with pieces and Turned, or Broken."""


@dataclass(frozen=True, slots=True)
class Execute:
    """Use this tool. Answered with Worked or NotWorked."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Abort:
    """Whatever is being done is no longer wanted."""


# What is to be remembered.


@dataclass(frozen=True, slots=True)
class Prompted:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """`calls` are what it wants to use, each of which is remembered by a `Used` of its own."""

    content: str
    calls: tuple[ToolCall, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUsed:
    call: ToolCall
    outcome: Outcome
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    outcome: Outcome
    error: str = ""


Recorded = Prompted | Answered | ToolUsed | RunFinished
Effect = Prepare | Ask | Execute | Abort
Output = RunEvent | Effect | Recorded


class Phase(Enum):
    IDLE = 0
    PREPARING = 1
    THINKING = 2
    DECIDING = 3
    ENDED = 4


class _CallStage(Enum):
    WAITING = 0  # for the client
    APPROVED = 1
    DENIED = 2
    RUNNING = 3
    DONE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingCall:
    call: ToolCall
    stage: _CallStage = _CallStage.WAITING
    reason: str = ""

    @property
    def running(self) -> bool:
        return self.stage is _CallStage.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    phase: Phase = Phase.IDLE
    run_id: RunId = RunId("")
    turn: int = 0
    max_turns: int = 0
    content: str = ""  # of this turn, so far
    reasoning: str = ""
    calls: tuple[_PendingCall, ...] = ()
    denied: bool = False
    hung_up: bool = False


Transition = tuple[State, tuple[Output, ...]]


def step(state: State, given: Input) -> Transition:
    """What follows from it. What does not fit the moment is passed by: it was late."""
    if isinstance(given, Begin) and state.phase is not Phase.IDLE:
        told = (Failed(given.run_id, SECOND_START),)
        return state, () if state.phase is Phase.ENDED else told
    if isinstance(given, InputClosed):
        state = replace(state, hung_up=True)
    match state.phase:
        case Phase.IDLE:
            return _step_idle(state, given)
        case Phase.PREPARING:
            return _step_preparing(state, given)
        case Phase.THINKING:
            return _step_thinking(state, given)
        case Phase.DECIDING:
            return _step_deciding(state, given)
        case Phase.ENDED:
            return state, ()
        case _:
            assert_never(state.phase)


def to_message(kept: Recorded) -> Message | None:
    """As the model is given it in the turns that follow."""
    match kept:
        case Prompted(text):
            return Message(role=Role.USER, content=text)
        case Answered():
            return Message(role=Role.ASSISTANT, content=kept.content, calls=kept.calls)
        case ToolUsed():
            failed = kept.outcome is not Outcome.COMPLETED
            text = f"error: {kept.text}" if failed else kept.text
            return Message(role=Role.TOOL, content=text, call_id=kept.call.call_id)
        case RunFinished():
            return None
        case _:
            assert_never(kept)


def _step_idle(state: State, given: Input) -> Transition:
    match given:
        case Begin(run_id, start):
            return replace(state, phase=Phase.PREPARING, run_id=run_id), (Prepare(run_id, start),)
        case RunError():
            return replace(state, phase=Phase.ENDED), (_build_failure(state, given),)
        case Approve() | Deny() | Cancel() | InputClosed():
            return replace(state, phase=Phase.ENDED), (Failed(state.run_id, NOT_STARTED),)
        case _:
            return state, ()


def _step_preparing(state: State, given: Input) -> Transition:
    """Nothing of it is remembered before all that it needs is there."""
    match given:
        case Ready():
            told = Started(
                run_id=state.run_id, session_id=given.session_id, agent_name=given.agent_name
            )
            after = replace(state, phase=Phase.THINKING, turn=1, max_turns=given.max_turns)
            return after, (Prompted(given.prompt), told, Ask())
        case RunError():
            return replace(state, phase=Phase.ENDED), (Abort(), _build_failure(state, given))
        case Cancel():
            return replace(state, phase=Phase.ENDED), (Abort(), RunCancelled(state.run_id))
        case _:
            return state, ()


def _step_thinking(state: State, given: Input) -> Transition:
    match given:
        case TextDelta(text):
            return replace(state, content=state.content + text), (given,)
        case ReasoningDelta(text):
            return replace(state, reasoning=state.reasoning + text), (given,)
        case TurnFinished():
            return _finish_turn(state, given)
        case Cancel() | RunError():
            return _end_run(state, given)
        case _:
            return state, ()


def _finish_turn(state: State, given: TurnFinished) -> Transition:
    calls = tuple(each.call for each in given.proposals)
    told = (
        Answered(content=state.content, calls=calls, whole=given.whole),
        TurnCompleted(content=state.content, reasoning=state.reasoning, snapshot=given.snapshot),
        ContextUsed(given.snapshot),
    )
    if not calls:
        end = Completed(run_id=state.run_id, content=state.content, reasoning=state.reasoning)
        return replace(state, phase=Phase.ENDED), (
            *told,
            RunFinished(outcome=Outcome.COMPLETED),
            end,
        )
    after = replace(
        state,
        phase=Phase.DECIDING,
        content="",
        reasoning="",
        calls=tuple(_PendingCall(call=call) for call in calls),
    )
    after, more = _deny_waiting(after) if state.hung_up else (after, ())
    return after, (*told, ToolsProposed(given.proposals), *more)


def _step_deciding(state: State, given: Input) -> Transition:
    match given:
        case Approve(call_id):
            return _decide_call(state, call_id, _CallStage.APPROVED, "")
        case Deny(call_id, reason):
            return _decide_call(state, call_id, _CallStage.DENIED, reason)
        case ToolSucceeded(call_id, output):
            return _finish_call(state, call_id, Outcome.COMPLETED, output)
        case ToolErrored(call_id, error):
            return _finish_call(state, call_id, Outcome.FAILED, error)
        case InputClosed():
            return _deny_waiting(state)
        case Cancel() | RunError():
            return _end_run(state, given)
        case _:
            return state, ()


def _deny_waiting(state: State) -> Transition:
    """Whatever still waits for a decision is denied."""
    for at, each in enumerate(state.calls):
        if each.stage is _CallStage.WAITING:
            state = _update_call(state, at, _CallStage.DENIED, NOBODY_LEFT)
    return _advance(state)


def _decide_call(state: State, call_id: CallId, stage: _CallStage, reason: str) -> Transition:
    """The first decision on a call counts."""
    at = _find(state, call_id, _CallStage.WAITING)
    if at is None:
        return state, ()
    return _advance(_update_call(state, at, stage, reason))


def _finish_call(state: State, call_id: CallId, outcome: Outcome, text: str) -> Transition:
    at = _find(state, call_id, _CallStage.RUNNING)
    if at is None:
        return state, ()
    done = outcome is Outcome.COMPLETED
    told = ToolCallCompleted(call_id, text) if done else ToolCallFailed(call_id, text)
    after, more = _advance(_update_call(state, at, _CallStage.DONE))
    return after, (ToolUsed(call=state.calls[at].call, outcome=outcome, text=text), told, *more)


def _advance(state: State) -> Transition:
    """In the model's order: the next call that is decided on, or what follows the last."""
    outputs: list[Output] = []
    for at, each in enumerate(state.calls):
        if each.stage is _CallStage.DENIED:
            outputs.append(_record_denial(each))
            state = replace(_update_call(state, at, _CallStage.DONE), denied=True)
        elif each.stage is _CallStage.APPROVED:
            outputs += [ToolCallStarted(each.call.call_id), Execute(each.call)]
            return _update_call(state, at, _CallStage.RUNNING), tuple(outputs)
        elif each.stage is not _CallStage.DONE:
            return state, tuple(outputs)
    outputs.append(ToolsCompleted())
    if state.denied:
        ended = (RunFinished(outcome=Outcome.DENIED), RunCancelled(state.run_id))
        return replace(state, phase=Phase.ENDED), (*outputs, *ended)
    if state.turn >= state.max_turns:
        error = f"stopped after {state.turn} turns: the model kept asking for tools"
        over = (RunFinished(outcome=Outcome.FAILED, error=error), Failed(state.run_id, error))
        return replace(state, phase=Phase.ENDED), (*outputs, *over)
    after = replace(state, phase=Phase.THINKING, turn=state.turn + 1, calls=())
    return after, (*outputs, Ask())


def _end_run(state: State, given: Cancel | RunError) -> Transition:
    """Before its time. What was begun is remembered as far as it came."""
    outputs: list[Output] = [Abort()]
    if state.content:
        outputs.append(Answered(content=state.content, whole=False))
    for each in state.calls:
        if each.stage is _CallStage.DENIED:
            outputs.append(_record_denial(each))
        elif each.stage is not _CallStage.DONE:
            text = STOPPED if each.stage is _CallStage.RUNNING else NOT_RUN
            outputs.append(ToolUsed(call=each.call, outcome=Outcome.CANCELLED, text=text))
    if isinstance(given, Cancel):
        outputs += [RunFinished(outcome=Outcome.CANCELLED), RunCancelled(state.run_id)]
    else:
        outputs += [
            RunFinished(outcome=Outcome.FAILED, error=given.error),
            _build_failure(state, given),
        ]
    return replace(state, phase=Phase.ENDED), tuple(outputs)


def _build_failure(state: State, given: RunError) -> Failed:
    return Failed(state.run_id, given.error, given.kind)


def _record_denial(given: _PendingCall) -> ToolUsed:
    text = f"denied: {given.reason}" if given.reason else "denied"
    return ToolUsed(call=given.call, outcome=Outcome.DENIED, text=text)


def _find(state: State, call_id: CallId, stage: _CallStage) -> int | None:
    for at, each in enumerate(state.calls):
        if each.call.call_id == call_id and each.stage is stage:
            return at
    return None


def _update_call(state: State, at: int, stage: _CallStage, reason: str = "") -> State:
    changed = replace(state.calls[at], stage=stage, reason=reason)
    return replace(state, calls=(*state.calls[:at], changed, *state.calls[at + 1 :]))
