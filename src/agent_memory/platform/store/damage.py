"""Repair of damaged logs. The damaged files are first copied to a folder, with a report.

`status` and `doctor` show a report until you remove its folder.
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
from agent_memory.platform.removing import remove_tree
from agent_memory.platform.store import families, write_ahead_log
from agent_memory.platform.store.acknowledged import MissingWrites

REPORT = "damage.json"
_MAX_REPORT = 64 << 10
_MAX_REPORTS = 100
_EVENT = re.compile(rb"evt:(\d{13}):[!-~]")
_KEY = re.compile(rb"evt:\d{13}:[!-~]{1,128}")
_SEARCHED = 200  # records before and after a hole, searched for an event whose time bounds it

Get = Callable[[str, Sequence[bytes]], Sequence[bytes | None]]


def mend_logs(db: Path, now: Millis) -> Callable[[Get], Damage] | None:
    """Remove the damaged records from the logs of a closed store, and keep copies of the logs.

    Call the returned function with the `get_many` of the opened store: it determines which events
    are missing. Return None if no log is damaged.
    """
    mended: dict[Path, bytes] = {}
    losses: list[_Loss] = []
    for path in sorted(db.glob("*.log")):
        content = path.read_bytes()
        reading = write_ahead_log.read(content)
        if reading.damaged:
            mended[path] = write_ahead_log.write(reading.records)
            losses += [_examine(content, reading, place) for place in reading.damaged]
    if not mended:
        return None
    names = ", ".join(path.name for path in mended)
    what = f"damaged records in the write-ahead log ({names})"
    report = put_aside(db, mended, Damage(what=what, noticed_ms=now))
    for path, content in mended.items():
        durable.write_atomic(path, content)
    return partial(_complete_report, report, losses)


def report_missing(db: Path, missing: MissingWrites, now: Millis) -> Damage:
    """Report writes that were acknowledged and are gone. There is nothing to repair."""
    what = []
    if missing.logs:
        what.append(f"logs of the store were removed or cut ({', '.join(missing.logs)})")
    if missing.changes:
        what.append(
            f"the log of the store ends before what was acknowledged: {missing.changes:,} changes"
            f" are missing, of {missing.records:,} records (events, memories, facts)"
        )
    lost = Damage(
        what="; ".join(what),
        noticed_ms=now,
        first_ms=missing.after_ms,
        last_ms=missing.until_ms,
        final=True,
    )
    return put_aside(db, (), lost)


@dataclass(frozen=True, slots=True)
class _Loss:
    """A damaged range: the events it names and, if it has a hole, the times around the hole.

    A hole may have held more events than those it names.
    """

    events: frozenset[bytes]
    between: tuple[Millis, ...]


def _examine(content: bytes, reading: write_ahead_log.LogContents, place: tuple[int, int]) -> _Loss:
    start, end = place
    lost = content[start:end]
    between: tuple[Millis, ...] = ()
    if write_ahead_log.HOLE in lost:
        at = bisect_right(reading.ends, start)
        before = map(_times, reversed(reading.records[max(0, at - _SEARCHED) : at]))
        after = map(_times, reading.records[at : at + _SEARCHED])
        ends = (next(filter(None, before), []), next(filter(None, after), []))
        between = tuple(pick(times) for times, pick in zip(ends, (max, min), strict=True) if times)
    return _Loss(frozenset(_event_keys(lost)), between)


def _event_keys(data: bytes) -> Iterator[bytes]:
    """Yield the event keys in the bytes of batches, by the length before each key."""
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


def _complete_report(report: Damage, losses: Sequence[_Loss], get: Get) -> Damage:
    """Complete a report with the events that the store lacks."""
    keys = sorted({key for loss in losses for key in loss.events})
    rows = get(families.EVENTS, keys) if keys else []
    missing = [key for key, row in zip(keys, rows, strict=True) if row is None]
    times = [int(key[4:17]) for key in missing]
    between = [time for loss in losses for time in loss.between]
    complete = replace(
        report,
        events=None if between else len(missing),
        first_ms=Millis(min([*times, *between])) if times or between else None,
        last_ms=Millis(max([*times, *between])) if times or between else None,
    )
    write_report(Path(report.kept), complete)
    return complete


def put_aside(db: Path, files: Iterable[Path], damage: Damage) -> Damage:
    """Copy files into a new folder beside the store, with a report; return that report."""
    folder = _new_folder(db, damage.noticed_ms or Millis(0))
    report = replace(damage, kept=str(folder))
    try:
        for path in files:
            copy(path, folder / path.name)
        write_report(folder, report)
    except BaseException:
        remove_tree(folder, ignore_errors=True)
        raise
    durable.sync_folder(folder.parent)
    return report


def copy(path: Path, target: Path) -> None:
    """Copy a file of a store; tables never change, so they are linked if the disk allows it."""
    if path.suffix == ".sst":
        with suppress(OSError):
            os.link(path, target)
            return
    shutil.copyfile(path, target)
    durable.sync_file(target)


def write_report(folder: Path, damage: Damage) -> None:
    """Write a report for `read_reports`."""
    durable.write_atomic(folder / REPORT, json.dumps(asdict(damage), indent=2).encode())


def list_folders(db: Path) -> list[Path]:
    """Return the folders with damaged files, oldest first."""
    return sorted(db.parent.glob(f"{db.name}.damaged-*"))


def read_reports(db: Path) -> list[Damage]:
    """Read the reports of earlier damage, oldest first."""
    reports: list[Damage] = []
    for path in [folder / REPORT for folder in list_folders(db)][:_MAX_REPORTS]:
        try:
            with path.open("rb") as file:
                report = Damage(**json.loads(file.read(_MAX_REPORT)))
        except (OSError, ValueError, TypeError):
            report = Damage(what="earlier damage, whose report cannot be read")
        reports.append(replace(report, kept=str(path.parent)))
    return reports


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
