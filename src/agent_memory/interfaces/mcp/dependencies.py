"""The services and settings that the MCP interface uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.config import McpSettings
from agent_memory.interfaces.auditing import Auditor
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.operations import OperationCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class McpDependencies:
    services: Composition
    calls: OperationCalls
    bridge: Bridge
    observer: Observer
    settings: McpSettings
    version: str
    environ: Mapping[str, str] = field(repr=False)  # runs git, for clients without a folder
    auditor: Auditor | None = None  # of a team server, which checks what each caller may do
