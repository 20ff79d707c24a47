"""Line patterns with RE2, which matches in linear time, whatever pattern a model sends."""

from collections.abc import Iterator
from functools import partial
from typing import Protocol

import re2

from agent_memory.features.runs.ports import FindLines
from agent_memory.kernel.errors import ToolFailed

MEMORY = 8 << 20  # for the automaton; a pattern that needs more is refused
LINE_BYTES = 400  # shown of a longer line, around the match


class _Match(Protocol):
    """The part of RE2's match that is used here: the package has no types."""

    def start(self) -> int: ...


class _Compiled(Protocol):
    def search(self, text: bytes, start: int, /) -> _Match | None: ...


def compile_pattern(pattern: str) -> FindLines:
    options = re2.Options()
    options.max_mem = MEMORY
    options.log_errors = False
    options.never_nl = False
    try:
        return partial(_find_lines, re2.compile(f"(?m){pattern}".encode(), options))
    except re2.error as exc:
        raw = exc.args[0] if exc.args else b""
        reason = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        raise ToolFailed(
            f"invalid pattern: {reason} (RE2 syntax: no lookaround, no backreferences)"
        ) from exc


def _find_lines(compiled: _Compiled, data: bytes) -> Iterator[tuple[int, str]]:
    at, number, counted = 0, 1, 0
    while at < len(data):
        match = compiled.search(data, at)
        if match is None:
            return
        start = match.start()
        if start == len(data) and data.endswith(b"\n"):
            return  # after the last line
        begin = data.rfind(b"\n", 0, start) + 1
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        number += data.count(b"\n", counted, begin)
        counted = begin
        yield number, _text(data[begin:end], start - begin)
        at = end + 1


def _text(line: bytes, match_at: int) -> str:
    """Decode a line, cut around the match if it is long."""
    if len(line) > LINE_BYTES:
        begin = max(0, match_at - LINE_BYTES // 4)
        line = line[begin : begin + LINE_BYTES]
    return line.decode("utf-8", "replace").rstrip("\r")
