"""Recorded runs for tests, and their events and messages."""

from collections.abc import Iterable, Sequence

from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.metadata import Outcome
from agent_memory.features.runs.model import run_events
from agent_memory.features.runs.model.chats import CallId, Message, MessageRole, ToolCall
from agent_memory.features.runs.model.machine import (
    Answered,
    Prompted,
    Recorded,
    RunFinished,
    RunId,
    ToolUsed,
)
from agent_memory.features.runs.model.run_events import RunInfo
from agent_memory.kernel.ids import Millis, SessionId
from tests.conversation_samples import START

AGENT = "kontekst:default"


def call(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(call_id=CallId(call_id), name=name, arguments=arguments)


READ = call("c1", "read_file", '{"path": "src/resize.py"}')
EDIT = call(
    "c2",
    "edit_file",
    '{"path": "src/resize.py", "old_string": "a", "new_string": "upright(a)\\nb"}',
)
TEST = call("c3", "run_command", '{"command": "pytest -q tests/test_resize.py"}')

# The way from a question to an answer, with three tools of which one is used beside another.
RESIZED: Sequence[Recorded] = (
    Prompted("Why does the thumbnail of a rotated picture lie on its side?\nPlease fix it."),
    Answered(content="Let me look.", calls=(READ,)),
    ToolUsed(call=READ, outcome=Outcome.COMPLETED, text="def resize(a): ...\n"),
    Answered(content="", calls=(EDIT, TEST)),
    ToolUsed(call=EDIT, outcome=Outcome.COMPLETED, text="edited"),
    ToolUsed(call=TEST, outcome=Outcome.COMPLETED, text="12 passed"),
    Answered(content="It was turned too late. Fixed."),
    RunFinished(outcome=Outcome.COMPLETED),
)


def make_about(session: str = "s", run: str = "r1", agent: str = AGENT) -> RunInfo:
    return RunInfo(
        run_id=RunId(run),
        session_id=SessionId(session),
        agent=agent,
        project="pictures",
        branch="main",
    )


def build_events(
    session: str, run: str, stored: Iterable[Recorded], *, start: int = START, agent: str = AGENT
) -> list[Event]:
    """Build the events as the recorder does, one second apart."""
    found: list[Event] = []
    turn = 0
    for second, each in enumerate(stored):
        turn += isinstance(each, Answered)
        event = run_events.build_event(
            make_about(session, run, agent),
            each,
            number=len(found) + 1,
            turn=turn,
            at_ms=Millis(start + 1000 * second),
        )
        if event is not None:
            found.append(event)
    return found


def build_chat(stored: Iterable[Recorded]) -> list[Message]:
    """Build the messages that the model gets during the run."""
    messages: list[Message] = []
    for each in stored:
        match each:
            case Prompted(text):
                messages.append(Message(role=MessageRole.USER, content=text))
            case Answered():
                messages.append(
                    Message(role=MessageRole.ASSISTANT, content=each.content, calls=each.calls)
                )
            case ToolUsed():
                messages.append(
                    Message(role=MessageRole.TOOL, content=each.text, call_id=each.call.call_id)
                )
            case RunFinished():
                pass
    return messages


def check_chat(chat: Sequence[Message]) -> None:
    """Check that a model accepts the chat: roles alternate, and results follow their calls."""
    waiting: list[CallId] = []
    before: Message | None = None
    for each in chat:
        if each.role is MessageRole.TOOL:
            assert each.call_id == waiting.pop(0)
        else:
            assert not waiting
            assert before is None or before.role is MessageRole.TOOL or before.role is not each.role
            assert (
                each.role is not MessageRole.USER
                or before is None
                or before.role is MessageRole.ASSISTANT
            )
            waiting = [one.call_id for one in each.calls]
            assert len(set(waiting)) == len(waiting)
        before = each
    assert not waiting
    assert before is None or before.role is MessageRole.ASSISTANT
    assert not chat or chat[0].role is MessageRole.USER
