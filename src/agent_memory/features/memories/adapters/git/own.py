"""Our own repositories: bare, with one empty commit. It is the same in all of them, so notes on it
meet when they are merged."""

import contextlib
import re
import shutil
from pathlib import Path

import pygit2
import structlog
from pygit2.enums import ObjectType

from agent_memory.features.memories.adapters.git import mending
from agent_memory.platform import durable

MAIN = "refs/heads/main"
OWNER_ONLY = 0o700

_HEAD = re.compile(rb"ref: refs/heads/[!-~]+\n")
_SKELETON = ("HEAD", "config")
_UNREADABLE = (pygit2.GitError, KeyError, OSError, ValueError)

log = structlog.get_logger()


def make(path: Path) -> None:
    """Have a repository there: whole or not at all, and mended where a crash has damaged it. Git
    syncs objects and refs, but not the files of a new repository."""
    if not path.exists():
        durable.make_folder(path.parent)
        draft = _draft(path)
        draft.rename(path)
        durable.sync_folder(path.parent)
    elif not _is_sound(path):
        log.warning("notes.repository_mended", path=str(path))
        _mend(path)


def _draft(path: Path) -> Path:
    """A new repository beside it, all of it on disk."""
    draft = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(draft)
    pygit2.init_repository(draft, bare=True, initial_head="main")
    draft.chmod(OWNER_ONLY)
    _commit(draft)
    durable.sync_tree(draft)
    return draft


def _commit(path: Path) -> None:
    repository = pygit2.Repository(str(path))
    try:
        nobody = pygit2.Signature("Agent Memory", "agent-memory@localhost", 0, 0)
        tree = repository.TreeBuilder().write()
        repository.create_commit(MAIN, nobody, nobody, "memories\n", tree, [])
    finally:
        repository.free()


def _is_sound(path: Path) -> bool:
    try:
        if not _HEAD.fullmatch((path / "HEAD").read_bytes()):
            return False
        if not pygit2.Config(str(path / "config")).get_bool("core.bare"):
            return False
        repository = pygit2.Repository(str(path))
        try:
            return len(repository.references[MAIN].peel(ObjectType.COMMIT).tree) >= 0  # can be read
        finally:
            repository.free()
    except _UNREADABLE:
        return False


def _mend(path: Path) -> None:
    """Put what a new repository has in place of what is damaged; objects and notes stay."""
    draft = _draft(path)
    for name in _SKELETON:
        (draft / name).replace(path / name)
    for each in sorted(draft.rglob("*")):
        there = path / each.relative_to(draft)
        if each.is_dir():
            there.mkdir(mode=OWNER_ONLY, exist_ok=True)
        elif each.parent.parent.name == "objects":
            mending.discard(path, each.parent.name + each.name)
            if not there.exists():
                each.replace(there)
    main = path / MAIN
    if not _is_sound(path):
        (draft / MAIN).replace(main)
    durable.sync_tree(path)
    shutil.rmtree(draft)
