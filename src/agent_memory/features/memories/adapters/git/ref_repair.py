"""Repair notes refs that a crash left without their objects.

A power cut may lose objects that a ref already names, or leave a ref as an empty file. Neither git
nor libgit2 can read such notes. The reflog has the earlier values of the ref, and the store has
every memory.

A repair removes files, and a repository may come from anybody: nothing is repaired or removed
through a link.
"""

import contextlib
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import FileMode

from agent_memory.features.memories.adapters.git import commits, control_files, opening, refs
from agent_memory.features.memories.adapters.git.torn_objects import TornObjects
from agent_memory.features.memories.model import memories
from agent_memory.kernel.errors import GitFailed

MAX_FILE_BYTES = 64 << 20  # of a ref or a reflog

_OID = re.compile(rb"[0-9a-f]{40}", re.ASCII)
_UNREADABLE = (pygit2.GitError, KeyError, ValueError)


def find_damaged(repository: pygit2.Repository, torn: TornObjects) -> list[str]:
    """List the notes refs, and copies of remotes' notes, that lead to a missing object. A partial
    clone lacks objects on purpose: return none. Skip refs behind a link."""
    if "extensions.partialclone" in repository.config:
        return []
    names = [refs.name_of(namespace) for namespace in memories.NAMESPACES]
    for namespace in memories.NAMESPACES:
        names += refs.list_tracking(repository, namespace)
    return [
        name
        for name in names
        if not _is_behind_link(repository, name) and _is_damaged(repository, name, torn)
    ]


def find_last_whole(repository: pygit2.Repository, name: str, torn: TornObjects) -> str:
    """Return the last commit of a ref with nothing missing; empty if there is none. If only its
    history is damaged, make a new commit with its notes and without history."""
    for oid in _past(repository, name):
        commit = _get(repository, oid, torn)
        if not isinstance(commit, pygit2.Commit):
            continue
        if not _has_all(repository, str(commit.tree_id), torn):
            continue
        if _has_all(repository, oid, torn):
            return oid
        who = commits.get_signature(repository)
        return str(repository.create_commit(None, who, who, "memory: mended\n", commit.tree_id, []))
    return ""


def reset_ref(repository: pygit2.Repository, name: str, commit: str) -> None:
    """Point the ref at this commit, or remove it."""
    if _is_behind_link(repository, name):
        raise GitFailed(f"{name} in {repository.path} is behind a link and is not repaired")
    with contextlib.suppress(FileNotFoundError):
        (opening.common_folder(repository) / name).unlink()  # git does not overwrite an empty file
    if commit:
        repository.references.create(name, commit, force=True)
    else:
        refs.remove(repository, name)


def _is_behind_link(repository: pygit2.Repository, name: str) -> bool:
    """Return whether a write to a ref or its log would go elsewhere."""
    home = opening.common_folder(repository)
    return any(control_files.is_linked(home, root / name) for root in (home, home / "logs"))


def _is_damaged(repository: pygit2.Repository, name: str, torn: TornObjects) -> bool:
    try:
        reference = repository.references.get(name)
    except _UNREADABLE:
        return True
    if reference is None or not isinstance(reference.target, pygit2.Oid):
        return False
    target = _get(repository, str(reference.target), torn)
    if target is not None and not isinstance(target, pygit2.Commit):
        return False  # not ours, and not damaged
    return not _has_all(repository, str(reference.target), torn)


def _past(repository: pygit2.Repository, name: str) -> Iterator[str]:
    """Yield the ref's values from its files, latest first, as git reads no damaged ref."""
    home = opening.common_folder(repository)
    if _OID.fullmatch(current := _read(home / name).strip()):
        yield current.decode()
    for line in _read(home / "packed-refs").splitlines():
        if _OID.fullmatch(line[:40]) and line[41:] == name.encode():
            yield line[:40].decode()
    for line in reversed(_read(home / "logs" / name).splitlines()):
        if _OID.fullmatch(line[41:81]):
            yield line[41:81].decode()


def _read(path: Path) -> bytes:
    """Return the content of a file; empty if it cannot be read or is not a plain file."""
    with contextlib.suppress(OSError):
        if _is_plain(path):
            return path.read_bytes()
    return b""


def _is_plain(path: Path) -> bool:
    """Return whether it is a regular file of a sane size: reading a FIFO would block."""
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES


def _has_all(repository: pygit2.Repository, oid: str, torn: TornObjects) -> bool:
    """Return whether everything that an object leads to can be read."""
    cut_off = set(
        _read(opening.common_folder(repository) / "shallow").decode(errors="replace").split()
    )
    seen: set[str] = set()
    pending = [oid]
    while pending:
        oid = pending.pop()
        if oid in seen:
            continue
        seen.add(oid)
        item = _get(repository, oid, torn)
        if item is None:
            return False
        if isinstance(item, pygit2.Commit):
            pending.append(str(item.tree_id))
            pending += [] if oid in cut_off else map(str, item.parent_ids)
        elif isinstance(item, pygit2.Tree):
            pending += [str(e.id) for e in item if e.filemode != FileMode.COMMIT]
    return True


def _get(
    repository: pygit2.Repository, oid: str, torn: TornObjects
) -> Any:  # the stubs have no object that may be a commit
    """Return an object, or None if it cannot be read. Its torn file is moved aside."""
    try:
        return repository.get(oid)
    except _UNREADABLE:
        torn.move([oid])
        return None
