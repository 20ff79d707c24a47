"""Restore a backup: verify it, copy it beside the data, and rename it into place.

What was there before is moved aside, never removed. The renames are written down before the first
of them (`restore_journal`).
"""

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from agent_memory.features.backups.adapters import files, restore_journal, sources
from agent_memory.features.backups.adapters.restore_journal import RestoreMove
from agent_memory.features.backups.model import backups
from agent_memory.features.backups.model.backups import Manifest, RestoreResult
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import FeatureUnavailable, InvalidInput, StorageFailed
from agent_memory.platform.durable import sync_tree
from agent_memory.platform.store import families, schema
from agent_memory.platform.store.rocks import RocksEngine

SPARE_BYTES = 64 << 20
_STAGING = ".restore-"
_CONFIG = "[core]\n\tbare = true\n\trepositoryformatversion = 0\n\tfilemode = true\n"


def restore(
    backup: Path,
    *,
    data: Path,
    db_path: Path,
    index: Path,
    force: bool,
    on_progress: Callable[[int], None],
) -> RestoreResult:
    """Bring a backup into a data folder that the caller has locked. `on_progress` is called with
    the number of files; it may raise to stop, and then nothing has changed."""
    restore_journal.finish(data)
    source = sources.open_backup(backup)
    manifest = source.manifest
    if manifest.schema > schema.VERSION:
        raise FeatureUnavailable(
            f"{source.path} has schema {manifest.schema}, this version of Agent Memory knows"
            f" {schema.VERSION}: upgrade"
        )
    if backups.DB not in manifest.parts:
        raise InvalidInput(f"{source.path} holds no store")
    if db_path.exists() and not force:
        raise InvalidInput(
            f"there is a store at {db_path}: --force moves it aside and restores in its place"
        )
    count = 0

    def check() -> None:
        on_progress(count)

    try:
        sources.verify(source, check)
    except StorageFailed as exc:
        raise StorageFailed(f"{exc} (nothing was restored)") from exc
    for each in (data, db_path.parent):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in each.glob(f"{_STAGING}*"):
            shutil.rmtree(left, ignore_errors=True)
    free = shutil.disk_usage(db_path.parent).free
    if free < manifest.size_bytes + SPARE_BYTES:
        raise StorageFailed(
            f"{manifest.size_bytes >> 20} MiB are needed and {free >> 20} MiB are free in"
            f" {db_path.parent}"
        )
    mark = secrets.token_hex(4)
    staged = dict.fromkeys(manifest.parts, data / f"{_STAGING}{mark}")
    staged[backups.DB] = db_path.parent / f"{_STAGING}{mark}"
    try:
        for root in set(staged.values()):
            root.mkdir(mode=0o700)
        for file, stream in source.read_files():
            target = files.make_folders(staged[file.path.split("/")[0]], file.path)
            sources.check_sum(source, file, files.write(stream, target, check))
            count += 1
            check()
            if file.path.endswith(".git/HEAD"):
                _complete_repository(target.parent)
        _check_store(staged[backups.DB] / backups.DB, manifest)
        for root in set(staged.values()):
            sync_tree(root)
        aside = _aside(data)
        moves = [
            move
            for part in manifest.parts
            for move in _moves(staged[part] / part, part, data, db_path, aside)
        ]
        moves.append(RestoreMove(staged="", target=str(index), aside=str(aside / "index")))
        restore_journal.write(data, moves)
    except BaseException:
        for root in set(staged.values()):
            shutil.rmtree(root, ignore_errors=True)
        raise
    restore_journal.finish(data)
    return RestoreResult(
        manifest=manifest,
        source=str(source.path),
        data=str(data),
        aside=str(aside) if aside.exists() else "",
    )


def _moves(
    staged: Path, part: str, data: Path, db_path: Path, aside: Path
) -> Iterator[RestoreMove]:
    """Yield the moves of a part. The spool is added to: hooks left there are in no store yet,
    and recording them twice is harmless."""
    if part == backups.SPOOL:
        for each in sorted(staged.glob("*.json")):
            yield RestoreMove(
                staged=str(each),
                target=str(data / part / each.name),
                aside=str(aside / part / each.name),
            )
        return
    yield RestoreMove(
        staged=str(staged) if staged.exists() else "",
        target=str(db_path if part == backups.DB else data / part),
        aside=str(aside / part),
    )


def _complete_repository(folder: Path) -> None:
    """Create what a repository has besides its references and objects, as git does."""
    (folder / "config").write_text(_CONFIG)
    for name in ("refs", "objects"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)


def _aside(data: Path) -> Path:
    name = f"replaced-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    number = 1
    while (data / name).exists():
        number += 1
        name = f"{name.split('.', maxsplit=1)[0]}.{number}"
    return data / name


def _check_store(path: Path, manifest: Manifest) -> None:
    with closing(RocksEngine(path, read_only=True)) as reader:
        found = reader.count(families.EVENTS)
    if found != manifest.events:
        raise StorageFailed(
            f"the backup should have {format_count(manifest.events, 'event')} and has {found:,}:"
            " not restored"
        )
