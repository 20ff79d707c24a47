"""The renames of a restore, written down before the first of them.

Where a restore is killed in between, `finish` does the rest. Every daemon calls it before it opens
its store, so this module imports little. The journal names parts, and no paths: a data folder that
was copied from another machine, or a planted file, must not move anything outside of this one.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_memory.features.backups.model.backups import DB, KEY, PARTS, SPOOL
from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.durable import sync_folder, write_atomic
from agent_memory.platform.files import read_regular
from agent_memory.platform.removing import remove_tree

JOURNAL = "restoring.json"
STAGING = ".restore-"
INDEX = "index"
MAX_BYTES = 16 << 20
_MARK = re.compile(r"[0-9a-f]{8}")
_ASIDE = re.compile(r"replaced-\d{8}T\d{6}Z(?:\.\d+)?")
_SPOOLED = re.compile(rf"{SPOOL}/[^/\0]+\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlace:
    """Where a backup is restored to."""

    data: Path
    db_path: Path
    index: Path

    def find_root(self, part: str) -> Path:
        """Return the folder in which a part is staged: it is renamed within a file system."""
        return self.db_path.parent if part == DB else self.data

    def find_target(self, part: str) -> Path:
        return {DB: self.db_path, INDEX: self.index}.get(part) or self.data / part


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """The parts that are moved. `staged` come from the staging folder `mark`; `cleared` only make
    room. What is there now goes into the folder `aside`."""

    mark: str
    aside: str
    staged: tuple[str, ...]
    cleared: tuple[str, ...]

    def find_staged(self, place: RestorePlace, part: str) -> Path:
        return place.find_root(part) / f"{STAGING}{self.mark}" / part

    def find_aside(self, place: RestorePlace, part: str) -> Path:
        return place.data / self.aside / part


def write(data: Path, plan: RestorePlan) -> None:
    content = {
        "mark": plan.mark,
        "aside": plan.aside,
        "staged": plan.staged,
        "cleared": plan.cleared,
    }
    write_atomic(data / JOURNAL, json.dumps(content).encode())


def finish(place: RestorePlace) -> bool:
    """Finish the renames of a restore that was cut off. Return whether there was one.

    Raises StorageFailed before the first rename for a journal that is not of this place.
    """
    journal = place.data / JOURNAL
    try:
        content = json.loads(read_regular(journal, MAX_BYTES))
        plan = _parse_old(content, place) if isinstance(content, list) else _parse(content)
    except FileNotFoundError:
        return False
    except (ValueError, TypeError, KeyError, OSError) as exc:
        raise StorageFailed(
            f"{journal} is not a restore of {place.data}, and nothing was moved: {exc}; move the"
            " file away, and restore again"
        ) from exc
    try:
        _check_folders(plan, place)
        for part in (*plan.staged, *plan.cleared):
            _move(plan, place, part, is_staged=part in plan.staged)
        parts = (*plan.staged, *plan.cleared)
        for folder in {place.find_target(part).parent for part in parts}:
            sync_folder(folder)
        journal.unlink()
        sync_folder(place.data)
        for root in {place.find_root(part) for part in plan.staged}:
            remove_tree(root / f"{STAGING}{plan.mark}", ignore_errors=True)
    except OSError as exc:
        raise StorageFailed(f"cannot finish the restore: {exc.filename}: {exc.strerror}") from exc
    return True


def _parse(content: Any) -> RestorePlan:
    plan = RestorePlan(
        mark=str(content["mark"]),
        aside=str(content["aside"]),
        staged=tuple(map(str, content["staged"])),
        cleared=tuple(map(str, content["cleared"])),
    )
    if not _MARK.fullmatch(plan.mark) or not _ASIDE.fullmatch(plan.aside):
        raise ValueError("it names folders that no restore makes")
    for part in (*plan.staged, *plan.cleared):
        if part == INDEX and part in plan.staged:
            raise ValueError("no backup has an index")  # the daemon makes it again
        if part not in (*PARTS, INDEX) and not _SPOOLED.fullmatch(part):
            raise ValueError(f"no backup has a part {part[:100]!r}")
    return plan


def _parse_old(moves: list[Any], place: RestorePlace) -> RestorePlan:
    """Read a journal of an earlier version: a list of moves, with whole paths."""
    staged, cleared = [], []
    marks, asides = set(), set()
    for move in moves:
        source, target, aside = (str(move[name]) for name in ("staged", "target", "aside"))
        steps = Path(aside).relative_to(place.data).parts
        part = "/".join(steps[1:])
        asides.add(steps[0])
        if source:
            staged.append(part)
            marks.add(Path(source).relative_to(place.find_root(part)).parts[0])
        else:
            cleared.append(part)
        if target != str(place.find_target(part)):
            raise ValueError(f"it names {target}")
    (mark,), (aside,) = marks, asides
    plan = _parse(
        {
            "mark": mark.removeprefix(STAGING),
            "aside": aside,
            "staged": staged,
            "cleared": cleared,
        }
    )
    written = {str(move["staged"]) for move in moves if move["staged"]}
    if written != {str(plan.find_staged(place, part)) for part in plan.staged}:
        raise ValueError("it names other folders")
    return plan


def _check_folders(plan: RestorePlan, place: RestorePlace) -> None:
    """Raise StorageFailed if a staging folder is missing, if a link leads elsewhere, or if a part
    is not what a restore stages."""
    for folder in _list_folders(plan, place):
        try:
            mode = os.lstat(folder).st_mode
        except FileNotFoundError:
            if folder.name != f"{STAGING}{plan.mark}":
                continue
            raise StorageFailed(
                f"{folder} is missing: the restore that {place.data / JOURNAL} names was to another"
                " place of the database; start with the storage.path of then"
            ) from None
        if not stat.S_ISDIR(mode):
            raise StorageFailed(f"{folder} is not a folder: nothing was restored")
    for part in plan.staged:
        _check_staged(part, plan.find_staged(place, part))


def _check_staged(part: str, path: Path) -> None:
    """Raise StorageFailed for what a restore does not stage. What is moved into place is then used
    as ours: behind a link, files of others would be renamed and removed."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return  # it is in place already
    is_file = part == KEY or part.startswith(f"{SPOOL}/")
    if not (stat.S_ISREG(mode) if is_file else stat.S_ISDIR(mode)):
        kind = "file" if is_file else "folder"
        raise StorageFailed(
            f"{path} is not a {kind}: nothing was restored; move {path.parent} and"
            f" {JOURNAL} away, and restore again"
        )


