"""Transcripts of Claude Code: one line per block of a message, and many other lines."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import RecordIds, RecordKind, TranscriptEntry
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields

AGENT = "claude-code"
_NOISE = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_COMPACTING = "acompact"  # the subagent that summarizes earlier lines
_REMINDERS = ("system-reminder",)
_NOT_TYPED = (  # user lines that the user has not typed
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
_MAX_SESSIONS = 200


@dataclass(slots=True)
class ClaudeCodeTranscript:
    """A parser of one transcript."""

    name: str  # of the file
    at_ms: int | None = None
    began: dict[str, int] = field(default_factory=dict)  # start times of sessions
    started: set[str] = field(default_factory=set)
    uses: tool_use.PendingToolUses = field(default_factory=tool_use.PendingToolUses)
    prompt: str = ""
    ids: RecordIds = field(default_factory=RecordIds)

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        self.at_ms = transcripts.parse_millis(line.value("timestamp")) or self.at_ms
        main, uuid = _get_origin(line)
        if self.at_ms is not None and main:
            if len(self.began) > _MAX_SESSIONS:
                self.began.clear()
                self.started.clear()
            self.began.setdefault(main, self.at_ms)
        if line.text("type") not in ("user", "assistant") or _is_noise(line):
            return None
        message = line.fields("message")
        about = transcripts.build_metadata(
            agent=AGENT, cwd=line.text("cwd"), branch=line.text("gitBranch")
        )
        inner = line.true("isSidechain")
        session = transcripts.build_session_id(
            main, (line.text("agentId") or "sidechain") if inner else ""
        )
        blocks = message.blocks("content")
        if line.text("type") == "assistant":
            events = self._parse_answer(uuid, message, blocks)
        else:
            events = self._parse_results(line, uuid, blocks) or self._parse_prompt(
                line, uuid, blocks
            )
        if not events:
            return None if events is None else []
        if not main:
            raise InvalidInput("no sessionId")
        if self.at_ms is None:
            raise InvalidInput("no timestamp")
        entries = [
            transcripts.build_entry(
                session,
                event.kind,
                event.record_id,
                at_ms=self.at_ms,
                line=number,
                metadata={**about, **event.metadata},
                text=event.text,
            )
            for event in events
        ]
        if session in self.started:
            return entries
        self.started.add(session)
        start = RecordKind.SUBAGENT_START if inner else RecordKind.SESSION_START
        at_ms = self.began[main]
        return [
            transcripts.build_entry(session, start, "", at_ms=at_ms, line=number, metadata=about),
            *entries,
        ]

    def _parse_answer(
        self, uuid: str, message: Fields, blocks: list[Fields]
    ) -> "list[_ParsedEvent] | None":
        calls = [block for block in blocks if block.text("type") == "tool_use"]
        for call in calls:
            self.uses.begin(
                call.text("id"), tool_use.parse_use(call.text("name"), call.fields("input"))
            )
        text = transcripts.strip_injected(_join_texts(blocks), _REMINDERS)
        if not text:
            return [] if calls else None
        # A message comes in several lines, and some may not be written yet: so each line with text
        # is an event. Hardly any message has two.
        record_id = self._make_unique(message.text("id"), uuid, text)
        model = message.text("model")
        about = {"model": model} if model else {}
        return [_ParsedEvent(RecordKind.ANSWER, record_id, text, about)]

    def _parse_results(self, line: Fields, uuid: str, blocks: list[Fields]) -> "list[_ParsedEvent]":
        results = [block for block in blocks if block.text("type") == "tool_result"]
        events = []
        for result in results:
            call_id = result.text("tool_use_id")
            use = self.uses.end(call_id)
            content = tool_use.render_result(result.value("content"))
            if not content and len(results) == 1:
                content = tool_use.render_result(line.value("toolUseResult"))
            events.append(
                _ParsedEvent(
                    RecordKind.TOOL,
                    call_id or self._make_unique("", uuid, content),
                    transcripts.strip_injected(use.render_text(content), _REMINDERS),
                    {**use.metadata(), **({"error": "true"} if result.true("is_error") else {})},
                )
            )
        return events

    def _parse_prompt(
        self, line: Fields, uuid: str, blocks: list[Fields]
    ) -> "list[_ParsedEvent] | None":
        text = _extract_typed(transcripts.strip_injected(_join_texts(blocks), _REMINDERS))
        if not text:
            return None
        prompt_id = line.text("promptId")
        if prompt_id == self.prompt:  # all lines up to the next prompt may have its id
            prompt_id = ""
        self.prompt = prompt_id or self.prompt
        record_id = self._make_unique(prompt_id, uuid, text)
        return [_ParsedEvent(RecordKind.PROMPT, record_id, text, {})]

    def _make_unique(self, record_id: str, uuid: str, text: str) -> str:
        return self.ids.make_unique(
            record_id or uuid or transcripts.fingerprint(str(self.at_ms), text)
        )


class _ParsedEvent(NamedTuple):
    kind: RecordKind
    record_id: str
    text: str
    metadata: Mapping[str, str]


def _is_noise(line: Fields) -> bool:
    return (
        any(line.true(name) for name in _NOISE)
        or line.text("agentId").startswith(_COMPACTING)
        or line.fields("message").text("model") == "<synthetic>"
    )


def _get_origin(line: Fields) -> tuple[str, str]:
    """Return the session and id of a line. A fork copies lines: return those of the original.

    The original session may have no transcript any more.
    """
    original = line.fields("forkedFrom")
    session = original.text("sessionId") or line.text("sessionId")
    return session, original.text("messageUuid") or line.text("uuid")


def _join_texts(blocks: list[Fields]) -> str:
    return "\n".join(
        text for block in blocks if block.text("type") == "text" and (text := block.text("text"))
    )


def _extract_typed(text: str) -> str:
    """Return the text that the user typed; empty for other texts and bare commands."""
    if command := _COMMAND.search(text):
        arguments = _ARGUMENTS.search(text)
        words = arguments[1].strip() if arguments else ""
        return f"{command[1]} {words}" if words else ""
    if shell := _SHELL.search(text):
        return f"! {shell[1].strip()}"
    return "" if text.startswith(_NOT_TYPED) else text
