"""What the HTTP interface is given to work with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.config import Streaming
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.http.seats import Seats
from agent_memory.interfaces.observing import Observer
from agent_memory.services.changes import Changes
from agent_memory.services.consolidation import Consolidation
from agent_memory.services.contents import Contents
from agent_memory.services.curation import Curation
from agent_memory.services.facts import Facts
from agent_memory.services.graphs import Graphs
from agent_memory.services.knowledge import Knowledge
from agent_memory.services.recall import Recall
from agent_memory.services.sharing import Sharing
from agent_memory.services.timeline import Timeline
from agent_memory.services.vitals import Vitals
from agent_memory.services.workplaces import Workplaces


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
