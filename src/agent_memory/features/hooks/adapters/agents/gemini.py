"""Gemini CLI: hooks and MCP servers in one settings file; times in milliseconds."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents.json_config import (
    TIMEOUT_SECONDS,
    JsonInstaller,
)
from agent_memory.features.hooks.adapters.agents.json_text import Json, JsonContainer
from agent_memory.features.hooks.model.installations import (
    MARKETPLACE,
    Agent,
    AgentPlugin,
    ConfigFile,
    InstalledEntries,
    InstallScope,
    InstallTarget,
)

EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "AfterTool", "PreCompress", "SessionEnd")
NAME = "agent-memory"  # the agent lists it, and can switch it off, under this name
# Its commands are in a folder called memory; its own name must differ from those of others.
OWN_PLUGIN = AgentPlugin(name=MARKETPLACE, removal=f"gemini extensions uninstall {MARKETPLACE}")
_RECORD = f"extensions/{OWN_PLUGIN.name}/.gemini-extension-install.json"


class GeminiInstaller(JsonInstaller):
    agent = Agent.GEMINI
    title = "Gemini CLI"
    folder = ".gemini"
    files = (ConfigFile(path="settings.json", hooks=True, servers=True),)
    events = EVENTS
    advice = "Start a new session of Gemini CLI. There, /hooks lists the hooks."

    def get_folder(self, target: InstallTarget, /) -> str:
        return str(PurePath(target.read_override("GEMINI_CLI_HOME") or target.home) / self.folder)

    def list_shared_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if target.scope is InstallScope.PROJECT:
            return ()
        return (ConfigFile(path=str(PurePath(self.get_folder(target)) / _RECORD), plugin=True),)

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        if file.plugin:
            return InstalledEntries(plugin=OWN_PLUGIN if text else None)
        return super().find_entries(file, text)

    def build_entry(self, event: str, command: str) -> Json:
        timeout = TIMEOUT_SECONDS * 1000
        handler = {"name": NAME, "type": "command", "command": command, "timeout": timeout}
        return self.build_group(event, handler)

    def find_switch(self, root: JsonContainer) -> str:
        piece = root.get("hooksConfig")
        switches = {} if piece is None else piece.value
        off = isinstance(switches, dict) and switches.get("enabled") is False
        return "hooksConfig.enabled = false" if off else ""
