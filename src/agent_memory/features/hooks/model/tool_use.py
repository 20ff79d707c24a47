"""Tool use: a call and its result, recorded as one text."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.features.hooks.model.transcripts import build_metadata, cut, strip_injected
from agent_memory.features.log.model.metadata import RECALLED
from agent_memory.kernel.json_fields import Fields

MAX_OPEN = 200  # calls that wait for a result; those of a session that ended never get one
MAX_ASKED = 2_000
_MAX_PATH_CHARS = 4_096
MAX_WRITTEN = 8_000
_FILES = ("file_path", "notebook_path", "filePath", "absolute_path")
# Names for the same tools in Claude Code, Gemini CLI, Codex, OpenCode, Cline and VS Code.
_ALIASES = {
    "createFile": "Write",
    "edit": "Edit",
    "editFiles": "Edit",
    "read": "Read",
    "readFile": "Read",
    "replace_in_file": "Edit",
    "write": "Write",
    "write_to_file": "Write",
    "MultiEdit": "Edit",
    "NotebookEdit": "Edit",
    "apply_patch": "Edit",
    "read_file": "Read",
    "replace": "Edit",
    "write_file": "Write",
}
# Tools that write a whole list of todos, and tools that change one of them.
_LISTS = frozenset({"TodoWrite", "update_plan", "write_todos"})
_TASKS = frozenset({"TaskCreate", "TaskUpdate"})
_STATES = {
    "completed": "x",
    "in_progress": "~",
    "pending": " ",
    "cancelled": "-",
    "deleted": "-",
}
_MAX_ITEM = 1_000
_PATCH = "apply_patch"
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_MOVED = re.compile(r"^\*\*\* Move to: (.+)$", re.MULTILINE)
_WORD = re.compile(r"[^\s'\"`;|&<>(){}=,:]+")
_MAX_FILES = 100  # of a patch, or of a list
_PLACES = ("path", "glob", "include", "directory", "dir_path", "target_directory")
_PLACE_LISTS = ("paths", "include", "files", "file_paths")
_GLOBS = frozenset({"Glob", "glob"})  # their pattern is one of file names
_WILDCARD = re.compile(r"[*?\[{]")
_MAX_WORDS = 200
_EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)$", re.MULTILINE)
_HEADER_CHARS = 500  # Codex writes the exit code before the output
_FOOTER_CHARS = 200  # Gemini CLI and Copilot write it after the output
_FAILED = re.compile(
    r"^(?:Exit Code: -?[1-9]\d*|<shellId: \w+ completed with exit code -?[1-9]\d*>)$", re.MULTILINE
)
_ASKED = ("command", "pattern", "query", "url", "description", "prompt", "path", "cmd")
_OUR_TOOLS = re.compile(
    r"recall"  # of agents that the daemon runs
    r"|mcp__(?:plugin_memory_)?(?:agent-)?memory__.*"
    # With the server's name as Gemini CLI, Codex and Copilot write it, or without it (Cursor).
    r"|(?:mcp_)?(?:(?:agent-)?memory(?:__?|-))?memory_"
    r"(?:capture|configure|consolidate|expand|forget|recall|status|sync|timeline)"
)
_SHELLS = re.compile(r"bash|shell|command|exec|terminal", re.IGNORECASE)
_OUR_COMMANDS = re.compile(
    r"(?:^|[;&|(`\n]|\b(?:ba|da|z)?sh\s+-\w*c\s+[\"']?)[ \t]*"
    r"(?:\w+=\S*\s+|(?:command|env|exec|nice|time|timeout\s+\S+|uvx|uv\s+run)\s+)*(?:\S*/)?"
    r"(?:kontekst(?!\S)"
    r"|(?:memory|memory-daemon)\s+(?:-\S+\s+(?:[^\s;&|-][^\s;&|]*\s+)??)*"
    r"(?:recall|context|list|show|today|log|sessions|status|export|query|doctor|consolidate)\b)"
)
_RESULTS = ("stdout", "stderr", "output", "content", "text", "result", "error")
_WRITTEN = ("new_string", "newString", "content", "new_source", "plan")  # recorded to be searchable


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A call of a tool: its question, the text it writes, its file, and other places that it
    reads."""

    name: str
    asked: str = ""
    written: str = ""
    file: str = ""
    places: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The tool's own name, and the common one."""
        return frozenset({self.name, _ALIASES.get(self.name, self.name)})

    @property
    def is_shell(self) -> bool:
        return _SHELLS.search(self.name) is not None

    def metadata(self) -> Mapping[str, str]:
        recalled = "true" if self.is_own else ""
        return build_metadata(tool_name=self.name, file_path=self.file, **{RECALLED: recalled})

    @property
    def is_own(self) -> bool:
        """Whether the result comes from our own memory: if recorded, recall would find it twice."""
        if _OUR_TOOLS.fullmatch(self.name):
            return True
        return _OUR_COMMANDS.search(self.command) is not None

    @property
    def command(self) -> str:
        """The command that a shell tool runs; empty for another tool."""
        return self.asked if _SHELLS.search(self.name) else ""

    def list_files(self) -> list[str]:
        """List the files that the tool was called for; a patch has several."""
        patched = (*_PATCHED.findall(self.written), *_MOVED.findall(self.written))
        files = dict.fromkeys((self.file, *(file.strip() for file in patched[:_MAX_FILES])))
        return [file for file in files if 0 < len(file) <= _MAX_PATH_CHARS]

    def list_words(self) -> list[str]:
        """List the words of the question that may name a file: those of a command, or the whole
        question of another tool, such as the folder that it lists."""
        if not self.is_shell:
            whole = [] if self.file or not _WORD.fullmatch(self.asked) else [self.asked]
            return list(dict.fromkeys((*whole, *self.places)))
        words = dict.fromkeys(_WORD.findall(self.asked)[:_MAX_WORDS])
        return [word for word in words if not word.startswith("-")]

    def render_text(self, result: str) -> str:
        """Render the call with its result: most results say little without the question."""
        head = f"{self.name}: {self.asked}" if self.asked else self.name
        if self.is_own:
            return head
        if self.name in _LISTS:
            result = ""  # it repeats the list, or says that it was written
        return strip_injected("\n".join(filter(None, (head, self.written, result))))


