"""Notes: what was read from a repository's git notes."""

from dataclasses import dataclass

from agent_memory.features.memories.model.memories import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteProblem:
    """Something in a note that is no memory. It stays where it is."""

    ref: str
    target: str  # the object that the note is on
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookContents:
    memories: tuple[Memory, ...]
    problems: tuple[NoteProblem, ...] = ()
