"""Cursor: hooks and MCP servers in two files; an event has a plain list of commands."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import json_config
from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_config import TIMEOUT_SECONDS
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    Edited,
    Ours,
    Scope,
    Seat,
    Wanted,
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


class Cursor:
    agent = Agent.CURSOR
    title = "Cursor"

    def folder(self, seat: Seat, /) -> str:
        return str(PurePath(seat.home) / ".cursor")

    def files(self, seat: Seat, /) -> tuple[ConfigFile, ...]:
        base = seat.root if seat.scope is Scope.PROJECT else seat.home
        folder = PurePath(base) / ".cursor"
        return (
            ConfigFile(path=str(folder / "hooks.json"), hooks=True),
            ConfigFile(path=str(folder / "mcp.json"), servers=True),
        )

    def shared(self, _seat: Seat, /) -> tuple[ConfigFile, ...]:
        return ()

    def edited(self, file: ConfigFile, text: str, wanted: Wanted, /) -> Edited:
        entry = {"command": wanted.hook, "timeout": TIMEOUT_SECONDS}
        return json_config.edited(
            file,
            text,
            hooks={event: entry for event in EVENTS if wanted.hook},
            server=json_config.stdio(wanted.server),
            lists=_LISTS,
            own=VERSION if file.hooks else None,
        )

    def ours(self, file: ConfigFile, text: str, /) -> Ours:
        return json_config.ours(file, text, _LISTS)

    def advice(self, _seat: Seat, /) -> str:
        return "Start a new chat in Cursor; its settings list them under Hooks."
