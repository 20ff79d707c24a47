"""Mending: notes refs that a crash has left without the objects that they lead to.

A power cut may take objects that a ref already names, or leave a ref or an object as an empty file.
Nothing can read such notes, git neither. The reflog says what the ref was before, and the store has
every memory.
"""

import contextlib
import hashlib
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import FileMode

from agent_memory.adapters.git import commits, opening, refs
from agent_memory.domain import memories

_OID = re.compile(rb"[0-9a-f]{40}", re.ASCII)
_UNREADABLE = (pygit2.GitError, KeyError, ValueError)


def damaged(repository: pygit2.Repository) -> list[str]:
    """The notes refs that lead to something missing, copies of remotes' notes too. In a partial
    clone objects are missing on purpose: there, none."""
    if "extensions.partialclone" in repository.config:
        return []
    names = [refs.name_of(each) for each in memories.NAMESPACES]
    names += [copy for each in memories.NAMESPACES for copy in refs.tracking(repository, each)]
    return [name for name in names if _is_damaged(repository, name)]


def last_whole(repository: pygit2.Repository, name: str) -> str:
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


def put(repository: pygit2.Repository, name: str, commit: str) -> None:
    """Have the ref lead to this commit, or remove it."""
    with contextlib.suppress(FileNotFoundError):
        (opening.common_folder(repository) / name).unlink()  # git does not overwrite an empty one
    if commit:
        repository.references.create(name, commit, force=True)
    else:
        refs.remove(repository, name)


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
    with contextlib.suppress(OSError):
        if _OID.fullmatch(found := (home / name).read_bytes().strip()):
            yield found.decode()
    with contextlib.suppress(OSError):
        for line in (home / "packed-refs").read_bytes().splitlines():
            if _OID.fullmatch(line[:40]) and line[41:] == name.encode():
                yield line[:40].decode()
    with contextlib.suppress(OSError):
        for line in reversed((home / "logs" / name).read_bytes().splitlines()):
            if _OID.fullmatch(line[41:81]):
                yield line[41:81].decode()


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
        discard(opening.loose(opening.common_folder(repository), oid), oid)
        return None


def discard(path: Path, oid: str) -> None:
    """Remove the file of an object that is not whole: as long as there is one, git takes the object
    for written, and does not write it again."""
    with contextlib.suppress(OSError):
        content = path.read_bytes()
        with contextlib.suppress(zlib.error):
            if hashlib.sha1(zlib.decompress(content)).hexdigest() == oid:  # noqa: S324  git's own
                return
        path.unlink()


def _shallow(repository: pygit2.Repository) -> set[str]:
    with contextlib.suppress(OSError):
        return set((opening.common_folder(repository) / "shallow").read_text().split())
    return set()
