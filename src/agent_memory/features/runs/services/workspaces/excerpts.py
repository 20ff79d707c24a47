"""Lines of a file, read without loading the whole file."""

import os
from typing import IO

from agent_memory.features.runs.model.workspaces import Excerpt, is_binary
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed

MAX_SCANNED = 256 << 20  # bytes read to reach a line
LINE_CHARS = 2_000
_LINE_BYTES = 4 * LINE_CHARS
_CHUNK = 1 << 18
_CUT = f" [cut: the line has more than {LINE_CHARS:,} characters]"


def read_excerpt(
    file: IO[bytes], name: str, *, first: int, lines: int, chars: int, cancel: CancelToken
) -> Excerpt:
    """Read lines from `first` on, up to the limits. Raises ToolFailed."""
    if is_binary(file.read(8_192)):
        raise ToolFailed(f"{name} is a binary file, not text")
    file.seek(0)
    scan = _Scan(file, name, cancel)
    passed = scan.skip(first - 1)
    if passed < first - 1 or (first > 1 and scan.at_end()):
        count = scan.count(passed)
        raise ToolFailed(f"{name} has only {count} {'line' if count == 1 else 'lines'}")
    excerpt: list[str] = []
    room = chars
    while len(excerpt) < lines and not scan.lost and not scan.at_end():
        line = scan.line()
        if len(line) + 1 > room:
            if excerpt:
                scan.back()
                break
            line = line[: max(0, room - len(_CUT) - 1)] + _CUT
        excerpt.append(line)
        room -= len(line) + 1
    more = scan.lost or not scan.at_end()
    return Excerpt(text="\n".join(excerpt), first=first, next=first + len(excerpt), more=more)


class ScanLimitReached(ToolFailed):
    """The line is further into the file than MAX_SCANNED."""


class _Scan:
    """A reader that counts all bytes, to stop in a file that is endless or has no lines."""

    def __init__(self, file: IO[bytes], name: str, cancel: CancelToken) -> None:
        self._file = file
        self._name = name
        self._cancel_token = cancel
        self._left = MAX_SCANNED
        self._began = 0
        self._ended_whole = True
        self.lost = False  # the end of a line was not reached

    def skip(self, lines: int) -> int:
        """Skip this many line ends, and return how many there were."""
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
        """Return the number of lines of a file at its end, after `passed` line ends."""
        return passed if self._ended_whole else passed + 1

    def line(self) -> str:
        self._cancel_token.check()
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
        self._cancel_token.check()
        chunk = self._file.read(_CHUNK)
        self._left -= len(chunk)
        if self._left < 0:
            raise ScanLimitReached(
                f"{self._name}: the line is more than {MAX_SCANNED >> 20} MiB into the file"
            )
        return chunk
