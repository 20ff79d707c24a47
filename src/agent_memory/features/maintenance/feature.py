"""The statistics of the store, its compaction and verification."""

from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.index.core import VectorParts
from agent_memory.features.maintenance.services.admin import Admin
from agent_memory.features.maintenance.services.verification import VECTORS, WORDS, Verification
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.memory_stats import MemoryStatistics
from agent_memory.features.toc.services.rebuild import Rebuild
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform


def build(context: Composition) -> None:
    platform, vectors = context[Platform], context.find(VectorParts)
    index_checks = {WORDS: context[TantivyIndex].list_damaged_files}
    if vectors is not None:
        index_checks[VECTORS] = vectors.index.list_damaged_files
    context.add(
        Admin(store=platform.maintenance),
        Verification(
            check_store=platform.opened.check,
            index_checks=index_checks,
            memory_stats=context[MemoryStatistics],
            indexes=context[Indexes],
            rebuild=context[Rebuild],
        ),
    )
