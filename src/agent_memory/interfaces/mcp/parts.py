"""What the MCP interface is given to work with."""

from dataclasses import dataclass

from agent_memory.config import Mcp


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    settings: Mcp
    version: str
