"""What lessons said that no longer holds: it must not reach an agent by another way."""

from collections.abc import Iterator, Sequence

from agent_memory.features.lessons.model.lessons import KnownLesson
from agent_memory.features.recall.model.repeats import RetiredText


def list_retired(lessons: Sequence[KnownLesson]) -> Iterator[RetiredText]:
    """List the words of the rejected, superseded and edited lessons of a project."""
    by_id = {each.lesson.id: each for each in lessons}
    for known in lessons:
        last = known
        while last.superseded_by is not None and last.superseded_by in by_id:
            last = by_id[last.superseded_by]
        instead = last.text if last.is_active else ""
        for text in sorted({known.text, known.lesson.text} - {instead}):
            yield RetiredText(text, instead)
