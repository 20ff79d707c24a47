"""Calls of tools, kept until their result comes, and both told as one text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.features.hooks.model.transcripts import cut, fit_text, strip_injected
from agent_memory.kernel.json_fields import Fields

MAX_OPEN = 200  # calls that wait for a result; those of a session that was ended never get one
MAX_ASKED = 2_000
MAX_WRITTEN = 8_000
_FILES = ("file_path", "notebook_path", "filePath", "absolute_path")
# Tools that do the same under other names, in Claude Code, Gemini CLI and Codex.
_ALIASES = {
    "MultiEdit": "Edit",
    "NotebookEdit": "Edit",
    "apply_patch": "Edit",
    "read_file": "Read",
    "replace": "Edit",
    "write_file": "Write",
}
_ASKED = ("command", "pattern", "query", "url", "description", "prompt", "path", "cmd")
_OUR_TOOLS = frozenset({"recall"})  # of agents that run here
_OUR_SERVERS = ("mcp__memory__", "mcp__agent-memory__")
_OUR_COMMANDS = re.compile(
    r"(?:^|[;&|(\n]\s*)(?:\S*/)?(?:memory|memory-daemon)\s+(?:-\S+\s+(?:[^\s;&|-][^\s;&|]*\s+)??)*"
    r"(?:recall|context|list|show|status|export|query|doctor|consolidate)\b"
)
_SAID = ("stdout", "stderr", "output", "content", "text", "result", "error")
_WRITTEN = ("new_string", "content", "new_source", "plan")  # else nobody would find it again


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    name: str
    asked: str = ""
    written: str = ""
    file: str = ""

    @property
    def names(self) -> frozenset[str]:
        """By which it may be meant."""
        return frozenset({self.name, _ALIASES.get(self.name, self.name)})

    def metadata(self) -> Mapping[str, str]:
        named = {"tool_name": self.name, "file_path": self.file}
        return {name: fit_text(value)[:4_000] for name, value in named.items() if value}

    @property
    def is_own(self) -> bool:
        """Whether the result is what we tell ourselves: recorded, it would be found again."""
        ours = self.name in _OUR_TOOLS or self.name.startswith(_OUR_SERVERS)
        return ours or bool(_OUR_COMMANDS.search(self.asked))

    def render_text(self, result: str) -> str:
        """What was asked for and what came of it: most results say little without the question."""
        head = f"{self.name}: {self.asked}" if self.asked else self.name
        if self.is_own:
            return head
        return strip_injected("\n".join(filter(None, (head, self.written, result))))


UNKNOWN = ToolUse(name="")


@dataclass(slots=True)
class PendingToolUses:
    """By the ids of the calls."""

    open: dict[str, ToolUse] = field(default_factory=dict)

    def begin(self, call: str, use: ToolUse) -> None:
        self.open[call] = use
        if len(self.open) > MAX_OPEN:
            del self.open[next(iter(self.open))]

    def end(self, call: str) -> ToolUse:
        return self.open.pop(call, UNKNOWN)


def parse_use(name: str, given: Fields) -> ToolUse:
    file = given.text(*_FILES)
    edits = [each.text("new_string") for each in given.blocks("edits")]
    return ToolUse(
        name=name,
        # Before anything is cut: a marker without its end would only be a word.
        asked=cut(strip_injected(file or _find_question(given)), MAX_ASKED),
        written=cut(
            strip_injected(given.text(*_WRITTEN) or "\n".join(filter(None, edits))), MAX_WRITTEN
        ),
        file=file,
    )


def _find_question(given: Fields) -> str:
    """The question, by the names that most tools have for it; else all that was given."""
    if found := given.text(*_ASKED):
        return found
    for name in ("command", "cmd"):  # of a program and its arguments
        words = given.value(name)
        if isinstance(words, list) and all(isinstance(each, str) for each in words):
            return " ".join(words)
    return "" if given.text(*_WRITTEN) or "edits" in given else given.dump()


def render_result(value: object) -> str:
    """The text of what a tool gave back."""
    if isinstance(value, str):
        return value
    parts = Fields({"content": value}).blocks("content")
    if parts:
        return "\n".join(
            each.text("text") or f"[{each.text('type') or 'something'}]" for each in parts
        )
    if not isinstance(value, dict) or not value:
        return ""
    found = Fields(value)
    if "structuredPatch" in found:
        return ""  # an edit gives back the file, and what it was told to write
    if found.true("isImage") or found.fields("file").text("base64"):
        return f"[{found.text('type') or 'image'}]"
    said = [found.text(name) for name in _SAID]
    said += [found.fields("file").text("content"), found.fields("error").text("message")]
    inner = found.value("llmContent")
    if not (isinstance(inner, dict) and "llmContent" in inner):  # else it may be of any depth
        said.append(render_result(inner))
    if isinstance(content := found.value("content"), list):
        said.append(render_result(content))
    names = found.value("filenames")
    if isinstance(names, list):
        said += [each for each in names if isinstance(each, str)]
    if told := "\n".join(filter(None, said)):
        return told
    return cut(strip_injected(found.dump()), MAX_WRITTEN)
