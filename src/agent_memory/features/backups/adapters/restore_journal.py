"""The renames of a restore, written down before the first of them.

Where a restore is killed in between, `finish` does the rest. Every daemon calls it before it opens
its store, so this module imports little.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.durable import sync_folder, write_atomic

JOURNAL = "restoring.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMove:
    """A rename into place, and where what is there now is moved to."""

    staged: str
    target: str
    aside: str


def write(data: Path, moves: list[RestoreMove]) -> None:
    write_atomic(data / JOURNAL, json.dumps([asdict(move) for move in moves]).encode())


def finish(data: Path) -> bool:
    """Finish the renames of a restore that was cut off. Return whether there was one."""
    journal = data / JOURNAL
    try:
        moves = [RestoreMove(**each) for each in json.loads(journal.read_text())]
    except FileNotFoundError:
        return False
    except (ValueError, TypeError, OSError) as exc:
        raise StorageFailed(f"{journal} cannot be read: {exc}") from exc
    try:
        for move in moves:
            _do(move)
        for folder in {Path(move.target).parent for move in moves}:
            sync_folder(folder)
        journal.unlink()
        sync_folder(data)
        for root in {Path(move.staged).parent for move in moves if move.staged}:
            shutil.rmtree(root, ignore_errors=True)
    except OSError as exc:
        raise StorageFailed(f"cannot finish the restore: {exc.filename}: {exc.strerror}") from exc
    return True


def _do(move: RestoreMove) -> None:
    """Do a move. Repeating it has no effect: what is staged exists until it is in place."""
    staged, target, aside = Path(move.staged), Path(move.target), Path(move.aside)
    if move.staged and not staged.exists():
        return
    if target.exists() or target.is_symlink():
        aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _rename(target, aside)
    if move.staged:
        target.parent.mkdir(mode=0o700, exist_ok=True)
        staged.rename(target)


def _rename(target: Path, aside: Path) -> None:
    """Rename a path; where the data folder is on another file system, move it aside beside
    itself."""
    if target.parent.stat().st_dev != aside.parent.stat().st_dev:
        aside = target.with_name(f"{target.name}-{aside.parent.name}")
    target.rename(aside)
