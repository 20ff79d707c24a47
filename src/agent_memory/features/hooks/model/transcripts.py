"""Transcripts: the session files of agents, and the events that are imported from them."""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath

from agent_memory.features.log.model.events import MAX_TEXT_BYTES, Event, EventRole, EventType
from agent_memory.features.log.model.metadata import is_description
from agent_memory.kernel.ids import MAX_MILLIS, EventId
from agent_memory.kernel.text import prose
from agent_memory.kernel.text.private import strip_private

NEAR_MS = 10_000  # the most between a hook call and the transcript line of the same event
IMPORTED = "imported"
COMMAND_MARKER = prose.COMMAND_MARKER
OWN_MARKERS = prose.OWN_MARKERS
CUT = "\n[... cut: the whole text had more than 1 MiB]"
# Gemini CLI wraps what hooks inject, ours and others', and repeats it in its next prompt.
_WRAPPERS = ("hook_context",)
# An injected context without its end, as in the first lines of a file.
_CUT_SHORT = re.compile(
    rf"^[ \t]*<(?:{'|'.join(OWN_MARKERS)})>\n(?:[ \t]+<[^\n]*(?:\n|\Z))+", re.MULTILINE
)
_LONGEST_WORD = 500  # longer than any word and than most secrets
_ROOM = 64 << 10  # redaction marks may be longer than the secrets
_MAX_METADATA_CHARS = 4_000
_MAX_IDS = 200  # remembered per transcript; a repeated id comes soon after the first


class RecordKind(StrEnum):
    """The kinds of records that get an id. The values are hashed into ids and never change."""

    SESSION_START = "session-start"
    SUBAGENT_START = "subagent-start"
    PROMPT = "prompt"
    ANSWER = "answer"
    TOOL = "tool"
    TITLE = "title"
    SUMMARY = "summary"
    OTHER = "other"


RECORDED: Mapping[RecordKind, tuple[EventType, EventRole]] = {
    RecordKind.SESSION_START: (EventType.SESSION_START, EventRole.SYSTEM),
    RecordKind.SUBAGENT_START: (EventType.SUBAGENT_START, EventRole.SYSTEM),
    RecordKind.PROMPT: (EventType.USER_MESSAGE, EventRole.USER),
    RecordKind.ANSWER: (EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT),
    RecordKind.TOOL: (EventType.TOOL_RESULT, EventRole.TOOL),
    # Not part of the talk: metadata marks them (`TITLES`, `SUMMARIZES`).
    RecordKind.TITLE: (EventType.ASSISTANT_MESSAGE, EventRole.SYSTEM),
    RecordKind.SUMMARY: (EventType.ASSISTANT_MESSAGE, EventRole.SYSTEM),
}


@dataclass(slots=True)
class RecordIds:
    """Makes the ids of one transcript unique, and the same again at the next import."""

    counts: dict[str, int] = field(default_factory=dict)

    def make_unique(self, record_id: str) -> str:
        """Return the id, with a number if it was used before."""
        count = self.counts.pop(record_id, 0) + 1
        self.counts[record_id] = count
        if len(self.counts) > _MAX_IDS:
            del self.counts[next(iter(self.counts))]
        return record_id if count == 1 else f"{record_id}#{count}"


