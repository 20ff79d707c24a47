"""Where a backup is read from: the folder of a snapshot, or an archive."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from agent_memory.features.backups.adapters import archives, files
from agent_memory.features.backups.adapters.files import Check
from agent_memory.features.backups.model import backups
from agent_memory.features.backups.model.backups import BackupFile, Manifest
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.platform.files import FileTooLarge, NotRegularFile, open_regular, read_regular


class BackupSource(Protocol):
    """A backup, which may be damaged or come from someone else."""

    path: Path
    manifest: Manifest

    def read_files(self) -> Iterator[tuple[BackupFile, IO[bytes]]]:
        """Yield each file of the manifest once, with its bytes, which are not checked yet."""
        ...


class SnapshotFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path)

    def read_files(self) -> Iterator[tuple[BackupFile, IO[bytes]]]:
        for each in self.manifest.files:
            path = self.path / each.path
            try:
                for folder in (path.parent, *path.parent.parents):
                    if folder == self.path:
                        break
                    if folder.is_symlink():
                        raise InvalidInput(f"{folder} is a link: no folder of a backup")
                file = open_regular(path)
            except NotRegularFile:
                raise InvalidInput(f"{path} is not a regular file") from None
            except FileNotFoundError:
                raise StorageFailed(f"{each.path} is missing in {self.path}") from None
            except OSError as exc:
                raise StorageFailed(f"cannot read {path}: {exc.strerror}") from exc
            with file:
                yield each, file


def open_backup(path: Path) -> BackupSource:
    """Open a snapshot, the newest one of a folder of snapshots, or an archive. Raises
    InvalidInput and StorageFailed."""
    try:
        if path.is_dir():
            if (path / backups.MANIFEST).is_file():
                return SnapshotFolder(path)
            last = newest(path)
            if last is None:
                raise InvalidInput(f"there is no backup in {path}")
            return SnapshotFolder(last)
        if not path.is_file():
            raise InvalidInput(f"{path} is no backup" if path.exists() else f"there is no {path}")
        if not archives.is_archive(path.name):
            raise InvalidInput(f"{path} is no backup: {', '.join(archives.SUFFIXES)}, or a folder")
        return archives.Archive(path)
    except OSError as exc:
        raise StorageFailed(f"cannot read {path}: {exc.strerror}") from exc


def verify(source: BackupSource, check: Check) -> None:
    """Read every file. Raise StorageFailed, with its name, for one that differs from the
    manifest."""
    for expected, file in source.read_files():
        check_sum(source, expected, files.digest_stream(file, check))


def check_sum(source: BackupSource, expected: BackupFile, found: tuple[int, str]) -> None:
    if found != (expected.size, expected.sha256):
        raise StorageFailed(f"{expected.path} in {source.path} is damaged: its checksum differs")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a snapshot's folder. Raise InvalidInput and OSError."""
    path = folder / backups.MANIFEST
    try:
        return backups.parse(read_regular(path, backups.MAX_MANIFEST_BYTES))
    except FileTooLarge:
        raise InvalidInput(f"{path} is too large") from None


def newest(folder: Path) -> Path | None:
    """Return the newest snapshot in a folder of snapshots. Raises InvalidInput where it has
    snapshots of several stores."""
    found = {each.name.rpartition("-")[2]: each for each in list_snapshots(folder)}
    if len(found) > 1:
        names = ", ".join(sorted(each.name for each in found.values()))
        raise InvalidInput(f"{folder} has backups of several stores; name one: {names}")
    return next(iter(found.values()), None)


def list_snapshots(folder: Path) -> list[Path]:
    try:
        return sorted(
            each
            for each in folder.iterdir()
            if backups.is_name(each.name) and not each.is_symlink() and each.is_dir()
        )
    except OSError:
        return []
