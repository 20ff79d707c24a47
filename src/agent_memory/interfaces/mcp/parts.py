"""What MCP is given to work with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.config import Mcp
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.observing import Observer
from agent_memory.services.capture import Capture
from agent_memory.services.changes import Changes
from agent_memory.services.consolidation import Consolidation
from agent_memory.services.contents import Contents
from agent_memory.services.curation import Curation
from agent_memory.services.indexes import Indexes
from agent_memory.services.memory_forgetting import MemoryForgetting
from agent_memory.services.recall import Recall
from agent_memory.services.sharing import Sharing
from agent_memory.services.survey import Survey
from agent_memory.services.workplaces import Workplaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    bridge: Bridge
    capture: Capture
    recall: Recall
    curation: Curation
    workplaces: Workplaces
    contents: Contents
    survey: Survey
    sharing: Sharing
    consolidation: Consolidation
    memory_forgetting: MemoryForgetting
    indexes: Indexes
    changes: Changes
    settings: Mcp
    observer: Observer
    version: str
    remote: str  # of projects, for who works in no folder
    environ: Mapping[str, str] = field(repr=False)  # likewise, with which git is run
