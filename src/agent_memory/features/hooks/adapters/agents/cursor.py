"""Cursor: hooks and MCP servers in two files; an event has a plain list of commands."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import json_config
from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_config import TIMEOUT_SECONDS
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    DesiredConfig,
    EditedConfig,
    InstalledEntries,
    InstallScope,
    InstallTarget,
)

EVENTS = (
    "beforeSubmitPrompt",
    "afterAgentResponse",
    "afterFileEdit",
    "afterShellExecution",
    "afterMCPExecution",
    "stop",
)
VERSION = {"version": 1}
_LISTS = HookLists(grouped=False)


class CursorInstaller:
    agent = Agent.CURSOR
    title = "Cursor"

    def get_folder(self, target: InstallTarget, /) -> str:
        return str(PurePath(target.home) / ".cursor")

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        base = target.root if target.scope is InstallScope.PROJECT else target.home
        folder = PurePath(base) / ".cursor"
        return (
            ConfigFile(path=str(folder / "hooks.json"), hooks=True),
            ConfigFile(path=str(folder / "mcp.json"), servers=True),
        )

    def list_shared_files(self, _target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        return ()

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        entry = {"command": desired.hook, "timeout": TIMEOUT_SECONDS}
        return json_config.edit_config(
            file,
            text,
            hooks={event: entry for event in EVENTS if desired.hook},
            server=json_config.build_server(desired.server),
            lists=_LISTS,
            own=VERSION if file.hooks else None,
        )

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        return json_config.find_entries(file, text, _LISTS)

    def get_advice(self, _target: InstallTarget, /) -> str:
        return "Start a new chat in Cursor. Its settings list the hooks under Hooks."
