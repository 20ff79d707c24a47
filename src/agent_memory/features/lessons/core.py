"""The lessons that hooks choose from, and what people say of them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from agent_memory.config import Settings
from agent_memory.features.index.core import VectorParts
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.lessons.adapters.guarded_lessons import GuardedLessons
from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.model import supersession
from agent_memory.features.lessons.model.lessons import LessonId
from agent_memory.features.lessons.model.outcomes import LessonOutcome
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.features.lessons.services.catalog import LessonCatalog
from agent_memory.features.lessons.services.library import LessonLibrary
from agent_memory.features.lessons.services.moments import LessonMoments
from agent_memory.features.lessons.services.verdicts import LessonVerdicts
from agent_memory.features.log.ports import Events
from agent_memory.features.recall.ports import RecordSource
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.signals import DaemonSignal
from agent_memory.platform.base import Platform
from agent_memory.platform.store import families


def _run_soon(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="lessons", daemon=True).start()


def build_core(context: Composition) -> None:
    platform, vectors = context[Platform], context.find(VectorParts)
    stored = StoredLessons(platform.store, "" if vectors is None else vectors.embedder.model)
    if platform.sharing is not None:
        platform.sharing.marks.listen(families.LESSONS, stored.note_foreign_changes)
    store = GuardedLessons(stored) if context[Settings].team.enabled else stored
    context.provide(LessonStore, store)
    catalog = LessonCatalog(store, supersession.find_superseded, platform.clock, _run_soon)
    search = context[Recall].vectors

    def embed(prompt: str) -> Future[Vector] | None:
        """Begin to embed a prompt, if that does not have to wait for the model to load."""
        if search is None or search.index.is_empty:
            return None
        return search.threads.submit(search.embedder.embed_question, prompt)

    def note_outcome(name: LessonId, outcome: LessonOutcome | None) -> None:
        if outcome is None:
            catalog.note_outcome(name, given=1)
        else:
            catalog.note_outcome(name, **{outcome.value: 1})

    def note_verdict() -> None:
        catalog.refresh()
        context.signals.send(DaemonSignal.LESSON_JUDGED)

    library = LessonLibrary(store, catalog, context[Events])
    verdicts = LessonVerdicts(
        store=store,
        library=library,
        secrets=context[SecretsFilter],
        clock=platform.clock,
        on_change=note_verdict,
    )

    def retire(name: LessonId) -> None:
        verdicts.retire(name)

    moments = LessonMoments(
        list_lessons=catalog.list_lessons,
        embed=embed,
        note_outcome=note_outcome,
        retire=retire,
        zone=platform.zone,
    )
    context.contributions(RecordSource).append(library)
    context.add(catalog, moments, library, verdicts)
