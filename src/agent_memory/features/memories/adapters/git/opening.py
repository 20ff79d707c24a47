"""Opening repositories: what is there, and why it cannot be read where it cannot."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType, RepositoryOpenFlag

from agent_memory.features.memories.adapters.git import control_files, refs
from agent_memory.kernel.errors import GitFailed

_DETACHED = re.compile(r"[0-9a-f]{40}", re.ASCII)


def open_repository(path: str) -> pygit2.Repository:
    control_files.check(Path(path))
    try:
        return pygit2.Repository(path, RepositoryOpenFlag.NO_SEARCH)
    except (pygit2.GitError, KeyError, OSError, ValueError) as exc:
        raise GitFailed(_why(path, exc)) from exc


def common_folder(repository: pygit2.Repository) -> Path:
    """Where refs and objects are: a worktree has only its HEAD and index of its own."""
    return control_files.common_folder(Path(repository.path))


def locate_loose(home: Path, oid: str) -> Path:
    """Where an object is that is in no pack."""
    return home / "objects" / oid[:2] / oid[2:]


def head_commit(repository: pygit2.Repository) -> str:
    """The present commit; empty before the first."""
    try:
        if repository.head_is_unborn:
            return ""
        return str(repository.head.peel(ObjectType.COMMIT).id)
    except (pygit2.GitError, KeyError, ValueError) as exc:
        raise GitFailed(
            f"HEAD of {repository.path} leads nowhere: {exc}; see what git status and git fsck say"
        ) from exc


def list_heads(repository: pygit2.Repository) -> Iterator[pygit2.Oid]:
    """All commits from which the history is kept: every branch, tag and HEAD, but no notes."""
    for reference in repository.references.iterator():
        if not reference.name.startswith(refs.NOTES):
            with contextlib.suppress(pygit2.GitError, KeyError, ValueError):
                yield reference.peel(ObjectType.COMMIT).id
    home = common_folder(repository)
    for head in (home / "HEAD", *home.glob("worktrees/*/HEAD")):
        with contextlib.suppress(OSError, UnicodeDecodeError, ValueError):
            text = control_files.read(head).strip()
            if _DETACHED.fullmatch(text) and isinstance(repository.get(text), pygit2.Commit):
                yield pygit2.Oid(hex=text)


def _why(path: str, exc: Exception) -> str:
    said = str(exc)
    if "not owned by current user" in said:
        folder = path.rstrip("/").removesuffix("/.git")
        return (
            f"{path} belongs to another user, and git refuses it; if you trust it:"
            f" git config --global --add safe.directory {folder}"
        )
    if "object format" in said:
        return f"{path} names its objects by SHA-256, which is not supported yet"
    if "extension" in said:
        return f"{path} uses an extension of git's format that is not supported: {said}"
    if not Path(path).exists():
        return f"there is no repository at {path} any more"
    return f"{path} cannot be opened: {said}; see what git status and git fsck say there"
