"""Runs as they are kept: what an agent was asked, said and did, and the events of it."""

from collections.abc import Iterable, Sequence

from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.metadata import Outcome
from agent_memory.features.runs.model import run_events
from agent_memory.features.runs.model.chats import Call, CallId, Message, Role
from agent_memory.features.runs.model.machine import Answered, Finished, Kept, Prompted, RunId, Used
from agent_memory.features.runs.model.run_events import About
from agent_memory.kernel.ids import Millis, SessionId
from tests.sessions_told import START

AGENT = "kontekst:default"


def call(call_id: str, name: str, arguments: str) -> Call:
    return Call(call_id=CallId(call_id), name=name, arguments=arguments)


READ = call("c1", "read_file", '{"path": "src/resize.py"}')
EDIT = call(
    "c2",
    "edit_file",
    '{"path": "src/resize.py", "old_string": "a", "new_string": "upright(a)\\nb"}',
)
TEST = call("c3", "run_command", '{"command": "pytest -q tests/test_resize.py"}')

# The way from a question to an answer, with three tools of which one is used beside another.
RESIZED: Sequence[Kept] = (
    Prompted("Why does the thumbnail of a rotated picture lie on its side?\nPlease fix it."),
    Answered(content="Let me look.", calls=(READ,)),
    Used(call=READ, outcome=Outcome.COMPLETED, text="def resize(a): ...\n"),
    Answered(content="", calls=(EDIT, TEST)),
    Used(call=EDIT, outcome=Outcome.COMPLETED, text="edited"),
    Used(call=TEST, outcome=Outcome.COMPLETED, text="12 passed"),
    Answered(content="It was turned too late. Fixed."),
    Finished(outcome=Outcome.COMPLETED),
)


def about(session: str = "s", run: str = "r1", agent: str = AGENT) -> About:
    return About(
        run_id=RunId(run),
        session_id=SessionId(session),
        agent=agent,
        project="pictures",
        branch="main",
    )


def events_of(
    session: str, run: str, kept: Iterable[Kept], *, start: int = START, agent: str = AGENT
) -> list[Event]:
    """As a diary makes them, a second after each other."""
    found: list[Event] = []
    turn = 0
    for second, each in enumerate(kept):
        turn += isinstance(each, Answered)
        event = run_events.event(
            about(session, run, agent),
            each,
            number=len(found) + 1,
            turn=turn,
            at_ms=Millis(start + 1000 * second),
        )
        if event is not None:
            found.append(event)
    return found


def chat_of(kept: Iterable[Kept]) -> list[Message]:
    """What a model is given of it while the run goes on."""
    messages: list[Message] = []
    for each in kept:
        match each:
            case Prompted(text):
                messages.append(Message(role=Role.USER, content=text))
            case Answered():
                messages.append(
                    Message(role=Role.ASSISTANT, content=each.content, calls=each.calls)
                )
            case Used():
                messages.append(
                    Message(role=Role.TOOL, content=each.text, call_id=each.call.call_id)
                )
            case Finished():
                pass
    return messages


def check_chat(chat: Sequence[Message]) -> None:
    """Whoever is given it takes it: speakers take turns, calls are followed by their results."""
    waiting: list[CallId] = []
    before: Message | None = None
    for each in chat:
        if each.role is Role.TOOL:
            assert each.call_id == waiting.pop(0)
        else:
            assert not waiting
            assert before is None or before.role is Role.TOOL or before.role is not each.role
            assert each.role is not Role.USER or before is None or before.role is Role.ASSISTANT
            waiting = [one.call_id for one in each.calls]
            assert len(set(waiting)) == len(waiting)
        before = each
    assert not waiting
    assert before is None or before.role is Role.ASSISTANT
    assert not chat or chat[0].role is Role.USER
