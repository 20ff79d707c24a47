"""Gemini CLI: hooks and MCP servers in one settings file; times in milliseconds."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import json_config
from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_config import TIMEOUT_SECONDS
from agent_memory.features.hooks.adapters.agents.json_text import Json, JsonDocument
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    DesiredConfig,
    EditedConfig,
    InstalledEntries,
    InstallScope,
    InstallTarget,
)

EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "AfterTool", "PreCompress", "SessionEnd")
ABOUT_TOOLS = ("AfterTool",)
NAME = "agent-memory"  # by which it is listed, and can be switched off, in the agent


class GeminiInstaller:
    agent = Agent.GEMINI
    title = "Gemini CLI"

    def get_folder(self, seat: InstallTarget, /) -> str:
        return str(PurePath(seat.read_override("GEMINI_CLI_HOME") or seat.home) / ".gemini")

    def list_files(self, seat: InstallTarget, /) -> tuple[ConfigFile, ...]:
        folder = PurePath(self.get_folder(seat))
        if seat.scope is InstallScope.PROJECT:
            folder = PurePath(seat.root) / ".gemini"
        return (ConfigFile(path=str(folder / "settings.json"), hooks=True, servers=True),)

    def list_shared_files(self, _seat: InstallTarget, /) -> tuple[ConfigFile, ...]:
        return ()

    def edit_file(self, file: ConfigFile, text: str, wanted: DesiredConfig, /) -> EditedConfig:
        return json_config.edit_config(
            file,
            text,
            hooks={event: _entry(event, wanted.hook) for event in EVENTS if wanted.hook},
            server=json_config.stdio(wanted.server),
            lists=HookLists(),
        )

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        switch = JsonDocument(text).root.get("hooksConfig")
        found = {} if switch is None else switch.value
        off = isinstance(found, dict) and found.get("enabled") is False
        return json_config.find_entries(
            file, text, HookLists(), off="hooksConfig.enabled = false" if off else ""
        )

    def get_advice(self, _seat: InstallTarget, /) -> str:
        return "Start a new session of Gemini CLI; /hooks lists them there."


def _entry(event: str, command: str) -> Json:
    handler = {
        "name": NAME,
        "type": "command",
        "command": command,
        "timeout": TIMEOUT_SECONDS * 1000,
    }
    return json_config.group(handler, tools=event in ABOUT_TOOLS)
