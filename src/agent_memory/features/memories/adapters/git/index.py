"""Index of the memories in a notes ref, so that writing one does not require reading all."""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_memory.features.memories.adapters.git import trees
from agent_memory.features.memories.adapters.git.records import Outline
from agent_memory.features.memories.model.memories import Home
from agent_memory.kernel.ids import Digest, Domain

MAX_INDEXES = 64


@dataclass(slots=True, kw_only=True)
class NoteIndex:
    """Index of one notes ref at one commit. `tip` is None if the ref does not exist yet."""

    tip: str | None = None
    blobs: dict[str, str] = field(default_factory=dict)  # by path
    others: frozenset[str] = frozenset()
    outlines: dict[str, Outline] = field(default_factory=dict)  # by path
    places: dict[Digest, tuple[str, ...]] = field(default_factory=dict)  # paths, usually one
    notes: dict[str, str] = field(default_factory=dict)  # path of the note, by commit

    def put(self, path: str, blob: str, outline: Outline) -> None:
        self.remove(path)
        self.blobs[path] = blob
        self.outlines[path] = outline
        for digest in dict.fromkeys(outline.digests):
            self.places[digest] = (*self.places.get(digest, ()), path)
        commit, page = trees.parse_path(path)
        if page == trees.NOTE:
            # If git has left a note in two places, either will do.
            self.notes.setdefault(commit, path)

    def remove(self, path: str) -> None:
        if self.blobs.pop(path, None) is None:
            return
        for digest in dict.fromkeys(self.outlines.pop(path).digests):
            if rest := tuple(other for other in self.places.get(digest, ()) if other != path):
                self.places[digest] = rest
            else:
                self.places.pop(digest, None)
        commit, page = trees.parse_path(path)
        if page == trees.NOTE and self.notes.get(commit) == path:
            del self.notes[commit]

    def commits(self) -> set[str]:
        return {trees.parse_path(path).commit for path in self.blobs}

    def paths_of(self, commits: Iterable[str]) -> list[str]:
        selected = set(commits)
        return [path for path in self.blobs if trees.parse_path(path).commit in selected]


class NoteIndexes:
    """The indexes in use. Only one notebook of a home uses them at a time."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._recent: OrderedDict[tuple[Home, Domain, str], NoteIndex] = OrderedDict()
        self._write_locks: dict[Home, threading.RLock] = {}
        self._remote_locks: dict[Home, threading.Lock] = {}
        self.since = time.time()

    def get_write_lock(self, home: Home) -> threading.RLock:
        with self._guard:
            return self._write_locks.setdefault(home, threading.RLock())

    def get_remote_lock(self, home: Home) -> threading.Lock:
        """Return the lock for fetching, pushing and pruning. Without it, two of these would clash
        over the copies of the remote's refs, or one would remove objects that the other needs.
        Writing notes does not need it. Take it before the write lock."""
        with self._guard:
            return self._remote_locks.setdefault(home, threading.Lock())

    def get(self, home: Home, domain: Domain, ref: str) -> NoteIndex | None:
        with self._guard:
            index = self._recent.get((home, domain, ref))
            if index is not None:
                self._recent.move_to_end((home, domain, ref))
            return index

    def keep(self, home: Home, domain: Domain, ref: str, index: NoteIndex) -> None:
        with self._guard:
            self._recent[home, domain, ref] = index
            self._recent.move_to_end((home, domain, ref))
            while len(self._recent) > MAX_INDEXES:
                self._recent.popitem(last=False)
