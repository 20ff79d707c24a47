"""Lines of a file, of which as little is read as will do."""

import os
from typing import IO

from agent_memory.features.runs.model.workspaces import Excerpt, is_binary
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed

MAX_SCANNED = 256 << 20  # bytes, to reach a line
LINE_CHARS = 2_000
_LINE_BYTES = 4 * LINE_CHARS
_CHUNK = 1 << 18
_CUT = f" [cut: the line has more than {LINE_CHARS:,} characters]"


def read_excerpt(
    file: IO[bytes], name: str, *, first: int, lines: int, chars: int, halt: CancelToken
) -> Excerpt:
    """So many lines from the first on, as long as they have room. Raises ToolFailed."""
    if is_binary(file.read(8_192)):
        raise ToolFailed(f"{name} is a binary file, not text")
    file.seek(0)
    scan = _Scan(file, name, halt)
    passed = scan.skip(first - 1)
    if passed < first - 1 or (first > 1 and scan.at_end()):
        count = scan.count(passed)
        raise ToolFailed(f"{name} has {count} {'line' if count == 1 else 'lines'} only")
    found: list[str] = []
    room = chars
    while len(found) < lines and not scan.lost and not scan.at_end():
        line = scan.line()
        if len(line) + 1 > room:
            if found:
                scan.back()
                break
            line = line[: max(0, room - len(_CUT) - 1)] + _CUT
        found.append(line)
        room -= len(line) + 1
    more = scan.lost or not scan.at_end()
    return Excerpt(text="\n".join(found), first=first, next=first + len(found), more=more)


class ScanLimitReached(ToolFailed):
    """What was to be reached is further into a file than one goes."""


class _Scan:
    """All that is passed by counts, so that a file without end, or without lines, has one."""

    def __init__(self, file: IO[bytes], name: str, halt: CancelToken) -> None:
        self._file = file
        self._name = name
        self._halt = halt
        self._left = MAX_SCANNED
        self._began = 0
        self._ended_whole = True
        self.lost = False  # in a line that has no end as far as it is looked for

    def skip(self, lines: int) -> int:
        """Past so many line ends; how many there were."""
        passed = 0
        while passed < lines:
            chunk = self._chunk()
            if not chunk:
                break
            count = chunk.count(b"\n")
            self._ended_whole = chunk.endswith(b"\n")
            if passed + count < lines:
                passed += count
                continue
            at = -1
            for _ in range(lines - passed):
                at = chunk.find(b"\n", at + 1)
            self._file.seek(at + 1 - len(chunk), os.SEEK_CUR)
            return lines
        return passed

    def count(self, passed: int) -> int:
        """The lines of a file that has ended, after so many ends of lines."""
        return passed if self._ended_whole else passed + 1

    def line(self) -> str:
        self._halt.check()
        self._began = self._file.tell()
        data = self._file.readline(_LINE_BYTES)
        long = not data.endswith(b"\n") and len(data) == _LINE_BYTES
        if long:
            try:
                self.skip(1)
            except ScanLimitReached:
                self.lost = True
        text = data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        return text[:LINE_CHARS] + _CUT if long or len(text) > LINE_CHARS else text

    def back(self) -> None:
        self._file.seek(self._began)

    def at_end(self) -> bool:
        if self._file.read(1):
            self._file.seek(-1, os.SEEK_CUR)
            return False
        return True

    def _chunk(self) -> bytes:
        self._halt.check()
        chunk = self._file.read(_CHUNK)
        self._left -= len(chunk)
        if self._left < 0:
            raise ScanLimitReached(
                f"{self._name}: that is further than {MAX_SCANNED >> 20} MiB into the file"
            )
        return chunk
