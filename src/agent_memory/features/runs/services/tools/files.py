"""Tools for the files of the folder that an agent works in."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from agent_memory.features.runs.model import arguments, chats, edits
from agent_memory.features.runs.model.arguments import Arguments
from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.features.runs.model.workspaces import (
    MAX_FILE_BYTES,
    MAX_PATH_CHARS,
    EntryKind,
    FileContent,
    FolderEntry,
    Truncated,
    decode_text,
    is_binary,
    quote_path,
)
from agent_memory.features.runs.ports import LinePattern, LinePatterns, Workspace
from agent_memory.features.runs.services.tools.changes import FileChanges
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed
from agent_memory.kernel.text.globs import Glob

DEFAULT_LINES = 2_000
MAX_LINES = 20_000
MAX_LISTED = 1_000
MAX_VISITED = 50_000  # files and folders
MAX_FOUND = 200
MAX_SEARCHED_FILE = 4 << 20
MAX_SEARCHED = 256 << 20
_NOTE_CHARS = 200
_PATH = arguments.define_text("Path in the working folder.", least=1, most=MAX_PATH_CHARS)
_WHERE = arguments.define_text(
    "Path in the working folder; without it, all of it.", most=MAX_PATH_CHARS
)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Lines without numbers: what is read can be given to `edit_file` as it is."""

    folder: Workspace
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "read_file",
        "Read a text file.",
        ["path"],
        path=_PATH,
        offset=arguments.define_number("First line, from 1 on.", least=1, most=1 << 40),
        limit=arguments.define_number("How many lines.", least=1, most=MAX_LINES),
    )

    def preview(self, call: ToolCall, given: Arguments, /) -> str:  # noqa: ARG002
        return _elsewhere(self.folder, given.text("path"))

    def run(self, call: ToolCall, given: Arguments, halt: CancelToken, /) -> str:  # noqa: ARG002
        found = self.folder.read_lines(
            given.text("path"),
            first=given.number("offset", 1),
            lines=given.number("limit", DEFAULT_LINES),
            chars=self.most - _NOTE_CHARS,
            halt=halt,
        )
        if not found.more:
            return found.text or "(the file is empty)"
        lines = f"lines {found.first} to {found.next - 1}"
        return f"{found.text}\n[{lines}; there is more: go on with offset {found.next}]"


@dataclass(frozen=True, slots=True)
class WriteFile:
    changes: FileChanges
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "write_file",
        "Write a text file whole. Folders on the way are made.",
        ["path", "content"],
        path=_PATH,
        content=arguments.define_text("All that is to be in it.", most=MAX_FILE_BYTES),
    )

    def preview(self, call: ToolCall, given: Arguments, /) -> str:
        plan = self.changes.plan(call, given.text("path"), lambda _: given.text("content"))
        return plan.render(self.most)

    def run(self, call: ToolCall, given: Arguments, halt: CancelToken, /) -> str:
        path, content = given.text("path"), given.text("content")
        done = self.changes.apply(call, path, lambda _: content, halt)
        return f"written: {quote_path(done.path)}, {len(content):,} characters"


@dataclass(frozen=True, slots=True)
class EditFile:
    changes: FileChanges
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "edit_file",
        "Replace a piece of a text file. old_string must be exactly as in the file, and there once"
        " unless replace_all is set.",
        ["path", "old_string", "new_string"],
        path=_PATH,
        old_string=arguments.define_text("What is replaced.", least=1, most=MAX_FILE_BYTES),
        new_string=arguments.define_text("What takes its place.", most=MAX_FILE_BYTES),
        replace_all=arguments.define_flag("Replace it wherever it is."),
    )

    def preview(self, call: ToolCall, given: Arguments, /) -> str:
        plan = self.changes.plan(call, given.text("path"), lambda c: _apply_edit(c, given))
        return plan.render(self.most)

    def run(self, call: ToolCall, given: Arguments, halt: CancelToken, /) -> str:
        done = self.changes.apply(call, given.text("path"), lambda c: _apply_edit(c, given), halt)
        return f"changed: {quote_path(done.path)}"


@dataclass(frozen=True, slots=True)
class ListFiles:
    folder: Workspace
    seconds: float
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "list_files",
        "List files and folders (these end with /). What git ignores is left out where recursive.",
        path=_WHERE,
        pattern=arguments.define_text("Glob: *.py, src/**/test_*. Links are not followed."),
        recursive=arguments.define_flag("Also what is in the folders there."),
    )

    def preview(self, call: ToolCall, given: Arguments, /) -> str:  # noqa: ARG002
        _glob(given.text("pattern"))
        return _elsewhere(self.folder, given.text("path"))

    def run(self, call: ToolCall, given: Arguments, halt: CancelToken, /) -> str:  # noqa: ARG002
        pattern = given.text("pattern")
        wanted = _glob(pattern)
        deep = given.flag("recursive") or "/" in pattern or "**" in pattern
        lines: list[str] = []
        walked = _below(self.folder, given.text("path"), self.seconds, deep=deep, halt=halt)
        for each in walked:
            if isinstance(each, Truncated):
                lines.append(f"[cut: {each.reason}]")
            elif wanted is None or wanted.matches(each.below):
                if len(lines) == MAX_LISTED:
                    lines.append(f"[cut: more than {MAX_LISTED:,}; ask for less]")
                    break
                lines.append(_format_entry(each.entry))
        return "\n".join(lines) or ("(nothing here)" if wanted is None else "(nothing matches)")


