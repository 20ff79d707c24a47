"""Snapshots: copies of a running store in a folder, with a manifest of checksums.

The store is first copied beside itself by hard links: that is the moment of the backup. The files
of that copy are then linked into the snapshot, or copied where the snapshot is on another file
system, unless an earlier snapshot there has the same file. A snapshot gets its final name only when
it is complete, verified and on disk.
"""

import contextlib
import glob
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_memory.features.backups.adapters import archives, files, sources
from agent_memory.features.backups.model import backups
from agent_memory.features.backups.model.backups import BackupFile, Manifest, Snapshot
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput, StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.platform.durable import make_folder, sync_folder, sync_tree, write_atomic
from agent_memory.platform.removing import remove_tree
from agent_memory.platform.store import families, schema
from agent_memory.platform.store.rocks import RocksEngine

INCOMPLETE = ".incomplete-"
TRIES = 5  # for a repository that changes while it is copied
_IMMUTABLE = (".sst",)
_OTHER_ARCHIVES = (".zst", ".zip", ".xz", ".bz2", ".7z", ".gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSnapshots:
    """Makes snapshots of a data folder, one at a time: the caller serializes the calls."""

    checkpoint: Callable[[Path], None]
    db_path: Path
    data: Path | None  # the data folder of the store, if there is one
    version: str
    now: Callable[[], Millis]

    def clean(self) -> None:
        """Remove what a killed backup left beside the store."""
        for each in self.db_path.parent.glob(f"{self._staging_name()}*"):
            remove_tree(each, ignore_errors=True)

    def create(self, target: str, /, *, on_progress: Callable[[int], None]) -> Snapshot:
        """Create a snapshot in a folder, or in an archive where the name ends like one.
        `on_progress` is called with the number of files; it may raise to stop. Raises
        InvalidInput and StorageFailed."""
        path = Path(target)
        try:
            self._check_place(path)
            if archives.is_archive(path.name):
                return self._make_archive(path, on_progress)
            if path.name.endswith(_OTHER_ARCHIVES):
                raise InvalidInput(
                    f"{path.name}: archives end in {', '.join(archives.SUFFIXES)}; anything else is"
                    " a folder of snapshots"
                )
            return self._make_folder(path, on_progress)
        except OSError as exc:
            raise StorageFailed(
                f"cannot back up to {path}: {exc.strerror or exc}"
                + (f" ({exc.filename})" if exc.filename else "")
            ) from exc

    def list_complete(self, folder: str, /) -> list[Snapshot]:
        """List the complete snapshots in a folder, oldest first."""
        found = []
        for path in sources.list_snapshots(Path(folder)):
            with contextlib.suppress(AgentMemoryError, OSError):
                found.append(Snapshot(path=str(path), manifest=sources.read_manifest(path)))
        return found

    def remove(self, snapshot: Snapshot, /) -> None:
        """Remove a snapshot. Its name goes first, so that a kill leaves nothing that looks
        complete."""
        path = Path(snapshot.path)
        if not backups.is_name(path.name) or path.is_symlink():
            raise InvalidInput(f"{path} is no snapshot")
        dying = path.with_name(f"{INCOMPLETE}{snapshot.manifest.store[:8]}-{secrets.token_hex(4)}")
        try:
            path.rename(dying)
            remove_tree(dying)
        except OSError as exc:
            raise StorageFailed(f"cannot remove {path}: {exc.strerror}") from exc

    def _check_place(self, path: Path) -> None:
        place = path.resolve()
        if self.data is not None and place == self.data.resolve():
            raise InvalidInput(f"{path} is the data folder itself: give another one")
        inside = [self.db_path.resolve()]
        if self.data is not None:
            inside += [self.data.resolve() / part for part in backups.PARTS]
        for each in inside:
            if place == each or place.is_relative_to(each):
                raise InvalidInput(f"{path} is inside {each}, which is to be backed up")

    def _make_folder(self, folder: Path, on_progress: Callable[[int], None]) -> Snapshot:
        make_folder(folder)
        if folder.stat().st_uid not in (0, os.getuid()):
            raise InvalidInput(f"{folder} belongs to another user, who could change what is in it")
        with self._stage(on_progress) as (staged, store):
            mark = f"{INCOMPLETE}{store[:8]}-"
            for each in folder.glob(f"{mark}*"):  # of a backup that was killed
                remove_tree(each, ignore_errors=True)
            work = folder / f"{mark}{secrets.token_hex(4)}"
            work.mkdir(mode=0o700)
            try:
                filling = _SnapshotBuilder(
                    work, _EarlierFiles(self.list_complete(str(folder))), on_progress
                )
                manifest = self._fill(filling, staged, store)
                write_atomic(work / backups.MANIFEST, backups.dump(manifest).encode())
                made_ms = manifest.made_ms
                final = folder / backups.format_name(made_ms, store)
                while final.exists():  # the clock was set back
                    made_ms = Millis(made_ms + 1)
                    final = folder / backups.format_name(made_ms, store)
                # All of it: opening a store, to count its rows, writes a file there.
                sync_tree(work)
                work.rename(final)
                sync_folder(folder)
            except BaseException:
                remove_tree(work, ignore_errors=True)
                raise
        return Snapshot(path=str(final), manifest=manifest, new_bytes=filling.copied_bytes)

    def _make_archive(self, target: Path, on_progress: Callable[[int], None]) -> Snapshot:
        if target.exists():
            raise InvalidInput(f"{target} is there already: give another name")
        make_folder(target.parent)
        for each in target.parent.glob(f"{INCOMPLETE}????????-{glob.escape(target.name)}"):
            each.unlink()  # of a backup that was killed
        draft = target.with_name(f"{INCOMPLETE}{secrets.token_hex(4)}-{target.name}")
        with self._stage(on_progress) as (staged, store):
            work = self.db_path.with_name(f"{self._staging_name()}{secrets.token_hex(4)}")
            work.mkdir(mode=0o700)
            try:
                filling = _SnapshotBuilder(work, _EarlierFiles(()), on_progress)
                manifest = self._fill(filling, staged, store)
                descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    archives.write(work, manifest, file, target.name, filling.check)
                    file.flush()
                    os.fsync(file.fileno())
                written = archives.Archive(draft)
                sources.verify(written, filling.check)
                draft.rename(target)
                sync_folder(target.parent)
            finally:
                draft.unlink(missing_ok=True)
                remove_tree(work, ignore_errors=True)
        return Snapshot(path=str(target), manifest=manifest, new_bytes=target.stat().st_size)

    @contextlib.contextmanager
    def _stage(self, on_progress: Callable[[int], None]) -> Iterator[tuple[Path, str]]:
        """Copy the parts that change, as they are together, and read the identity of the store.

        The spool comes first: what the daemon takes out of it meanwhile is in the store then.
        """
        on_progress(0)
        self.clean()
        staged = self.db_path.with_name(f"{self._staging_name()}{secrets.token_hex(4)}")
        staged.mkdir(mode=0o700)
        try:
            if self.data is not None:
                self._copy_spool(self.data, staged)
            self.checkpoint(staged / backups.DB)
            with contextlib.closing(RocksEngine(staged / backups.DB, read_only=True)) as reader:
                _, store = schema.read_header(reader.get)
            yield staged, store
        finally:
            remove_tree(staged, ignore_errors=True)

    def _copy_spool(self, data: Path, staged: Path) -> None:
        for path in files.regular_files(data, backups.SPOOL):
            if path.endswith(".json"):
                with contextlib.suppress(FileNotFoundError):  # the daemon has recorded it
                    files.copy(data / path, files.make_folders(staged, path), _skip_check)

    def _fill(self, filling: "_SnapshotBuilder", staged: Path, store: str) -> Manifest:
        made_ms = self.now()
        parts: Sequence[str] = (backups.DB,)
        for path in files.regular_files(staged, backups.DB):
            filling.add_file(staged, path, linked=True)
        if self.data is not None:
            parts = backups.PARTS
            for path in files.regular_files(staged, backups.SPOOL):
                filling.add_file(staged, path, linked=False)
            for repository in _repositories(self.data):
                _copy_repository(self.data, repository, filling)
            with contextlib.suppress(FileNotFoundError):
                filling.add_file(self.data, backups.KEY, linked=False)
        with contextlib.closing(RocksEngine(filling.root / backups.DB, read_only=True)) as reader:
            number, _ = schema.read_header(reader.get)
            rows = {family: reader.count(family) for family in families.ALL}
        return Manifest(
            made_ms=made_ms,
            version=self.version,
            store=store,
            schema=number,
            events=rows[families.EVENTS],
            parts=tuple(parts),
            files=tuple(sorted(filling.placed.values(), key=lambda each: each.path)),
        )

    def _staging_name(self) -> str:
        return f".{self.db_path.name}-backup-"


class _EarlierFiles:
    """The files of earlier snapshots in the same folder, by checksum and by inode."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._by_sum: dict[str, Path] = {}
        self._by_inode: dict[tuple[int, int], tuple[Path, str]] = {}
        for each in snapshots:
            for file in each.manifest.files:
                path = Path(each.path) / file.path
                if path.suffix in _IMMUTABLE:
                    self._by_sum[file.sha256] = path
                    with contextlib.suppress(OSError):
                        found = path.lstat()
                        self._by_inode[found.st_dev, found.st_ino] = path, file.sha256

    def find_by_digest(self, sha256: str) -> Path | None:
        return self._by_sum.get(sha256)

    def find_by_inode(self, path: Path) -> tuple[Path, str] | None:
        """Return what an earlier snapshot recorded for this very file, and its name there."""
        found = path.lstat()
        return self._by_inode.get((found.st_dev, found.st_ino))


class _SnapshotBuilder:
    """A snapshot being filled. Every file is hashed where it lies."""

    def __init__(
        self, root: Path, earlier: _EarlierFiles, on_progress: Callable[[int], None]
    ) -> None:
        self.root = root
        self.placed: dict[str, BackupFile] = {}
        self.copied_bytes = 0
        self._earlier = earlier
        self._done = on_progress

    def check(self) -> None:
        self._done(len(self.placed))

    def add_file(self, source_root: Path, path: str, *, linked: bool) -> None:
        """Put a file into the snapshot; `linked` where it never changes in place."""
        backups.check_path(path)
        source, target = source_root / path, files.make_folders(self.root, path)
        if linked and _link(source, target):
            size, sha256 = files.digest(target, self.check)
            known = self._earlier.find_by_inode(target)
            if known is not None and known[1] != sha256:
                raise StorageFailed(
                    f"{path} is damaged: it has changed since {known[0]} was backed up"
                )
        else:
            size, sha256 = self._copy(source, target)
        self.placed[path] = BackupFile(path=path, size=size, sha256=sha256)
        self.check()

    def discard(self, repository: str) -> None:
        """Remove a repository's files, to start it again."""
        remove_tree(self.root / repository, ignore_errors=True)
        for path in [each for each in self.placed if each.startswith(f"{repository}/")]:
            del self.placed[path]

    def _copy(self, source: Path, target: Path) -> tuple[int, str]:
        if target.suffix in _IMMUTABLE:
            wanted = files.digest(source, self.check)
            same = self._earlier.find_by_digest(wanted[1])
            if same is not None and _link(same, target):
                if files.digest(target, self.check) == wanted:
                    return wanted
                target.unlink()  # the earlier file is damaged: this snapshot gets its own
        read = files.copy(source, target, self.check)
        if files.digest(target, self.check) != read:
            raise StorageFailed(f"{target} does not hold what was written to it")
        self.copied_bytes += read[0]
        return read


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        return False
    return True


def _repositories(data: Path) -> Iterator[str]:
    """Yield the paths, from the data folder, of our own repositories."""
    if (data / backups.USER_REPOSITORY).is_dir():
        yield backups.USER_REPOSITORY
    for folder in backups.REPOSITORY_FOLDERS:
        for each in sorted((data / folder).glob("*.git")):
            if each.is_dir() and not each.is_symlink():
                yield f"{folder}/{each.name}"


def _copy_repository(data: Path, repository: str, filling: _SnapshotBuilder) -> None:
    """Copy a repository, references before objects, so that all they lead to is there. Where a
    reference has changed meanwhile, its old objects may be gone: start again."""
    for _ in range(TRIES):
        before = _references(data / repository)
        try:
            objects = f"{repository}/objects/"
            paths = [
                path
                for path in files.regular_files(data, repository)
                if backups.is_of_repository(path.removeprefix(f"{repository}/").split("/"))
                and not path.endswith(".lock")
            ]
            for path in sorted(paths, key=lambda each: each.startswith(objects)):
                filling.add_file(data, path, linked=path.startswith(objects))
            if _references(data / repository) == before:
                return
        except FileNotFoundError:
            pass
        filling.discard(repository)
    raise StorageFailed(f"the repository {data / repository} changes all the time: try again")


def _references(repository: Path) -> Mapping[str, bytes]:
    found = {}
    for part in ("refs", "packed-refs", "HEAD"):
        for path in files.regular_files(repository, part):
            with contextlib.suppress(FileNotFoundError):
                found[path] = (repository / path).read_bytes()
    return found


def _skip_check() -> None:
    pass
