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
_SHELL = "Bash"  # the name that Codex gives its hooks for every shell tool
_SHELLS = frozenset(
    {"", "exec_command", "shell", "shell_command", "local_shell", "container.exec", "unified_exec"}
)
_MCP = "mcp__"  # the namespace of an MCP server's tools begins with it
_SCRIPT = "exec"  # of code mode: a script that calls the other tools
_NESTED = "exec-"  # begins the ids of the calls that a script makes
_HEADER = re.compile(  # of an output, up to the output itself
    r"\A(?:(?:Chunk ID|Wall time|Exit code|Original token count): [^\n]*\n"
    r"|Process (?:exited with code|running with session ID) [^\n]*\n)+"
    r"(?:Total output lines: [^\n]*\n)?Output:\n?"
)
_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@dataclass(slots=True)
class CodexTranscript:
    """A parser of one transcript."""

    name: str  # of the file, which ends with the session's id
    session: str = ""
    start: RecordKind = RecordKind.SESSION_START
    began_ms: int | None = None
    at_ms: int | None = None
    started: bool = False
    turn: str = ""
    prompted: bool = False  # whether the turn has its prompt
    about: dict[str, str] = field(default_factory=dict)
    model: str = ""
    title: str = ""
    nested: int = 0  # calls by the script that runs
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
        if kind == "event_msg" and item.text("type") == "item_completed":
            return self._parse_nested(item.fields("item"), number)
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
            self.nested = 0
            self.uses.begin(item.text("call_id", "id"), _parse_use(item))
            return []
        if item_type in _RESULTS:
            return self._parse_result(item, number)
        if item_type == "message" and item.text("role") in ("user", "assistant"):
            return self._parse_message(item, number)
        return None

    def _parse_session_meta(self, item: Fields) -> list[TranscriptEntry]:
        """Parse the first session_meta line. A fork repeats the lines of its original session.

        A subagent names the session of its main agent. Its hooks name both (`build_session_id`).
        """
        if not self.session:
            own, main = item.text("id"), item.text("session_id", "parent_thread_id")
            if "thread_spawn" in item.fields("source").fields("subagent") and main != own:
                self.start = RecordKind.SUBAGENT_START
                self.session = transcripts.build_session_id(main, own) if main else own
            else:
                self.session = own
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

    def _parse_result(self, item: Fields, number: int) -> list[TranscriptEntry] | None:
        call_id = item.text("call_id")
        use = self.uses.end(call_id)
        if use.name == _SCRIPT and self.nested:
            return None  # it repeats the results of its calls
        output = item.value("output")
        return self._record_result(
            number, call_id, use, _render_output(output), failed=tool_use.is_failure(output)
        )

    def _parse_nested(self, item: Fields, number: int) -> list[TranscriptEntry] | None:
        """Parse a call that a script has made. Other calls have lines of their own."""
        call_id = item.text("id")
        use = _parse_nested_use(item) if call_id.startswith(_NESTED) else None
        if use is None:
            return None
        self.nested += 1
        text = item.text("aggregated_output", "stdout")
        text = text or tool_use.render_result(item.value("result"))
        failed = item.text("status") == "failed"
        return self._record_result(number, call_id, use, text, failed=failed)

    def _record_result(
        self, number: int, call_id: str, use: tool_use.ToolUse, result: str, *, failed: bool
    ) -> list[TranscriptEntry] | None:
        text = use.render_text(result)
        if not text:
            return None
        error = {"error": "true"} if failed else {}
        record_id = call_id or self._make_unique("", text)
        return self._record(number, RecordKind.TOOL, record_id, text, {**use.metadata(), **error})

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
        began_ms = self.began_ms or 0
        return [
            transcripts.build_entry(
                session, self.start, "", at_ms=began_ms, line=number, metadata=dict(about)
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
    name = _get_tool_name(item)
    if item.text("type") == "custom_tool_call":
        return tool_use.build_patch(name, item.text("input"))
    arguments = item.fields("action")
    try:
        parsed = json.loads(item.text("arguments") or "{}")
        arguments = Fields(parsed) if isinstance(parsed, dict) and parsed else arguments
    except (ValueError, RecursionError):
        pass  # written by a model, and not always JSON
    return tool_use.parse_use(name, _unwrap_command(arguments))


def _parse_nested_use(item: Fields) -> tool_use.ToolUse | None:
    match item.text("type"):
        case "CommandExecution":
            return tool_use.parse_use(_SHELL, _unwrap_command(item))
        case "McpToolCall":
            name = f"{_MCP}{item.text('server')}__{item.text('tool')}"
            return tool_use.parse_use(name, item.fields("arguments"))
        case "FileChange":
            return _build_change(item.value("changes"))
        case _:
            return None


def _build_change(changes: object) -> tool_use.ToolUse:
    """Build the patch of a change. The line does not have the one that the model wrote."""
    files = changes if isinstance(changes, dict) else {}
    parts = []
    for path, change in files.items():
        fields = Fields(change if isinstance(change, dict) else {})
        kind = fields.text("type").capitalize() or "Update"
        parts.append(f"*** {kind} File: {path}\n{fields.text('unified_diff', 'content')}")
    return tool_use.build_patch("apply_patch", "\n".join(parts))


def _get_tool_name(item: Fields) -> str:
    """Return the name of a tool as hooks get it."""
    name, namespace = item.text("name"), item.text("namespace")
    if namespace.startswith(_MCP):
        return f"{namespace}__{name}"
    return _SHELL if name in _SHELLS else name


def _unwrap_command(arguments: Fields) -> Fields:
    """Return the arguments with a command as one text, without the shell that runs it."""
    command = arguments.value("command")
    if not isinstance(command, list):
        return arguments
    words = [str(word) for word in command]
    script = words[2:] if words[1:2] in (["-lc"], ["-c"]) else words
    return Fields({"command": " ".join(script)})


def _join_texts(item: Fields) -> str:
    return "\n".join(filter(None, (block.text("text") for block in item.blocks("content"))))


def _render_output(value: object) -> str:
    """Render a tool's output without the lines before it, as hooks get it.

    It may be in a JSON object that is sent as text.
    """
    if isinstance(value, str) and value.startswith("{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if isinstance(parsed, dict) and isinstance(parsed.get("output"), str):
            value = parsed["output"]
    return _HEADER.sub("", tool_use.render_result(value))
