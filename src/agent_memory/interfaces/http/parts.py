"""What the HTTP interface is given to work with."""

from dataclasses import dataclass

from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.observing import Observer
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
