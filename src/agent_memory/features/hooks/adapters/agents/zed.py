"""Zed: MCP servers in settings with comments, and rules. It has no hooks."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import folders
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.adapters.agents.server_tables import ServerTable
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    InstallScope,
    InstallTarget,
)

# Zed reads the first of these: a new .rules would hide the others.
RULES = (
    ".rules",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".github/copilot-instructions.md",
    "AGENT.md",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
)


class ZedInstaller(JsonInstaller):
    agent = Agent.ZED
    title = "Zed"
    table = ServerTable("context_servers")
    comments = True
    advice = "Start a new thread in Zed. Its settings list the server under MCP Servers."

    def get_folder(self, target: InstallTarget, /) -> str:
        return str(folders.get_config_home(target) / "zed")

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if target.scope is InstallScope.PROJECT:
            root = PurePath(target.root)
            first, *others = (str(root / name) for name in RULES)
            return (
                ConfigFile(path=str(root / ".zed/settings.json"), servers=True),
                ConfigFile(path=first, rules=True, alternatives=tuple(others)),
            )
        folder = PurePath(self.get_folder(target))
        return (
            ConfigFile(path=str(folder / "settings.json"), servers=True),
            ConfigFile(path=str(folder / "AGENTS.md"), rules=True),
        )
