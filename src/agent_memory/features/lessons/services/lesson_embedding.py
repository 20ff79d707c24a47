"""Embed lessons by their text and their situation, the newest first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.ports import Embedder
from agent_memory.features.lessons.model.lessons import Lesson
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.features.recall.services.indexing import LIVE_MS
from agent_memory.kernel.errors import EmbedderRefused
from agent_memory.platform.ports import Clock, Leadership

BATCH = 32


@dataclass(frozen=True, slots=True)
class LessonEmbedding:
    """An EmbeddingWork."""

    lessons: LessonStore
    embedder: Embedder
    clock: Clock
    leadership: Leadership  # vectors are in the store, which daemons may share
    on_embedded: Callable[[], None]
    kind: str = "lessons"

    def step(self, *, live: bool) -> bool:
        with self.leadership.lead() as leads:
            waiting = self.lessons.list_unembedded(limit=BATCH) if leads else []
            if live:
                since = self.clock.now() - LIVE_MS
                waiting = [lesson for lesson in waiting if lesson.at_ms >= since]
            if waiting:
                made = zip(waiting, self._embed_all(waiting, live=live), strict=True)
                self.lessons.set_vectors({lesson.id: vectors for lesson, vectors in made})
        if waiting:
            self.on_embedded()
        return bool(waiting)

    def count(self) -> int:
        return self.lessons.count_unembedded()

    def _embed_all(self, lessons: Sequence[Lesson], *, live: bool) -> list[tuple[Vector, ...]]:
        try:
            return self._embed(lessons, live=live)
        except EmbedderRefused:
            if len(lessons) == 1:  # no other try would succeed
                return [()]
        return [each for lesson in lessons for each in self._embed_all([lesson], live=live)]

    def _embed(self, lessons: Sequence[Lesson], *, live: bool) -> list[tuple[Vector, ...]]:
        texts = [text for each in lessons for text in (each.text, each.situation or each.text)]
        unique = list(dict.fromkeys(texts))
        made = dict(zip(unique, self.embedder.embed(unique, live=live), strict=True))
        vectors = [made[text] for text in texts]
        return list(zip(vectors[::2], vectors[1::2], strict=True))
