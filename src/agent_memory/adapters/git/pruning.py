"""Pruning: the objects of a rewritten notes history, and nothing else, leave the repository.

Git itself says which loose objects nothing leads to any more; only those of them that belonged to
the old history are removed. Objects in packs are made loose first, with all others that nothing
leads to, which then stay.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from agent_memory.adapters.git import opening, programs
from agent_memory.domain.errors import GitFailed

SECONDS = 600.0
MAX_LIST_BYTES = 256 << 20


def reflog(repository: pygit2.Repository, name: str) -> list[str]:
    """What the ref was."""
    reference = repository.references.get(name)
    if reference is None:
        return []
    seen: set[str] = set()
    for entry in reference.log():
        seen |= {str(entry.oid_old), str(entry.oid_new)}
    return [each for each in seen if each.strip("0")]


def drop_reflog(repository: pygit2.Repository, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        (opening.common_folder(repository) / "logs" / name).unlink()


def reachable(repository: pygit2.Repository, commits: Iterable[str]) -> set[str]:
    """The commits, and all commits, trees and blobs that they lead to and that are here."""
    seen: set[str] = set()
    waiting = list(commits)
    while waiting:
        oid = waiting.pop()
        if oid in seen:
            continue
        found = repository.get(oid)
        if found is None:
            continue
        seen.add(oid)
        if found.type == ObjectType.COMMIT:
            commit = found.peel(ObjectType.COMMIT)
            waiting.append(str(commit.tree_id))
            waiting.extend(map(str, commit.parent_ids))
        elif found.type == ObjectType.TREE:
            for entry in found.peel(ObjectType.TREE):
                name = str(entry.id)
                if isinstance(entry, pygit2.Tree):
                    waiting.append(name)
                else:
                    seen.add(name)
    return seen


def prune(home: Path, objects: set[str]) -> None:
    """Remove those of these objects that nothing leads to."""
    if any(not _loose(home, each).exists() for each in objects):
        _run(home, ["repack", "-A", "-d", "-l", "-q"])
    info = home / "objects" / "info"
    if (info / "commit-graph").exists() or (info / "commit-graphs").exists():
        # Else it would name commits that are gone.
        _run(home, ["commit-graph", "write", "--reachable", "--no-progress"])
    listed = _run(home, ["prune", "--dry-run", "--expire=now"])
    for line in listed.splitlines():
        oid = line.partition(" ")[0]
        if oid in objects:
            path = _loose(home, oid)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            with contextlib.suppress(OSError):
                path.parent.rmdir()


def _loose(home: Path, oid: str) -> Path:
    return home / "objects" / oid[:2] / oid[2:]


def _run(home: Path, arguments: list[str]) -> str:
    ended = programs.git(
        home, arguments, os.environ, folder=home, seconds=SECONDS, limit=MAX_LIST_BYTES
    )
    if ended.code != 0:
        raise GitFailed(
            f"the notes of {home} are rewritten, but what they were is not removed yet:"
            f" git {arguments[0]} {_last_words(ended)}; run there: git gc --prune=now"
        )
    return ended.output


def _last_words(ended: programs.Ended) -> str:
    if ended.code is None:
        return f"took longer than {SECONDS:g} s"
    lines = [line for line in ended.errors.splitlines() if line.strip()]
    return f"said: {lines[-1][:300]}" if lines else f"ended with {ended.code}"