SPOKEN = frozenset({EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE})
STARTS = frozenset({EventType.SESSION_START, EventType.SUBAGENT_START})


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptEntry:
    """An event in a transcript. `line` counts from 1.

    A `detached` entry tells something about a session that is in another file.
    """

    event_id: str
    session_id: str
    at_ms: int
    type: EventType
    role: EventRole
    text: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    detached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptSource:
    """A file with transcripts or a part of one.

    `member` names a file inside the archive at `path`. `folder` is where the agent worked, if the
    place of the file tells it.
    """

    path: str
    size: int
    member: str = ""
    folder: str = ""

    @property
    def name(self) -> str:
        """The name of the file itself, without its folders."""
        return PurePath(self.member or self.path).name

    def describe_record(self, number: int) -> str:
        """Name a record for the user, by the line of the file where it has lines."""
        unit = "line" if self.name.endswith(".jsonl") else "record"
        inner = f"/{self.member}" if self.member else ""
        return f"{self.path}{inner}, {unit} {number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedLine:
    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some lines of a source.

    `noise` counts lines that are dropped. Lines that only help to parse others count as neither
    noise nor recorded.
    """

    recorded: tuple[TranscriptEntry, ...] = ()
    refused: tuple[RejectedLine, ...] = ()
    noise: int = 0
    lines: int = 0
    size: int = 0


def build_event_id(session: str, kind: RecordKind, record_id: str) -> EventId:
    """Build the id of an event from the agent's own id of it.

    `session` is the session it is recorded in (`build_session_id`). `record_id` is the agent's id:
    `tool_use_id` of a tool's result, `prompt_id` (in transcripts `promptId`) or `turn_id` of a
    prompt, the message id of an answer, empty for the start of a session. A title or a summary has
    a hash of its text. Hooks and imports that use the same ids store one event, in either order.
    """
    return EventId(f"{kind.value}-{fingerprint(session, kind.value, record_id)[:40]}")


def build_session_id(session: str, agent: str = "") -> str:
    """Build the id of the session that an event is recorded in. A subagent has its own.

    Subagents run in parallel with each other and with the main agent. In one session their lines
    would interleave: a segment would mix conversations, and the turns around a hit would belong to
    another agent. The id names both; as metadata they would count as content, which forgetting
    searches.
    """
    return f"{session}/{agent}" if agent else session


def fingerprint(*parts: str) -> str:
    """Hash texts, as an id for records that have none."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def build_metadata(**values: str) -> dict[str, str]:
    """Build metadata from the values that are not empty, each cut to its limit."""
    return {name: fit_text(value)[:_MAX_METADATA_CHARS] for name, value in values.items() if value}


def build_entry(
    session: str,
    kind: RecordKind,
    record_id: str,
    *,
    at_ms: int,
    line: int,
    metadata: Mapping[str, str],
    text: str = "",
) -> TranscriptEntry:
    """Build the entry of a record, with the type and role of its kind."""
    event_type, role = RECORDED[kind]
    return TranscriptEntry(
        event_id=build_event_id(session, kind, record_id),
        session_id=session,
        at_ms=at_ms,
        type=event_type,
        role=role,
        text=fit_text(text),
        metadata=metadata,
        line=line,
    )


def build_event(entry: TranscriptEntry, metadata: Mapping[str, str]) -> Event:
    """Build the event of an entry, with more metadata. Raises InvalidInput."""
    stated = {each.name: getattr(entry, each.name) for each in fields(Event)}
    stated["metadata"] = {**entry.metadata, **metadata, IMPORTED: "true"}
    return Event(**stated)


def is_imported(event: Event) -> bool:
    return IMPORTED in event.metadata


def is_spoken(event: Event) -> bool:
    """Return whether a user or an assistant said it."""
    return event.type in SPOKEN and not is_description(event)


def fit_text(text: str) -> str:
    """Return the text as valid UTF-8, cut to the size that an event can hold."""
    if text.isascii() and len(text) <= MAX_TEXT_BYTES - _ROOM:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_TEXT_BYTES - _ROOM:
        start = data[: MAX_TEXT_BYTES - _ROOM].decode("utf-8", "ignore")
        return cut(start, len(start) - 1) + CUT
    return data.decode()


def cut(text: str, limit: int) -> str:
    """Cut a text between words: the secrets filter would not recognize half a secret."""
    if len(text) <= limit:
        return text
    last = max(text.rfind(blank, limit - _LONGEST_WORD, limit + 1) for blank in " \n\t")
    return text[:last] if last >= 0 else text[: limit - _LONGEST_WORD]


def strip_injected(text: str, also: Collection[str] = ()) -> str:
    """Return the text without private parts, without the context that we injected, and without the
    tags in `also`."""
    return _CUT_SHORT.sub(
        "", prose.strip_tags(strip_private(text), (*OWN_MARKERS, *_WRAPPERS, *also))
    ).strip()


def parse_millis(value: object) -> int | None:
    """Parse a time: ISO 8601, or a number of seconds or milliseconds since 1970.

    Return None for anything else.
    """
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            aware = time if time.tzinfo else time.replace(tzinfo=UTC)
            millis = round(aware.timestamp() * 1000)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            # As seconds, this limit is the year 5138; as milliseconds, it is 1973.
            millis = round(value * 1000) if abs(value) < 1e11 else round(value)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return millis if 0 <= millis <= MAX_MILLIS else None
