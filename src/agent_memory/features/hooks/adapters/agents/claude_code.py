"""Claude Code: hooks in settings files of three levels, MCP servers in separate files."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.adapters.agents.json_text import Json, JsonContainer
from agent_memory.features.hooks.model.installations import (
    MARKETPLACE,
    PLUGIN,
    Agent,
    AgentPlugin,
    ConfigFile,
    InstallScope,
    InstallTarget,
    McpServer,
)

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
)
# What runs or changes something, or reads a file: a lesson can be about that.
_BEFORE = "Bash|Edit|MultiEdit|NotebookEdit|Read|Write"
_NAME = f"{PLUGIN}@{MARKETPLACE}"
OWN_PLUGIN = AgentPlugin(name=_NAME, removal=f"claude plugin uninstall {_NAME}")


class ClaudeCodeInstaller(JsonInstaller):
    agent = Agent.CLAUDE_CODE
    title = "Claude Code"
    folder = ".claude"
    events = EVENTS
    matchers = {"PreToolUse": _BEFORE}  # noqa: RUF012
    switch = "disableAllHooks"
    advice = "Start a new session of Claude Code. There, /hooks lists the hooks."

    def get_folder(self, target: InstallTarget, /) -> str:
        return target.read_override("CLAUDE_CONFIG_DIR") or super().get_folder(target)

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if target.scope is InstallScope.PROJECT:
            # Not settings.json, which everyone on the project shares: our entries have paths of
            # this machine.
            root = PurePath(target.root)
            return (
                ConfigFile(path=str(root / self.folder / "settings.local.json"), hooks=True),
                ConfigFile(path=str(root / ".mcp.json"), servers=True),
            )
        folder = PurePath(target.read_override("CLAUDE_CONFIG_DIR") or target.home)
        return (
            ConfigFile(path=str(PurePath(self.get_folder(target)) / "settings.json"), hooks=True),
            ConfigFile(path=str(folder / ".claude.json"), servers=True),
        )

    def list_shared_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if target.scope is InstallScope.USER:
            return ()
        path = PurePath(target.root) / self.folder / "settings.json"
        return (ConfigFile(path=str(path), hooks=True),)

    def build_server(self, server: McpServer) -> Json:
        return {"type": "stdio", **super().build_server(server)}

    def find_plugin(self, root: JsonContainer) -> AgentPlugin | None:
        piece = root.get("enabledPlugins")
        enabled = {} if piece is None else piece.value
        is_on = isinstance(enabled, dict) and enabled.get(OWN_PLUGIN.name) is True
        return OWN_PLUGIN if is_on else None
