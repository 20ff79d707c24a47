"""Transcripts of Claude Code: a line for each block of a message, and much besides."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import RecordKind, TranscriptEntry
from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields

AGENT = "claude-code"
_NOISE = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_COMPACTING = "acompact"  # the subagent that writes summaries of what is there already
_REMINDERS = ("system-reminder",)
_NOT_SAID = (  # texts of user lines that no user has written
    "<task-notification>",
    "<local-command-",
    "<bash-stdout>",
    "<bash-stderr>",
    "[Request interrupted by user",
    "Caveat: The messages below were generated",
)
_COMMAND = re.compile(r"<command-name>\s*([^<]*?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_SHELL = re.compile(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
_MAX_REMEMBERED = 200


@dataclass(slots=True)
class ClaudeCodeTranscript:
    name: str  # of the file
    at_ms: int | None = None
    began: dict[str, int] = field(default_factory=dict)  # when a session did
    started: set[str] = field(default_factory=set)
    uses: tool_use.PendingToolUses = field(default_factory=tool_use.PendingToolUses)
    prompt: str = ""
    id_counts: dict[str, int] = field(default_factory=dict)  # how often an id was met

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        self.at_ms = transcripts.parse_millis(line.value("timestamp")) or self.at_ms
        whole, uuid = _origin(line)
        if self.at_ms is not None and whole:
            if len(self.began) > _MAX_REMEMBERED:
                self.began.clear()
                self.started.clear()
            self.began.setdefault(whole, self.at_ms)
        if line.text("type") not in ("user", "assistant") or _is_noise(line):
            return None
        message = line.fields("message")
        about = _about(line)
        inner = line.true("isSidechain")
        session = transcripts.build_session_id(
            whole, (line.text("agentId") or "sidechain") if inner else ""
        )
        blocks = message.blocks("content")
        if line.text("type") == "assistant":
            found = self._parse_answer(uuid, message, blocks)
        else:
            found = self._parse_results(line, uuid, blocks) or self._parse_prompt(
                line, uuid, blocks
            )
        if not found:
            return None if found is None else []
        if not whole:
            raise InvalidInput("no sessionId")
        if self.at_ms is None:
            raise InvalidInput("no timestamp")
        first = self._start(session, inner, self.began[whole], about, number)
        return first + [
            TranscriptEntry(
                event_id=transcripts.build_event_id(session, each.kind, each.given),
                session=session,
                at_ms=self.at_ms,
                type=each.type,
                role=each.role,
                text=transcripts.fit_text(each.text),
                metadata={**about, **each.metadata},
                line=number,
            )
            for each in found
        ]

    def _start(
        self, session: str, inner: bool, at_ms: int, about: Mapping[str, str], number: int
    ) -> list[TranscriptEntry]:
        if session in self.started:
            return []
        self.started.add(session)
        kind = RecordKind.SUBAGENT_START if inner else RecordKind.SESSION_START
        return [
            TranscriptEntry(
                event_id=transcripts.build_event_id(session, kind, ""),
                session=session,
                at_ms=at_ms,
                type=EventType.SUBAGENT_START if inner else EventType.SESSION_START,
                role=EventRole.SYSTEM,
                metadata=about,
                line=number,
            )
        ]

    def _parse_answer(
        self, uuid: str, message: Fields, blocks: list[Fields]
    ) -> "list[_ParsedEvent] | None":
        called = [each for each in blocks if each.text("type") == "tool_use"]
        for each in called:
            self.uses.begin(
                each.text("id"), tool_use.parse_use(each.text("name"), each.fields("input"))
            )
        text = transcripts.strip_injected(_join_texts(blocks), _REMINDERS)
        if not text:
            return [] if called else None
        # A message comes in several lines, which may not all be there yet: so each with words is
        # told by itself. Hardly any message has two.
        given = self._make_unique(message.text("id"), uuid, text)
        model = message.text("model")
        return [
            _ParsedEvent(
                RecordKind.ANSWER,
                given,
                EventType.ASSISTANT_MESSAGE,
                EventRole.ASSISTANT,
                text,
                {"model": model} if model else {},
            )
        ]

    def _parse_results(self, line: Fields, uuid: str, blocks: list[Fields]) -> "list[_ParsedEvent]":
        results = [each for each in blocks if each.text("type") == "tool_result"]
        found = []
        for each in results:
            call = each.text("tool_use_id")
            use = self.uses.end(call)
            content = tool_use.render_result(each.value("content"))
            if not content and len(results) == 1:
                content = tool_use.render_result(line.value("toolUseResult"))
            found.append(
                _ParsedEvent(
                    RecordKind.TOOL,
                    call or self._make_unique("", uuid, content),
                    EventType.TOOL_RESULT,
                    EventRole.TOOL,
                    transcripts.strip_injected(use.render_text(content), _REMINDERS),
                    {**use.metadata(), **({"error": "true"} if each.true("is_error") else {})},
                )
            )
        return found

    def _parse_prompt(
        self, line: Fields, uuid: str, blocks: list[Fields]
    ) -> "list[_ParsedEvent] | None":
        text = _extract_typed(transcripts.strip_injected(_join_texts(blocks), _REMINDERS))
        if not text:
            return None
        given = line.text("promptId")
        if given == self.prompt:  # all lines up to the next prompt may bear its id
            given = ""
        self.prompt = given or self.prompt
        return [
            _ParsedEvent(
                RecordKind.PROMPT,
                self._make_unique(given, uuid, text),
                EventType.USER_MESSAGE,
                EventRole.USER,
                text,
                {},
            )
        ]

    def _make_unique(self, given: str, uuid: str, text: str) -> str:
        """The given id, with a number where it was met before; else another that stays the same."""
        name = given or uuid or transcripts.fingerprint(str(self.at_ms), text)
        count = self.id_counts.pop(name, 0) + 1
        self.id_counts[name] = count
        if len(self.id_counts) > _MAX_REMEMBERED:
            del self.id_counts[next(iter(self.id_counts))]
        return name if count == 1 else f"{name}#{count}"


@dataclass(frozen=True, slots=True)
class _ParsedEvent:
    kind: RecordKind
    given: str
    type: EventType
    role: EventRole
    text: str
    metadata: Mapping[str, str]


def _is_noise(line: Fields) -> bool:
    return (
        any(line.true(name) for name in _NOISE)
        or line.text("agentId").startswith(_COMPACTING)
        or line.fields("message").text("model") == "<synthetic>"
    )


def _origin(line: Fields) -> tuple[str, str]:
    """Session and id of the line; of a copy that a fork begins with, those that it is a copy of.
    The session that was forked may have no transcript any more."""
    copied = line.fields("forkedFrom")
    session = copied.text("sessionId") or line.text("sessionId")
    return session, copied.text("messageUuid") or line.text("uuid")


def _about(line: Fields) -> dict[str, str]:
    found = {"agent": AGENT, "cwd": line.text("cwd"), "branch": line.text("gitBranch")}
    return {name: transcripts.fit_text(value)[:4_000] for name, value in found.items() if value}


def _join_texts(blocks: list[Fields]) -> str:
    return "\n".join(
        each.text("text") for each in blocks if each.text("type") == "text" and each.text("text")
    )


def _extract_typed(text: str) -> str:
    """What the user has typed; nothing where it was not the user, or a bare command."""
    if command := _COMMAND.search(text):
        arguments = _ARGUMENTS.search(text)
        said = arguments[1].strip() if arguments else ""
        return f"{command[1]} {said}" if said else ""
    if shell := _SHELL.search(text):
        return f"! {shell[1].strip()}"
    return "" if text.startswith(_NOT_SAID) else text