UNKNOWN = ToolUse(name="")


def recover_use(name: str, file: str, text: str) -> ToolUse:
    """Recover the use of a tool from its record, as `render_text` wrote it. Where the question ends
    is not recorded: its first line stands for it."""
    asked = text.partition("\n")[0].removeprefix(f"{name}: ")
    return ToolUse(name=name, asked=asked[:MAX_ASKED], written=text, file=file)


@dataclass(slots=True)
class PendingToolUses:
    """Tool calls that wait for their results, by id."""

    open: dict[str, ToolUse] = field(default_factory=dict)

    def begin(self, call_id: str, use: ToolUse) -> None:
        self.open[call_id] = use
        if len(self.open) > MAX_OPEN:
            del self.open[next(iter(self.open))]

    def end(self, call_id: str) -> ToolUse:
        return self.open.pop(call_id, UNKNOWN)


def parse_use(name: str, arguments: Fields) -> ToolUse:
    """Parse the arguments of a tool call."""
    if name in _LISTS or name in _TASKS:
        return _build_todos(name, arguments)
    if name == _PATCH and (patch := arguments.text("input", "patch", "command")):
        return build_patch(name, patch)
    file = arguments.text(*_FILES)
    edits = [edit.text("new_string") for edit in arguments.blocks("edits")]
    return ToolUse(
        name=name,
        # Strip before cutting: a tag without its end would be left as text.
        asked=cut(strip_injected(file or _find_question(arguments)), MAX_ASKED),
        written=cut(
            strip_injected(arguments.text(*_WRITTEN) or "\n".join(filter(None, edits))), MAX_WRITTEN
        ),
        file=file,
        places=_find_places(name, arguments),
    )


def _find_places(name: str, arguments: Fields) -> tuple[str, ...]:
    """Return the files and folders that a tool looks into, without the wildcards of a pattern."""
    found: list[object] = [arguments.text(key) for key in _PLACES]
    if name in _GLOBS:
        found.append(arguments.text("pattern"))
    for key in _PLACE_LISTS:
        listed = arguments.value(key)
        found += listed[:_MAX_FILES] if isinstance(listed, list) else []
    places = (_WILDCARD.split(place, maxsplit=1)[0] for place in found if isinstance(place, str))
    return tuple(dict.fromkeys(place for place in places if 0 < len(place) <= _MAX_PATH_CHARS))


