"""Sync: make a domain's memories equal in the store, in its notes and at the remote."""

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
)
from agent_memory.features.memories.services.capture import has_secret
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import GitFailed, RemoteUnavailable
from agent_memory.kernel.ids import MemoryKey
from agent_memory.kernel.progress import OnProgress
from agent_memory.platform.ports import Clock

ROUNDS = 3  # of reading, while the notes lack memories
PUSHES = 10  # tries, if others push at the same time
TRIES = 8  # if others change the same memories
_PAGE = 500

# Phase, done and total; 0 if the total is unknown.


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """`remote` is a remote's name or address; `environ` is the caller's environment."""

    fetch: bool = False
    push: bool = False
    force: bool = False  # read the notes even if unchanged, and check for damage
    remote: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What a sync did. `unchanged`: there was nothing to do."""

    place: MemoryLocation
    imported: int = 0  # memories that are new here, or changed
    written: int = 0  # memories that are new in the notes, or changed there
    moved: int = 0  # to another commit, because theirs is gone
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
    on_import: Callable[[], None]  # called after a write to the store

    def sync(
        self, location: MemoryLocation, options: SyncOptions, on_progress: OnProgress
    ) -> SyncResult:
        """Sync a location, and repair damaged notes. Raises GitFailed, and RemoteUnavailable."""
        try:
            return self._sync(location, options, on_progress)
        except GitFailed:
            if not self.repositories.open_notebook(location.home, location.domain).repair():
                raise
            return self._sync(location, options, on_progress)

    def _sync(
        self, location: MemoryLocation, options: SyncOptions, on_progress: OnProgress
    ) -> SyncResult:
        on_progress("writing notes", 0, 0)
        written = self.notes.flush_home(location.home)
        notebook = self.repositories.open_notebook(location.home, location.domain)
        if options.force:
            notebook.repair()  # damage in the history shows only on push
        result = SyncResult(place=location, written=written)
        if options.fetch:
            on_progress("fetching", 0, 0)
            fetched = notebook.fetch(options.remote, options.environ)
            result = replace(result, fetched=fetched)
        result = self._reconcile(notebook, result, options.force, on_progress)
        if options.push:
            result = self._push(notebook, result, options, on_progress)
        return result

    def _push(
        self,
        notebook: Notebook,
        result: SyncResult,
        options: SyncOptions,
        on_progress: OnProgress,
    ) -> SyncResult:
        for _ in range(PUSHES):
            on_progress("pushing", 0, 0)
            state = notebook.read_state()
            outcome = notebook.push(options.remote, options.environ)
            if outcome is not None:
                return replace(result, pushed=outcome)
            notebook.fetch(options.remote, options.environ)
            if notebook.read_state() != state:
                result = self._reconcile(
                    notebook, replace(result, fetched=True), False, on_progress
                )
        raise RemoteUnavailable(
            f"others keep pushing to the same remote: {PUSHES} tries failed; try again later"
        )

    def _reconcile(
        self, notebook: Notebook, result: SyncResult, force: bool, on_progress: OnProgress
    ) -> SyncResult:
        """Make store and notes equal, unless neither changed since they last were. Notes on lost
        commits, also those just fetched, are moved first."""
        location = result.place
        with self.notes.lock:
            result = replace(result, moved=result.moved + notebook.rehome())
        if not force:
            state = f"{notebook.read_state()} {self._hash_stored(location)}"
            if state == self.projects.get_sync_state(location.home).state:
                return result
        for _ in range(ROUNDS):
            on_progress("reading notes", 0, 0)
            state = notebook.read_state()
            reading = notebook.read()
            imported, secrets = self._import(reading, on_progress)
            missing = self._missing(location, reading)
            result = replace(
                result,
                imported=result.imported + imported,
                written=result.written + len(missing),
                problems=(*reading.problems, *secrets),
            )
            if imported:
                self.on_import()
            if not missing:
                # Record the state that was read, not the current one: someone may have written
                # more since.
                seen = SyncState(
                    state=f"{state} {self._hash_stored(location)}", at_ms=self.clock.now()
                )
                self.projects.set_sync_state(location.home, seen)
                break
            self.notes.write(location.home, location.domain, missing)
        return result

    def _import(
        self, reading: NotebookContents, on_progress: OnProgress
    ) -> tuple[int, list[NoteProblem]]:
        """Merge what was read into the store. Return the number of changes, and problems."""
        imported = 0
        problems: list[NoteProblem] = []
        for start in range(0, len(reading.memories), _PAGE):
            on_progress("importing", start, len(reading.memories))
            page = reading.memories[start : start + _PAGE]
            clean = [memory for memory in page if self._is_clean(memory, problems)]
            for _ in range(TRIES):  # merge again what others change meanwhile
                changes = list(filter(None, map(self._change, clean)))
                if not changes:
                    break
                imported += sum(self.memories.write(changes))
        return imported, problems

    def _change(self, read: Memory) -> MemoryChange | None:
        stored = self.memories.get(read.key)
        if stored is None:
            return MemoryChange(None, read, None)
        merged = memories.merge_copies(stored, read)
        return None if _same(merged, stored) else MemoryChange(stored, merged, None)

    def _missing(self, location: MemoryLocation, reading: NotebookContents) -> list[Memory]:
        """Return the memories that the notes lack or hold in an older version. What awaits review
        belongs in no note, nor does the tombstone of what no note has: it may be a discarded
        one."""
        noted = {memory.key: memory for memory in reading.memories}
        return [
            memory
            for memory in self._list_stored(location)
            if not memory.is_pending
            and not _is_noted(memory, noted.get(memory.key))
            and (memory.key in noted or memory.status is not MemoryStatus.TOMBSTONE)
        ]

    def _hash_stored(self, location: MemoryLocation) -> str:
        stored = hashlib.sha256()
        for memory in self._list_stored(location):
            stored.update(repr(memory).encode())
        return stored.hexdigest()

    def _list_stored(self, location: MemoryLocation) -> Iterator[Memory]:
        last: MemoryKey | None = None
        while page := self.memories.list_domain(location.domain, after=last, limit=_PAGE):
            yield from page
            last = page[-1].key

    def _is_clean(self, memory: Memory, problems: list[NoteProblem]) -> bool:
        """Report a memory with a secret, which another tool may have written into a note."""
        if memory.status is MemoryStatus.TOMBSTONE:
            return True
        if not has_secret(memory, self.secrets, where="note"):
            return True
        reason = f"{memory.id} holds a secret and is not imported: remove it from the note"
        ref = f"refs/notes/mem/{memory.namespace}"
        problems.append(NoteProblem(ref=ref, target=memory.commit, reason=reason))
        return False


def _same(one: Memory, other: Memory) -> bool:
    return replace(one, index=0) == replace(other, index=0)


def _is_noted(memory: Memory, noted: Memory | None) -> bool:
    return noted is not None and _same(memories.merge_copies(memory, noted), noted)
