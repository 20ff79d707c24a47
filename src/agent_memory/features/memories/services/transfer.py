"""Transfer: many memories brought in at once, from files or from notes of earlier layouts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_memory.features.memories.model.memories import Draft, Home, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import Memories, MemoryChange, Repositories
from agent_memory.features.memories.services.capture import Capture
from agent_memory.kernel.errors import ConfigError, ContentBlocked, InvalidInput
from agent_memory.kernel.ids import MemoryKey

_CHUNK = 200

Done = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResult:
    """What became of each draft: new, there already, or refused and why."""

    created: tuple[Memory, ...] = ()
    known: int = 0
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer:
    memories: Memories
    repositories: Repositories
    capture: Capture

    def import_drafts(
        self,
        drafts: Sequence[Draft],
        place_of: Callable[[Draft], MemoryLocation],
        *,
        dry_run: bool,
        done: Done,
        places: Sequence[str] = (),
    ) -> TransferResult:
        """Capture what is not there yet. What was brought in stays, wherever it is stopped. Each
        draft is told of by its place, or else by its number."""
        named = places or [f"record {number}" for number in range(1, len(drafts) + 1)]
        brought = TransferResult()
        for start in range(0, len(drafts), _CHUNK):
            done(start)
            end = start + _CHUNK
            some = self._some(drafts[start:end], named[start:end], place_of, dry_run)
            brought = TransferResult(
                created=brought.created + some.created,
                known=brought.known + some.known,
                refused=brought.refused + some.refused,
            )
        done(len(drafts))
        return brought

    def read_legacy(self, place: MemoryLocation) -> list[Draft]:
        """Memories in this place's notes that were written in layouts of earlier tools."""
        return self.repositories.open_notebook(place.home, place.domain).read_legacy()

    def _some(
        self,
        drafts: Sequence[Draft],
        named: Sequence[str],
        place_of: Callable[[Draft], MemoryLocation],
        dry_run: bool,
    ) -> TransferResult:
        """So many that they share a write to disk, and so few that one can be stopped."""
        new: dict[MemoryKey, Memory] = {}
        homes: dict[MemoryKey, Home] = {}
        refused: list[str] = []
        known = 0
        for name, draft in zip(named, drafts, strict=True):
            try:
                place = place_of(draft)
                memory = self.capture.build_memory(self.capture.clean(draft), place)
            except (InvalidInput, ContentBlocked, ConfigError) as exc:
                refused.append(f"{name}: {exc}")
                continue
            stored = self.memories.get(memory.key)
            if stored is not None and stored.status is MemoryStatus.TOMBSTONE:
                refused.append(f"{name}: {stored.id} was forgotten, and stays so")
            elif stored is not None or memory.key in new:
                known += 1
            else:
                new[memory.key] = memory
                homes[memory.key] = place.home
        if new and not dry_run:
            changes = [MemoryChange(None, memory, homes[key]) for key, memory in new.items()]
            for change, written in zip(changes, self.memories.write(changes), strict=True):
                if not written:  # someone else has captured it meanwhile
                    del new[change.after.key]
                    known += 1
            self.capture.on_capture()
        return TransferResult(created=tuple(new.values()), known=known, refused=tuple(refused))
