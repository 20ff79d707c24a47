"""Changes that a person made to memories: what each memory was before, so that it can be undone."""

from dataclasses import dataclass
from enum import StrEnum

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.projects import NEVER
from agent_memory.kernel.ids import MemoryKey, Millis

MAX_CHANGES = 1_000  # memories of one action that can be undone


class ChangeAction(StrEnum):
    CAPTURE = "capture"
    EDIT = "edit"
    RESOLVE = "resolve"
    REOPEN = "reopen"
    ARCHIVE = "archive"
    RESTORE = "restore"
    REVIEW = "review"
    IMPORT = "import"
    CONSOLIDATE = "consolidate"
    FORGET = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """What may change of a memory."""

    status: MemoryStatus
    superseded_by: str
    tags: frozenset[str]
    relates_to: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeChange:
    """A memory that an action changed, its state before (None: it was new, or awaited review), and
    the times of the change and of the one before it. If the memory has another time, it was
    changed since."""

    key: MemoryKey
    before: MemoryState | None
    changed_ms: Millis
    before_ms: Millis = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEntry:
    """An action of a person. `count` is the number of its memories."""

    at_ms: Millis
    action: ChangeAction
    changes: tuple[MadeChange, ...]
    count: int
    number: int = 0  # assigned by the log

    @property
    def name(self) -> str:
        """The name by which a caller has it undone."""
        return f"change-{self.number}"

    @property
    def is_final(self) -> bool:
        """Whether it cannot be undone: it forgot memories, or changed too many."""
        return self.action is ChangeAction.FORGET or self.count > MAX_CHANGES


def build_change(before: Memory | None, after: Memory) -> MadeChange:
    state = None
    if before is not None and not before.is_pending:
        state = MemoryState(
            status=before.status,
            superseded_by=before.superseded_by,
            tags=before.tags,
            relates_to=before.relates_to,
        )
    return MadeChange(
        key=after.key,
        before=state,
        changed_ms=after.updated_ms,
        before_ms=NEVER if before is None else before.updated_ms,
    )


def revert(change: MadeChange, stored: Memory, at: Millis) -> Memory:
    """Return the memory as it was before the change. One that was new is archived: notes and other
    clones may have it. A memory that was changed since stays as it is."""
    if stored.updated_ms != change.changed_ms or stored.status is MemoryStatus.TOMBSTONE:
        return stored
    if change.before is None:
        return memories.change_status(stored, MemoryStatus.ARCHIVED, at)
    return memories.update_fields(
        stored,
        at,
        status=change.before.status,
        superseded_by=change.before.superseded_by,
        tags=change.before.tags,
        relates_to=change.before.relates_to,
    )
