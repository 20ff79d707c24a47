"""Restore a backup: verify it, copy it beside the data, and rename it into place.

What was there before is moved aside, never removed. The renames are written down before the first
of them (`restore_journal`).
"""

import secrets
import shutil
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from agent_memory.features.backups.adapters import files, restore_journal, sources
from agent_memory.features.backups.adapters.restore_journal import (
    INDEX,
    STAGING,
    RestorePlace,
    RestorePlan,
)
from agent_memory.features.backups.model import backups
from agent_memory.features.backups.model.backups import Manifest, RestoreResult
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import FeatureUnavailable, InvalidInput, StorageFailed
from agent_memory.platform.durable import sync_tree
from agent_memory.platform.removing import remove_tree
from agent_memory.platform.store import families, schema
from agent_memory.platform.store.rocks import RocksEngine

SPARE_BYTES = 64 << 20
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
    place = RestorePlace(data=data, db_path=db_path, index=index)
    restore_journal.finish(place)
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
        for left in each.glob(f"{STAGING}{'[0-9a-f]' * 8}"):
            remove_tree(left, ignore_errors=True)
    free = shutil.disk_usage(db_path.parent).free
    if free < manifest.size_bytes + SPARE_BYTES:
        raise StorageFailed(
            f"{manifest.size_bytes >> 20} MiB are needed and {free >> 20} MiB are free in"
            f" {db_path.parent}"
        )
    mark = secrets.token_hex(4)
    staged = {part: place.find_root(part) / f"{STAGING}{mark}" for part in manifest.parts}
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
        moved = [each for part in manifest.parts for each in _list_moved(staged[part], part)]
        cleared = [
            part
            for part in manifest.parts
            if part != backups.SPOOL and not (staged[part] / part).exists()
        ]
        plan = RestorePlan(
            mark=mark, aside=aside.name, staged=tuple(moved), cleared=(*cleared, INDEX)
        )
        restore_journal.write(data, plan)
    except BaseException:
        for root in set(staged.values()):
            remove_tree(root, ignore_errors=True)
        raise
    restore_journal.finish(place)
    return RestoreResult(
        manifest=manifest,
        source=str(source.path),
        data=str(data),
        aside=str(aside) if aside.exists() else "",
    )


def _list_moved(root: Path, part: str) -> list[str]:
    """List what is moved of a staged part. The spool is added to: hooks left there are in no store
    yet, and recording them twice is harmless."""
    if part == backups.SPOOL:
        return [f"{part}/{each.name}" for each in sorted((root / part).glob("*.json"))]
    return [part] if (root / part).exists() else []


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
