"""The result of reading the git notes of a repository."""

from dataclasses import dataclass

from agent_memory.features.memories.model.memories import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteProblem:
    """Text in a note that is not a memory. It is left in place."""

    ref: str
    target: str  # the object that the note is on
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookContents:
    memories: tuple[Memory, ...]
    problems: tuple[NoteProblem, ...] = ()
