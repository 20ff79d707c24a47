"""Trees of notes: map blobs of a notes tree to commits, and write trees with changed blobs.

A note is a blob whose path, without slashes, is the commit it is on; git chooses where to split it.
Our own pages are under `more/`, which git's notes code ignores, as it does every path that is no
commit.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pygit2
from pygit2.enums import FileMode

MORE = "more"
EMPTY_TREE = pygit2.Oid(hex="4b825dc642cb6eb9a060e54bf8d69288fbee4904")
NOTE = 0  # the note, in the page numbers of a commit
MAX_PAGE = 999_999

_HEX = re.compile(r"[0-9a-f]+", re.ASCII)
_PAGE = re.compile(r"[0-9]{6}", re.ASCII)
_HEX_CHARS = 40


class NoteLocation(NamedTuple):
    """The commit and page of a path. Page 0 is the note itself."""

    commit: str
    page: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """The blobs of a notes tree, and `others`: entries that are neither note nor page, by path."""

    blobs: dict[str, str] = field(default_factory=dict)
    others: dict[str, tuple[str, FileMode]] = field(default_factory=dict)


Entry = tuple[str, FileMode]
Change = Entry | None  # None removes it


def note_path(commit: str) -> str:
    return f"{commit[:2]}/{commit[2:]}"


def page_path(commit: str, page: int) -> str:
    return f"{MORE}/{commit}/{page:06}"


def parse_path(path: str) -> NoteLocation:
    first, _, rest = path.partition("/")
    if first == MORE:
        commit, _, page = rest.partition("/")
        return NoteLocation(commit, int(page))
    return NoteLocation(path.replace("/", ""), NOTE)


def read_leaves(tree: pygit2.Tree) -> Leaves:
    leaves = Leaves()
    for entry in tree:
        name = _name(entry)
        if name == MORE and isinstance(entry, pygit2.Tree):
            _collect_pages(entry, leaves)
        elif name:
            _collect_notes(entry, name, name, leaves)
    return leaves


def is_free(tree: pygit2.Tree | None, path: str) -> bool:
    """Return whether the path is unused and not blocked by a blob."""
    if tree is None:
        return True
    here: pygit2.Object = tree
    for name in path.split("/"):
        if not isinstance(here, pygit2.Tree):
            return False
        if name not in here:
            return True
        here = here[name]
    return False


def _name(entry: pygit2.Object) -> str:
    """Return the name of an entry; empty if git would not write it. Such entries stay in place."""
    try:
        name = (entry.raw_name or b"").decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return "" if "/" in name or name.lower() in (".", "..", ".git") else name


def _collect_notes(entry: pygit2.Object, path: str, digits: str, leaves: Leaves) -> None:
    """Collect a note, or a folder of notes by the next two digits."""
    is_part = _HEX.fullmatch(digits) is not None and len(digits) <= _HEX_CHARS
    if is_part and len(digits) == _HEX_CHARS and isinstance(entry, pygit2.Blob):
        leaves.blobs[path] = str(entry.id)
    elif is_part and isinstance(entry, pygit2.Tree) and len(path.rpartition("/")[2]) == 2:
        for child in entry:
            if name := _name(child):
                _collect_notes(child, f"{path}/{name}", digits + name, leaves)
    else:
        leaves.others[path] = str(entry.id), entry.filemode


def _collect_pages(more: pygit2.Tree, leaves: Leaves) -> None:
    for entry in more:
        commit = _name(entry)
        if not commit:
            continue
        path = f"{MORE}/{commit}"
        if not _is_commit(commit) or not isinstance(entry, pygit2.Tree):
            leaves.others[path] = str(entry.id), entry.filemode
            continue
        for child in entry:
            page = _name(child)
            if isinstance(child, pygit2.Blob) and _PAGE.fullmatch(page) and int(page) > NOTE:
                leaves.blobs[f"{path}/{page}"] = str(child.id)
            elif page:
                leaves.others[f"{path}/{page}"] = str(child.id), child.filemode


def _is_commit(name: str) -> bool:
    return len(name) == _HEX_CHARS and _HEX.fullmatch(name) is not None


def write_trees(
    repository: pygit2.Repository, tree: pygit2.Tree | None, changes: Mapping[str, Change]
) -> list[pygit2.Oid]:
    """Write the changed trees and return them, root last. Empty folders are removed."""
    written: list[pygit2.Oid] = []
    builder = repository.TreeBuilder() if tree is None else repository.TreeBuilder(tree)
    below: dict[str, dict[str, Change]] = {}
    for path, change in changes.items():
        first, _, rest = path.partition("/")
        if rest:
            below.setdefault(first, {})[rest] = change
        elif change is not None:
            builder.insert(first, *change)
        elif tree is not None and first in tree:
            builder.remove(first)
    for name, inner in below.items():
        present = tree[name] if tree is not None and name in tree else None
        oids = write_trees(repository, present if isinstance(present, pygit2.Tree) else None, inner)
        written += oids
        if oids[-1] != EMPTY_TREE:
            builder.insert(name, oids[-1], FileMode.TREE)
        elif present is not None:
            builder.remove(name)
    return [*written, builder.write()]
