"""The state machine of a run: an agent that works on one prompt. It does no I/O.

    idle ── start ──> preparing ──> thinking ──> deciding ──> thinking ...
                          │            │            │
                          └────────────┴────────────┴──> ended: completed, cancelled or failed

`step` takes a command of the client or the result of an effect. It returns events for the client,
effects to perform, and records for the event log, in the order in which they happen. For any order
of inputs: a run ends once, no event follows its end, and every recorded call has a recorded result.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import NewType, assert_never

from agent_memory.features.log.model.metadata import Outcome
from agent_memory.features.runs.model.chats import (
    CallId,
    Message,
    MessageRole,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import AgentMemoryError

RunId = NewType("RunId", str)

NOT_STARTED = "the first command must be a start"
SECOND_START = "this stream already has a run: start another one in a stream of its own"
NOT_RUN = "not run: the run ended before a decision"
CLIENT_CLOSED = "the client closed its side before a decision"
STOPPED = "stopped: the run ended during this call, and a part of it may have been done"


# Commands of the client.


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


# Results of effects.


@dataclass(frozen=True, slots=True)
class Begin:
    """A start, with the id of its run."""

    run_id: RunId
    start: Start


@dataclass(frozen=True, slots=True)
class InputClosed:
    """The client sends no more commands. It still waits for the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Everything that the start names exists."""

    session_id: str
    agent_name: str
    prompt: str
    max_turns: int


@dataclass(frozen=True, slots=True)
class RunError:
    """The run cannot continue: a named thing is missing, the model fails, or the daemon stops."""

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
    """The use of the context, in tokens. `memory` is the current run."""

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
    """The end of the model's answer in this turn. `whole` is False if the answer was cut."""

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


# Events for the client.


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


# Effects.


@dataclass(frozen=True, slots=True)
class Prepare:
    """Load what the start names. The result is Ready or RunError."""

    run_id: RunId
    start: Start


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model for its next turn. The result is deltas and TurnFinished, or RunError."""


@dataclass(frozen=True, slots=True)
class Execute:
    """Call this tool. The result is ToolSucceeded or ToolErrored."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Abort:
    """Cancel every effect in progress."""


# Records for the event log.


