"""Errors over MCP.

A tool's failure is a result, so that the model reads it. Any other failure is a protocol error: it
has the protocol's code if there is one, and always our own code in its data.
"""

from mcp import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_memory.interfaces.agent_answers import disarm_all
from agent_memory.interfaces.wire.errors import error_json
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput, NotFound

ERROR_KEY = "agent-memory/error"
RESOURCE_NOT_FOUND = -32002  # before 2026-07-28; since then INVALID_PARAMS
CRASHED = "internal error: see the log of the daemon"


def to_tool_result(error: AgentMemoryError) -> CallToolResult:
    """Build the result of a failed tool. It has no structured content, because clients would check
    that against the tool's output schema."""
    shown = disarm_all(error_json(error))
    return CallToolResult(
        content=[TextContent(text=f"Error {shown['code']} ({shown['name']}): {shown['message']}")],
        is_error=True,
        _meta={ERROR_KEY: shown},
    )


def to_protocol_error(error: AgentMemoryError) -> MCPError:
    shown = disarm_all(error_json(error))
    code = INVALID_PARAMS if isinstance(error, InvalidInput | NotFound) else shown["code"]
    return MCPError(code, shown["message"], shown)


def to_missing_resource(error: NotFound, version: str, uri: str) -> MCPError:
    """Build the error for a missing resource, with the code of the negotiated protocol version."""
    shown = disarm_all(error_json(error))
    code = INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
    return MCPError(code, shown["message"], {**shown, "uri": uri})
