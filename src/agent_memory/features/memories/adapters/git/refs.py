"""Notes refs: their names, their commits, and atomic updates."""

import hashlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from agent_memory.features.memories.model import memories
from agent_memory.kernel.errors import GitFailed

PREFIX = "refs/notes/mem/"
EARLIER_PREFIX = "refs/notes/cs/"  # of an earlier tool
NOTES = "refs/notes/"
LOCK_TRIES = 50
LOCK_WAIT_SECONDS = 0.05
TICK_SECONDS = 0.02  # a file's time may lag the clock by this much; a start takes longer

_TAKEN = ("mem", "commits")  # names in use under refs/notes
_CLEAN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,48}[A-Za-z0-9])?")
_LOCKED = re.compile("failed to lock|failed to create locked file")


def name_of(namespace: str) -> str:
    return PREFIX + namespace


def tracking_prefix(remote: str) -> str:
    """Return the prefix for copies of a remote's notes. `remote` is its name or address."""
    if not _CLEAN.fullmatch(remote) or remote in _TAKEN:
        digest = hashlib.sha256(remote.encode("utf-8", "surrogateescape")).hexdigest()
        remote = f"remote-{digest[:16]}"
    return f"{NOTES}{remote}/mem/"


def get_tip(repository: pygit2.Repository, name: str) -> pygit2.Commit | None:
    reference = repository.references.get(name)
    if reference is None:
        return None
    try:
        return reference.peel(ObjectType.COMMIT)
    except (pygit2.GitError, KeyError, ValueError) as exc:
        raise GitFailed(
            f"{name} in {repository.path} does not lead to a commit: {exc};"
            " run `memory sync` to repair it, or, if you need nothing there, remove it with:"
            f" git update-ref -d {name}"
        ) from exc


def list_tips(repository: pygit2.Repository) -> Iterator[tuple[str, pygit2.Commit]]:
    """Yield the existing refs of ours, by namespace."""
    for namespace in memories.NAMESPACES:
        commit = get_tip(repository, name_of(namespace))
        if commit is not None:
            yield namespace, commit


def list_tracking(repository: pygit2.Repository, namespace: str) -> list[str]:
    """List all copies of remotes' notes of this namespace."""
    ending = f"/mem/{namespace}"
    return [
        name
        for name in repository.references
        if name.startswith(NOTES) and name.endswith(ending) and not name.startswith(PREFIX)
    ]


def advance(
    repository: pygit2.Repository,
    name: str,
    old: str | None,
    new: str,
    message: str,
    since: float = 0.0,
) -> bool:
    """Move the ref to `new`. Return False, with nothing done, if it is no longer at `old`. `since`
    is when this process began."""
    check_links(repository, name)
    for attempt in range(LOCK_TRIES):
        try:
            # Reference.set_target would let the second of two creations win silently.
            with repository.transaction() as transaction:
                transaction.lock_ref(name)
                if _target(repository, name) != old:
                    return False
                transaction.set_target(name, new, None, message)
        except (pygit2.GitError, OSError, ValueError) as exc:
            if _LOCKED.search(str(exc)) and attempt < LOCK_TRIES - 1:
                if not release(repository, name, since):
                    time.sleep(LOCK_WAIT_SECONDS)
                continue
            raise GitFailed(_explain_failure(repository, name, exc)) from exc
        return True
    return False


def check_links(repository: pygit2.Repository, name: str) -> None:
    """Refuse links in place of a notes ref or its log: a write would go elsewhere, and the log
    begins with text from the repository's config."""
    home = Path(repository.path)
    for root in (home, home / "logs"):
        for path in (root / name, *(root / name).parents):
            if path == root / "refs":
                break
            if path.is_symlink():
                raise GitFailed(f"{path} is a link and is not written through: remove it")


def release(repository: pygit2.Repository, name: str, since: float) -> bool:
    """Remove the ref's lock if it is older than this process: a killed process left it. Git holds a
    lock only for an instant, so any other owner is gone too."""
    lock = Path(repository.path) / f"{name}.lock"
    try:
        if lock.stat().st_mtime >= since - TICK_SECONDS:
            return False
        lock.unlink()
    except OSError:
        return False
    return True


def remove(repository: pygit2.Repository, name: str) -> None:
    """Remove the ref with its reflog."""
    check_links(repository, name)
    reference = repository.references.get(name)
    if reference is not None:
        try:
            reference.delete()
        except (pygit2.GitError, OSError) as exc:
            raise GitFailed(_explain_failure(repository, name, exc)) from exc


def _target(repository: pygit2.Repository, name: str) -> str | None:
    reference = repository.references.get(name)
    return None if reference is None else str(reference.peel(ObjectType.COMMIT).id)


def _explain_failure(repository: pygit2.Repository, name: str, exc: Exception) -> str:
    failure = f"{name} in {repository.path} cannot be written: {exc}"
    if _LOCKED.search(str(exc)):
        return f"{failure}; if no git process is running there, remove the lock file"
    if repository.references.get(PREFIX.rstrip("/")) is not None:
        return (
            f"{failure}; the ref refs/notes/mem of another tool is in the way: rename it, for"
            " example with: git update-ref refs/notes/mem-old refs/notes/mem"
            " && git update-ref -d refs/notes/mem"
        )
    return failure
