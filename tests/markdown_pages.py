"""The commands and programs of a Markdown page, in order, with the output that the page shows.

An HTML comment right above a block, which readers do not see, says what is special about it:

    <!-- not run: reason -->    a test cannot run it
    <!-- example output -->     it runs, and what it prints is not compared
    <!-- until Ctrl-C -->       each command runs until it has printed something, then gets Ctrl-C
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from tests.installed_product import ROOT

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*?) -->\n\n?)?```(?P<language>sh|console|python|bash)\n"
    r"(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"^<!-- ?(not run|example|until)(.*?)-->$", re.MULTILINE)
_FENCE = re.compile(r"^ *```(\w+)", re.MULTILINE)
_PROGRAM_PAGES = frozenset(
    ("client", "grpc", "http", "knowledge", "langgraph", "mcp", "mcp-clients", "metrics", "streams")
)
_LANGUAGES = ("sh", "console", "python", "bash")


class Mark(Enum):
    NOT_RUN = "not run"
    EXAMPLE_OUTPUT = "example output"
    UNTIL_INTERRUPT = "until Ctrl-C"


class PageGroup(Enum):
    """Pages whose tests are in one file, and so run in one process after each other."""

    FIRST = "README and index"
    PEOPLE = "for people"
    PROGRAMS = "for programs"


@dataclass(frozen=True, slots=True)
class Step:
    """A shell command, or a Python program, and the line of the page where it begins."""

    page: Path
    line: int
    code: str
    is_python: bool = False
    shown: str = ""
    mark: Mark | None = None
    reason: str = ""

    @property
    def place(self) -> str:
        inside = self.page.is_relative_to(ROOT)
        return f"{self.page.relative_to(ROOT) if inside else self.page}:{self.line}"


def find_pages(group: PageGroup) -> list[Path]:
    """Return the pages of a group. A page in `docs/howto` that no group names is for people."""
    if group is PageGroup.FIRST:
        return [ROOT / "README.md", ROOT / "docs/index.md"]
    named = group is PageGroup.PROGRAMS
    return [
        page
        for page in sorted((ROOT / "docs/howto").glob("*.md"))
        if (page.stem in _PROGRAM_PAGES) == named
    ]


def read_steps(page: Path) -> list[Step]:
    """Return the steps of a page. Raises ValueError for a mark or block that is not understood."""
    text = page.read_text()
    blocks = list(_BLOCK.finditer(text))
    marks = sum(1 for block in blocks if block["mark"])
    if marks != len(_COMMENT.findall(text)):
        raise ValueError(f"{page.name}: a mark is not right above a block")
    if len(blocks) != sum(1 for language in _FENCE.findall(text) if language in _LANGUAGES):
        raise ValueError(f"{page.name}: a block of commands is indented, or does not end")
    return [step for block in blocks for step in _read_block(page, text, block)]


def _read_block(page: Path, text: str, block: re.Match[str]) -> Iterator[Step]:
    line = text.count("\n", 0, block.start("body")) + 1
    whole = Step(page, line, block["body"])
    if block["mark"]:
        words, _, reason = block["mark"].partition(":")
        whole = replace(whole, mark=Mark(words.strip()), reason=reason.strip())
        if whole.mark is Mark.NOT_RUN and not whole.reason:
            raise ValueError(f"{whole.place}: say why it is not run: <!-- not run: reason -->")
    if whole.mark is Mark.NOT_RUN:
        yield whole
    elif block["language"] == "python":
        yield replace(whole, is_python=True)
    elif block["language"] == "console":
        yield from _read_console(whole)
    else:
        yield from _split_commands(whole)


def _read_console(whole: Step) -> Iterator[Step]:
    """Yield the commands after `$ `, each with the lines below it as its output."""
    current: Step | None = None
    for number, line in enumerate(whole.code.splitlines(keepends=True)):
        if line.startswith("$ "):
            if current:
                yield current
            current = replace(whole, line=whole.line + number, code=line[2:])
        elif current is None:
            raise ValueError(f"{whole.place}: a console block begins with `$ `")
        elif current.code.endswith("\\\n"):
            current = replace(current, code=current.code + line)
        else:
            current = replace(current, shown=current.shown + line)
    if current:
        yield current


def _split_commands(whole: Step) -> Iterator[Step]:
    """Yield complete commands: several lines where a quote or a here-document is open."""
    waiting, begin = "", whole.line
    for number, line in enumerate(whole.code.splitlines(keepends=True)):
        if not waiting:
            begin = whole.line + number
        waiting += line
        if not waiting.strip():
            waiting = ""
        elif not line.endswith("\\\n") and _is_complete(waiting):
            yield replace(whole, line=begin, code=waiting)
            waiting = ""
    if waiting:
        raise ValueError(f"{whole.page.name}:{begin}: the command does not end")


def _is_complete(code: str) -> bool:
    checked = subprocess.run(
        ["/bin/bash", "-n", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return checked.returncode == 0 and "here-document" not in checked.stderr