@dataclass(frozen=True, slots=True)
class Prompted:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer of the model. Each of its `calls` is recorded by its own `ToolUsed`."""

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
    WAITING = 0  # for a decision of the client
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
    content: str = ""  # of this turn so far
    reasoning: str = ""
    calls: tuple[_PendingCall, ...] = ()
    denied: bool = False
    input_closed: bool = False


Transition = tuple[State, tuple[Output, ...]]


def step(state: State, incoming: Input) -> Transition:
    """Return the next state and its outputs. Ignore inputs that come too late."""
    if isinstance(incoming, Begin) and state.phase is not Phase.IDLE:
        failed = (Failed(incoming.run_id, SECOND_START),)
        return state, () if state.phase is Phase.ENDED else failed
    if isinstance(incoming, InputClosed):
        state = replace(state, input_closed=True)
    match state.phase:
        case Phase.IDLE:
            return _step_idle(state, incoming)
        case Phase.PREPARING:
            return _step_preparing(state, incoming)
        case Phase.THINKING:
            return _step_thinking(state, incoming)
        case Phase.DECIDING:
            return _step_deciding(state, incoming)
        case Phase.ENDED:
            return state, ()
        case _:
            assert_never(state.phase)


def to_message(record: Recorded) -> Message | None:
    """Return the message that shows a record to the model in later turns, if there is one."""
    match record:
        case Prompted(text):
            return Message(role=MessageRole.USER, content=text)
        case Answered():
            return Message(role=MessageRole.ASSISTANT, content=record.content, calls=record.calls)
        case ToolUsed():
            failed = record.outcome is not Outcome.COMPLETED
            text = f"error: {record.text}" if failed else record.text
            return Message(role=MessageRole.TOOL, content=text, call_id=record.call.call_id)
        case RunFinished():
            return None
        case _:
            assert_never(record)


def _step_idle(state: State, incoming: Input) -> Transition:
    match incoming:
        case Begin(run_id, start):
            return replace(state, phase=Phase.PREPARING, run_id=run_id), (Prepare(run_id, start),)
        case RunError():
            return replace(state, phase=Phase.ENDED), (_build_failure(state, incoming),)
        case Approve() | Deny() | Cancel() | InputClosed():
            return replace(state, phase=Phase.ENDED), (Failed(state.run_id, NOT_STARTED),)
        case _:
            return state, ()


def _step_preparing(state: State, incoming: Input) -> Transition:
    """Record nothing before everything that the run needs is ready."""
    match incoming:
        case Ready():
            started = Started(
                run_id=state.run_id, session_id=incoming.session_id, agent_name=incoming.agent_name
            )
            after = replace(state, phase=Phase.THINKING, turn=1, max_turns=incoming.max_turns)
            return after, (Prompted(incoming.prompt), started, Ask())
        case RunError():
            return replace(state, phase=Phase.ENDED), (Abort(), _build_failure(state, incoming))
        case Cancel():
            return replace(state, phase=Phase.ENDED), (Abort(), RunCancelled(state.run_id))
        case _:
            return state, ()


def _step_thinking(state: State, incoming: Input) -> Transition:
    match incoming:
        case TextDelta(text):
            return replace(state, content=state.content + text), (incoming,)
        case ReasoningDelta(text):
            return replace(state, reasoning=state.reasoning + text), (incoming,)
        case TurnFinished():
            return _finish_turn(state, incoming)
        case Cancel() | RunError():
            return _end_run(state, incoming)
        case _:
            return state, ()


def _finish_turn(state: State, incoming: TurnFinished) -> Transition:
    calls = tuple(proposal.call for proposal in incoming.proposals)
    outputs = (
        Answered(content=state.content, calls=calls, whole=incoming.whole),
        TurnCompleted(content=state.content, reasoning=state.reasoning, snapshot=incoming.snapshot),
        ContextUsed(incoming.snapshot),
    )
    if not calls:
        end = Completed(run_id=state.run_id, content=state.content, reasoning=state.reasoning)
        return replace(state, phase=Phase.ENDED), (
            *outputs,
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
    after, more = _deny_waiting(after) if state.input_closed else (after, ())
    return after, (*outputs, ToolsProposed(incoming.proposals), *more)


def _step_deciding(state: State, incoming: Input) -> Transition:
    match incoming:
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
            return _end_run(state, incoming)
        case _:
            return state, ()


def _deny_waiting(state: State) -> Transition:
    """Deny all calls that wait for a decision."""
    for at, pending in enumerate(state.calls):
        if pending.stage is _CallStage.WAITING:
            state = _update_call(state, at, _CallStage.DENIED, CLIENT_CLOSED)
    return _advance(state)


def _decide_call(state: State, call_id: CallId, stage: _CallStage, reason: str) -> Transition:
    """Apply a decision to a call. Only the first one counts."""
    at = _find(state, call_id, _CallStage.WAITING)
    if at is None:
        return state, ()
    return _advance(_update_call(state, at, stage, reason))


def _finish_call(state: State, call_id: CallId, outcome: Outcome, text: str) -> Transition:
    at = _find(state, call_id, _CallStage.RUNNING)
    if at is None:
        return state, ()
    done = outcome is Outcome.COMPLETED
    event = ToolCallCompleted(call_id, text) if done else ToolCallFailed(call_id, text)
    after, more = _advance(_update_call(state, at, _CallStage.DONE))
    return after, (ToolUsed(call=state.calls[at].call, outcome=outcome, text=text), event, *more)


def _advance(state: State) -> Transition:
    """Run the next decided call, in the model's order, or end the turn after the last one."""
    outputs: list[Output] = []
    for at, pending in enumerate(state.calls):
        if pending.stage is _CallStage.DENIED:
            outputs.append(_record_denial(pending))
            state = replace(_update_call(state, at, _CallStage.DONE), denied=True)
        elif pending.stage is _CallStage.APPROVED:
            outputs += [ToolCallStarted(pending.call.call_id), Execute(pending.call)]
            return _update_call(state, at, _CallStage.RUNNING), tuple(outputs)
        elif pending.stage is not _CallStage.DONE:
            return state, tuple(outputs)
    outputs.append(ToolsCompleted())
    if state.denied:
        ended = (RunFinished(outcome=Outcome.DENIED), RunCancelled(state.run_id))
        return replace(state, phase=Phase.ENDED), (*outputs, *ended)
    if state.turn >= state.max_turns:
        error = f"stopped after {format_count(state.turn, 'turn')}: the model kept asking for tools"
        over = (RunFinished(outcome=Outcome.FAILED, error=error), Failed(state.run_id, error))
        return replace(state, phase=Phase.ENDED), (*outputs, *over)
    after = replace(state, phase=Phase.THINKING, turn=state.turn + 1, calls=())
    return after, (*outputs, Ask())


def _end_run(state: State, incoming: Cancel | RunError) -> Transition:
    """End a run early. Record a partial answer and unfinished calls."""
    outputs: list[Output] = [Abort()]
    if state.content:
        outputs.append(Answered(content=state.content, whole=False))
    for pending in state.calls:
        if pending.stage is _CallStage.DENIED:
            outputs.append(_record_denial(pending))
        elif pending.stage is not _CallStage.DONE:
            text = STOPPED if pending.stage is _CallStage.RUNNING else NOT_RUN
            outputs.append(ToolUsed(call=pending.call, outcome=Outcome.CANCELLED, text=text))
    if isinstance(incoming, Cancel):
        outputs += [RunFinished(outcome=Outcome.CANCELLED), RunCancelled(state.run_id)]
    else:
        outputs += [
            RunFinished(outcome=Outcome.FAILED, error=incoming.error),
            _build_failure(state, incoming),
        ]
    return replace(state, phase=Phase.ENDED), tuple(outputs)


def _build_failure(state: State, incoming: RunError) -> Failed:
    return Failed(state.run_id, incoming.error, incoming.kind)


def _record_denial(denied: _PendingCall) -> ToolUsed:
    text = f"denied: {denied.reason}" if denied.reason else "denied"
    return ToolUsed(call=denied.call, outcome=Outcome.DENIED, text=text)


def _find(state: State, call_id: CallId, stage: _CallStage) -> int | None:
    for at, pending in enumerate(state.calls):
        if pending.call.call_id == call_id and pending.stage is stage:
            return at
    return None


def _update_call(state: State, at: int, stage: _CallStage, reason: str = "") -> State:
    changed = replace(state.calls[at], stage=stage, reason=reason)
    return replace(state, calls=(*state.calls[:at], changed, *state.calls[at + 1 :]))
