"""Claude Code: hooks in settings files of three levels, MCP servers in files of their own."""

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

# Not PreToolUse nor PostCompact: we would have nothing to say or to record there.
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
)
ABOUT_TOOLS = ("PostToolUse", "PostToolUseFailure")
OWN_TIMEOUT = ("SessionEnd",)  # so short that it is better left to the agent


class ClaudeCodeInstaller:
    agent = Agent.CLAUDE_CODE
    title = "Claude Code"

    def get_folder(self, seat: InstallTarget, /) -> str:
        return seat.read_override("CLAUDE_CONFIG_DIR") or str(PurePath(seat.home) / ".claude")

    def list_files(self, seat: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if seat.scope is InstallScope.PROJECT:
            # Not settings.json, which is for all who work on the project: what is written has
            # paths of this machine.
            root = PurePath(seat.root)
            return (
                ConfigFile(path=str(root / ".claude" / "settings.local.json"), hooks=True),
                ConfigFile(path=str(root / ".mcp.json"), servers=True),
            )
        servers = PurePath(seat.read_override("CLAUDE_CONFIG_DIR") or seat.home) / ".claude.json"
        return (
            ConfigFile(path=str(PurePath(self.get_folder(seat)) / "settings.json"), hooks=True),
            ConfigFile(path=str(servers), servers=True),
        )

    def list_shared_files(self, seat: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if seat.scope is InstallScope.USER:
            return ()
        path = PurePath(seat.root) / ".claude" / "settings.json"
        return (ConfigFile(path=str(path), hooks=True),)

    def edit_file(self, file: ConfigFile, text: str, wanted: DesiredConfig, /) -> EditedConfig:
        server = json_config.stdio(wanted.server)
        return json_config.edit_config(
            file,
            text,
            hooks={event: _entry(event, wanted.hook) for event in EVENTS if wanted.hook},
            server=None if server is None else {"type": "stdio", **server},
            lists=HookLists(),
        )

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        off = JsonDocument(text).root.get("disableAllHooks") if file.hooks else None
        switched = off is not None and off.value is True
        return json_config.find_entries(
            file, text, HookLists(), off="disableAllHooks = true" if switched else ""
        )

    def get_advice(self, _seat: InstallTarget, /) -> str:
        return "Start a new session of Claude Code; /hooks lists them there."


def _entry(event: str, command: str) -> Json:
    handler: Json = {"type": "command", "command": command}
    if event not in OWN_TIMEOUT:
        handler["timeout"] = TIMEOUT_SECONDS
    return json_config.group(handler, tools=event in ABOUT_TOOLS)
