"""The desk: what MCP clients are offered."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions

from agent_memory.interfaces.mcp.parts import Parts
from agent_memory.services.workplaces import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Where a connection comes from."""

    caller: Caller | None
    project: str = ""


class Desk:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def server(self, visitor: Callable[[ServerRequestContext[Any, Any]], Visitor]) -> Server[Any]:
        async def list_tools(
            _ctx: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
        ) -> types.ListToolsResult:
            tool = types.Tool(name="memory_status", input_schema={"type": "object"})
            return types.ListToolsResult(tools=[tool])

        async def call_tool(
            ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
        ) -> types.CallToolResult:
            who = visitor(ctx)
            if (params.arguments or {}).get("wait"):
                await anyio.sleep_forever()
            told = {"folder": who.caller.folder if who.caller else "", "project": who.project}
            text = types.TextContent(type="text", text=json.dumps(told))
            return types.CallToolResult(content=[text], structured_content=told)

        return Server(
            self._parts.settings.server_name,
            version=self._parts.version,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )

    def options(self, server: Server[Any]) -> InitializationOptions:
        return server.create_initialization_options(NotificationOptions(resources_changed=True))

    def close(self) -> None: ...
