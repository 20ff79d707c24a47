"""Transfer: import many memories, from files or from notes in earlier formats."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_memory.features.memories.model.memories import Draft, Home, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import Memories, MemoryChange, Repositories
from agent_memory.features.memories.services.capture import Capture
from agent_memory.kernel.errors import ConfigError, ContentBlocked, InvalidInput
from agent_memory.kernel.ids import MemoryKey
from agent_memory.kernel.progress import OnCount

_CHUNK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResult:
    """What became of the drafts: created, known already, or refused with a reason."""

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
        on_progress: OnCount,
        places: Sequence[str] = (),
    ) -> TransferResult:
        """Capture the drafts that are new. Those imported stay if it is stopped. `places` name the
        drafts in messages; without them, their numbers do."""
        names = places or [f"record {number}" for number in range(1, len(drafts) + 1)]
        result = TransferResult()
        for start in range(0, len(drafts), _CHUNK):
            on_progress(start)
            end = start + _CHUNK
            chunk = self._import_chunk(drafts[start:end], names[start:end], place_of, dry_run)
            result = TransferResult(
                created=result.created + chunk.created,
                known=result.known + chunk.known,
                refused=result.refused + chunk.refused,
            )
        on_progress(len(drafts))
        return result

    def read_legacy(self, location: MemoryLocation) -> list[Draft]:
        """Return the memories that earlier tools left in the notes of this place."""
        return self.repositories.open_notebook(location.home, location.domain).read_legacy()

    def _import_chunk(
        self,
        drafts: Sequence[Draft],
        names: Sequence[str],
        place_of: Callable[[Draft], MemoryLocation],
        dry_run: bool,
    ) -> TransferResult:
        """Import a chunk that shares one write to disk; imports can stop between two."""
        new: dict[MemoryKey, Memory] = {}
        homes: dict[MemoryKey, Home] = {}
        refused: list[str] = []
        known = 0
        for name, draft in zip(names, drafts, strict=True):
            try:
                location = place_of(draft)
                memory = self.capture.build_memory(self.capture.clean(draft), location)
            except (InvalidInput, ContentBlocked, ConfigError) as exc:
                refused.append(f"{name}: {exc}")
                continue
            stored = self.memories.get(memory.key)
            if stored is not None and stored.status is MemoryStatus.TOMBSTONE:
                refused.append(f"{name}: {stored.id} was forgotten")
            elif stored is not None or memory.key in new:
                known += 1
            else:
                new[memory.key] = memory
                homes[memory.key] = location.home
        if new and not dry_run:
            changes = [MemoryChange(None, memory, homes[key]) for key, memory in new.items()]
            for change, written in zip(changes, self.memories.write(changes), strict=True):
                if not written:  # captured by someone else meanwhile
                    del new[change.after.key]
                    known += 1
            self.capture.on_capture()
        return TransferResult(created=tuple(new.values()), known=known, refused=tuple(refused))
