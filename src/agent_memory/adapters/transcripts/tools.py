"""Calls of tools, kept until their result comes, and both told as one text."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.adapters.transcripts.fields import Fields
from agent_memory.domain.transcripts import fitting, own_words

MAX_OPEN = 200  # calls that wait for a result; those of a session that was ended never get one
_MAX_ASKED = 2_000
_MAX_WRITTEN = 8_000
_FILES = ("file_path", "notebook_path", "filePath")
_ASKED = ("command", "pattern", "query", "url", "description", "prompt", "path", "cmd")
_WRITTEN = ("new_string", "content", "new_source", "plan")  # else nobody would find it again


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    name: str
    asked: str = ""
    written: str = ""
    file: str = ""

    def metadata(self) -> Mapping[str, str]:
        named = {"tool_name": self.name, "file_path": self.file}
        return {name: fitting(value)[:4_000] for name, value in named.items() if value}

    def told(self, result: str) -> str:
        """What was asked for and what came of it: most results say little without the question."""
        head = f"{self.name}: {self.asked}" if self.asked else self.name
        return own_words("\n".join(filter(None, (head, self.written, result))))


UNKNOWN = Use(name="")


@dataclass(slots=True)
class Uses:
    """By the ids of the calls."""

    open: dict[str, Use] = field(default_factory=dict)

    def begin(self, call: str, use: Use) -> None:
        self.open[call] = use
        if len(self.open) > MAX_OPEN:
            del self.open[next(iter(self.open))]

    def end(self, call: str) -> Use:
        return self.open.pop(call, UNKNOWN)


def use(name: str, given: Fields) -> Use:
    file = given.text(*_FILES)
    return Use(
        name=name,
        asked=(file or given.text(*_ASKED))[:_MAX_ASKED],
        written=given.text(*_WRITTEN)[:_MAX_WRITTEN],
        file=file,
    )


def result(value: object) -> str:
    """The text of what a tool gave back."""
    if isinstance(value, str):
        return value
    parts = Fields({"content": value}).blocks("content")
    if parts:
        return "\n".join(
            each.text("text") or f"[{each.text('type') or 'something'}]" for each in parts
        )
    if isinstance(value, dict) and value:
        found = Fields(value)
        said = [found.text(name) for name in ("stdout", "stderr", "output", "content", "text")]
        return "\n".join(filter(None, said)) or found.dump()
    return ""
