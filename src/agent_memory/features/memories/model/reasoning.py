"""Reasoning: what a model is given to answer a question from, and what it answers."""

from dataclasses import dataclass

from agent_memory.kernel.ids import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Something found. `dates` are the times that it names and the dates that they meant."""

    name: str
    at_ms: Millis
    text: str
    dates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonedAnswer:
    """An answer, and the names of the evidence that it rests on."""

    answer: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedMemory:
    """What several memories say, as one."""

    summary: str
    content: str
