"""The services and settings that the MCP interface uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.config import McpSettings
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.consolidation import Consolidation
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.memory_stats import MemoryStatistics
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.features.toc.services.contents import Contents
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.observing import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class McpDependencies:
    bridge: Bridge
    capture: Capture
    recall: Recall
    editor: MemoryEditor
    resolver: ProjectResolver
    contents: Contents
    memory_stats: MemoryStatistics
    remote_sync: RemoteSync
    consolidation: Consolidation
    memory_forgetting: MemoryForgetting
    indexes: Indexes
    changes: ChangeFeed
    settings: McpSettings
    observer: Observer
    version: str
    remote: str  # the git remote of projects, for clients without a folder
    environ: Mapping[str, str] = field(repr=False)  # runs git, for clients without a folder
