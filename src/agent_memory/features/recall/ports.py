"""What other features contribute to recall."""

from typing import Protocol

from agent_memory.features.index.model.queries import RecallResult


class AnswerFilter(Protocol):
    """Changes the hits of an answer: marks them, or leaves some out."""

    def __call__(self, answer: RecallResult, /) -> RecallResult: ...
