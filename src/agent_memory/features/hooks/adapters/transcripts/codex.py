"""Rollouts of Codex: `{timestamp, type, payload}`, and in old ones the payload alone."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import RecordKind, TranscriptEntry
from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields

AGENT = "codex"
_NOT_SAID = (  # texts of user messages that no user has written
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
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_MAX_REMEMBERED = 200


@dataclass(slots=True)
class CodexTranscript:
    name: str  # of the file, which ends with the session's id
    session: str = ""
    began_ms: int | None = None
    at_ms: int | None = None
    started: bool = False
    turn: str = ""
    prompted: bool = False  # whether the turn's prompt has come
    about: dict[str, str] = field(default_factory=dict)
    model: str = ""
    uses: tool_use.PendingToolUses = field(default_factory=tool_use.PendingToolUses)
    id_counts: dict[str, int] = field(default_factory=dict)

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        self.at_ms = transcripts.parse_millis(line.value("timestamp")) or self.at_ms
        self.began_ms = self.began_ms or self.at_ms
        kind, item = line.text("type"), line.fields("payload")
        if "payload" not in line:
            kind = "session_meta" if not kind and "id" in line else "response_item"
            item = line
        if kind == "session_meta":
            return self._parse_session_meta(item)
        if kind in ("turn_context", "event_msg"):
            return self._parse_turn(kind, item)
        if kind != "response_item":
            return None
        what = item.text("type")
        if what in _CALLS:
            self.uses.begin(item.text("call_id", "id"), _use(item))
            return []
        if what in _RESULTS:
            return self._record(number, *self._parse_result(item))
        if what == "message" and item.text("role") in ("user", "assistant"):
            return self._parse_message(item, number)
        return None

    def _parse_session_meta(self, item: Fields) -> list[TranscriptEntry]:
        """Only the first counts: a fork repeats the lines of the session that it goes on from."""
        if not self.session:
            self.session = item.text("id")
            branch = item.fields("git").text("branch")
            self.about = _build_metadata(agent=AGENT, cwd=item.text("cwd"), branch=branch)
        return []

    def _parse_turn(self, kind: str, item: Fields) -> list[TranscriptEntry] | None:
        turn = item.text("turn_id")
        if turn and turn != self.turn:
            self.turn, self.prompted = turn, False
        if kind == "event_msg":
            return None  # what it says, another line says too
        self.model = item.text("model") or self.model
        self.about |= _build_metadata(cwd=item.text("cwd"))
        return []

    def _parse_message(self, item: Fields, number: int) -> list[TranscriptEntry] | None:
        parts = (each.text("text") for each in item.blocks("content"))
        text = transcripts.strip_injected("\n".join(filter(None, parts)))
        if not text:
            return None
        if item.text("role") == "assistant":
            given = self._make_unique(item.text("id"), text)
            return self._record(
                number, RecordKind.ANSWER, given, text, _build_metadata(model=self.model)
            )
        if text.startswith(_NOT_SAID):
            return None
        given = self._make_unique(item.text("id"), text)
        if self.turn and not self.prompted:
            given, self.prompted = self.turn, True
        return self._record(number, RecordKind.PROMPT, given, text, {})

    def _parse_result(self, item: Fields) -> tuple[RecordKind, str, str, Mapping[str, str]]:
        call = item.text("call_id")
        use = self.uses.end(call)
        text = use.render_text(_output(item.value("output")))
        return RecordKind.TOOL, call or self._make_unique("", text), text, use.metadata()

    def _record(
        self, number: int, kind: RecordKind, given: str, text: str, more: Mapping[str, str]
    ) -> list[TranscriptEntry]:
        session = self.session
        if not session and (named := _SESSION.search(self.name)):
            session = named[0]
        if not session:
            raise InvalidInput("no session id: neither a session_meta line nor the name tells it")
        if self.at_ms is None:
            raise InvalidInput("no timestamp")
        about = self.about or {"agent": AGENT}
        found = []
        if not self.started:
            self.started = True
            found.append(
                TranscriptEntry(
                    event_id=transcripts.build_event_id(session, RecordKind.SESSION_START, ""),
                    session=session,
                    at_ms=self.began_ms or 0,
                    type=EventType.SESSION_START,
                    role=EventRole.SYSTEM,
                    metadata=dict(about),
                    line=number,
                )
            )
        event_type, role = _RECORDED[kind]
        return [
            *found,
            TranscriptEntry(
                event_id=transcripts.build_event_id(session, kind, given),
                session=session,
                at_ms=self.at_ms,
                type=event_type,
                role=role,
                text=transcripts.fit_text(text),
                metadata={**about, **more},
                line=number,
            ),
        ]

    def _make_unique(self, given: str, text: str) -> str:
        name = given or transcripts.fingerprint(str(self.at_ms), text)
        count = self.id_counts.pop(name, 0) + 1
        self.id_counts[name] = count
        if len(self.id_counts) > _MAX_REMEMBERED:
            del self.id_counts[next(iter(self.id_counts))]
        return name if count == 1 else f"{name}#{count}"


_RECORDED = {
    RecordKind.PROMPT: (EventType.USER_MESSAGE, EventRole.USER),
    RecordKind.ANSWER: (EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT),
    RecordKind.TOOL: (EventType.TOOL_RESULT, EventRole.TOOL),
}


def _use(item: Fields) -> tool_use.ToolUse:
    if item.text("type") == "custom_tool_call":
        written = item.text("input")
        file = _PATCHED.search(written)
        return tool_use.ToolUse(
            name=item.text("name"),
            written=transcripts.cut(transcripts.strip_injected(written), tool_use.MAX_WRITTEN),
            file=file[1] if file else "",
        )
    given = item.fields("action")
    try:
        parsed = json.loads(item.text("arguments") or "{}")
        given = Fields(parsed) if isinstance(parsed, dict) and parsed else given
    except (ValueError, RecursionError):
        pass  # a model wrote it, and not always JSON
    command = given.value("command")
    if isinstance(command, list):
        words = [str(each) for each in command]
        script = words[2:] if words[1:2] in (["-lc"], ["-c"]) else words
        given = Fields({"command": " ".join(script)})
    return tool_use.parse_use(item.text("name") or "shell", given)


def _output(value: object) -> str:
    """Some tools give an object as text, with the output in it."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if isinstance(parsed, dict) and isinstance(parsed.get("output"), str):
            return str(parsed["output"])
    return tool_use.render_result(value)


def _build_metadata(**found: str) -> dict[str, str]:
    return {name: transcripts.fit_text(value)[:4_000] for name, value in found.items() if value}
