"""Mending: notes refs that a crash has left without the objects that they lead to.

A power cut may take objects that a ref already names, or leave a ref or an object as an empty file.
Nothing can read such notes, git neither. The reflog says what the ref was before, and the store has
every memory.

Mending removes files, and a repository may come from anybody: nothing is mended, and nothing
removed, through a link.
"""

import contextlib
import hashlib
import os
import re
import shutil
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import FileMode

from agent_memory.features.memories.adapters.git import commits, control_files, opening, refs
from agent_memory.features.memories.model import memories
from agent_memory.kernel.errors import GitFailed

MAX_FILE_BYTES = 64 << 20  # of a ref, a reflog or a loose object that is looked at
MAX_LOOSE = 20_000  # objects that are looked at
CHUNK = 1 << 16

_REST = re.compile(r"[0-9a-f]{38}", re.ASCII)  # of the name of an object, behind its folder
_OID = re.compile(rb"[0-9a-f]{40}", re.ASCII)
_UNREADABLE = (pygit2.GitError, KeyError, ValueError)


def quarantine_torn(home: Path, aside: Path) -> list[str]:
    """Move loose objects that are cut short out of a repository: libgit2 reads them for ever, and
    with it the whole process stands still. Their names; they are kept in `aside`."""
    torn = [path for path in _loose(home) if _is_cut_short(path)]
    for path in torn:
        aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.move(path, aside / (path.parent.name + path.name))
    return [path.parent.name + path.name for path in torn]


def _loose(home: Path) -> list[Path]:
    """The plain files of loose objects, newest first, and not too many."""
    found: list[tuple[int, Path]] = []
    for folder in (home / "objects").glob("[0-9a-f][0-9a-f]"):
        if not control_files.is_linked(home, folder):
            with os.scandir(folder) as entries:
                found += [
                    (each.stat(follow_symlinks=False).st_mtime_ns, Path(each.path))
                    for each in entries
                    if each.is_file(follow_symlinks=False) and _REST.fullmatch(each.name)
                ]
    return [path for _, path in sorted(found, reverse=True)[:MAX_LOOSE]]


def _is_cut_short(path: Path) -> bool:
    """Whether the file of an object ends before the object does. Large ones are not looked at."""
    if path.stat().st_size > MAX_FILE_BYTES:
        return False
    unpacked, size = zlib.decompressobj(), 0
    packed = path.read_bytes()
    try:
        while packed and size <= MAX_FILE_BYTES:
            size += len(unpacked.decompress(packed, CHUNK))
            packed = unpacked.unconsumed_tail
    except zlib.error:
        return False  # that is an error to libgit2, too
    return size <= MAX_FILE_BYTES and not unpacked.eof


def find_damaged(repository: pygit2.Repository) -> list[str]:
    """The notes refs that lead to something missing, copies of remotes' notes too. In a partial
    clone objects are missing on purpose: there, none. Nor one that stands behind a link."""
    if "extensions.partialclone" in repository.config:
        return []
    names = [refs.name_of(each) for each in memories.NAMESPACES]
    names += [copy for each in memories.NAMESPACES for copy in refs.tracking(repository, each)]
    return [
        name
        for name in names
        if not _is_behind_link(repository, name) and _is_damaged(repository, name)
    ]


def find_last_whole(repository: pygit2.Repository, name: str) -> str:
    """The last commit of a ref of which nothing is missing; empty where there is none. Where only
    the history of one is damaged, a new commit with its notes and without a history."""
    for oid in _past(repository, name):
        commit = _get(repository, oid)
        if not isinstance(commit, pygit2.Commit) or not _has_all(repository, str(commit.tree_id)):
            continue
        if _has_all(repository, oid):
            return oid
        who = commits.signature(repository)
        return str(repository.create_commit(None, who, who, "memory: mended\n", commit.tree_id, []))
    return ""


