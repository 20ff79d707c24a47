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

    def get_folder(self, seat: InstallTarget, /) -> str:
        return str(PurePath(seat.home) / ".cursor")

    def list_files(self, seat: InstallTarget, /) -> tuple[ConfigFile, ...]:
        base = seat.root if seat.scope is InstallScope.PROJECT else seat.home
        folder = PurePath(base) / ".cursor"
        return (
            ConfigFile(path=str(folder / "hooks.json"), hooks=True),
            ConfigFile(path=str(folder / "mcp.json"), servers=True),
        )

    def list_shared_files(self, _seat: InstallTarget, /) -> tuple[ConfigFile, ...]:
        return ()

    def edit_file(self, file: ConfigFile, text: str, wanted: DesiredConfig, /) -> EditedConfig:
        entry = {"command": wanted.hook, "timeout": TIMEOUT_SECONDS}
        return json_config.edit_config(
            file,
            text,
            hooks={event: entry for event in EVENTS if wanted.hook},
            server=json_config.stdio(wanted.server),
            lists=_LISTS,
            own=VERSION if file.hooks else None,
        )

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        return json_config.find_entries(file, text, _LISTS)

    def get_advice(self, _seat: InstallTarget, /) -> str:
        return "Start a new chat in Cursor; its settings list them under Hooks."
