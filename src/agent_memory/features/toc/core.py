"""The nodes of the table of contents."""

from agent_memory.config import Settings
from agent_memory.features.log.ports import Events
from agent_memory.features.toc.adapters.guarded_toc import GuardedToc
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.ports import TocReader
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform


def build_core(context: Composition) -> None:
    toc, settings = StoredToc(context[Platform].store), context[Settings]
    context.add(toc)
    is_team = settings.team.enabled
    guarded = GuardedToc(toc, context[Events], settings.toc.overlap_ms) if is_team else toc
    context.provide(TocReader, guarded)
