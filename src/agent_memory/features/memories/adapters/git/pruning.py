"""Pruning: the objects of a rewritten notes history, and nothing else, leave the repository.

Git itself says which loose objects nothing leads to any more; only those of them that belonged to
the old history are removed. Objects in packs are made loose first, with all others that nothing
leads to, which then stay.
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
    refs.check_links(repository, name)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruner:
    """Of one repository. `ended` says when to give up."""

    modes: FileModes
    scratch: Path
    is_cancelled: Callable[[], bool]

    def prune(self, objects: set[str]) -> set[str]:
        """Remove those of these that nothing leads to; the others that are still there. Whoever
        calls keeps others of this process from writing refs meanwhile."""
        home = self.modes.home
        if any(not opening.locate_loose(home, each).exists() for each in objects):
            self._run("repack", "-A", "-d", "-l", "-q")
        info = home / "objects" / "info"
        if (info / "commit-graph").exists() or (info / "commit-graphs").exists():
            # Else it would name commits that are gone.
            self._run("commit-graph", "write", "--reachable", "--no-progress")
        for oid in objects & self._unreachable():
            path = opening.locate_loose(home, oid)
            if control_files.is_linked(home, path):
                continue  # others may need what is there
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        return _present(home, objects)

    def _unreachable(self) -> set[str]:
        """The loose objects that nothing leads to, also not what others made while git looked."""
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
            raise self._build_error(command, "was stopped, as we are stopping")
        raise self._build_error(command, _last_words(ended))

    def _build_error(self, command: str, how: str) -> GitFailed:
        return GitFailed(
            f"the notes of {self.modes.home} are rewritten, but what they were is not removed yet:"
            f" git {command} {how}; run there: git gc --prune=now"
        )


def _refs(home: Path) -> dict[str, str]:
    repository = opening.open_repository(str(home))
    try:
        return {each.name: str(each.target) for each in repository.references.iterator()}
    finally:
        repository.free()


def _present(home: Path, objects: set[str]) -> set[str]:
    """Seen by a new handle: one from before may still read packs that are gone."""
    repository = opening.open_repository(str(home))
    try:
        return {each for each in objects if each in repository}
    finally:
        repository.free()


def _last_words(ended: programs.GitResult) -> str:
    if ended.code is None:
        return f"took longer than {SECONDS:g} s"
    lines = [line for line in ended.errors.splitlines() if line.strip()]
    return f"said: {lines[-1][:300]}" if lines else f"ended with {ended.code}"
