"""Where each memory stands in a notes ref, so that writing one does not mean reading all."""

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
    """Of one notes ref at one commit. `tip` is None where there is no ref yet."""

    tip: str | None = None
    blobs: dict[str, str] = field(default_factory=dict)  # by path
    others: frozenset[str] = frozenset()
    outlines: dict[str, Outline] = field(default_factory=dict)  # by path
    places: dict[Digest, tuple[str, ...]] = field(default_factory=dict)  # paths; mostly one
    notes: dict[str, str] = field(default_factory=dict)  # a commit's path

    def put(self, path: str, blob: str, outline: Outline) -> None:
        self.remove(path)
        self.blobs[path] = blob
        self.outlines[path] = outline
        for digest in dict.fromkeys(outline.digests):
            self.places[digest] = (*self.places.get(digest, ()), path)
        commit, page = trees.parse_path(path)
        if page == trees.NOTE:
            # Should git have left a note in two places, one is as good as the other.
            self.notes.setdefault(commit, path)

    def remove(self, path: str) -> None:
        if self.blobs.pop(path, None) is None:
            return
        for digest in dict.fromkeys(self.outlines.pop(path).digests):
            if rest := tuple(each for each in self.places.get(digest, ()) if each != path):
                self.places[digest] = rest
            else:
                self.places.pop(digest, None)
        commit, page = trees.parse_path(path)
        if page == trees.NOTE and self.notes.get(commit) == path:
            del self.notes[commit]

    def commits(self) -> set[str]:
        return {trees.parse_path(path).commit for path in self.blobs}

    def paths_of(self, commits: Iterable[str]) -> list[str]:
        wanted = set(commits)
        return [path for path in self.blobs if trees.parse_path(path).commit in wanted]


class NoteIndexes:
    """Those in use. One notebook of a home at a time has them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[Home, Domain, str], NoteIndex] = OrderedDict()
        self._turns: dict[Home, threading.RLock] = {}
        self._exchanges: dict[Home, threading.Lock] = {}
        self.since = time.time()

    def get_write_lock(self, home: Home) -> threading.RLock:
        with self._guard:
            return self._turns.setdefault(home, threading.RLock())

    def get_remote_lock(self, home: Home) -> threading.Lock:
        """Held by who fetches, pushes or prunes: two of them would meet at the copies of the
        remote's refs, or one remove what the other counts on. Whoever writes notes need not wait
        for it. It is taken before the turn."""
        with self._guard:
            return self._exchanges.setdefault(home, threading.Lock())

    def get(self, home: Home, domain: Domain, ref: str) -> NoteIndex | None:
        with self._guard:
            found = self._kept.get((home, domain, ref))
            if found is not None:
                self._kept.move_to_end((home, domain, ref))
            return found

    def keep(self, home: Home, domain: Domain, ref: str, index: NoteIndex) -> None:
        with self._guard:
            self._kept[home, domain, ref] = index
            self._kept.move_to_end((home, domain, ref))
            while len(self._kept) > MAX_INDEXES:
                self._kept.popitem(last=False)
