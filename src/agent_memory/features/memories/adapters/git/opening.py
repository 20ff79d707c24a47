"""Open repositories, and explain why one cannot be opened."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType, RepositoryOpenFlag

from agent_memory.features.memories.adapters.git import control_files, refs
from agent_memory.kernel.errors import GitFailed

_DETACHED = re.compile(r"[0-9a-f]{40}", re.ASCII)


@contextlib.contextmanager
def open_repository(path: str) -> Iterator[pygit2.Repository]:
    """Open a repository for a block. Raises GitFailed."""
    control_files.check(Path(path))
    try:
        repository = pygit2.Repository(path, RepositoryOpenFlag.NO_SEARCH)
    except (pygit2.GitError, KeyError, OSError, ValueError) as exc:
        raise GitFailed(_explain_failure(path, exc)) from exc
    try:
        yield repository
    finally:
        repository.free()


def common_folder(repository: pygit2.Repository) -> Path:
    """Return the folder of refs and objects: a worktree has only its own HEAD and index."""
    return control_files.read_common_folder(Path(repository.path)).resolve()


def locate_loose(home: Path, oid: str) -> Path:
    """Return the path of a loose object."""
    return home / "objects" / oid[:2] / oid[2:]


def head_commit(repository: pygit2.Repository) -> str:
    """Return the current commit; empty before the first."""
    try:
        if repository.head_is_unborn:
            return ""
        return str(repository.head.peel(ObjectType.COMMIT).id)
    except (pygit2.GitError, KeyError, ValueError) as exc:
        raise GitFailed(
            f"HEAD of {repository.path} names no commit: {exc}; check it with git status and git"
            " fsck"
        ) from exc


def list_heads(repository: pygit2.Repository) -> Iterator[pygit2.Oid]:
    """Yield the tips of every branch and tag, and every HEAD, but no notes."""
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


def _explain_failure(path: str, exc: Exception) -> str:
    reason = str(exc)
    if "not owned by current user" in reason:
        folder = path.rstrip("/").removesuffix("/.git")
        return (
            f"{path} belongs to another user, so git refuses it; if you trust it, run:"
            f" git config --global --add safe.directory {folder}"
        )
    if "object format" in reason:
        return f"{path} uses SHA-256 object names, which are not supported yet"
    if "extension" in reason:
        return f"{path} uses an unsupported extension of git's format: {reason}"
    if not Path(path).exists():
        return f"there is no repository at {path} any more"
    return f"{path} cannot be opened: {reason}; check it with git status and git fsck"
