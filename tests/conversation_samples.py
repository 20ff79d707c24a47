"""Sessions as agents tell of them, in short: who said or did what, one moment after the other."""

from collections.abc import Sequence

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.kernel.ids import EventId, Millis, SessionId

START = 1_767_600_000_000
STEP = 20_000

_KINDS = {
    "start": (EventType.SESSION_START, EventRole.SYSTEM),
    "user": (EventType.USER_MESSAGE, EventRole.USER),
    "assistant": (EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT),
    "stop": (EventType.ASSISTANT_STOP, EventRole.SYSTEM),
    "end": (EventType.SESSION_END, EventRole.SYSTEM),
    "subagent": (EventType.SUBAGENT_START, EventRole.SYSTEM),
}

# A morning's work on a service that resizes pictures: the first try fails, the second does not.
THUMBNAILS = (
    ("start", ""),
    ("user", "The thumbnail of a rotated picture lies on its side. Can you find out why?"),
    ("Grep", "Grep: orientation\nsrc/thumbnails/resize.py:41"),
    ("Read", "Read: src/thumbnails/resize.py\ndef resize(picture): ..."),
    ("Edit", "Edit: src/thumbnails/resize.py\npicture = upright(picture)"),
    (
        "Bash",
        "Bash: cd service && pytest -q tests/test_resize.py\nExit code 1\n1 failed, 11 passed",
    ),
    ("Read", "Read: tests/test_resize.py\ndef test_upright(): ..."),
    ("Edit", "Edit: src/thumbnails/resize.py\npicture = upright(picture.copy())"),
    ("Bash", "Bash: cd service && pytest -q tests/test_resize.py\n12 passed"),
    ("assistant", "The orientation was read after the resize, when it is gone. Fixed."),
    ("stop", ""),
    ("user", "Good. Commit it."),
    ("Bash", "Bash: git commit -am 'Turn pictures upright before resizing'\n1 file changed"),
    ("assistant", "Committed."),
    ("stop", ""),
    ("end", ""),
)


def build_session(
    session: str,
    lines: Sequence[tuple[str, str]],
    *,
    start: int = START,
    agent: str = "claude-code",
    **about: str,
) -> list[Event]:
    """Whoever is neither user nor assistant is a tool."""
    return [_event(session, number, start + number * STEP, *line, {"agent": agent, **about})
            for number, line in enumerate(lines)]  # fmt: skip


def _event(
    session: str, number: int, at_ms: int, who: str, text: str, about: dict[str, str]
) -> Event:
    kind, role = _KINDS.get(who, (EventType.TOOL_RESULT, EventRole.TOOL))
    named = {"tool_name": who} if who not in _KINDS else {}
    return Event(
        event_id=EventId(f"{session}-{number:04}"),
        session_id=SessionId(session),
        at_ms=Millis(at_ms),
        type=kind,
        role=role,
        text=text,
        metadata={name: value for name, value in {**about, **named}.items() if value},
    )
