"""Transcripts of Claude Code: one line per block of a message, and many other lines."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_memory.features.hooks.model import descriptions, tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import RecordIds, RecordKind, TranscriptEntry
from agent_memory.features.log.model.metadata import SUMMARIZES, TITLES
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from agent_memory.kernel.text.private import strip_private

AGENT = "claude-code"
_NOISE = ("isMeta", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_COMPACTED = "isCompactSummary"
_RECAP = "away_summary"  # a line of type system
_TITLE_LINES = {  # by type: the field of the title, and who gave it
    "summary": ("summary", descriptions.AGENT),
    "ai-title": ("aiTitle", descriptions.AGENT),
    "custom-title": ("customTitle", descriptions.USER),
}
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
_MAX_UUIDS = 1_000  # a title names the last line of its conversation
_MAX_WAITING = 50


@dataclass(slots=True)
class _Titles:
    """The titles of sessions. Some are written before the session or for another one."""

    last: dict[tuple[str, str], str] = field(default_factory=dict)  # by session and giver
    waiting: list[tuple[str, str, str]] = field(default_factory=list)  # for their session to start
    homeless: dict[str, tuple[str, str]] = field(default_factory=dict)  # by their leaf
    sessions: dict[str, str] = field(default_factory=dict)  # of the latest lines, by uuid
    session: str = ""  # of the last line
    at_ms: int = 0  # of the last title

    def note_line(self, uuid: str, session: str) -> None:
        self.session = session or self.session
        if not uuid or not session:
            return
        self.sessions[uuid] = session
        if len(self.sessions) > _MAX_UUIDS:
            del self.sessions[next(iter(self.sessions))]
        if uuid in self.homeless:
            self._wait(session, *self.homeless.pop(uuid))

    def add(self, session: str, leaf: str, giver: str, title: str) -> None:
        """Add a title. Without a session, the leaf names the last line of its conversation, which
        may be in another file: then nothing here says which session it is."""
        session = session or (self.sessions.get(leaf, "") if leaf else self.session)
        if session:
            self._wait(session, giver, title)
        elif leaf:
            self.homeless[leaf] = (giver, title)
            if len(self.homeless) > _MAX_WAITING:
                del self.homeless[next(iter(self.homeless))]

    def take(self, started: Collection[str]) -> list[tuple[str, str, str]]:
        """Return the new titles of these sessions. Claude Code repeats a title now and then."""
        ready = [each for each in self.waiting if each[0] in started]
        self.waiting = [each for each in self.waiting if each[0] not in started]
        new = []
        for session, giver, title in ready:
            if self.last.get((session, giver)) != title:
                self.last[session, giver] = title
                new.append((session, giver, title))
        if len(self.last) > 2 * _MAX_SESSIONS:
            del self.last[next(iter(self.last))]
        return new

    def find_time(self, at_ms: int) -> int:
        """Return the time of the next title: after the last one, if no line is between them."""
        self.at_ms = self.at_ms + 1 if at_ms <= self.at_ms < at_ms + _MAX_WAITING else at_ms
        return self.at_ms

    def _wait(self, session: str, giver: str, title: str) -> None:
        self.waiting.append((session, giver, title))
        del self.waiting[:-_MAX_WAITING]


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
    titles: _Titles = field(default_factory=_Titles)
    about: Mapping[str, str] = field(default_factory=dict)  # of the last line

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        self.at_ms = transcripts.parse_millis(line.value("timestamp")) or self.at_ms
        main, uuid = _get_origin(line)
        if self.at_ms is not None and main:
            if len(self.began) > _MAX_SESSIONS:
                self.began.clear()
                self.started.clear()
            self.began.setdefault(main, self.at_ms)
        self.titles.note_line(line.text("uuid"), main)
        if line.text("type") in _TITLE_LINES:
            return self._parse_title(line, main, number)
        if not _has_words(line):
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
        if _is_summary(line, blocks):
            events = _parse_summary(line, blocks, uuid)
        elif line.text("type") == "assistant":
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
        self.about = about
        if session not in self.started:
            self.started.add(session)
            start = RecordKind.SUBAGENT_START if inner else RecordKind.SESSION_START
            began = transcripts.build_entry(
                session, start, "", at_ms=self.began[main], line=number, metadata=about
            )
            entries.insert(0, began)
        return [*entries, *self._record_titles(number)]

    def _parse_title(self, line: Fields, main: str, number: int) -> list[TranscriptEntry] | None:
        name, giver = _TITLE_LINES[line.text("type")]
        title = descriptions.clean_title(line.text(name))
        if not title:
            return None
        self.titles.add(main, line.text("leafUuid"), giver, title)
        return self._record_titles(number)

    def _record_titles(self, number: int) -> list[TranscriptEntry]:
        """Record the titles that wait for their session. A session begins with other lines."""
        return [
            transcripts.build_entry(
                session,
                RecordKind.TITLE,
                self.ids.make_unique(descriptions.build_title_id(giver, title)),
                at_ms=self.titles.find_time(self.at_ms or 0),
                line=number,
                metadata={**self.about, TITLES: giver},
                text=title,
            )
            for session, giver, title in self.titles.take(self.started)
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
                    call_id or self._make_unique("", uuid, strip_private(content)),
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


def _has_words(line: Fields) -> bool:
    """Return whether a line may have words to record."""
    if line.text("agentId").startswith(_COMPACTING):
        return False
    if line.text("type") == "system":
        return line.text("subtype") == _RECAP
    if line.text("type") not in ("user", "assistant"):
        return False
    if line.true(_COMPACTED):
        return True
    return (
        not any(line.true(name) for name in _NOISE)
        and line.fields("message").text("model") != "<synthetic>"
    )


def _is_summary(line: Fields, blocks: list[Fields]) -> bool:
    """Return whether a line sums up earlier ones."""
    if line.text("type") != "user":
        return line.text("type") == "system"
    return line.true(_COMPACTED) or descriptions.is_continuation(_join_texts(blocks))


def _parse_summary(line: Fields, blocks: list[Fields], uuid: str) -> "list[_ParsedEvent] | None":
    if line.text("type") == "system":
        text = descriptions.extract_recap(line.text("content"))
        record_id, kind = uuid or transcripts.fingerprint(text), descriptions.SESSION
    else:
        text = descriptions.extract_summary(_join_texts(blocks))
        record_id, kind = transcripts.fingerprint(text), descriptions.COMPACTION
    return [_ParsedEvent(RecordKind.SUMMARY, record_id, text, {SUMMARIZES: kind})] if text else None


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
