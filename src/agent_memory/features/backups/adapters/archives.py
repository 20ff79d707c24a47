"""One archive for a whole snapshot: a tar whose first member is the manifest.

An archive may come from anywhere. Members that are no plain files, names that the manifest does not
have, sizes that differ from it, and headers that would fill the memory are rejected.
"""

import contextlib
import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from agent_memory.features.backups.adapters.files import Check
from agent_memory.features.backups.model import backups
from agent_memory.features.backups.model.backups import BackupFile, Manifest
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.platform.files import open_regular

SUFFIXES = (".tar", ".tar.gz", ".tgz")
_COMPRESSED = (".tar.gz", ".tgz")
_MAX_READ = 4 << 20  # tarfile reads a whole extended header at once

_DAMAGED = (tarfile.TarError, EOFError, ValueError, zlib.error)


def is_archive(name: str) -> bool:
    return name.endswith(SUFFIXES)


def write(snapshot: Path, manifest: Manifest, target: IO[bytes], name: str, check: Check) -> None:
    with contextlib.ExitStack() as opened:
        out: Any = target
        if name.endswith(_COMPRESSED):
            out = opened.enter_context(
                gzip.GzipFile(filename="", mode="wb", fileobj=target, compresslevel=1, mtime=0)
            )
        tar = opened.enter_context(tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT))
        text = backups.dump(manifest).encode()
        tar.addfile(_member(backups.MANIFEST, len(text), manifest), io.BytesIO(text))
        for each in manifest.files:
            with (snapshot / each.path).open("rb") as file:
                tar.addfile(_member(each.path, each.size, manifest), _Checked(file, check))


def _member(path: str, size: int, manifest: Manifest) -> tarfile.TarInfo:
    """Build a tar member without the owner and times of this machine."""
    member = tarfile.TarInfo(path)
    member.size = size
    member.mode = 0o600
    member.mtime = manifest.made_ms // 1000
    return member


class _Checked(io.RawIOBase):
    """A file that calls `check` as it is read."""

    def __init__(self, file: IO[bytes], check: Check) -> None:
        self._file = file
        self._check = check

    def read(self, size: int = -1, /) -> bytes:
        self._check()
        return self._file.read(size)


class _Bounded(io.RawIOBase):
    """A file that is never read past its expected size."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise InvalidInput("the archive has a header that is too long")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


class Archive:
    """A snapshot in an archive. The caller checks its bytes against the manifest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open_tar() as tar:
            self.manifest = self._manifest(tar)

    def read_files(self) -> Iterator[tuple[BackupFile, IO[bytes]]]:
        """Yield each file with its bytes. Raises InvalidInput for anything that is no file of a
        backup."""
        expected = {each.path: each for each in self.manifest.files}
        with self._open_tar() as tar:
            self._manifest(tar)
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # it would keep all of them
                file = expected.pop(member.name, None)
                if file is None or not _plain(member):
                    raise InvalidInput(f"{self.path} holds {member.name!r}: no file of a backup")
                if member.size != file.size:
                    raise StorageFailed(f"{file.path} in {self.path} is damaged: its size differs")
                yield file, cast(IO[bytes], _Member(_data(tar, member), self.path))
        for path in expected:
            raise StorageFailed(f"{path} is missing in {self.path}")

    @contextlib.contextmanager
    def _open_tar(self) -> Iterator[tarfile.TarFile]:
        try:
            with contextlib.ExitStack() as opened:
                file: Any = opened.enter_context(open_regular(self.path, follow_link=True))
                if self.path.name.endswith(_COMPRESSED):
                    file = opened.enter_context(gzip.GzipFile(fileobj=file))
                bounded: Any = _Bounded(file)
                yield opened.enter_context(tarfile.open(fileobj=bounded, mode="r:"))
        except _DAMAGED as exc:
            raise StorageFailed(f"{self.path} is damaged: {exc}") from exc
        except OSError as exc:
            raise StorageFailed(f"cannot read {self.path}: {exc.strerror or exc}") from exc

    def _manifest(self, tar: tarfile.TarFile) -> Manifest:
        member = tar.next()
        if (
            member is None
            or member.name != backups.MANIFEST
            or not _plain(member)
            or member.size > backups.MAX_MANIFEST_BYTES
        ):
            raise InvalidInput(f"{self.path} is no backup of Agent Memory")
        return backups.parse(_data(tar, member).read())


class _Member:
    """A file in an archive, with errors in our words."""

    def __init__(self, file: IO[bytes], archive: Path) -> None:
        self._file = file
        self._archive = archive

    def read(self, size: int = -1) -> bytes:
        try:
            return self._file.read(size)
        except _DAMAGED as exc:
            raise StorageFailed(f"{self._archive} is damaged: {exc}") from exc


def _data(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    return cast(IO[bytes], tar.extractfile(member))  # None only for what is no plain file


def _plain(member: tarfile.TarInfo) -> bool:
    return member.isreg() and not member.issparse()