@dataclass(frozen=True, slots=True)
class SearchFiles:
    folder: Workspace
    patterns: LinePatterns
    seconds: float
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "search_files",
        "Find lines by a regular expression (RE2; (?i) ignores case), except in what git ignores.",
        ["pattern"],
        pattern=arguments.define_text("Regular expression.", least=1, most=1_000),
        path=_WHERE,
        glob=arguments.define_text("Only in files such as *.py."),
    )

    def preview(self, call: ToolCall, given: Arguments, /) -> str:  # noqa: ARG002
        self.patterns.compile_pattern(given.text("pattern"))
        _glob(given.text("glob"))
        return _elsewhere(self.folder, given.text("path"))

    def run(self, call: ToolCall, given: Arguments, halt: CancelToken, /) -> str:  # noqa: ARG002
        pattern = self.patterns.compile_pattern(given.text("pattern"))
        lines: list[str] = []
        room = self.most - _NOTE_CHARS
        for line in self._find_lines(pattern, given, halt):
            room -= len(line) + 1
            if len(lines) == MAX_FOUND or room < 0:
                lines.append("[cut: there is more; search for less]")
                break
            lines.append(line)
        return "\n".join(lines) or "(nothing found)"

    def _find_lines(
        self, pattern: LinePattern, given: Arguments, halt: CancelToken
    ) -> Iterator[str]:
        wanted = _glob(given.text("glob"))
        left = MAX_SEARCHED
        walked = _below(self.folder, given.text("path"), self.seconds, deep=True, halt=halt)
        for each in walked:
            if isinstance(each, Truncated):
                yield f"[cut: {each.reason}]"
                continue
            if each.entry.kind is not EntryKind.FILE:
                continue
            if wanted is not None and not wanted.matches(each.below):
                continue
            if left <= 0:
                yield "[cut: there is too much to search; name a path or a glob]"
                return
            content = self._read(each.entry.path)
            data = content.data or b""
            left -= len(data)
            if is_binary(data):
                continue
            for number, line in pattern.find_lines(data):
                yield f"{quote_path(each.entry.path)}:{number}: {line}"
            if not content.whole:
                yield f"[cut: {quote_path(each.entry.path)} is searched in its beginning only]"

    def _read(self, path: str) -> FileContent:
        try:
            return self.folder.read(path, most=MAX_SEARCHED_FILE)
        except ToolFailed:  # gone by now, or not to be read
            return FileContent(path=path, data=None)


@dataclass(frozen=True, slots=True)
class _Below:
    """An entry, and its path from where the walk began: patterns are about that."""

    entry: FolderEntry
    below: str


def _below(
    folder: Workspace, path: str, seconds: float, *, deep: bool, halt: CancelToken
) -> Iterator[_Below | Truncated]:
    start = folder.resolve(path or ".")
    for each in folder.walk(path or ".", deep=deep, most=MAX_VISITED, seconds=seconds, halt=halt):
        if isinstance(each, Truncated):
            yield each
        elif each.path == start:  # a file, by its own name
            yield _Below(each, each.path.rpartition("/")[2])
        else:
            yield _Below(each, each.path[len(start) + 1 :] if start else each.path)


def _apply_edit(content: FileContent, given: Arguments) -> str:
    return edits.replace_text(
        decode_text(content),
        given.text("old_string"),
        given.text("new_string"),
        everywhere=given.flag("replace_all"),
    )


def _elsewhere(folder: Workspace, path: str) -> str:
    """Where it leads, if that is not where it says."""
    place = folder.resolve(path or ".")
    plain = "/".join(each for each in path.split("/") if each not in ("", "."))
    return "" if path.startswith("/") or place == plain else f"leads to {quote_path(place) or '.'}"


def _glob(pattern: str) -> Glob | None:
    try:
        return Glob.parse(pattern) if pattern else None
    except ValueError as exc:
        raise ToolFailed(str(exc)) from exc


def _format_entry(entry: FolderEntry) -> str:
    name = quote_path(entry.path)
    match entry.kind:
        case EntryKind.FOLDER:
            return f"{name}/"
        case EntryKind.FILE:
            return name
        case EntryKind.LINK:
            return f"{name} (link)"
        case EntryKind.OTHER:
            return f"{name} (no file)"
