"""The lessons that hooks choose from."""

from agent_memory.config import Settings
from agent_memory.features.index.core import VectorParts
from agent_memory.features.lessons.adapters.guarded_lessons import GuardedLessons
from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.model import supersession
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.features.lessons.services.catalog import LessonCatalog
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform
from agent_memory.platform.store import families


def build_core(context: Composition) -> None:
    platform, vectors = context[Platform], context.find(VectorParts)
    stored = StoredLessons(platform.store, "" if vectors is None else vectors.embedder.model)
    if platform.sharing is not None:
        platform.sharing.marks.listen(families.LESSONS, stored.note_foreign_changes)
    store = GuardedLessons(stored) if context[Settings].team.enabled else stored
    context.provide(LessonStore, store)
    context.add(LessonCatalog(store, supersession.find_superseded, platform.clock))
