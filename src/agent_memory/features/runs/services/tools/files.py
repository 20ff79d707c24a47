"""Tools for the files of the working folder."""

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
from agent_memory.features.runs.ports import CompilePattern, FindLines
from agent_memory.features.runs.services.tools.changes import FileChanges
from agent_memory.features.runs.services.workspaces.folders import GuardedFolder
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
    "Path in the working folder. Default: the whole folder.", most=MAX_PATH_CHARS
)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Reads lines without numbers, so that the text can be passed to `edit_file` as it is."""

    folder: GuardedFolder
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "read_file",
        "Read a text file.",
        ["path"],
        path=_PATH,
        offset=arguments.define_number("First line, starting at 1.", least=1, most=1 << 40),
        limit=arguments.define_number("Number of lines.", least=1, most=MAX_LINES),
    )

    def preview(self, call: ToolCall, args: Arguments, /) -> str:  # noqa: ARG002
        return _elsewhere(self.folder, args.text("path"))

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str:  # noqa: ARG002
        excerpt = self.folder.read_lines(
            args.text("path"),
            first=args.number("offset", 1),
            lines=args.number("limit", DEFAULT_LINES),
            chars=self.most - _NOTE_CHARS,
            cancel=cancel,
        )
        if not excerpt.more:
            return excerpt.text or "(the file is empty)"
        lines = f"lines {excerpt.first} to {excerpt.next - 1}"
        return f"{excerpt.text}\n[{lines}; there is more: continue with offset {excerpt.next}]"


@dataclass(frozen=True, slots=True)
class WriteFile:
    changes: FileChanges
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "write_file",
        "Write a whole text file. Missing folders are created.",
        ["path", "content"],
        path=_PATH,
        content=arguments.define_text("The whole content.", most=MAX_FILE_BYTES),
    )

    def preview(self, call: ToolCall, args: Arguments, /) -> str:
        plan = self.changes.plan(call, args.text("path"), lambda _: args.text("content"))
        return plan.render(self.most)

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str:
        path, content = args.text("path"), args.text("content")
        done = self.changes.apply(call, path, lambda _: content, cancel)
        return f"written: {quote_path(done.path)}, {len(content):,} characters"


@dataclass(frozen=True, slots=True)
class EditFile:
    changes: FileChanges
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "edit_file",
        "Replace a piece of a text file. old_string must match the file exactly, and only once"
        " unless replace_all is true.",
        ["path", "old_string", "new_string"],
        path=_PATH,
        old_string=arguments.define_text("Text to replace.", least=1, most=MAX_FILE_BYTES),
        new_string=arguments.define_text("Replacement text.", most=MAX_FILE_BYTES),
        replace_all=arguments.define_flag("Replace every occurrence."),
    )

    def preview(self, call: ToolCall, args: Arguments, /) -> str:
        plan = self.changes.plan(call, args.text("path"), lambda c: _apply_edit(c, args))
        return plan.render(self.most)

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str:
        done = self.changes.apply(call, args.text("path"), lambda c: _apply_edit(c, args), cancel)
        return f"changed: {quote_path(done.path)}"


@dataclass(frozen=True, slots=True)
class ListFiles:
    folder: GuardedFolder
    seconds: float
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "list_files",
        "List files and folders (with a trailing /). A recursive list omits what git ignores.",
        path=_WHERE,
        pattern=arguments.define_text("Glob: *.py, src/**/test_*. Links are not followed."),
        recursive=arguments.define_flag("Include the content of subfolders."),
    )

    def preview(self, call: ToolCall, args: Arguments, /) -> str:  # noqa: ARG002
        _glob(args.text("pattern"))
        return _elsewhere(self.folder, args.text("path"))

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str:  # noqa: ARG002
        pattern = args.text("pattern")
        glob = _glob(pattern)
        deep = args.flag("recursive") or "/" in pattern or "**" in pattern
        lines: list[str] = []
        walked = _below(self.folder, args.text("path"), self.seconds, deep=deep, cancel=cancel)
        for found in walked:
            if isinstance(found, Truncated):
                lines.append(f"[cut: {found.reason}]")
            elif glob is None or glob.matches(found.below):
                if len(lines) == MAX_LISTED:
                    lines.append(
                        f"[cut: more than {MAX_LISTED:,} entries; narrow the path or the pattern]"
                    )
                    break
                lines.append(_format_entry(found.entry))
        return "\n".join(lines) or ("(nothing here)" if glob is None else "(nothing matches)")


@dataclass(frozen=True, slots=True)
class SearchFiles:
    folder: GuardedFolder
    compile_pattern: CompilePattern
    seconds: float
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "search_files",
        "Find lines by a regular expression (RE2; (?i) ignores case). Omits what git ignores.",
        ["pattern"],
        pattern=arguments.define_text("Regular expression.", least=1, most=1_000),
        path=_WHERE,
        glob=arguments.define_text("Search only files that match this glob, such as *.py."),
    )

    def preview(self, call: ToolCall, args: Arguments, /) -> str:  # noqa: ARG002
        self.compile_pattern(args.text("pattern"))
        _glob(args.text("glob"))
        return _elsewhere(self.folder, args.text("path"))

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str:  # noqa: ARG002
        find_lines = self.compile_pattern(args.text("pattern"))
        lines: list[str] = []
        room = self.most - _NOTE_CHARS
        for line in self._find_lines(find_lines, args, cancel):
            room -= len(line) + 1
            if len(lines) == MAX_FOUND or room < 0:
                lines.append("[cut: there are more matches; narrow the search]")
                break
            lines.append(line)
        return "\n".join(lines) or "(nothing found)"

    def _find_lines(
        self, find_lines: FindLines, args: Arguments, cancel: CancelToken
    ) -> Iterator[str]:
        glob = _glob(args.text("glob"))
        left = MAX_SEARCHED
        walked = _below(self.folder, args.text("path"), self.seconds, deep=True, cancel=cancel)
        for found in walked:
            if isinstance(found, Truncated):
                yield f"[cut: {found.reason}]"
                continue
            if found.entry.kind is not EntryKind.FILE:
                continue
            if glob is not None and not glob.matches(found.below):
                continue
            if left <= 0:
                yield "[cut: too much to search; give a path or a glob]"
                return
            content = self._read(found.entry.path)
            data = content.data or b""
            left -= len(data)
            if is_binary(data):
                continue
            for number, line in find_lines(data):
                yield f"{quote_path(found.entry.path)}:{number}: {line}"
            if not content.whole:
                yield f"[cut: {quote_path(found.entry.path)} was searched only at its beginning]"

    def _read(self, path: str) -> FileContent:
        try:
            return self.folder.read(path, most=MAX_SEARCHED_FILE)
        except ToolFailed:  # removed meanwhile, or not readable
            return FileContent(path=path, data=None)


@dataclass(frozen=True, slots=True)
class _Below:
    """An entry and its path from the start of the walk, which patterns match."""

    entry: FolderEntry
    below: str


def _below(
    folder: GuardedFolder, path: str, seconds: float, *, deep: bool, cancel: CancelToken
) -> Iterator[_Below | Truncated]:
    start = folder.resolve(path or ".")
    for found in folder.walk(
        path or ".", deep=deep, most=MAX_VISITED, seconds=seconds, cancel=cancel
    ):
        if isinstance(found, Truncated):
            yield found
        elif found.path == start:  # a file, by its own name
            yield _Below(found, found.path.rpartition("/")[2])
        else:
            yield _Below(found, found.path[len(start) + 1 :] if start else found.path)


def _apply_edit(content: FileContent, args: Arguments) -> str:
    return edits.replace_text(
        decode_text(content),
        args.text("old_string"),
        args.text("new_string"),
        everywhere=args.flag("replace_all"),
    )


def _elsewhere(folder: GuardedFolder, path: str) -> str:
    """Return the target of a path that leads through a link, for the preview."""
    target = folder.resolve(path or ".")
    plain = "/".join(part for part in path.split("/") if part not in ("", "."))
    return (
        "" if path.startswith("/") or target == plain else f"leads to {quote_path(target) or '.'}"
    )


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
            return f"{name} (not a file)"
