"""Build the core: what answers a hook. The daemon builds it first, and `root` builds the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent_memory import __version__
from agent_memory.bootstrap.build_platform import build_platform
from agent_memory.bootstrap.build_tracing import build_span_exporter
from agent_memory.bootstrap.features import build_cores
from agent_memory.config import Settings
from agent_memory.features.hooks.services.agent_calls import AgentCalls
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.hooks.answering import HookAnswerer
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform
from agent_memory.platform.folders import DaemonFolders
from agent_memory.platform.ports import Clock, ModelServer, Worker

if TYPE_CHECKING:
    from agent_memory.features.monitoring.adapters.otel import OtelSpans


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The services that a hook needs."""

    context: Composition
    platform: Platform
    settings: Settings
    bridge: Bridge
    spans: "OtelSpans | None"
    observer: Observer
    hook_answerer: HookAnswerer

    def close(self) -> None:
        """Close everything, in the reverse of the order in which work flows; the store last."""
        context, platform = self.context, self.platform
        try:
            platform.programs.close()
            context[GitRepositories].close()
            context[HookHandling].close()
            platform.closing.close()
            platform.model.close()
            context[NoteWriter].flush()
            self.bridge.close()
            platform.worker.close()
            context[TantivyIndex].close()
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
    context, spans = Composition(), build_span_exporter(settings)
    observer = Observer(None if spans is None else spans.record, platform.foreground)
    context.add(settings, platform, observer)
    context.provide(Clock, platform.clock)
    context.provide(Worker, platform.worker)
    context.provide(ModelServer, platform.model)
    build_cores(context)
    return Core(
        context=context,
        platform=platform,
        settings=settings,
        bridge=Bridge(),
        spans=spans,
        observer=observer,
        hook_answerer=HookAnswerer(
            context[HookHandling], __version__, observer, context[AgentCalls], platform.clock.now
        ),
    )
