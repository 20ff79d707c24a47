"""Commits: what a note may be on, who writes one, and which nothing leads to any more."""

import pygit2
from pygit2.enums import ObjectType, SortMode

from agent_memory.features.memories.adapters.git import opening, refs, trees
from agent_memory.kernel.errors import GitFailed

NOBODY = ("Agent Memory", "agent-memory@localhost")


class NoteTargets:
    """The commit that a memory's note is on."""

    def __init__(self, repository: pygit2.Repository) -> None:
        self._repository = repository
        self._known: dict[str, str] = {}

    def resolve(self, commit: str) -> str:
        if commit not in self._known:
            self._known[commit] = commit if is_commit(self._repository, commit) else self._head()
        return self._known[commit]

    def _head(self) -> str:
        head = opening.head_commit(self._repository)
        if not head:
            raise GitFailed(
                f"{self._repository.path} has no commit that a note could be on; make the first one"
            )
        return head


def commit(repository: pygit2.Repository, oid: str) -> pygit2.Commit:
    return repository[oid].peel(ObjectType.COMMIT)


def is_commit(repository: pygit2.Repository, oid: str) -> bool:
    if len(oid) != 40:  # what is shorter would be looked up as the beginning of an id
        return False
    try:
        return isinstance(repository.get(oid), pygit2.Commit)
    except ValueError:
        return False


def signature(repository: pygit2.Repository) -> pygit2.Signature:
    try:
        return repository.default_signature
    except (KeyError, ValueError, pygit2.GitError):
        return pygit2.Signature(*NOBODY)


def find_lost(repository: pygit2.Repository, commits: set[str]) -> set[str]:
    """Those that are not there, or that nothing but a reflog leads to."""
    present = {each for each in commits if is_commit(repository, each)}
    # Beyond the edge of a shallow clone everything is missing, and nothing is lost.
    missing = set() if repository.is_shallow else commits - present
    wanted = set(present)
    if wanted:
        walker = repository.walk(None, SortMode.TIME)
        for start in opening.list_heads(repository):
            walker.push(start)
        for commit in walker:
            wanted.discard(str(commit.id))
            if not wanted:
                break
    return missing | wanted


def find_shared(repository: pygit2.Repository, namespace: str, commits: set[str]) -> set[str]:
    """Those that a remote's notes are on, and that never were here: other clones may have them,
    and two that each move such notes to a commit of their own would do so for ever."""
    missing = {each for each in commits if not is_commit(repository, each)}
    if not missing:
        return set()
    found: set[str] = set()
    for name in refs.tracking(repository, namespace):
        commit = refs.tip(repository, name)
        if commit is not None:
            found |= {trees.parse_path(path).commit for path in trees.leaves(commit.tree).blobs}
    return missing & found
