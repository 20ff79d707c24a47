"""What the HTTP interface is given to work with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.config import Streaming
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.knowledge.services.knowledge import Knowledge
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.features.memories.services.consolidation import Consolidation
from agent_memory.features.memories.services.editing import Curation
from agent_memory.features.memories.services.project_resolver import Workplaces
from agent_memory.features.memories.services.remote_sync import Sharing
from agent_memory.features.operations.services.metrics import Vitals
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.streaming.services.change_feed import Changes
from agent_memory.features.toc.services.contents import Contents
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.http.connection_limit import Seats
from agent_memory.interfaces.observing import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    bridge: Bridge
    timeline: Timeline
    contents: Contents
    recall: Recall
    curation: Curation
    workplaces: Workplaces
    sharing: Sharing
    consolidation: Consolidation
    facts: Facts
    graphs: Graphs
    observer: Observer
    vitals: Vitals
    knowledge: Knowledge
    changes: Changes
    streaming: Streaming
    sse: Seats
    websockets: Seats
    remote: str  # of projects
    environ: Mapping[str, str] = field(repr=False)  # with which git is run
