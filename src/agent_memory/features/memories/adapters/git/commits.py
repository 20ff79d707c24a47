"""Commits: which ones notes are on, who signs them, and which are no longer reachable."""

from collections.abc import Callable, Mapping

import pygit2
from pygit2.enums import ObjectType, SortMode

from agent_memory.features.memories.adapters.git import opening, refs, trees
from agent_memory.features.memories.model.memories import to_origin_name
from agent_memory.kernel.errors import GitFailed

DEFAULT_SIGNATURE = ("Agent Memory", "agent-memory@localhost")


def find_target(repository: pygit2.Repository, commit: str) -> str:
    """Return the commit to put a note on: this one, or the current one if it is missing."""
    if is_commit(repository, commit):
        return commit
    head = opening.head_commit(repository)
    if not head:
        raise GitFailed(f"{repository.path} has no commit to put notes on: make the first commit")
    return head


def get_commit(repository: pygit2.Repository, oid: str) -> pygit2.Commit:
    return repository[oid].peel(ObjectType.COMMIT)


def is_commit(repository: pygit2.Repository, oid: str) -> bool:
    if len(oid) != 40:  # libgit2 looks up anything shorter as a prefix
        return False
    try:
        return isinstance(repository.get(oid), pygit2.Commit)
    except ValueError:
        return False


def get_signature(repository: pygit2.Repository) -> pygit2.Signature:
    try:
        return repository.default_signature
    except (KeyError, ValueError, pygit2.GitError):
        return pygit2.Signature(*DEFAULT_SIGNATURE)


def format_author(read: Callable[[str], str], environ: Mapping[str, str]) -> str:
    """Return the identity that git would commit with, from the environment or from `read`, which
    returns a setting; empty without a name."""
    name = environ.get("GIT_AUTHOR_NAME") or read("user.name")
    address = environ.get("GIT_AUTHOR_EMAIL") or read("user.email")
    name, address = name.strip(), address.strip()
    return to_origin_name(f"{name} <{address}>" if name and address else name)


def get_setting(config: pygit2.Config, key: str) -> str:
    """Return a setting of git; empty if it is missing or no text."""
    try:
        return str(config[key])
    except (KeyError, ValueError, pygit2.GitError):
        return ""


def find_lost(repository: pygit2.Repository, commits: set[str]) -> set[str]:
    """Return those that are missing, or that only a reflog reaches."""
    present = {oid for oid in commits if is_commit(repository, oid)}
    # A shallow clone lacks commits on purpose.
    missing = set() if repository.is_shallow else commits - present
    unreached = set(present)
    if unreached:
        walker = repository.walk(None, SortMode.TIME)
        for start in opening.list_heads(repository):
            walker.push(start)
        for commit in walker:
            unreached.discard(str(commit.id))
            if not unreached:
                break
    return missing | unreached


def find_shared(repository: pygit2.Repository, namespace: str, commits: set[str]) -> set[str]:
    """Return those that a remote's notes are on and that never were here. Other clones may have
    them, and two clones that each moved such notes to their own commit would do so forever."""
    missing = {oid for oid in commits if not is_commit(repository, oid)}
    if not missing:
        return set()
    noted: set[str] = set()
    for name in refs.list_tracking(repository, namespace):
        commit = refs.get_tip(repository, name)
        if commit is not None:
            noted |= {
                trees.parse_path(path).commit for path in trees.read_leaves(commit.tree).blobs
            }
    return missing & noted
