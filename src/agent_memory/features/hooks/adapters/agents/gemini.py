"""Gemini CLI: hooks and MCP servers in one settings file; times in milliseconds."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import json_config
from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_config import TIMEOUT_SECONDS
from agent_memory.features.hooks.adapters.agents.json_text import Document, Json
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    Edited,
    Ours,
    Scope,
    Seat,
    Wanted,
)

EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "AfterTool", "PreCompress", "SessionEnd")
ABOUT_TOOLS = ("AfterTool",)
NAME = "agent-memory"  # by which it is listed, and can be switched off, in the agent


class Gemini:
    agent = Agent.GEMINI
    title = "Gemini CLI"

    def folder(self, seat: Seat, /) -> str:
        return str(PurePath(seat.moved("GEMINI_CLI_HOME") or seat.home) / ".gemini")

    def files(self, seat: Seat, /) -> tuple[ConfigFile, ...]:
        folder = PurePath(self.folder(seat))
        if seat.scope is Scope.PROJECT:
            folder = PurePath(seat.root) / ".gemini"
        return (ConfigFile(path=str(folder / "settings.json"), hooks=True, servers=True),)

    def shared(self, _seat: Seat, /) -> tuple[ConfigFile, ...]:
        return ()

    def edited(self, file: ConfigFile, text: str, wanted: Wanted, /) -> Edited:
        return json_config.edited(
            file,
            text,
            hooks={event: _entry(event, wanted.hook) for event in EVENTS if wanted.hook},
            server=json_config.stdio(wanted.server),
            lists=HookLists(),
        )

    def ours(self, file: ConfigFile, text: str, /) -> Ours:
        switch = Document(text).root.get("hooksConfig")
        found = {} if switch is None else switch.value
        off = isinstance(found, dict) and found.get("enabled") is False
        return json_config.ours(
            file, text, HookLists(), off="hooksConfig.enabled = false" if off else ""
        )

    def advice(self, _seat: Seat, /) -> str:
        return "Start a new session of Gemini CLI; /hooks lists them there."


def _entry(event: str, command: str) -> Json:
    handler = {
        "name": NAME,
        "type": "command",
        "command": command,
        "timeout": TIMEOUT_SECONDS * 1000,
    }
    return json_config.group(handler, tools=event in ABOUT_TOOLS)
