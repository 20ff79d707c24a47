"""Bulk editing: one change for many memories, which is undone as one."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.changes import ChangeAction, ChangeEntry
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.editing import MemoryEdit, MemoryEditor
from agent_memory.features.memories.services.undo import ChangeHistory
from agent_memory.kernel.errors import (
    AgentMemoryError,
    ContentBlocked,
    GitFailed,
    InvalidInput,
    NotFound,
    Overloaded,
)

_REFUSALS = (InvalidInput, NotFound, ContentBlocked, GitFailed, Overloaded)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkChange:
    """What to change of each memory. A tag that it has, or has not, needs no change."""

    status: MemoryStatus | None = None
    added_tags: frozenset[str] = frozenset()
    removed_tags: frozenset[str] = frozenset()

    def name_action(self, found: Sequence[Memory]) -> ChangeAction:
        """Return what this change is to these memories."""
        match self.status:
            case MemoryStatus.RESOLVED:
                return ChangeAction.RESOLVE
            case MemoryStatus.ARCHIVED:
                return ChangeAction.ARCHIVE
            case MemoryStatus.ACTIVE:
                is_reopened = all(memory.status is MemoryStatus.RESOLVED for memory in found)
                return ChangeAction.REOPEN if is_reopened else ChangeAction.RESTORE
        return ChangeAction.EDIT


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRefusal:
    """A memory that stays as it is, by the name that was given, and why."""

    name: str
    error: AgentMemoryError


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """The memories that have what was asked for, the others, and what undo takes back."""

    changed: tuple[Memory, ...]
    refused: tuple[BulkRefusal, ...]
    entry: ChangeEntry | None


@dataclass(frozen=True, slots=True)
class BulkEditor:
    history: ChangeHistory

    def find(
        self, names: Sequence[str], here: MemoryLocation, *, pending: bool = True
    ) -> tuple[list[Memory], list[BulkRefusal]]:
        """Return the memories of these names, and the names that have none, or one that awaits
        review if those are not wanted."""
        found: dict[object, Memory] = {}
        refused: list[BulkRefusal] = []
        for name in names:
            try:
                memory = self.history.editor.find(name, here)
                if not pending:
                    memories.check_reviewed(memory)
            except (InvalidInput, NotFound) as exc:
                refused.append(BulkRefusal(name=name, error=exc))
            else:
                found[memory.key] = memory
        return list(found.values()), refused

    def change(
        self,
        found: Sequence[Memory],
        change: BulkChange,
        here: MemoryLocation,
        *,
        by_user: bool,
    ) -> BulkOutcome:
        """Change each memory. The history names the change by what it is."""
        if change == BulkChange():
            raise InvalidInput("nothing to change: give a status, or tags")
        changed: list[Memory] = []
        refused: list[BulkRefusal] = []
        with self.history.recording(change.name_action(found), by_user=by_user) as changing:
            for memory in found:
                try:
                    changed.append(_apply(changing.editor, memory, change, here))
                except _REFUSALS as exc:
                    refused.append(BulkRefusal(name=memory.urn, error=exc))
        return BulkOutcome(changed=tuple(changed), refused=tuple(refused), entry=changing.entry)


def _apply(
    editor: MemoryEditor, memory: Memory, change: BulkChange, here: MemoryLocation
) -> Memory:
    edit = MemoryEdit(
        tags=change.added_tags - memory.tags, removed_tags=change.removed_tags & memory.tags
    )
    if not edit.empty:
        memory = editor.edit(memory, edit, here).memory
    if change.status is not None:
        memory = editor.set_status(memory, change.status, here)
    return memory
