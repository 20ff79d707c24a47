"""Learning lessons, and their vectors."""

from agent_memory.features.index.core import VectorParts
from agent_memory.features.lessons import archive_records
from agent_memory.features.lessons.adapters.extraction_worker import ExtractionWorker
from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.model import extracting
from agent_memory.features.lessons.ports import LessonStore
from agent_memory.features.lessons.services.catalog import LessonCatalog
from agent_memory.features.lessons.services.lesson_embedding import LessonEmbedding
from agent_memory.features.lessons.services.lesson_learning import LessonLearner
from agent_memory.features.lessons.services.verdicts import LessonVerdicts
from agent_memory.features.log.ports import Events, Outbox, OutboxLearner
from agent_memory.features.recall.ports import EmbeddingWork
from agent_memory.kernel.composition import Composition
from agent_memory.platform.archive_parts import ArchivePart
from agent_memory.platform.base import Platform


def build(context: Composition) -> None:
    platform, store, catalog = context[Platform], context[LessonStore], context[LessonCatalog]
    learner = LessonLearner(
        log=context[Events],
        outbox=context[Outbox],
        lessons=store,
        extractor=ExtractionWorker(platform.worker, extracting.extract),
        on_learned=catalog.refresh,
    )
    context.contributions(OutboxLearner).append(learner)
    context.contributions(ArchivePart).append(
        ArchivePart(
            kinds=tuple(each.kind for each in archive_records.FORMATS.values()),
            list_all=lambda view: iter(StoredLessons(view).list_verdicts().values()),
            add=context[LessonVerdicts].add,
        )
    )
    if (vectors := context.find(VectorParts)) is not None:
        context.contributions(EmbeddingWork).append(
            LessonEmbedding(
                lessons=store,
                embedder=vectors.embedder,
                clock=platform.clock,
                leadership=platform.leadership,
                on_embedded=catalog.refresh,
            )
        )
