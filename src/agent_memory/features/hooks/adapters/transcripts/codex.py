"""Transcripts of Codex (rollouts): `{timestamp, type, payload}`; old ones have only payloads."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent_memory.features.hooks.model import descriptions, tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import RecordIds, RecordKind, TranscriptEntry
from agent_memory.features.log.model.metadata import SUMMARIZES, TITLES
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields

AGENT = "codex"
INDEX = "session_index.jsonl"  # the names of threads: {id, thread_name, updated_at}
_NOT_TYPED = (  # user messages that the user has not typed
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "<turn_aborted>",
    "<skill>",
    "<subagent_notification>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
)
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")
_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@dataclass(slots=True)
class CodexTranscript:
    """A parser of one transcript."""

    name: str  # of the file, which ends with the session's id
    session: str = ""
    began_ms: int | None = None
    at_ms: int | None = None
    started: bool = False
    turn: str = ""
    prompted: bool = False  # whether the turn has its prompt
    about: dict[str, str] = field(default_factory=dict)
    model: str = ""
    title: str = ""
    uses: tool_use.PendingToolUses = field(default_factory=tool_use.PendingToolUses)
    ids: RecordIds = field(default_factory=RecordIds)

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        if "thread_name" in line:
            return _parse_index(line, number)
        self.at_ms = transcripts.parse_millis(line.value("timestamp")) or self.at_ms
        self.began_ms = self.began_ms or self.at_ms
        kind, item = line.text("type"), line.fields("payload")
        if "payload" not in line:
            kind = "session_meta" if not kind and "id" in line else "response_item"
            item = line
        if kind == "session_meta":
            return self._parse_session_meta(item)
        if kind == "event_msg" and item.text("type") == "thread_name_updated":
            return self._parse_title(item, number)
        if kind in ("turn_context", "event_msg"):
            return self._parse_turn(kind, item)
        if kind == "compacted":
            return self._record_summary(item.text("message"), number)
        if kind != "response_item":
            return None
        if line.fields("metadata").true("compaction_output"):
            return self._record_summary(_join_texts(item), number)
        item_type = item.text("type")
        if item_type in _CALLS:
            self.uses.begin(item.text("call_id", "id"), _parse_use(item))
            return []
        if item_type in _RESULTS:
            return self._record(number, *self._parse_result(item))
        if item_type == "message" and item.text("role") in ("user", "assistant"):
            return self._parse_message(item, number)
        return None

    def _parse_session_meta(self, item: Fields) -> list[TranscriptEntry]:
        """Parse the first session_meta line. A fork repeats the lines of its original session."""
        if not self.session:
            self.session = item.text("id")
            branch = item.fields("git").text("branch")
            self.about = transcripts.build_metadata(
                agent=AGENT, cwd=item.text("cwd"), branch=branch
            )
        return []

    def _parse_turn(self, kind: str, item: Fields) -> list[TranscriptEntry] | None:
        turn = item.text("turn_id")
        if turn and turn != self.turn:
            self.turn, self.prompted = turn, False
        if kind == "event_msg":
            return None  # another line says the same
        self.model = item.text("model") or self.model
        self.about |= transcripts.build_metadata(cwd=item.text("cwd"))
        return []

    def _parse_message(self, item: Fields, number: int) -> list[TranscriptEntry] | None:
        text = transcripts.strip_injected(_join_texts(item))
        if not text:
            return None
        if item.text("role") == "assistant":
            metadata = transcripts.build_metadata(model=self.model)
            record_id = self._make_unique(item.text("id"), text)
            return self._record(number, RecordKind.ANSWER, record_id, text, metadata)
        if text.startswith(_NOT_TYPED):
            return None
        if descriptions.is_continuation(text):  # the conversation is continued after a compaction
            return self._record_summary(text, number)
        record_id = self._make_unique(item.text("id"), text)
        if self.turn and not self.prompted:
            record_id, self.prompted = self.turn, True
        return self._record(number, RecordKind.PROMPT, record_id, text, {})

    def _record_summary(self, text: str, number: int) -> list[TranscriptEntry] | None:
        """Record the summary of a compaction. It is empty if the server keeps it."""
        text = descriptions.extract_summary(text)
        if not text:
            return None
        about = {SUMMARIZES: descriptions.COMPACTION}
        return self._record(number, RecordKind.SUMMARY, transcripts.fingerprint(text), text, about)

    def _parse_title(self, item: Fields, number: int) -> list[TranscriptEntry] | None:
        title = descriptions.clean_title(item.text("thread_name"))
        if not title or title == self.title:
            return None
        self.title = title
        giver = descriptions.USER
        record_id = self.ids.make_unique(descriptions.build_title_id(giver, title))
        return self._record(number, RecordKind.TITLE, record_id, title, {TITLES: giver})

    def _parse_result(self, item: Fields) -> tuple[RecordKind, str, str, Mapping[str, str]]:
        call_id = item.text("call_id")
        use = self.uses.end(call_id)
        output = item.value("output")
        text = use.render_text(_render_output(output))
        failed = {"error": "true"} if tool_use.is_failure(output) else {}
        record_id = call_id or self._make_unique("", text)
        return RecordKind.TOOL, record_id, text, {**use.metadata(), **failed}

    def _record(
        self, number: int, kind: RecordKind, record_id: str, text: str, metadata: Mapping[str, str]
    ) -> list[TranscriptEntry]:
        session = self.session
        if not session and (match := _SESSION.search(self.name)):
            session = match[0]
        if not session:
            raise InvalidInput("no session id in a session_meta line or in the file name")
        if self.at_ms is None:
            raise InvalidInput("no timestamp")
        about = self.about or {"agent": AGENT}
        entry = transcripts.build_entry(
            session,
            kind,
            record_id,
            at_ms=self.at_ms,
            line=number,
            metadata={**about, **metadata},
            text=text,
        )
        if self.started:
            return [entry]
        self.started = True
        start, began_ms = RecordKind.SESSION_START, self.began_ms or 0
        return [
            transcripts.build_entry(
                session, start, "", at_ms=began_ms, line=number, metadata=dict(about)
            ),
            entry,
        ]

    def _make_unique(self, record_id: str, text: str) -> str:
        return self.ids.make_unique(record_id or transcripts.fingerprint(str(self.at_ms), text))


def _parse_index(line: Fields, number: int) -> list[TranscriptEntry] | None:
    session, title = line.text("id"), descriptions.clean_title(line.text("thread_name"))
    at_ms = transcripts.parse_millis(line.value("updated_at"))
    if not session or not title or at_ms is None:
        return None
    giver = descriptions.USER
    entry = transcripts.build_entry(
        session,
        RecordKind.TITLE,
        descriptions.build_title_id(giver, title),
        at_ms=at_ms,
        line=number,
        metadata={"agent": AGENT, TITLES: giver},
        text=title,
    )
    return [replace(entry, detached=True)]


def _parse_use(item: Fields) -> tool_use.ToolUse:
    if item.text("type") == "custom_tool_call":
        return tool_use.build_patch(item.text("name"), item.text("input"))
    arguments = item.fields("action")
    try:
        parsed = json.loads(item.text("arguments") or "{}")
        arguments = Fields(parsed) if isinstance(parsed, dict) and parsed else arguments
    except (ValueError, RecursionError):
        pass  # written by a model, and not always JSON
    command = arguments.value("command")
    if isinstance(command, list):
        words = [str(word) for word in command]
        script = words[2:] if words[1:2] in (["-lc"], ["-c"]) else words
        arguments = Fields({"command": " ".join(script)})
    return tool_use.parse_use(item.text("name") or "shell", arguments)


def _join_texts(item: Fields) -> str:
    return "\n".join(filter(None, (block.text("text") for block in item.blocks("content"))))


def _render_output(value: object) -> str:
    """Render a tool's output, which may be in a JSON object that is sent as text."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if isinstance(parsed, dict) and isinstance(parsed.get("output"), str):
            return str(parsed["output"])
    return tool_use.render_result(value)
