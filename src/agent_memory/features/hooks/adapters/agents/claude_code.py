"""Claude Code: hooks in settings files of three levels, MCP servers in separate files."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import json_config
from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
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

# Not PreToolUse and PostCompact: there is nothing to record or to answer.
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
OWN_TIMEOUT = ("SessionEnd",)  # the agent's own is very short: leave it to the agent


class ClaudeCodeInstaller:
    agent = Agent.CLAUDE_CODE
    title = "Claude Code"

    def get_folder(self, target: InstallTarget, /) -> str:
        return target.read_override("CLAUDE_CONFIG_DIR") or str(PurePath(target.home) / ".claude")

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if target.scope is InstallScope.PROJECT:
            # Not settings.json, which everyone on the project shares: our entries have paths of
            # this machine.
            root = PurePath(target.root)
            return (
                ConfigFile(path=str(root / ".claude" / "settings.local.json"), hooks=True),
                ConfigFile(path=str(root / ".mcp.json"), servers=True),
            )
        folder = PurePath(target.read_override("CLAUDE_CONFIG_DIR") or target.home)
        return (
            ConfigFile(path=str(PurePath(self.get_folder(target)) / "settings.json"), hooks=True),
            ConfigFile(path=str(folder / ".claude.json"), servers=True),
        )

    def list_shared_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        if target.scope is InstallScope.USER:
            return ()
        path = PurePath(target.root) / ".claude" / "settings.json"
        return (ConfigFile(path=str(path), hooks=True),)

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        server = json_config.build_server(desired.server)
        return json_config.edit_config(
            file,
            text,
            hooks={event: _build_entry(event, desired.hook) for event in EVENTS if desired.hook},
            server=None if server is None else {"type": "stdio", **server},
            lists=HookLists(),
        )

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        off = JsonDocument(text).root.get("disableAllHooks") if file.hooks else None
        switched = off is not None and off.value is True
        return json_config.find_entries(
            file, text, HookLists(), off="disableAllHooks = true" if switched else ""
        )

    def get_advice(self, _target: InstallTarget, /) -> str:
        return "Start a new session of Claude Code. There, /hooks lists the hooks."


def _build_entry(event: str, command: str) -> Json:
    handler = json_config.build_command(command, timeout=event not in OWN_TIMEOUT)
    return json_config.build_group(handler, tools=event in ABOUT_TOOLS)
