"""How far the writes of a store were acknowledged: a file beside its logs that says so.

A log that was cut or removed looks like one that a crash ended early. This file tells them apart:
after every flush it gets the number of the last write, and at an open the store is compared with
it. It is written after the flush, so it never claims a write that a crash may take.

The file is a ring of slots, one for each ten seconds, so that a loss has a beginning and an end.
It is synced once a second: a second sync for every flush would halve the speed of small writes.
"""

import contextlib
import json
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from agent_memory.kernel.ids import Millis

NAME = "ACKNOWLEDGED"
SLOT_BYTES = 512
SLOTS = 128
SLOT_MS = 10_000
SYNC_SECONDS = 1.0
MAX_LOGS = 10
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The state of a store at an acknowledged write.

    `sequence` counts changes and `records` the entries of the outbox. `logs` are the sizes of the
    logs before the newest one. They stay as they are as long as the manifest has this name.
    """

    sequence: int
    records: int
    at_ms: Millis
    manifest: str
    logs: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingWrites:
    """Acknowledged writes that a store lacks: the changes and records after the last one that it
    has, and its logs that are gone or cut. The times bound when they were acknowledged."""

    changes: int
    records: int
    logs: tuple[str, ...]
    after_ms: Millis | None
    until_ms: Millis


class Acknowledged:
    """The file of one store. It is a help to notice a loss: a failure to write it stops nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1
        self._next_sync = 0.0
        self._logs = b""  # the end of a slot: it changes once a second at most
        with contextlib.suppress(OSError):
            self._file = os.open(folder / NAME, _OPEN, 0o600)

    def note(self, sequence: int, records: int) -> None:
        """Note that everything so far is on disk."""
        with contextlib.suppress(OSError):
            now = time.monotonic()
            if now < self._next_sync:
                self._write(sequence, records)
                return
            folder = self._folder
            state = {"manifest": _read_manifest(folder), "logs": _list_older_logs(folder)}
            self._logs = json.dumps(state).encode()[1:]
            self._write(sequence, records)
            os.fdatasync(self._file)
            self._next_sync = now + SYNC_SECONDS

    def reset(self) -> None:
        """Remove the claim: what is missing was reported."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.fdatasync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.fdatasync(self._file)
            os.close(self._file)
            self._file = -1

    def _write(self, sequence: int, records: int) -> None:
        at_ms = time.time_ns() // 1_000_000
        text = b'{"sequence":%d,"records":%d,"at_ms":%d,%b' % (
            sequence,
            records,
            at_ms,
            self._logs,
        )
        slot = b"%08x %b\n" % (zlib.crc32(text), text)
        os.pwrite(self._file, slot, at_ms // SLOT_MS % SLOTS * SLOT_BYTES)


class WriteClaim:
    """What a store must have, by its file. Read it before the store is opened."""

    def __init__(self, folder: Path) -> None:
        self._marks = _read(folder / NAME)
        self._last = max(self._marks, key=lambda mark: mark.sequence, default=None)
        self._gone: tuple[str, ...] = ()
        if self._last is not None and self._last.manifest == _read_manifest(folder):
            there = {path.name: path.stat().st_size for path in folder.glob("*.log")}
            logs = self._last.logs.items()
            self._gone = tuple(name for name, size in logs if there.get(name, -1) < size)

    def find_missing(self, sequence: int, records: int) -> MissingWrites | None:
        """Compare with the store, once it is open."""
        if self._last is None or (self._last.sequence <= sequence and not self._gone):
            return None
        kept = [mark.at_ms for mark in self._marks if mark.sequence <= sequence]
        return MissingWrites(
            changes=max(0, self._last.sequence - sequence),
            records=max(0, self._last.records - records),
            logs=self._gone,
            after_ms=max(kept, default=None) if not self._gone else None,
            until_ms=self._last.at_ms,
        )


def _read(path: Path) -> list[Mark]:
    """Read the slots that are whole."""
    try:
        content = path.read_bytes()[: SLOTS * SLOT_BYTES]
    except OSError:
        return []
    slots = (content[at : at + SLOT_BYTES] for at in range(0, len(content), SLOT_BYTES))
    return [mark for mark in map(_decode, slots) if mark is not None]


def _decode(slot: bytes) -> Mark | None:
    line = slot.partition(b"\n")[0]
    digits, _, text = line.partition(b" ")
    try:
        return Mark(**json.loads(text)) if int(digits, 16) == zlib.crc32(text) else None
    except (ValueError, TypeError):
        return None


def _read_manifest(folder: Path) -> str:
    """Return the name of the file that lists the tables: a new one is started with each change."""
    try:
        return (folder / "CURRENT").read_text().strip()
    except (OSError, ValueError):
        return ""


def _list_older_logs(folder: Path) -> dict[str, int]:
    """Return the sizes of all logs but the newest, whose end the number of the last write tells."""
    older = sorted(folder.glob("*.log"))[:-1][:MAX_LOGS]
    return {path.name: path.stat().st_size for path in older}
