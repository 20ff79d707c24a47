"""Windsurf: hooks, which take no context, MCP servers of the user alone, and rules."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.adapters.agents.json_text import Json
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    InstallScope,
    InstallTarget,
)

# Not post_read_code: it names a file, and has nothing to record.
EVENTS = (
    "pre_user_prompt",
    "post_write_code",
    "post_run_command",
    "post_mcp_tool_use",
    "post_cascade_response",
)
FRONT = "---\ntrigger: always_on\n---\n"


class WindsurfInstaller(JsonInstaller):
    agent = Agent.WINDSURF
    title = "Windsurf"
    folder = ".codeium/windsurf"
    events = EVENTS
    lists = HookLists(grouped=False)

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if target.scope is InstallScope.PROJECT:
            folder = PurePath(target.root) / ".windsurf"
            return (
                ConfigFile(path=str(folder / "hooks.json"), hooks=True),
                ConfigFile(path=str(folder / "rules/agent-memory.md"), rules=True, front=FRONT),
            )
        folder = PurePath(self.get_folder(target))
        return (
            ConfigFile(path=str(folder / "hooks.json"), hooks=True),
            ConfigFile(path=str(folder / "mcp_config.json"), servers=True),
            ConfigFile(path=str(folder / "memories/global_rules.md"), rules=True),
        )

    def get_advice(self, target: InstallTarget, /) -> str:
        start = "Start a new chat in Windsurf."
        if target.scope is InstallScope.PROJECT:
            return (
                f"{start} It has MCP servers of the user only: run `memory install windsurf` too."
            )
        return start

    def build_entry(self, _event: str, command: str) -> Json:
        return {"command": command, "show_output": False}
