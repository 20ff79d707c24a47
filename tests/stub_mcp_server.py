"""A stub MCP server for tests of the transports: its tools do one thing each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

from agent_memory.kernel.callers import Caller

TOOLS = ("where", "wait", "linger", "pause", "repeat")
WAITING, CANCELLED = "waiting", "cancelled"


class StubTools:
    """Writes to `record` what happens to the call that waits."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "waiting"
        self.link = folder / "daemon.sock"  # removed when the daemon begins to stop

    def build_server(
        self, find_caller: Callable[[ServerRequestContext[Any, Any]], Caller]
    ) -> Server[Any]:
        async def list_tools(
            _ctx: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
        ) -> types.ListToolsResult:
            tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in TOOLS]
            return types.ListToolsResult(tools=tools)

        async def call_tool(
            ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
        ) -> types.CallToolResult:
            arguments = params.arguments or {}
            if params.name == "where":
                client = find_caller(ctx)
                return _to_result({"folder": client.folder, "project": client.project})
            if params.name == "wait":
                await self._wait()
            while params.name == "linger" and self.link.is_symlink():  # noqa: ASYNC110  # a file
                await anyio.sleep(0.01)
            if params.name == "pause":
                await anyio.sleep(0.2)
            return _to_result({"text": arguments.get("text", "x") * arguments.get("times", 1)})

        return Server("stub", version="1", on_list_tools=list_tools, on_call_tool=call_tool)

    def close(self) -> None:
        pass

    async def _wait(self) -> None:
        self.record.write_text(WAITING)
        try:
            await anyio.sleep_forever()
        finally:
            self.record.write_text(CANCELLED)


def _to_result(value: dict[str, str]) -> types.CallToolResult:
    text = types.TextContent(type="text", text=json.dumps(value))
    return types.CallToolResult(content=[text], structured_content=value)
