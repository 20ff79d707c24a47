"""The services and settings that the HTTP interface uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.config import StreamingSettings
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.knowledge.services.knowledge import Knowledge
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.features.memories.services.consolidation import Consolidation
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.operations.services.metrics import Metrics
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.features.toc.services.contents import Contents
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.http.connection_limit import ConnectionLimit
from agent_memory.interfaces.observing import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpDependencies:
    bridge: Bridge
    timeline: Timeline
    contents: Contents
    recall: Recall
    editor: MemoryEditor
    resolver: ProjectResolver
    remote_sync: RemoteSync
    consolidation: Consolidation
    facts: Facts
    graphs: Graphs
    observer: Observer
    metrics: Metrics
    knowledge: Knowledge
    changes: ChangeFeed
    streaming: StreamingSettings
    sse_limit: ConnectionLimit
    websocket_limit: ConnectionLimit
    remote: str  # the git remote of projects
    environ: Mapping[str, str] = field(repr=False)  # runs git
