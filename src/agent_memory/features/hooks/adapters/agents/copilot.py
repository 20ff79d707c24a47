"""GitHub Copilot CLI: hooks in a file that VS Code reads too, and MCP servers."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_config import (
    OWN_TIMEOUT,
    TIMEOUT_SECONDS,
    JsonInstaller,
)
from agent_memory.features.hooks.adapters.agents.json_text import Json
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    InstallScope,
    InstallTarget,
    McpServer,
)

# With these names, Copilot sends the input that VS Code and Claude Code send.
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
)
HOOKS = "hooks/agent-memory.json"
SETTINGS = "settings.json"


class CopilotInstaller(JsonInstaller):
    agent = Agent.COPILOT
    title = "GitHub Copilot CLI"
    folder = ".copilot"
    events = EVENTS
    lists = HookLists(grouped=False)
    switch = "disableAllHooks"
    required = {"version": 1}  # noqa: RUF012
    comments = True
    advice = "Start a new session of GitHub Copilot CLI. VS Code runs these hooks too."

    def get_folder(self, target: InstallTarget, /) -> str:
        return target.read_override("COPILOT_HOME") or super().get_folder(target)

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        folder, servers = PurePath(self.get_folder(target)), "mcp-config.json"
        if target.scope is InstallScope.PROJECT:
            folder, servers = PurePath(target.root) / ".github", "mcp.json"
        return (
            ConfigFile(path=str(folder / HOOKS), hooks=True),
            ConfigFile(path=str(folder / servers), servers=True),
        )

    def list_shared_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        """Return the settings: they can switch hooks off, and have hooks too."""
        paths = [PurePath(self.get_folder(target)) / SETTINGS]
        if target.scope is InstallScope.PROJECT:
            folder = PurePath(target.root) / ".github/copilot"
            paths = [folder / SETTINGS, folder / "settings.local.json"]
        return tuple(ConfigFile(path=str(path), hooks=True) for path in paths)

    def build_entry(self, event: str, command: str) -> Json:
        entry: Json = {"type": "command", "command": command}
        if event != OWN_TIMEOUT:
            entry["timeoutSec"] = TIMEOUT_SECONDS
        return entry

    def build_server(self, server: McpServer) -> Json:
        return {"type": "local", **super().build_server(server), "tools": ["*"]}
