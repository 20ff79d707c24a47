"""Transcripts: what agents write down of their sessions, and what of it becomes events."""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from agent_memory.features.log.model.events import MAX_TEXT_BYTES, Event, EventRole, EventType
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, SessionId

NEAR_MS = 10_000  # a hook and the line of the same happening are no further apart
IMPORTED = "imported"
OWN_MARKERS = ("memory_context", "related_memories", "capture_detected", "auto_captured")
CUT = "\n[... cut: the whole text had more than 1 MiB]"
# What we gave, without its end: someone has looked at its first lines only.
_CUT_SHORT = re.compile(
    rf"^[ \t]*<(?:{'|'.join(OWN_MARKERS)})>\n(?:[ \t]+<[^\n]*(?:\n|\Z))+", re.MULTILINE
)
_LONGEST_WORD = 500  # longer ones are no words, nor most secrets
_ROOM = 64 << 10  # what stands in for secrets may be longer than they are


class RecordKind(StrEnum):
    """What of a session an id is given to. The words are hashed into ids, so they never change."""

    SESSION_START = "session-start"
    SUBAGENT_START = "subagent-start"
    PROMPT = "prompt"
    ANSWER = "answer"
    TOOL = "tool"
    OTHER = "other"


SPOKEN = frozenset({EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE})
STARTS = frozenset({EventType.SESSION_START, EventType.SUBAGENT_START})


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptEntry:
    """What one line of a transcript says that happened. `line` counts from 1."""

    event_id: str
    session: str
    at_ms: int
    type: EventType
    role: EventRole
    text: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptSource:
    """A file with a transcript, or with a part of one."""

    path: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedLine:
    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some lines of a source. Of `noise` nothing is kept; lines that only help to understand
    others are neither noise nor recorded."""

    recorded: tuple[TranscriptEntry, ...] = ()
    refused: tuple[RejectedLine, ...] = ()
    noise: int = 0
    lines: int = 0
    size: int = 0


def build_event_id(session: str, kind: RecordKind, given: str) -> EventId:
    """The id of what an agent has told us of under an id of its own.

    `session` is the session in which it is recorded (`session_of`), `kind` what it is, and `given`
    the agent's id: `tool_use_id` of a tool's result, `prompt_id` (in transcripts `promptId`) or
    `turn_id` of a prompt, the message's id of an answer, nothing for the start of a session. Hooks
    and imports that name the same thing so are naming one event, whoever comes first.
    """
    told = "\0".join((session, kind.value, given)).encode("utf-8", "surrogatepass")
    return EventId(f"{kind.value}-{hashlib.sha256(told).hexdigest()[:40]}")


def build_session_id(session: str, agent: str = "") -> str:
    """The session that something is recorded in: a subagent has one of its own.

    Subagents work beside each other and beside who sent them. In one session their lines would
    interleave: a segment would mix conversations, and the turns around a hit be someone else's.
    Its name tells both; as metadata they would count as content, which forgetting looks for.
    """
    return f"{session}/{agent}" if agent else session


def fingerprint(*parts: str) -> str:
    """In place of an id where the agent has given none."""
    told = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(told).hexdigest()


def build_event(recorded: TranscriptEntry, metadata: Mapping[str, str]) -> Event:
    """The event to store, with more metadata. Raises InvalidInput."""
    return Event(
        event_id=EventId(recorded.event_id),
        session_id=SessionId(recorded.session),
        at_ms=Millis(recorded.at_ms),
        type=recorded.type,
        role=recorded.role,
        text=recorded.text,
        metadata={**recorded.metadata, **metadata, IMPORTED: "true"},
    )


def is_imported(event: Event) -> bool:
    return IMPORTED in event.metadata


def fit_text(text: str) -> str:
    """The text as an event can hold it: valid, and cut where it is too long."""
    if text.isascii() and len(text) <= MAX_TEXT_BYTES - _ROOM:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_TEXT_BYTES - _ROOM:
        kept = data[: MAX_TEXT_BYTES - _ROOM].decode("utf-8", "ignore")
        return cut(kept, len(kept) - 1) + CUT
    return data.decode()


def cut(text: str, limit: int) -> str:
    """At most so many characters, and no part of a word: half a secret is not known for one."""
    if len(text) <= limit:
        return text
    last = max(text.rfind(blank, limit - _LONGEST_WORD, limit + 1) for blank in " \n\t")
    return text[:last] if last >= 0 else text[: limit - _LONGEST_WORD]


def strip_injected(text: str, also: Collection[str] = ()) -> str:
    """The text without what we put into it ourselves, and without what stands in `also`."""
    return _CUT_SHORT.sub("", strip_tags(text, (*OWN_MARKERS, *also))).strip()


def strip_tags(text: str, names: Collection[str]) -> str:
    """The text without everything from `<name ...>` to its `</name>`, nested or not. A marker that
    is never closed, or never opened, is only a word."""
    if "</" not in text:
        return text
    marker = re.compile(rf"<(/?)({'|'.join(map(re.escape, names))})(?:\s[^<>]*)?>")
    opened: list[tuple[str, int]] = []
    waiting = dict.fromkeys(names, 0)
    removed: list[tuple[int, int]] = []
    for found in marker.finditer(text):
        name = found[2]
        if not found[1]:
            opened.append((name, found.start()))
            waiting[name] += 1
            continue
        while waiting[name]:
            other, start = opened.pop()
            waiting[other] -= 1
            if other == name:
                while removed and removed[-1][0] >= start:
                    removed.pop()
                removed.append((start, found.end()))
                break
    kept, at = [], 0
    for start, end in removed:
        kept.append(text[at:start])
        at = end
    return "".join((*kept, text[at:]))


def parse_millis(value: object) -> int | None:
    """A time as transcripts write it, ISO 8601 or a number of seconds or milliseconds since 1970;
    None where it is none."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            found = round(aware.timestamp() * 1000)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            # As seconds, this limit is the year 5138; as milliseconds, it is 1973.
            found = round(value * 1000) if abs(value) < 1e11 else round(value)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= MAX_MILLIS else None