def _list_folders(plan: RestorePlan, place: RestorePlace) -> Iterator[Path]:
    """Yield the folders that the moves lead through, each after the one that it is in."""
    for root in sorted({place.find_root(part) for part in plan.staged}):
        yield root / f"{STAGING}{plan.mark}"
    yield place.data / plan.aside
    if any(part.startswith(f"{SPOOL}/") for part in plan.staged):
        yield place.data / f"{STAGING}{plan.mark}" / SPOOL
        yield place.data / plan.aside / SPOOL
        yield place.data / SPOOL


def _move(plan: RestorePlan, place: RestorePlace, part: str, *, is_staged: bool) -> None:
    """Move a part. Repeating it has no effect: what is staged exists until it is in place."""
    staged, target = plan.find_staged(place, part), place.find_target(part)
    if is_staged and not staged.exists():
        return
    if target.exists() or target.is_symlink():
        aside = plan.find_aside(place, part)
        aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _rename(target, aside)
    if is_staged:
        target.parent.mkdir(mode=0o700, exist_ok=True)
        staged.rename(target)


def _rename(target: Path, aside: Path) -> None:
    """Rename a path; where the data folder is on another file system, move it aside beside
    itself."""
    if target.parent.stat().st_dev != aside.parent.stat().st_dev:
        aside = target.with_name(f"{target.name}-{aside.parent.name}")
    target.rename(aside)
