"""Pruning: remove the objects of a rewritten notes history, and nothing else.

Git itself lists the unreachable loose objects; only those of the old history are removed. Packed
objects are made loose first, together with all other unreachable ones, which stay.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from agent_memory.features.memories.adapters.git import control_files, opening, programs, refs
from agent_memory.features.memories.adapters.git.file_modes import FileModes
from agent_memory.kernel.errors import GitFailed

SECONDS = 600.0
MAX_LIST_BYTES = 256 << 20
TRIES = 5


def read_reflog(repository: pygit2.Repository, name: str) -> list[str]:
    """Return the earlier commits of the ref."""
    reference = repository.references.get(name)
    if reference is None:
        return []
    seen: set[str] = set()
    for entry in reference.log():
        seen |= {str(entry.oid_old), str(entry.oid_new)}
    return [oid for oid in seen if oid.strip("0")]


def drop_reflog(repository: pygit2.Repository, name: str) -> None:
    refs.check_links(repository, name)
    with contextlib.suppress(FileNotFoundError):
        (opening.common_folder(repository) / "logs" / name).unlink()


def find_reachable(repository: pygit2.Repository, commits: Iterable[str]) -> set[str]:
    """Return the commits, and all commits, trees and blobs that they lead to and that are here."""
    seen: set[str] = set()
    pending = list(commits)
    while pending:
        oid = pending.pop()
        if oid in seen:
            continue
        item = repository.get(oid)
        if item is None:
            continue
        seen.add(oid)
        if item.type == ObjectType.COMMIT:
            commit = item.peel(ObjectType.COMMIT)
            pending.append(str(commit.tree_id))
            pending.extend(map(str, commit.parent_ids))
        elif item.type == ObjectType.TREE:
            for entry in item.peel(ObjectType.TREE):
                name = str(entry.id)
                if isinstance(entry, pygit2.Tree):
                    pending.append(name)
                else:
                    seen.add(name)
    return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruner:
    """Pruner of one repository. `is_cancelled` says when to give up."""

    modes: FileModes
    scratch: Path
    is_cancelled: Callable[[], bool]

    def prune(self, objects: set[str]) -> set[str]:
        """Remove those of these objects that are unreachable. Return those that remain. The caller
        keeps others in this process from writing refs meanwhile."""
        home = self.modes.home
        if any(not opening.locate_loose(home, oid).exists() for oid in objects):
            self._run("repack", "-A", "-d", "-l", "-q")
        info = home / "objects" / "info"
        if (info / "commit-graph").exists() or (info / "commit-graphs").exists():
            # Otherwise it would name removed commits.
            self._run("commit-graph", "write", "--reachable", "--no-progress")
        for oid in objects & self._unreachable():
            path = opening.locate_loose(home, oid)
            if control_files.is_linked(home, path):
                continue  # others may need the target
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        return _present(home, objects)

    def _unreachable(self) -> set[str]:
        """Return the unreachable loose objects. Try again if refs change while git looks."""
        before = _refs(self.modes.home)
        for _ in range(TRIES):
            listed = self._run("prune", "--dry-run", "--expire=now")
            after = _refs(self.modes.home)
            if after == before:
                return {line.partition(" ")[0] for line in listed.splitlines()}
            before = after
        raise self._build_error("prune", "cannot keep up with the refs that change")

    def _run(self, command: str, *options: str) -> str:
        home = self.modes.home
        ended = programs.run_git(
            home,
            [command, *options],
            os.environ,
            scratch=self.scratch,
            seconds=SECONDS,
            limit=MAX_LIST_BYTES,
            ended=self.is_cancelled,
            umask=self.modes.umask,
        )
        if ended.code == 0:
            return ended.output
        if ended.code is None and self.is_cancelled():
            raise self._build_error(command, "was stopped by the shutdown")
        raise self._build_error(command, _describe_failure(ended))

    def _build_error(self, command: str, how: str) -> GitFailed:
        return GitFailed(
            f"the notes of {self.modes.home} are rewritten, but their old objects are not removed"
            f" yet: git {command} {how}; run git gc --prune=now there"
        )


def _refs(home: Path) -> dict[str, str]:
    with opening.open_repository(str(home)) as repository:
        return {ref.name: str(ref.target) for ref in repository.references.iterator()}


def _present(home: Path, objects: set[str]) -> set[str]:
    """Return those that still exist, by a new handle: an old one may read removed packs."""
    with opening.open_repository(str(home)) as repository:
        return {oid for oid in objects if oid in repository}


def _describe_failure(ended: programs.GitResult) -> str:
    if ended.code is None:
        return f"took longer than {SECONDS:g} s"
    lines = [line for line in ended.errors.splitlines() if line.strip()]
    return f"said: {lines[-1][:300]}" if lines else f"ended with {ended.code}"
