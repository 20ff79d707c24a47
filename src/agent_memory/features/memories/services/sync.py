"""Sync: the memories of a domain in the store, in its notes, and at the remote made the same."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.notes import NotebookContents, NoteProblem
from agent_memory.features.memories.model.projects import MemoryLocation, SyncState
from agent_memory.features.memories.ports import (
    Memories,
    MemoryChange,
    Notebook,
    Projects,
    Repositories,
    SharedNotebook,
)
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ContentBlocked, GitFailed, RemoteUnavailable
from agent_memory.kernel.ids import MemoryKey
from agent_memory.platform.ports import Clock

ROUNDS = 3  # of reading, where the notes lack something
PUSHES = 10  # tries, where others push at the same time
TRIES = 8  # where others change the same memories
_PAGE = 500

# A phase, how far it has come, and of how many: 0 where that is not known.
Done = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """`remote` is a remote's name or its address; the environment is that of who asks."""

    fetch: bool = False
    push: bool = False
    force: bool = False  # read the notes even if they have not changed, and look for damage
    remote: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What a sync has done. `unchanged`: there was nothing to do."""

    place: MemoryLocation
    imported: int = 0  # memories that are new here, or changed
    written: int = 0  # memories that the notes have gained, or that changed in them
    moved: int = 0  # onto another commit, because theirs is gone
    fetched: bool = False
    pushed: bool = False
    problems: tuple[NoteProblem, ...] = ()

    @property
    def unchanged(self) -> bool:
        return not (self.imported or self.written or self.moved or self.fetched or self.pushed)


@dataclass(frozen=True, slots=True)
class Sync:
    memories: Memories
    projects: Projects
    repositories: Repositories
    notes: NoteWriter
    secrets: SecretsFilter
    clock: Clock
    on_import: Callable[[], None]  # told after something was written to the store

    def sync(self, place: MemoryLocation, wanted: SyncOptions, done: Done) -> SyncResult:
        """Mend the notes where they are damaged. Raises GitFailed, and RemoteUnavailable where the
        remote is asked for."""
        try:
            return self._sync(place, wanted, done)
        except GitFailed:
            if not self.repositories.open_notebook(place.home, place.domain).repair():
                raise
            return self._sync(place, wanted, done)

    def _sync(self, place: MemoryLocation, wanted: SyncOptions, done: Done) -> SyncResult:
        done("writing notes", 0, 0)
        written = self.notes.flush_home(place.home)
        notebook = self.repositories.open_notebook(place.home, place.domain)
        if wanted.force:
            notebook.repair()  # damage in the history of notes shows only when they are pushed
        result = SyncResult(place=place, written=written)
        if wanted.fetch:
            done("fetching", 0, 0)
            fetched = notebook.fetch(wanted.remote, wanted.environ)
            result = replace(result, fetched=fetched)
        result = self._reconcile(notebook, result, wanted.force, done)
        if wanted.push:
            result = self._push(notebook, result, wanted, done)
        return result

    def _push(
        self, notebook: SharedNotebook, result: SyncResult, wanted: SyncOptions, done: Done
    ) -> SyncResult:
        for _ in range(PUSHES):
            done("pushing", 0, 0)
            state = notebook.read_state()
            outcome = notebook.push(wanted.remote, wanted.environ)
            if outcome is not None:
                return replace(result, pushed=outcome)
            notebook.fetch(wanted.remote, wanted.environ)
            if notebook.read_state() != state:
                result = self._reconcile(notebook, replace(result, fetched=True), False, done)
        raise RemoteUnavailable(
            f"others push to the same remote all the time: {PUSHES} tries failed; try again"
        )

    def _reconcile(
        self, notebook: Notebook, result: SyncResult, force: bool, done: Done
    ) -> SyncResult:
        """Make store and notes the same, unless both are as they were when they last were. Notes on
        commits that are gone are moved first, also those just fetched."""
        place = result.place
        with self.notes.lock:
            result = replace(result, moved=result.moved + notebook.rehome())
        if (
            not force
            and self._state(notebook, place) == self.projects.get_sync_state(place.home).state
        ):
            return result
        for _ in range(ROUNDS):
            done("reading notes", 0, 0)
            state = notebook.read_state()
            reading = notebook.read()
            imported, secret = self._import(reading, done)
            missing = self._missing(place, reading)
            result = replace(
                result,
                imported=result.imported + imported,
                written=result.written + len(missing),
                problems=(*reading.problems, *secret),
            )
            if imported:
                self.on_import()
            if not missing:
                # What was read is in the store, and it is all that is said to have been seen:
                # someone may have written more since.
                seen = SyncState(
                    state=f"{state} {self._hash_stored(place)}", at_ms=self.clock.now()
                )
                self.projects.set_sync_state(place.home, seen)
                break
            self.notes.write(place.home, place.domain, missing)
        return result

    def _import(self, reading: NotebookContents, done: Done) -> tuple[int, list[NoteProblem]]:
        """Merge into the store what was read; how many memories changed by it."""
        imported = 0
        secret: list[NoteProblem] = []
        for start in range(0, len(reading.memories), _PAGE):
            done("importing", start, len(reading.memories))
            page = reading.memories[start : start + _PAGE]
            clean = [each for each in page if self._is_clean(each, secret)]
            for _ in range(TRIES):  # one that somebody else changes meanwhile is merged once more
                changes = list(filter(None, map(self._change, clean)))
                if not changes:
                    break
                imported += sum(self.memories.write(changes))
        return imported, secret

    def _change(self, read: Memory) -> MemoryChange | None:
        stored = self.memories.get(read.key)
        if stored is None:
            return MemoryChange(None, read, None)
        both = memories.merge_copies(stored, read)
        return None if _same(both, stored) else MemoryChange(stored, both, None)

    def _missing(self, place: MemoryLocation, reading: NotebookContents) -> list[Memory]:
        """What the notes have not, or only as it was before."""
        noted: Mapping[MemoryKey, Memory] = {each.key: each for each in reading.memories}
        return [
            each for each in self._list_stored(place) if not _is_noted(each, noted.get(each.key))
        ]

    def _state(self, notebook: Notebook, place: MemoryLocation) -> str:
        """Of the notes, and of what the store has of this domain."""
        return f"{notebook.read_state()} {self._hash_stored(place)}"

    def _hash_stored(self, place: MemoryLocation) -> str:
        stored = hashlib.sha256()
        for memory in self._list_stored(place):
            stored.update(repr(memory).encode())
        return stored.hexdigest()

    def _list_stored(self, place: MemoryLocation) -> Iterator[Memory]:
        last: MemoryKey | None = None
        while page := self.memories.list_domain(place.domain, after=last, limit=_PAGE):
            yield from page
            last = page[-1].key

    def _is_clean(self, memory: Memory, problems: list[NoteProblem]) -> bool:
        """Someone may have written a note by other means: a secret in it is not taken over."""
        if memory.status is MemoryStatus.TOMBSTONE:
            return True
        try:
            clean = all(self.secrets.clean(text, where="note") == text for text in memory.texts)
        except ContentBlocked:
            clean = False
        if not clean:
            reason = f"{memory.id} holds a secret and is not taken over: remove it from the note"
            ref = f"refs/notes/mem/{memory.namespace}"
            problems.append(NoteProblem(ref=ref, target=memory.commit, reason=reason))
        return clean


def _facts(memory: Memory) -> tuple[object, ...]:
    """All that may change. Two copies may merge into one that is no later than either."""
    return (
        memory.key,
        memory.created_ms,
        memory.updated_ms,
        sorted(memory.tags),
        memory.relates_to,
        memory.status.value,
        memory.commit,
        memory.superseded_by,
        memory.event_id,
        memory.session_id,
    )


def _same(one: Memory, other: Memory) -> bool:
    return replace(one, index=0) == replace(other, index=0)


def _is_noted(memory: Memory, noted: Memory | None) -> bool:
    return noted is not None and _same(memories.merge_copies(memory, noted), noted)
