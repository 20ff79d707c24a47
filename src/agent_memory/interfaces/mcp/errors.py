"""Errors over MCP: what a tool tells of a failure, and what the protocol itself does.

A tool's failure is a result, so that the model reads it. A protocol's has the protocol's own code
where it has one, and the product's code in its data.
"""

from typing import Any

from mcp import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from agent_memory.interfaces.wire.errors import error_json
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput, NotFound

ERROR_KEY = "agent-memory/error"
RESOURCE_NOT_FOUND = -32002  # before 2026-07-28; since then it is one of the wrong parameters
CRASHED = "it failed in the daemon; its log says why"
_SHOWN = 5


def to_invalid_input(error: ValidationError) -> InvalidInput:
    """What is wrong with arguments, without what they are: they may hold a secret."""
    told = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in told]
    return InvalidInput("; ".join(shown[:_SHOWN]))


def to_tool_result(error: AgentMemoryError) -> CallToolResult:
    """Without structured content: clients would hold it against the schema of a success."""
    told = error_json(error)
    return CallToolResult(
        content=[TextContent(text=f"Error {told['code']} ({told['name']}): {told['message']}")],
        is_error=True,
        _meta={ERROR_KEY: told},
    )


def to_protocol_error(error: AgentMemoryError, **data: Any) -> MCPError:
    told = error_json(error)
    code = INVALID_PARAMS if isinstance(error, InvalidInput | NotFound) else told["code"]
    return MCPError(code, told["message"], {**told, **data})


def to_missing_resource(error: NotFound, version: str, uri: str) -> MCPError:
    """No such resource, in the code of the negotiated revision."""
    told = error_json(error)
    modern = version in MODERN_PROTOCOL_VERSIONS
    code = INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
    return MCPError(code, told["message"], {**told, "uri": uri})
