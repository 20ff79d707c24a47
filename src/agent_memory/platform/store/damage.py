"""Damaged files of a store: put aside before anything is mended, with a report beside them.

A report stands until the folder in which it lies is removed: `status` and `doctor` read it there.
"""

import json
import os
import re
import shutil
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import Damage
from agent_memory.platform import durable
from agent_memory.platform.store import families, write_ahead_log

REPORT = "damage.json"
_MAX_REPORT = 64 << 10
_MAX_REPORTS = 100
_EVENT = re.compile(rb"evt:(\d{13}):[!-~]")
_KEY = re.compile(rb"evt:\d{13}:[!-~]{1,128}")
_SEARCHED = 200  # records before and behind a hole, for an event whose time bounds it

Get = Callable[[str, Sequence[bytes]], Sequence[bytes | None]]


def mend_logs(db: Path, now: Millis) -> Callable[[Get], Damage] | None:
    """Take damaged records out of the logs of a closed store, and keep the logs as they were. What
    this gives is to be called with the opened store: it finds out which events are missing."""
    mended: dict[Path, bytes] = {}
    losses: list[_Loss] = []
    for path in sorted(db.glob("*.log")):
        content = path.read_bytes()
        reading = write_ahead_log.read(content)
        if reading.damaged:
            mended[path] = write_ahead_log.write(reading.records)
            losses += [_examine(content, reading, each) for each in reading.damaged]
    if not mended:
        return None
    names = ", ".join(path.name for path in mended)
    what = f"damaged records in the write-ahead log ({names})"
    found = put_aside(db, mended, Damage(what=what, noticed_ms=now))
    for path, content in mended.items():
        durable.write_atomic(path, content)
    return partial(_complete_report, found, losses)


@dataclass(frozen=True, slots=True)
class _Loss:
    """A damaged range: the events it names and, where a part of it is a hole that may have held
    others, the times around it."""

    events: frozenset[bytes]
    between: tuple[Millis, ...]


def _examine(content: bytes, reading: write_ahead_log.LogContents, place: tuple[int, int]) -> _Loss:
    start, end = place
    lost = content[start:end]
    between: tuple[Millis, ...] = ()
    if write_ahead_log.HOLE in lost:
        at = bisect_right(reading.ends, start)
        before = (_times(each) for each in reversed(reading.records[max(0, at - _SEARCHED) : at]))
        behind = (_times(each) for each in reading.records[at : at + _SEARCHED])
        ends = (next(filter(None, before), []), next(filter(None, behind), []))
        between = tuple(pick(times) for times, pick in zip(ends, (max, min), strict=True) if times)
    return _Loss(frozenset(_event_keys(lost)), between)


def _event_keys(data: bytes) -> Iterator[bytes]:
    """The keys of events in the bytes of batches, by the lengths that stand before them."""
    for match in _EVENT.finditer(data):
        at = match.start()
        length = data[at - 1] if at else 0
        if at > 1 and data[at - 2] >= 0x80:
            length = (data[at - 2] & 0x7F) | length << 7
        key = data[at : at + length]
        if _KEY.fullmatch(key):
            yield key


def _times(record: bytes) -> list[Millis]:
    return [Millis(int(match[1])) for match in _EVENT.finditer(record)]


def _complete_report(found: Damage, losses: Sequence[_Loss], get: Get) -> Damage:
    """Complete a report with the events that are not in the store."""
    keys = sorted({key for loss in losses for key in loss.events})
    rows = get(families.EVENTS, keys) if keys else []
    missing = [key for key, row in zip(keys, rows, strict=True) if row is None]
    times = [int(key[4:17]) for key in missing]
    between = [time for loss in losses for time in loss.between]
    settled = replace(
        found,
        events=None if between else len(missing),
        first_ms=Millis(min([*times, *between])) if times or between else None,
        last_ms=Millis(max([*times, *between])) if times or between else None,
    )
    write_report(Path(found.kept), settled)
    return settled


def put_aside(db: Path, files: Iterable[Path], damage: Damage) -> Damage:
    """Copy files into a new folder beside the store, with a report of why."""
    folder = _new_folder(db, damage.noticed_ms or Millis(0))
    kept = replace(damage, kept=str(folder))
    try:
        for path in files:
            copy(path, folder / path.name)
        write_report(folder, kept)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    durable.sync_folder(folder.parent)
    return kept


def copy(path: Path, target: Path) -> None:
    """Copy a file of a store; tables, which never change, are linked where the disk has links."""
    if path.suffix == ".sst":
        with suppress(OSError):
            os.link(path, target)
            return
    shutil.copyfile(path, target)
    with target.open("rb") as copied:
        os.fsync(copied.fileno())


def write_report(folder: Path, damage: Damage) -> None:
    """Write what `reports` reads."""
    durable.write_atomic(folder / REPORT, json.dumps(asdict(damage), indent=2).encode())


def folders(db: Path) -> list[Path]:
    """The folders in which damaged files are kept, oldest first."""
    return sorted(db.parent.glob(f"{db.name}.damaged-*"))


def reports(db: Path) -> list[Damage]:
    """Read what was found damaged before, oldest first."""
    found: list[Damage] = []
    for path in [each / REPORT for each in folders(db)][:_MAX_REPORTS]:
        try:
            with path.open("rb") as file:
                report = Damage(**json.loads(file.read(_MAX_REPORT)))
        except (OSError, ValueError, TypeError):
            report = Damage(what="earlier damage, whose report cannot be read")
        found.append(replace(report, kept=str(path.parent)))
    return found


def _new_folder(db: Path, now: Millis) -> Path:
    stamp = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    for number in count():
        folder = db.with_name(f"{db.name}.damaged-{stamp}" + (f"-{number}" if number else ""))
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder
    raise AssertionError("unreachable")