def build_patch(name: str, patch: str) -> ToolUse:
    """Build the use of a tool that applies a patch. The first file stands for all."""
    file = _PATCHED.search(patch)
    return ToolUse(
        name=name,
        written=cut(strip_injected(patch), MAX_WRITTEN),
        file=file[1].strip() if file else "",
    )


def _build_todos(name: str, arguments: Fields) -> ToolUse:
    """Build the use of a tool that writes todos: "[x] done", "[~] in progress" or "[ ] open"."""
    items = [arguments] if name in _TASKS else arguments.blocks("todos") or arguments.blocks("plan")
    lines = []
    room = MAX_WRITTEN
    for item in items:
        line = _render_todo(item)
        room -= len(line) + 1
        if room < 0:
            break  # half an item would read as another one
        lines.append(line)
    return ToolUse(
        name=name,
        asked=cut(" ".join(strip_injected(arguments.text("explanation")).split()), MAX_ASKED),
        written="\n".join(filter(None, lines)),
    )


def _render_todo(item: Fields) -> str:
    """Render a todo as a line. A change of one that names only its number has that."""
    number = f"#{task}" if (task := item.text("taskId", "task_id")) else ""
    words = strip_injected(item.text("content", "step", "subject", "description", "text"))
    text = " ".join((number, *words.split())).strip()
    state = item.text("status")
    if number and not state and not words:
        return ""  # such as a change of its owner
    return f"[{_STATES.get(state, ' ')}] {cut(text, _MAX_ITEM)}" if text else ""


def is_failure(result: object) -> bool:
    """Return whether the result of a Codex tool says that it failed."""
    if isinstance(result, str) and result.startswith("{"):
        try:
            result = json.loads(result)
        except (ValueError, RecursionError):
            return False
    if isinstance(result, dict):
        fields = Fields(result)
        codes = (fields.value("exit_code"), fields.fields("metadata").value("exit_code"))
        failed = any(isinstance(code, int) and code != 0 for code in codes)
        return failed or fields.value("success") is False
    if not isinstance(result, str):
        return False
    header, output, _ = result[:_HEADER_CHARS].partition("\nOutput:")
    code_line = _EXIT_CODE.search(header) if output else None
    return code_line is not None and int(code_line[1]) != 0


def has_failed(result: str) -> bool:
    """Return whether the result of a command in Gemini CLI or Copilot ends with an exit code other
    than zero."""
    return _FAILED.search(result, max(0, len(result) - _FOOTER_CHARS)) is not None


def _find_question(arguments: Fields) -> str:
    """Return the question under the names that most tools use, else all arguments."""
    if question := arguments.text(*_ASKED):
        return question
    for name in ("command", "cmd"):  # a program with its arguments
        words = arguments.value(name)
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return " ".join(words)
    return "" if arguments.text(*_WRITTEN) or "edits" in arguments else arguments.dump()


def render_result(value: object) -> str:
    """Render the result of a tool as text."""
    if isinstance(value, str):
        return value
    parts = Fields({"content": value}).blocks("content")
    if parts:
        return "\n".join(
            part.text("text") or f"[{part.text('type') or 'something'}]" for part in parts
        )
    if not isinstance(value, dict) or not value:
        return ""
    result = Fields(value)
    if "structuredPatch" in result:
        return ""  # an edit returns the file and the text that it has written
    if result.true("isImage") or result.fields("file").text("base64"):
        return f"[{result.text('type') or 'image'}]"
    texts = [result.text(name) for name in _RESULTS]
    texts += [result.fields("file").text("content"), result.fields("error").text("message")]
    inner = result.value("llmContent")
    if not (isinstance(inner, dict) and "llmContent" in inner):  # else it could nest without limit
        texts.append(render_result(inner))
    if isinstance(content := result.value("content"), list):
        texts.append(render_result(content))
    names = result.value("filenames")
    if isinstance(names, list):
        texts += [name for name in names if isinstance(name, str)]
    text = "\n".join(filter(None, texts))
    if text or "stdout" in result:  # a command may write nothing
        return text
    return cut(strip_injected(result.dump()), MAX_WRITTEN)
