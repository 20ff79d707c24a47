"""Cursor: hooks and MCP servers in two files; an event has a plain list of commands."""

from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_config import TIMEOUT_SECONDS, JsonInstaller
from agent_memory.features.hooks.adapters.agents.json_text import Json
from agent_memory.features.hooks.model.installations import Agent, ConfigFile

EVENTS = (
    "beforeSubmitPrompt",
    "afterAgentResponse",
    "afterFileEdit",
    "afterShellExecution",
    "afterMCPExecution",
    "stop",
)


class CursorInstaller(JsonInstaller):
    agent = Agent.CURSOR
    title = "Cursor"
    folder = ".cursor"
    files = (
        ConfigFile(path="hooks.json", hooks=True),
        ConfigFile(path="mcp.json", servers=True),
    )
    events = EVENTS
    lists = HookLists(grouped=False)
    required = {"version": 1}  # noqa: RUF012
    advice = "Start a new chat in Cursor. Its settings list the hooks under Hooks."

    def build_entry(self, _event: str, command: str) -> Json:
        return {"command": command, "timeout": TIMEOUT_SECONDS}
