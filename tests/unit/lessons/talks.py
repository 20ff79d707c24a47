"""Builds the events of a session from a few words: what users and agents say, and what is run."""

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.kernel.ids import EventId, Millis, SessionId

Part = tuple[tuple[EventType, EventRole], str, dict[str, str]]
USER = (EventType.USER_MESSAGE, EventRole.USER)
AGENT = (EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT)
TOOL = (EventType.TOOL_RESULT, EventRole.TOOL)


def user(text: str) -> Part:
    return USER, text, {}


def agent(text: str) -> Part:
    return AGENT, text, {}


def ran(command: str, output: str = "", *, failed: bool = False) -> Part:
    about = {"tool_name": "Bash", **({"error": "true"} if failed else {})}
    return TOOL, f"Bash: {command}\n{output}", about


def wrote(file: str, text: str = "x = 1") -> Part:
    return TOOL, f"Edit: {file}\n{text}", {"tool_name": "Edit", "file_path": file}


def talk(
    *parts: Part,
    session: str = "s",
    began: int = 1_000_000,
) -> list[Event]:
    return [
        Event(
            event_id=EventId(f"{session}-{number}"),
            session_id=SessionId(session),
            at_ms=Millis(began + 1_000 * number),
            type=kind,
            role=role,
            text=text,
            metadata={"project": "mill", "agent": "claude-code", **about},
        )
        for number, ((kind, role), text, about) in enumerate(parts)
    ]
