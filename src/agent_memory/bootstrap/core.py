"""Build the core: what answers a hook. The daemon builds it first, and `root` builds the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent_memory import __version__
from agent_memory.bootstrap.build_handling import HandlingFeature, build_handling
from agent_memory.bootstrap.build_index import IndexFeature, build_index
from agent_memory.bootstrap.build_injections import InjectionsFeature, build_injections
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature, build_knowledge
from agent_memory.bootstrap.build_log import LogFeature, build_log
from agent_memory.bootstrap.build_memories import MemoriesFeature, build_memories
from agent_memory.bootstrap.build_platform import Platform, build_platform
from agent_memory.bootstrap.build_recall import RecallFeature, build_recall
from agent_memory.bootstrap.build_tracing import build_span_exporter
from agent_memory.bootstrap.folders import DaemonFolders
from agent_memory.bootstrap.wake_ups import WakeUps
from agent_memory.config import Settings
from agent_memory.features.toc.adapters.guarded_toc import GuardedToc
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.ports import TocReader
from agent_memory.features.upstream.adapters.upstream_store import StoredUpstream
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.hooks.answering import HookAnswerer
from agent_memory.interfaces.observing import Observer

if TYPE_CHECKING:
    from agent_memory.features.monitoring.adapters.otel import OtelSpans


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The features that a hook needs, connected."""

    platform: Platform
    wake_ups: WakeUps
    log: LogFeature
    toc: StoredToc
    contents: TocReader  # what a caller sees of it
    index: IndexFeature
    memories: MemoriesFeature
    knowledge: KnowledgeFeature
    recall: RecallFeature
    injections: InjectionsFeature
    team_state: StoredUpstream
    hooks: HandlingFeature
    bridge: Bridge
    spans: "OtelSpans | None"
    observer: Observer
    hook_answerer: HookAnswerer

    def close(self) -> None:
        """Close everything, in the reverse of the order in which work flows; the store last."""
        platform = self.platform
        try:
            platform.programs.close()
            self.memories.repositories.close()
            self.hooks.handling.close()
            platform.closing.close()
            platform.model.close()
            self.memories.notes.flush()
            self.bridge.close()
            platform.worker.close()
            self.index.lexical.close()
        finally:
            platform.store.close()
        if self.spans is not None:
            self.spans.close()  # after all else: a collector may take its time


def build_core(
    settings: Settings,
    db_path: Path,
    data: Path,
    own_files: Path,
    private: Sequence[Path] = (),
    *,
    read_only: bool = False,
) -> Core:
    """Build what answers hooks. `own_files` holds what users write, `private` is what else agents
    must keep out of. If `read_only`, nothing can be written."""
    folders = DaemonFolders(db_path=db_path, data=data, own_files=own_files, private=tuple(private))
    platform = build_platform(settings, folders, read_only=read_only)
    wake_ups, spans = WakeUps(), build_span_exporter(settings)
    team_state = StoredUpstream(platform.store)
    observer = Observer(None if spans is None else spans.record, platform.foreground)

    log = build_log(platform, wake_ups)
    toc = StoredToc(platform.store)
    contents: TocReader = toc
    if settings.team.enabled:
        contents = GuardedToc(toc, log.events, settings.toc.overlap_ms)
    index = build_index(platform)
    memories = build_memories(platform, log, index, wake_ups)
    knowledge = build_knowledge(platform, log, wake_ups, team_state)
    recall = build_recall(platform, log, contents, memories, knowledge, index, team_state)
    injections = build_injections(platform, recall)
    hooks = build_handling(platform, log, memories, recall, injections)
    return Core(
        platform=platform,
        wake_ups=wake_ups,
        log=log,
        toc=toc,
        contents=contents,
        index=index,
        memories=memories,
        knowledge=knowledge,
        recall=recall,
        injections=injections,
        team_state=team_state,
        hooks=hooks,
        bridge=Bridge(),
        spans=spans,
        observer=observer,
        hook_answerer=HookAnswerer(hooks.handling, __version__, observer, platform.clock.now),
    )
