"""Backups: what a snapshot holds, which names it may hold, and which snapshots are kept.

A snapshot is a folder, or one archive, with `manifest.json` and the parts of a data folder. Every
path in it is relative, so that it can be restored on another machine.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis

FORMAT = "agent-memory-backup"
VERSION = 1
MANIFEST = "manifest.json"

DB = "db"
SPOOL = "spool"
KEY = "key"
USER_REPOSITORY = "user.git"
REPOSITORY_FOLDERS = ("org", "projects")
PARTS = (DB, SPOOL, KEY, USER_REPOSITORY, *REPOSITORY_FOLDERS)

UPGRADES_KEPT = 2  # copies of the store that migrations have made
MAX_MANIFEST_BYTES = 256 << 20
MAX_PATH = 1024

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"\d{8}T\d{6}(\.\d{3})?Z-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """A file of a snapshot, by its path from the snapshot's root."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a snapshot holds. `parts` names what it is a backup of; a part may be empty."""

    made_ms: Millis
    version: str  # of the package that made it
    store: str  # the identity of the store
    schema: int
    events: int
    parts: tuple[str, ...]
    files: tuple[BackupFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(each.size for each in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A complete snapshot in a folder of snapshots. `new_bytes` is what it added there."""

    path: str
    manifest: Manifest
    new_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many snapshots of a store to keep: the newest ones, and one for each of the last
    weeks."""

    newest: int
    weekly: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    """A backup that was made, and what was removed after it."""

    path: str
    made_ms: Millis
    events: int
    files: int
    size_bytes: int
    new_bytes: int
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """A backup in its place, and where the files that were there before are, if there were any."""

    manifest: Manifest
    source: str
    data: str
    aside: str


def format_name(made_ms: Millis, store: str) -> str:
    """Format the name of a snapshot's folder: it sorts by time and differs between stores."""
    moment = datetime.fromtimestamp(made_ms // 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{made_ms % 1000:03}Z-{store[:8]}"


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def dump(manifest: Manifest) -> str:
    return json.dumps({"format": FORMAT, "format_version": VERSION, **asdict(manifest)}, indent=1)


def parse(data: bytes) -> Manifest:
    """Parse a manifest. Raises InvalidInput where it is none, has a later format, or names an
    unsafe path."""
    try:
        found = json.loads(data)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise InvalidInput("it is no backup of Agent Memory")
        if found["format_version"] != VERSION:
            raise InvalidInput(
                f"the backup has format {found['format_version']!r}, this version of Agent Memory"
                f" knows {VERSION}: upgrade"
            )
        parts = tuple(_part(each) for each in found["parts"])
        return Manifest(
            made_ms=Millis(_number(found["made_ms"])),
            version=_text(found["version"]),
            store=_text(found["store"]),
            schema=_number(found["schema"]),
            events=_number(found["events"]),
            parts=parts,
            files=_files(found["files"], parts),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise InvalidInput(f"the manifest of the backup is damaged: {exc!r}") from exc


def _files(found: Sequence[Any], parts: Sequence[str]) -> tuple[BackupFile, ...]:
    files = tuple(
        BackupFile(
            path=check_path(_text(each["path"])),
            size=_number(each["size"]),
            sha256=_digest(_text(each["sha256"])),
        )
        for each in found
    )
    if len({each.path for each in files}) != len(files):
        raise ValueError("a path is there twice")
    for each in files:
        if each.path.split("/")[0] not in parts:
            raise ValueError(f"{each.path!r} is of no part that the backup has")
    return files


def check_path(path: str) -> str:
    """Raise InvalidInput unless the path is a file of a part, below the snapshot's root."""
    steps = path.split("/")
    if (
        len(path) > MAX_PATH
        or any(step in ("", ".", "..") for step in steps)
        or "\\" in path
        or not path.isprintable()
        or not _belongs(steps)
    ):
        raise InvalidInput(f"the backup names {path!r}, which is no file of a backup")
    return path


def _belongs(steps: Sequence[str]) -> bool:
    part, rest = steps[0], steps[1:]
    if part == KEY:
        return not rest
    if part in (DB, SPOOL):
        return len(rest) == 1
    if part == USER_REPOSITORY:
        return is_of_repository(rest)
    return part in REPOSITORY_FOLDERS and rest[:1] != [] and is_of_repository(rest[1:])


def is_of_repository(steps: Sequence[str]) -> bool:
    """Tell whether this file of a repository is backed up: its references and objects. Its
    settings, hooks and alternates are not: they could run programs, or lead to other folders."""
    if len(steps) == 1:
        return steps[0] in ("HEAD", "packed-refs")
    return steps[:1] == ["refs"] or (
        len(steps) == 3 and steps[0] == "objects" and steps[1] != "info"
    )


def _number(found: Any) -> int:
    return int(_require(found, "number", type(found) is int and found >= 0))


def _text(found: Any) -> str:
    return str(_require(found, "text", isinstance(found, str)))


def _part(found: Any) -> str:
    return str(_require(found, "part of a backup", found in PARTS))


def _digest(found: str) -> str:
    return str(_require(found, "SHA-256", _SHA256.fullmatch(found) is not None))


def _require(value: Any, what: str, valid: bool) -> Any:
    if not valid:
        raise ValueError(f"{value!r} is no {what}")
    return value


def select_outdated(
    snapshots: Sequence[Snapshot], made: Snapshot, retention: Retention
) -> tuple[Snapshot, ...]:
    """Select the snapshots of the same store that the retention does not keep, oldest first.

    `made` counts as the last one whatever the dates say: a later date comes from a clock that was
    ahead, or is behind now. Weeks are counted back from both, so that no wrong date empties them.
    """
    now = made.manifest.made_ms
    others = sorted(
        (
            each
            for each in snapshots
            if each.manifest.store == made.manifest.store and each.path != made.path
        ),
        key=lambda each: (each.manifest.made_ms <= now, each.manifest.made_ms),
        reverse=True,
    )
    ours = [made, *others]
    kept = {each.path for each in ours[: max(1, retention.newest)]}
    latest = max(each.manifest.made_ms for each in ours)
    weeks = {
        _week(last) - timedelta(weeks=number)
        for last in (now, latest)
        for number in range(retention.weekly)
    }
    for each in ours:
        week = _week(each.manifest.made_ms)
        if week in weeks:
            weeks.remove(week)
            kept.add(each.path)
    return tuple(each for each in reversed(ours) if each.path not in kept)


def _week(made_ms: Millis) -> datetime:
    """Return the Monday of its week."""
    day = datetime.fromtimestamp(made_ms / 1000, UTC).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    return day - timedelta(days=day.weekday())