def reset_ref(repository: pygit2.Repository, name: str, commit: str) -> None:
    """Have the ref lead to this commit, or remove it."""
    if _is_behind_link(repository, name):
        raise GitFailed(f"{name} in {repository.path} stands behind a link, and is not mended")
    with contextlib.suppress(FileNotFoundError):
        (opening.common_folder(repository) / name).unlink()  # git does not overwrite an empty one
    if commit:
        repository.references.create(name, commit, force=True)
    else:
        refs.remove(repository, name)


def _is_behind_link(repository: pygit2.Repository, name: str) -> bool:
    """Whether what is done to a ref, or to its log, is done elsewhere."""
    home = opening.common_folder(repository)
    return any(control_files.is_linked(home, each / name) for each in (home, home / "logs"))


def _is_damaged(repository: pygit2.Repository, name: str) -> bool:
    try:
        reference = repository.references.get(name)
    except _UNREADABLE:
        return True
    if reference is None or not isinstance(reference.target, pygit2.Oid):
        return False
    found = _get(repository, str(reference.target))
    if found is not None and not isinstance(found, pygit2.Commit):
        return False  # nothing of ours, and not damaged
    return not _has_all(repository, str(reference.target))


def _past(repository: pygit2.Repository, name: str) -> Iterator[str]:
    """What the ref is and was, the latest first. Read without git, which reads no damaged ref."""
    home = opening.common_folder(repository)
    if _OID.fullmatch(found := _read(home / name).strip()):
        yield found.decode()
    for line in _read(home / "packed-refs").splitlines():
        if _OID.fullmatch(line[:40]) and line[41:] == name.encode():
            yield line[:40].decode()
    for line in reversed(_read(home / "logs" / name).splitlines()):
        if _OID.fullmatch(line[41:81]):
            yield line[41:81].decode()


def _read(path: Path) -> bytes:
    """The content of a file; empty where it cannot be read, or is none of git's."""
    with contextlib.suppress(OSError):
        if _is_plain(path):
            return path.read_bytes()
    return b""


def _is_plain(path: Path) -> bool:
    """Whether it is a file to be read at once: a FIFO is waited for, and not every size fits."""
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_FILE_BYTES


def _has_all(repository: pygit2.Repository, oid: str) -> bool:
    """Whether everything that an object leads to can be read."""
    cut_off = _shallow(repository)
    seen: set[str] = set()
    waiting = [oid]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        found = _get(repository, each)
        if found is None:
            return False
        if isinstance(found, pygit2.Commit):
            waiting.append(str(found.tree_id))
            waiting += [] if each in cut_off else map(str, found.parent_ids)
        elif isinstance(found, pygit2.Tree):
            waiting += [str(e.id) for e in found if e.filemode != FileMode.COMMIT]
    return True


def _get(
    repository: pygit2.Repository, oid: str
) -> Any:  # the stubs know no object that may be a commit
    """An object, or None where it cannot be read."""
    try:
        return repository.get(oid)
    except _UNREADABLE:
        discard(opening.common_folder(repository), oid)
        return None


def discard(home: Path, oid: str) -> None:
    """Remove the file of an object that is not whole: as long as there is one, git takes the object
    for written, and does not write it again."""
    path = opening.locate_loose(home, oid)
    with contextlib.suppress(OSError):
        if not control_files.is_linked(home, path) and _is_plain(path) and _is_torn(path, oid):
            path.unlink()


def _is_torn(path: Path, oid: str) -> bool:
    """Whether the file of an object is not the object. One that unpacks to more than any of ours
    is left alone."""
    digest = hashlib.sha1()  # noqa: S324  git's own
    unpacked, size = zlib.decompressobj(), 0
    packed = path.read_bytes()
    with contextlib.suppress(zlib.error):
        while packed and size <= MAX_FILE_BYTES:
            part = unpacked.decompress(packed, CHUNK)
            packed = unpacked.unconsumed_tail
            digest.update(part)
            size += len(part)
    return size <= MAX_FILE_BYTES and digest.hexdigest() != oid


def _shallow(repository: pygit2.Repository) -> set[str]:
    return set(
        _read(opening.common_folder(repository) / "shallow").decode(errors="replace").split()
    )
