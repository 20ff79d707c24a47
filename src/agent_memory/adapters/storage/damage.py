"""Damaged files of a store: put aside before anything is mended, with a report beside them.

A report stands until the folder in which it lies is removed: `status` and `doctor` read it there.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from agent_memory.adapters import durable
from agent_memory.adapters.storage import write_ahead_log
from agent_memory.domain.events import Millis
from agent_memory.domain.status import Damage

REPORT = "damage.json"
_MAX_REPORT = 64 << 10
_MAX_REPORTS = 100
# In the bytes of a batch: the key of an event, with its time and the beginning of its id.
_EVENT = re.compile(rb"evt:(\d{13}):[!-~]{1,26}")


def mend_logs(db: Path, now: Millis) -> Damage | None:
    """Take damaged records out of the logs of a closed store, and keep the logs as they were."""
    mended: dict[Path, bytes] = {}
    lost: list[bytes] = []
    for path in sorted(db.glob("*.log")):
        content = path.read_bytes()
        reading = write_ahead_log.read(content)
        if reading.damaged:
            mended[path] = write_ahead_log.write(reading.records)
            lost += [content[start:end] for start, end in reading.damaged]
    if not mended:
        return None
    keys = {match.group(): int(match[1]) for part in lost for match in _EVENT.finditer(part)}
    names = ", ".join(path.name for path in mended)
    damage = Damage(
        what=f"damaged records in the write-ahead log ({names})",
        noticed_ms=now,
        events=len(keys),
        first_ms=Millis(min(keys.values())) if keys else None,
        last_ms=Millis(max(keys.values())) if keys else None,
    )
    damage = put_aside(db, mended, damage)
    for path, content in mended.items():
        durable.write_whole(path, content)
    return damage


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
    durable.write_whole(folder / REPORT, json.dumps(asdict(damage), indent=2).encode())


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
