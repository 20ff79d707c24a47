"""Our own repositories: bare, with one empty commit. The commit is the same in all of them, so that
their notes can be merged."""

import contextlib
import re
from pathlib import Path

import pygit2
import structlog
from pygit2.enums import ObjectType

from agent_memory.features.memories.adapters.git.torn_objects import TornObjects
from agent_memory.platform import durable
from agent_memory.platform.removing import remove_tree

MAIN = "refs/heads/main"
OWNER_ONLY = 0o700

_HEAD = re.compile(rb"ref: refs/heads/[!-~]+\n")
_SKELETON = ("HEAD", "config")
_UNREADABLE = (pygit2.GitError, KeyError, OSError, ValueError)

log = structlog.get_logger()


def make(path: Path, torn: TornObjects) -> None:
    """Make or repair a repository at `path`, whole or not at all. Git syncs objects and refs to
    disk, but not the files of a new repository."""
    if not path.exists():
        durable.make_folder(path.parent)
        draft = _make_draft(path)
        draft.rename(path)
        durable.sync_folder(path.parent)
    elif not _is_sound(path):
        log.warning("notes.repository_mended", path=str(path))
        _repair(path, torn)


def _make_draft(path: Path) -> Path:
    """Make a new repository beside `path`, all of it synced to disk."""
    draft = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        remove_tree(draft)
    pygit2.init_repository(draft, bare=True, initial_head="main")
    draft.chmod(OWNER_ONLY)
    _commit(draft)
    durable.sync_tree(draft)
    return draft


def _commit(path: Path) -> None:
    repository = pygit2.Repository(str(path))
    try:
        author = pygit2.Signature("Agent Memory", "agent-memory@localhost", 0, 0)
        tree = repository.TreeBuilder().write()
        repository.create_commit(MAIN, author, author, "memories\n", tree, [])
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


def _repair(path: Path, torn: TornObjects) -> None:
    """Replace damaged files by those of a new repository; objects and notes stay."""
    draft = _make_draft(path)
    for name in _SKELETON:
        (draft / name).replace(path / name)
    for source in sorted(draft.rglob("*")):
        target = path / source.relative_to(draft)
        if source.is_dir():
            target.mkdir(mode=OWNER_ONLY, exist_ok=True)
        elif source.parent.parent.name == "objects":
            torn.move([source.parent.name + source.name])
            if not target.exists():
                source.replace(target)
    main = path / MAIN
    if not _is_sound(path):
        (draft / MAIN).replace(main)
    durable.sync_tree(path)
    remove_tree(draft)
