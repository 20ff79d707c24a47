"""Diaries: what is remembered of a run, as events of its session, and by what they are known.

An id tells the run and the place in it, so that time and id together are the order of keeping.
What is said to a tool and what came of it are one event: neither is ever there without the other.
"""

import json
from dataclasses import dataclass, replace
from typing import assert_never

from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.hooks import MAX_ABOUT_CHARS
from agent_memory.features.log.model.events import Event, EventRole, EventType, check_session_id
from agent_memory.features.log.model.metadata import OUTCOME, RUN, RUN_ID, Outcome
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

TURN, ARGUMENTS, CALL_ID, ASKED, RECALLED = (
    "turn",
    "arguments",
    "call_id",
    "asked_lines",
    "recalled",
)
MAX_ARGUMENT_BYTES = 16 << 10
MAX_RUN_ID_CHARS = 64
MAX_CALL_ID_CHARS = 200
_SHORTER = (4_000, 2_000, 1_000)  # characters that a value may keep
_LEFT_OUT = " [...]"
_NOTHING = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Whose run it is. What is empty is not told."""

    run_id: RunId
    session_id: SessionId
    agent: str
    project: str = ""
    branch: str = ""
    skill: str = ""

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        limits.check_name("agent", self.agent)
        if not self.run_id.isascii() or not 0 < len(self.run_id) <= MAX_RUN_ID_CHARS:
            raise InvalidInput(f"run_id must have 1 to {MAX_RUN_ID_CHARS} ASCII characters")


def build_event_id(run_id: str, number: int) -> EventId:
    """Of what was kept as this one, counted from 1."""
    return EventId(f"run-{run_id}-{number:06}")


def build_event(
    about: RunInfo, kept: Recorded, *, number: int, turn: int, at_ms: Millis
) -> Event | None:
    """What is recorded of it; nothing of an answer without words. `turn` is that of the model."""
    metadata = {RUN_ID: str(about.run_id), "agent": about.agent}
    metadata |= {"project": about.project, "branch": about.branch}
    match kept:
        case Prompted(text):
            what, role, text = EventType.USER_MESSAGE, EventRole.USER, _own(text)
            metadata |= {"trigger": RUN, "skill": about.skill}
        case Answered():
            what, role, text = (
                EventType.ASSISTANT_MESSAGE,
                EventRole.ASSISTANT,
                _own(kept.content),
            )
            metadata |= {TURN: str(turn), "cut": "" if kept.whole else "true"}
            if not text:
                return None
        case ToolUsed():
            what, role = EventType.TOOL_RESULT, EventRole.TOOL
            text, told = _describe_use(kept)
            metadata |= {TURN: str(turn), **told}
        case RunFinished():
            what, role, text = EventType.ASSISTANT_STOP, EventRole.SYSTEM, ""
            metadata |= {OUTCOME: kept.outcome.value, "error": _own(kept.error)}
        case _:
            assert_never(kept)
    return Event(
        event_id=build_event_id(about.run_id, number),
        session_id=about.session_id,
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
    """The same without what was said, which may not be kept: that it happened is no secret. Nor are
    names that everyone chose from a list, but who knows what a model calls a tool."""
    kept = (RUN_ID, TURN, OUTCOME, "trigger", "cut")
    metadata = {name: value for name, value in event.metadata.items() if name in kept}
    if event.type is EventType.TOOL_RESULT:
        metadata[ARGUMENTS] = _NOTHING
        if event.metadata.get("error"):
            metadata["error"] = "true"
    text = WITHHELD if event.text else ""
    return replace(event, text=text, metadata=metadata)


def restore_names(event: Event, withheld: Event) -> Event:
    """What was withheld, and yet who did it and with which tool."""
    kept = ("agent", "project", "branch", "tool_name", CALL_ID)
    names = {name: value for name, value in event.metadata.items() if name in kept}
    return replace(withheld, metadata={**names, **withheld.metadata})


def _describe_use(kept: ToolUsed) -> tuple[str, dict[str, str]]:
    """In the words that hooks have for it: what was asked, what was written, what came of it."""
    use = tool_use.parse_use(kept.call.name, Fields(kept.call.parsed_arguments or {}))
    asked = use.render_text("")
    # A refusal is no memory, whatever was asked for.
    recalled = use.is_own and kept.outcome is Outcome.COMPLETED
    result = "" if recalled else _own(kept.text)
    metadata = {
        **use.metadata(),
        CALL_ID: kept.call.call_id[:MAX_CALL_ID_CHARS],
        ARGUMENTS: _arguments(kept.call.arguments),
        ASKED: str(asked.count("\n") + 1),
        OUTCOME: kept.outcome.value,
        RECALLED: "true" if recalled else "",
        "error": "" if kept.outcome is Outcome.COMPLETED else "true",
    }
    return f"{asked}\n{result}" if result else asked, metadata


def _arguments(text: str) -> str:
    """As the model wrote them; where that is long, each value cut so that it is JSON still."""
    if _fits(text):
        return transcripts.fit_text(text)
    found = chats.parse_arguments(text) or {}
    for limit in _SHORTER:
        try:
            shorter = json.dumps(_shorten_value(found, limit), ensure_ascii=False)
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
    """Without what we put into it ourselves; else as it is, to the last blank."""
    own = transcripts.strip_injected(text)
    return text if own == text.strip() else own
