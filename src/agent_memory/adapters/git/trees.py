"""Trees of notes: which blob of a notes tree belongs to which commit, and trees with changed blobs.

A note is a blob whose path, without slashes, is the commit it is on; git chooses how to cut it. Our
own pages stand under `more/`, which git's notes code leaves alone as it does every path that is no
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
NOTE = 0  # where the pages of a commit are counted

_HEX = re.compile(r"[0-9a-f]+", re.ASCII)
_PAGE = re.compile(r"[0-9]{6}", re.ASCII)
_HEX_CHARS = 40


class Place(NamedTuple):
    """Whose a path is. Page 0 is the note itself."""

    commit: str
    page: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """The blobs of a notes tree by path. `others` are the entries of its root that are neither."""

    blobs: dict[str, str] = field(default_factory=dict)
    others: dict[str, tuple[str, FileMode]] = field(default_factory=dict)


Change = str | None  # a blob's id; None removes it


def note_path(commit: str) -> str:
    return f"{commit[:2]}/{commit[2:]}"


def page_path(commit: str, page: int) -> str:
    return f"{MORE}/{commit}/{page:06}"


def place_of(path: str) -> Place:
    first, _, rest = path.partition("/")
    if first == MORE:
        commit, _, page = rest.partition("/")
        return Place(commit, int(page))
    return Place(path.replace("/", ""), NOTE)


def leaves(tree: pygit2.Tree) -> Leaves:
    found = Leaves()
    for entry in tree:
        name = _name(entry)
        if name == MORE and isinstance(entry, pygit2.Tree):
            _pages(entry, found.blobs)
        elif name and not _notes(entry, name, name, found.blobs):
            found.others[name] = str(entry.id), entry.filemode
    return found


def _name(entry: pygit2.Object) -> str:
    """Empty where it is no UTF-8, as ours always are."""
    try:
        return (entry.raw_name or b"").decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _notes(entry: pygit2.Object, path: str, digits: str, blobs: dict[str, str]) -> bool:
    """Whether this is a note, or a folder of notes by the next two digits."""
    if not _HEX.fullmatch(digits) or len(digits) > _HEX_CHARS:
        return False
    if len(digits) == _HEX_CHARS and isinstance(entry, pygit2.Blob):
        blobs[path] = str(entry.id)
        return True
    if isinstance(entry, pygit2.Tree) and len(path.rpartition("/")[2]) == 2:
        for each in entry:
            name = _name(each)
            _notes(each, f"{path}/{name}", digits + name, blobs)
        return True
    return False


def _pages(more: pygit2.Tree, blobs: dict[str, str]) -> None:
    for entry in more:
        commit = _name(entry)
        if not isinstance(entry, pygit2.Tree) or len(commit) != _HEX_CHARS:
            continue
        if not _HEX.fullmatch(commit):
            continue
        for each in entry:
            page = _name(each)
            if isinstance(each, pygit2.Blob) and _PAGE.fullmatch(page) and int(page) > NOTE:
                blobs[f"{MORE}/{commit}/{page}"] = str(each.id)


def edited(
    repository: pygit2.Repository,
    tree: pygit2.Tree | None,
    changes: Mapping[str, Change],
    others: Mapping[str, tuple[str, FileMode]],
) -> pygit2.Oid:
    """The id of the tree with these changes; folders that they empty are gone."""
    builder = repository.TreeBuilder() if tree is None else repository.TreeBuilder(tree)
    for name, (oid, mode) in others.items():
        builder.insert(name, oid, mode)
    below: dict[str, dict[str, Change]] = {}
    for path, blob in changes.items():
        first, _, rest = path.partition("/")
        if rest:
            below.setdefault(first, {})[rest] = blob
        elif blob is not None:
            builder.insert(first, blob, FileMode.BLOB)
        elif tree is not None and first in tree:
            builder.remove(first)
    for name, inner in below.items():
        present = tree[name] if tree is not None and name in tree else None
        made = edited(repository, present if isinstance(present, pygit2.Tree) else None, inner, {})
        if made != EMPTY_TREE:
            builder.insert(name, made, FileMode.TREE)
        elif present is not None:
            builder.remove(name)
    return builder.write()
