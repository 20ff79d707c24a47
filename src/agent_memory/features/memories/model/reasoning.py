"""What a model gets to answer a question from, and what it answers."""

from dataclasses import dataclass

from agent_memory.kernel.ids import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A search result for the model. `dates` are the time expressions in it, with their dates."""

    name: str
    at_ms: Millis
    text: str
    dates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonedAnswer:
    """An answer, and the names of the evidence that supports it."""

    answer: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedMemory:
    """The text of several memories, merged into one."""

    summary: str
    content: str
