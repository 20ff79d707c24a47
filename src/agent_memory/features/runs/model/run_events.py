"""The records of a run as events of its session.

The id of an event contains the run and the number in it, so time and id together give the order.
A tool call and its result are one event: neither is stored without the other.
"""

import json
from dataclasses import dataclass, replace
from typing import assert_never

from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.hooks import MAX_ABOUT_CHARS
from agent_memory.features.log.model.events import Event, EventRole, EventType, check_session_id
from agent_memory.features.log.model.metadata import (
    OUTCOME,
    RECALLED,
    REPOSITORY,
    RUN,
    RUN_ID,
    Outcome,
)
from agent_memory.features.runs.model import chats
from agent_memory.features.runs.model.machine import (
    Answered,
    Prompted,
    Recorded,
    RunFinished,
    RunId,
    ToolUsed,
)
from agent_memory.features.secrets.model.secrets import WITHHELD
from agent_memory.kernel import limits
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.kernel.json_fields import Fields

TURN, ARGUMENTS, CALL_ID, ASKED = "turn", "arguments", "call_id", "asked_lines"
MAX_ARGUMENT_BYTES = 16 << 10
MAX_RUN_ID_CHARS = 64
MAX_CALL_ID_CHARS = 200
_SHORTER = (4_000, 2_000, 1_000)  # limits of a value in characters, tried in turn
_LEFT_OUT = " [...]"
_NOTHING = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The metadata of a run. Empty fields are omitted."""

    run_id: RunId
    session_id: SessionId
    agent: str
    project: str = ""
    repository: str = ""  # the identity of the project's, where it is known
    branch: str = ""
    skill: str = ""

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        limits.check_name("agent", self.agent)
        if not self.run_id.isascii() or not 0 < len(self.run_id) <= MAX_RUN_ID_CHARS:
            raise InvalidInput(f"run_id must have 1 to {MAX_RUN_ID_CHARS} ASCII characters")


def build_event_id(run_id: str, number: int) -> EventId:
    """Return the id of the event with this number in the run, counted from 1."""
    return EventId(f"run-{run_id}-{number:06}")


def build_event(
    info: RunInfo, record: Recorded, *, number: int, turn: int, at_ms: Millis
) -> Event | None:
    """Build the event of a record; None for an empty answer. `turn` counts answers of the model."""
    metadata = {RUN_ID: str(info.run_id), "agent": info.agent}
    metadata |= {"project": info.project, "branch": info.branch, REPOSITORY: info.repository}
    match record:
        case Prompted(text):
            what, role, text = EventType.USER_MESSAGE, EventRole.USER, _own(text)
            metadata |= {"trigger": RUN, "skill": info.skill}
        case Answered():
            what, role = EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT
            text = _own(record.content)
            metadata |= {TURN: str(turn), "cut": "" if record.whole else "true"}
            if not text:
                return None
        case ToolUsed():
            what, role = EventType.TOOL_RESULT, EventRole.TOOL
            text, details = _describe_use(record)
            metadata |= {TURN: str(turn), **details}
        case RunFinished():
            what, role, text = EventType.ASSISTANT_STOP, EventRole.SYSTEM, ""
            metadata |= {OUTCOME: record.outcome.value, "error": _own(record.error)}
        case _:
            assert_never(record)
    return Event(
        event_id=build_event_id(info.run_id, number),
        session_id=info.session_id,
        at_ms=at_ms,
        type=what,
        role=role,
        text=transcripts.fit_text(text),
        metadata={
            name: value if name == ARGUMENTS else transcripts.fit_text(value)[:MAX_ABOUT_CHARS]
            for name, value in metadata.items()
            if value
        },
    )


def withhold_event(event: Event) -> Event:
    """Return the event without its text and without names that a model or a user chose: any of
    them may contain the secret. The fact that it happened is not secret."""
    harmless = (RUN_ID, TURN, OUTCOME, "trigger", "cut")
    metadata = {name: value for name, value in event.metadata.items() if name in harmless}
    if event.type is EventType.TOOL_RESULT:
        metadata[ARGUMENTS] = _NOTHING
        if event.metadata.get("error"):
            metadata["error"] = "true"
    text = WITHHELD if event.text else ""
    return replace(event, text=text, metadata=metadata)


def restore_names(event: Event, withheld: Event) -> Event:
    """Return the withheld event with the names of the agent, the project and the tool."""
    restored = ("agent", "project", "branch", REPOSITORY, "tool_name", CALL_ID)
    names = {name: value for name, value in event.metadata.items() if name in restored}
    return replace(withheld, metadata={**names, **withheld.metadata})


def _describe_use(record: ToolUsed) -> tuple[str, dict[str, str]]:
    """Render a tool call and its result in the format of hooks."""
    use = tool_use.parse_use(record.call.name, Fields(record.call.parsed_arguments or {}))
    asked = use.render_text("")
    # An error of a memory tool is no recalled content: store it.
    recalled = use.is_own and record.outcome is Outcome.COMPLETED
    result = "" if recalled else _own(record.text)
    metadata = {
        **use.metadata(),
        CALL_ID: record.call.call_id[:MAX_CALL_ID_CHARS],
        ARGUMENTS: _arguments(record.call.arguments),
        ASKED: str(asked.count("\n") + 1),
        OUTCOME: record.outcome.value,
        RECALLED: "true" if recalled else "",
        "error": "" if record.outcome is Outcome.COMPLETED else "true",
    }
    return f"{asked}\n{result}" if result else asked, metadata


def _arguments(text: str) -> str:
    """Return the arguments. If they are too long, shorten their values, so that they stay JSON."""
    if _fits(text):
        return transcripts.fit_text(text)
    parsed = chats.parse_arguments(text) or {}
    for limit in _SHORTER:
        try:
            shorter = json.dumps(_shorten_value(parsed, limit), ensure_ascii=False)
        except RecursionError:
            break
        if _fits(shorter):
            return transcripts.fit_text(shorter)
    return _NOTHING


def _fits(text: str) -> bool:
    if len(text) > MAX_ARGUMENT_BYTES:
        return False
    return len(text.encode("utf-8", "surrogatepass")) <= MAX_ARGUMENT_BYTES


def _shorten_value(value: object, limit: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= limit else transcripts.cut(value, limit) + _LEFT_OUT
    if isinstance(value, dict):
        return {name[:limit]: _shorten_value(each, limit) for name, each in value.items()}
    return [_shorten_value(each, limit) for each in value] if isinstance(value, list) else value


def _own(text: str) -> str:
    """Remove injected context. Without any, return the text unchanged, including blanks."""
    own = transcripts.strip_injected(text)
    return text if own == text.strip() else own
