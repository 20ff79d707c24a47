"""Roo Code: MCP servers and rules. It has no hooks."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import folders
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    InstallScope,
    InstallTarget,
)

EXTENSION = "globalStorage/rooveterinaryinc.roo-cline"


class RooInstaller(JsonInstaller):
    agent = Agent.ROO
    title = "Roo Code"
    advice = "Start a new task in Roo Code."

    def get_folder(self, target: InstallTarget, /) -> str:
        return str(folders.get_vscode_user(target) / EXTENSION)

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        project = target.scope is InstallScope.PROJECT
        own = PurePath(target.root if project else target.home) / ".roo"
        servers = PurePath(self.get_folder(target)) / "settings/mcp_settings.json"
        return (
            ConfigFile(path=str(own / "mcp.json" if project else servers), servers=True),
            ConfigFile(path=str(own / "rules/agent-memory.md"), rules=True),
        )
