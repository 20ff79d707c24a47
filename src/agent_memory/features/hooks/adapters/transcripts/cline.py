"""Tasks of Cline and Roo Code: the messages to and from the model, and those that were shown.

Earlier versions write calls of tools as tags into the text, and their results as text too.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agent_memory.features.hooks.adapters.transcripts.conversations import ConversationBuilder
from agent_memory.features.hooks.adapters.transcripts.files import Record, walk_files
from agent_memory.features.hooks.adapters.transcripts.json_files import MAX_ELEMENT_BYTES
from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import (
    RecordKind,
    TranscriptEntry,
    TranscriptSource,
)
from agent_memory.kernel.json_fields import Fields
from agent_memory.kernel.text import prose
from agent_memory.platform import files

CLINE, ROO = "cline", "roo"
API_MESSAGES = "api_conversation_history.json"
SHOWN_MESSAGES = "ui_messages.json"
_SESSION_SUFFIX = ".messages.json"  # of newer versions of Cline
_TASK_LIST = Path("state", "taskHistory.json")  # with the folder of each task
_TASK_ITEM = "history_item.json"  # the same of one task, in Roo Code
_ADDED = (
    "environment_details", "explicit_instructions", "file_content", "hook_context", "notice",
    "thinking",
)  # fmt: skip
_TYPED = re.compile(
    r"</?(?:task|feedback|answer|user_message|new_message)>|<user_input(?: [^<>]*)?>|</user_input>"
)
_REPLY = re.compile(r"<(answer|feedback|user_message)>")
_NOT_TYPED = ("[ERROR]", "[TASK RESUMPTION]", "The user has not provided", "Error: ")
_RESULT = re.compile(r"\[(\w+)(?: for (?P<quoted>.*?))?\] Result:\s*", re.DOTALL)
_FOLDER = re.compile(r"# Current (?:Working|Workspace) Directory \((/[^\n]*?)\) Files")
# Tools that say something to the user, by the name of the argument with the words.
_SPEAKING = {
    "attempt_completion": "result",
    "plan_mode_respond": "response",
    "ask_followup_question": "question",
}
_TOOLS = (
    *_SPEAKING,
    "access_mcp_resource", "apply_diff", "browser_action", "codebase_search", "execute_command",
    "fetch_instructions", "insert_content", "list_code_definition_names", "list_files",
    "new_task", "read_file", "replace_in_file", "search_and_replace", "search_files",
    "switch_mode", "update_todo_list", "use_mcp_tool", "web_fetch", "write_to_file",
)  # fmt: skip
_CALL = re.compile(rf"<({'|'.join(_TOOLS)})>")
_ARGUMENT = re.compile(r"<(\w{1,40})>")
_MAX_UNCLOSED = 20  # each costs a search to the end of the text


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """A folder for each task."""

    def list_sources(self, path: Path, /) -> list[TranscriptSource]:
        found = [path] if path.is_file() else walk_files(path, _is_task)
        folders = {file.parent.parent.parent for file in found}
        known = {root: _read_folders(root / _TASK_LIST) for root in folders}
        return [
            TranscriptSource(
                path=str(file),
                size=file.stat().st_size,
                folder=known[file.parent.parent.parent].get(file.parent.name, "")
                or _read_folder(file),
            )
            for file in found
        ]

    def read_records(self, source: TranscriptSource, offset: int, /) -> Iterator[Record]:
        if offset:
            return
        path = Path(source.path)
        said = _load(files.read_regular(path, MAX_ELEMENT_BYTES, follow_link=True))
        if isinstance(said, dict):
            said = said.get("messages")
        shown = _read_list(path.parent / SHOWN_MESSAGES)
        reason = "" if isinstance(said, list) else "not a list of messages"
        fields = None if reason else Fields({"said": said, "shown": shown})
        yield Record(size=max(1, source.size), fields=fields, reason=reason)


def build_parser(agent: str, source: TranscriptSource) -> "TaskTranscript":
    """Build the parser of a task. The name of its folder or file is its id."""
    path = Path(source.path)
    task = path.name.removesuffix(_SESSION_SUFFIX) if not _is_api(path) else path.parent.name
    return TaskTranscript(agent=agent, task=task, folder=source.folder)


def _is_task(path: Path) -> bool:
    return _is_api(path) or path.name.endswith(_SESSION_SUFFIX)


def _is_api(path: Path) -> bool:
    return path.name == API_MESSAGES


def _read_folders(path: Path) -> dict[str, str]:
    """Return the folder of each task by its id."""
    tasks = Fields({"tasks": _read_list(path)}).blocks("tasks")
    return {
        task.text("id"): task.text("cwdOnTaskInitialization", "workspace")
        for task in tasks
        if task.text("id")
    }


def _read_folder(file: Path) -> str:
    """Return the folder of a task from the file that describes it, beside its messages."""
    name = _TASK_ITEM if _is_api(file) else file.name.removesuffix(_SESSION_SUFFIX) + ".json"
    value = _read(file.with_name(name))
    return Fields(value if isinstance(value, dict) else {}).text("cwd", "workspace")


def _read_list(path: Path) -> list[Any]:
    value = _read(path)
    return value if isinstance(value, list) else []


def _read(path: Path) -> object:
    try:
        return _load(files.read_regular(path, MAX_ELEMENT_BYTES))
    except OSError:
        return None


def _load(data: bytes) -> object:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


@dataclass(slots=True)
class TaskTranscript:
    """A parser of one task."""

    agent: str
    task: str
    folder: str = ""

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        said = line.blocks("said")
        folder = self.folder or _find_folder(said)
        times = _Times(line.blocks("shown"), transcripts.parse_millis(_to_number(self.task)))
        talk = ConversationBuilder(
            session=self.task,
            number=number,
            about=transcripts.build_metadata(
                agent=self.agent, cwd=folder, project="" if folder else self.agent
            ),
        )
        uses = tool_use.PendingToolUses()
        for index, message in enumerate(said):
            at_ms = transcripts.parse_millis(message.value("ts")) or times.find(index)
            record_id = message.text("id") or str(index)
            if message.text("role") == "assistant":
                _add_answer(talk, uses, message, record_id, at_ms)
            elif message.text("role") == "user" and not _is_added(message):
                _add_input(talk, uses, message, record_id, at_ms)
        return talk.entries or None


@dataclass(slots=True)
class _Times:
    """The times of messages, from those that were shown: they name the message before them."""

    shown: list[Fields]
    began_ms: int | None
    place: int = 0

    def find(self, index: int) -> int | None:
        while self.place < len(self.shown):
            message = self.shown[self.place]
            before = message.value("conversationHistoryIndex")
            if index == 0 or (isinstance(before, int) and before >= index - 1):
                return transcripts.parse_millis(message.value("ts")) or self.began_ms
            self.place += 1
        return self.began_ms if index == 0 else None


def _is_added(message: Fields) -> bool:
    """Return whether Cline has added the message, such as the context of a hook."""
    return message.fields("metadata").text("displayRole") == "system"


def _to_number(name: str) -> object:
    return int(name) if name.isdecimal() and len(name) < 16 else None


def _find_folder(said: list[Fields]) -> str:
    for message in said[:3]:
        for block in message.blocks("content"):
            if found := _FOLDER.search(block.text("text")):
                return found[1]
    return ""


def _add_answer(
    talk: ConversationBuilder,
    uses: tool_use.PendingToolUses,
    message: Fields,
    record_id: str,
    at_ms: int | None,
) -> None:
    model = transcripts.build_metadata(model=message.fields("modelInfo").text("modelId", "id"))

    def say(text: str) -> None:
        said = transcripts.strip_injected(text, _ADDED)
        talk.add(RecordKind.ANSWER, record_id, said, at_ms, model)

    for block in message.blocks("content"):
        if block.text("type") == "tool_use":
            name, arguments = block.text("name"), block.fields("input")
            _begin_use(uses, block.text("id"), name, arguments)
            say(arguments.text(_SPEAKING.get(name, "")))
        elif block.text("type") == "text":
            at = 0
            text = prose.strip_tags(block.text("text"), ("thinking",))
            for call in _iter_tags(_CALL, text):
                say(text[at : call.start])
                at = call.end
                name = call.name
                arguments = Fields(
                    {tag.name: tag.text.strip() for tag in _iter_tags(_ARGUMENT, call.text)}
                )
                _begin_use(uses, name, name, arguments)
                say(arguments.text(_SPEAKING.get(name, "")))
            say(text[at:])


def _begin_use(uses: tool_use.PendingToolUses, call_id: str, name: str, given: Fields) -> None:
    if name not in _SPEAKING:
        uses.begin(call_id, tool_use.parse_use(name, given))


class _Tag(NamedTuple):
    name: str
    start: int
    end: int
    text: str


def _iter_tags(opening: re.Pattern[str], text: str) -> Iterator[_Tag]:
    """Yield the tags in a text that are closed, not those within others."""
    at, unclosed = 0, set[str]()
    while len(unclosed) <= _MAX_UNCLOSED and (found := opening.search(text, at)):
        name, at = found[1], found.end()
        if name in unclosed:
            continue
        end = text.find(f"</{name}>", at)
        if end < 0:
            unclosed.add(name)
            continue
        yield _Tag(name, found.start(), end + len(name) + 3, text[at:end])
        at = end + len(name) + 3


def _add_input(
    talk: ConversationBuilder,
    uses: tool_use.PendingToolUses,
    message: Fields,
    record_id: str,
    at_ms: int | None,
) -> None:
    """Add what the user said, and the results of tools."""
    typed: list[str] = []
    waiting = ""  # the tool whose result is the next text
    for block in message.blocks("content"):
        if block.text("type") == "tool_result":
            call_id = block.text("tool_use_id")
            use = uses.end(call_id)
            result = prose.strip_tags(_render_result(block), _ADDED)
            if use.name:
                talk.add_tool(call_id, use, result, at_ms, failed=block.true("is_error"))
            typed += _list_replies(result)
            continue
        text = transcripts.strip_injected(block.text("text"), _ADDED)
        if not text:
            continue
        heading = _RESULT.match(text)
        if waiting or (heading and heading[1] in uses.open):
            name = waiting or (heading[1] if heading else "")
            result = text[heading.end() :] if heading else text
            if heading and not result.strip():
                waiting = name
                continue
            waiting = ""
            talk.add_tool(f"{record_id}:{name}", uses.end(name), result, at_ms)
            typed += _list_replies(result)
        elif heading or text.startswith(_NOT_TYPED):
            typed += _list_replies(text)
        else:
            typed.append(_TYPED.sub("", text).strip())
    talk.add(RecordKind.PROMPT, record_id, "\n".join(typed).strip(), at_ms)


def _render_result(block: Fields) -> str:
    """Render a result, which may be a list of those of several commands or files."""
    parts = [part.text("result", "error") for part in block.blocks("content")]
    return "\n".join(filter(None, parts)) or tool_use.render_result(block.value("content"))


def _list_replies(result: str) -> list[str]:
    """Return what the user said in the result of a tool: an answer, or why it was not allowed."""
    return [tag.text.strip() for tag in _iter_tags(_REPLY, result)]
