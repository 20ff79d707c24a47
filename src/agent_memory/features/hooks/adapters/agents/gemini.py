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
NAME = "agent-memory"  # the agent lists it, and can switch it off, under this name


class GeminiInstaller:
    agent = Agent.GEMINI
    title = "Gemini CLI"

    def get_folder(self, target: InstallTarget, /) -> str:
        return str(PurePath(target.read_override("GEMINI_CLI_HOME") or target.home) / ".gemini")

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        folder = PurePath(self.get_folder(target))
        if target.scope is InstallScope.PROJECT:
            folder = PurePath(target.root) / ".gemini"
        return (ConfigFile(path=str(folder / "settings.json"), hooks=True, servers=True),)

    def list_shared_files(self, _target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        return ()

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        return json_config.edit_config(
            file,
            text,
            hooks={event: _build_entry(event, desired.hook) for event in EVENTS if desired.hook},
            server=json_config.build_server(desired.server),
            lists=HookLists(),
        )

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        piece = JsonDocument(text).root.get("hooksConfig")
        switches = {} if piece is None else piece.value
        off = isinstance(switches, dict) and switches.get("enabled") is False
        return json_config.find_entries(
            file, text, HookLists(), off="hooksConfig.enabled = false" if off else ""
        )

    def get_advice(self, _target: InstallTarget, /) -> str:
        return "Start a new session of Gemini CLI. There, /hooks lists the hooks."


def _build_entry(event: str, command: str) -> Json:
    handler = {
        "name": NAME,
        "type": "command",
        "command": command,
        "timeout": TIMEOUT_SECONDS * 1000,
    }
    return json_config.build_group(handler, tools=event in ABOUT_TOOLS)
