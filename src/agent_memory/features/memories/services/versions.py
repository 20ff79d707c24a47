"""Versions: the memories that an edit or a merge made of one another."""

from dataclasses import dataclass

from agent_memory.features.memories.model import differences
from agent_memory.features.memories.model.differences import Comparison
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.services.editing import MemoryEditor

MAX_VERSIONS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryVersion:
    """A memory, what the one that superseded it changed, and where the words of both differ."""

    memory: Memory
    changed: tuple[str, ...] = ()
    comparison: Comparison | None = None  # None: nothing superseded it


@dataclass(frozen=True, slots=True)
class MemoryVersions:
    editor: MemoryEditor

    def list_all(self, memory: Memory) -> list[MemoryVersion]:
        """Return all versions of a memory, newest first: those before it, and those after it."""
        last = memory
        seen = {last.id}
        while (after := self._find_successor(last)) is not None and after.id not in seen:
            last = after
            seen.add(last.id)
        superseded = self.editor.outlines.find_superseded(last.domain)
        found = [MemoryVersion(memory=last)]
        listed = {last.key}
        for version in found:  # grows by what each version superseded
            for key in superseded.get(version.memory.id, ()):
                old = self.editor.memories.get(key)
                if old is not None and key not in listed and len(found) < MAX_VERSIONS:
                    listed.add(key)
                    found.append(_compare(old, version.memory))
        head, *rest = found
        return [head, *sorted(rest, key=lambda each: each.memory.updated_ms, reverse=True)]

    def _find_successor(self, memory: Memory) -> Memory | None:
        """Return the memory that superseded this one, if it still exists."""
        if not memory.superseded_by:
            return None
        return self.editor.find_exactly(memory.superseded_by, memory.domain)


def _compare(old: Memory, new: Memory) -> MemoryVersion:
    return MemoryVersion(
        memory=old,
        changed=differences.list_changed_parts(old, new),
        comparison=differences.compare(old, new),
    )
