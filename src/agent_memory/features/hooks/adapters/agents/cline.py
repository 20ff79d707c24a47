"""Cline: a script for each hook, MCP servers of the user alone, and rules."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import folders, owned_files
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.adapters.agents.json_text import Json
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

EVENTS = (
    "TaskStart",
    "TaskResume",
    "UserPromptSubmit",
    "PostToolUse",
    "PreCompact",
    "TaskComplete",
    "SessionShutdown",
)
SERVERS = "settings/cline_mcp_settings.json"
RULES = "agent-memory.md"
START_SECONDS = 60  # its own limit of 3 seconds is too short for a daemon that starts first
EXTENSION = "globalStorage/saoudrizwan.claude-dev"


class ClineInstaller(JsonInstaller):
    agent = Agent.CLINE
    title = "Cline"
    folder = ".cline"
    events = EVENTS

    def get_folder(self, target: InstallTarget, /) -> str:
        return target.read_override("CLINE_DIR") or super().get_folder(target)

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if target.scope is InstallScope.PROJECT:
            rules = PurePath(target.root) / ".clinerules"
            return (*_list_scripts(rules / "hooks"), _build_rules(rules))
        documents = PurePath(target.home) / "Documents/Cline"
        data = target.read_override("CLINE_DATA_DIR") or PurePath(self.get_folder(target)) / "data"
        extension = folders.get_vscode_user(target) / EXTENSION
        return (
            *_list_scripts(documents / "Hooks"),
            ConfigFile(path=str(PurePath(data) / SERVERS), servers=True),
            ConfigFile(path=str(extension / SERVERS), servers=True, optional=True),
            _build_rules(documents / "Rules"),
        )

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        if not file.hooks:
            return super().edit_file(file, text, desired)
        script = owned_files.build_script(desired.hook) if desired.hook else ""
        return owned_files.edit_owned(text, script, executable=True)

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        if not file.hooks:
            return super().find_entries(file, text)
        return InstalledEntries(hooks=owned_files.find_script_command(text))

    def build_server(self, server: McpServer) -> Json:
        return {**super().build_server(server), "timeout": START_SECONDS}

    def get_advice(self, target: InstallTarget, /) -> str:
        start = "Start a new task in Cline; if it has a switch for hooks, turn it on."
        if target.scope is InstallScope.PROJECT:
            return f"{start} It has MCP servers of the user only: run `memory install cline` too."
        return start


def _list_scripts(folder: PurePath) -> tuple[ConfigFile, ...]:
    return tuple(ConfigFile(path=str(folder / event), hooks=True) for event in EVENTS)


def _build_rules(folder: PurePath) -> ConfigFile:
    return ConfigFile(path=str(folder / RULES), rules=True)
