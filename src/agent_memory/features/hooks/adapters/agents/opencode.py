"""OpenCode: a plugin that calls our hooks, and MCP servers in a settings file with comments."""

import json
from importlib import resources
from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import folders, owned_files
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.adapters.agents.json_text import Json
from agent_memory.features.hooks.adapters.agents.server_tables import ServerTable
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    DesiredConfig,
    EditedConfig,
    InstalledEntries,
    InstallScope,
    InstallTarget,
    McpServer,
)

PLUGIN = "opencode_plugin.js"


class OpenCodeInstaller(JsonInstaller):
    agent = Agent.OPENCODE
    title = "OpenCode"
    table = ServerTable("mcp")
    comments = True
    advice = "Start a new session of OpenCode."

    def get_folder(self, target: InstallTarget, /) -> str:
        return target.read_override("OPENCODE_CONFIG_DIR") or str(
            folders.get_config_home(target) / "opencode"
        )

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        settings = plugins = PurePath(self.get_folder(target))
        if target.scope is InstallScope.PROJECT:
            settings = PurePath(target.root)
            plugins = settings / ".opencode"
        return (
            ConfigFile(path=str(plugins / "plugins/agent-memory.js"), hooks=True),
            ConfigFile(
                path=str(settings / "opencode.json"),
                servers=True,
                alternatives=(str(settings / "opencode.jsonc"),),
            ),
        )

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        if not file.hooks:
            return super().edit_file(file, text, desired)
        return owned_files.edit_owned(text, build_plugin(desired.hook) if desired.hook else "")

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        if not file.hooks:
            return super().find_entries(file, text)
        return InstalledEntries(hooks=owned_files.find_constant(text))

    def build_server(self, server: McpServer) -> Json:
        return {"type": "local", "command": [server.command, *server.args], "enabled": True}


def build_plugin(command: str) -> str:
    source = resources.files(__package__).joinpath(PLUGIN).read_text(encoding="utf-8")
    return source.replace('const COMMAND = ""', f"const COMMAND = {json.dumps(command)}", 1)
