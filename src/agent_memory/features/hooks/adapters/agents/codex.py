"""Codex: hooks in JSON, MCP servers in TOML."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import json_config, toml_config
from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_text import Json
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
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PreCompact",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
)
ABOUT_TOOLS = ("PostToolUse",)
OWN_TIMEOUT = ("SessionEnd",)  # the agent's own is very short: leave it to the agent
SWITCHES = ("hooks", "codex_hooks")  # the second is the earlier name


class CodexInstaller:
    agent = Agent.CODEX
    title = "Codex"

    def get_folder(self, target: InstallTarget, /) -> str:
        return target.read_override("CODEX_HOME") or str(PurePath(target.home) / ".codex")

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        folder = PurePath(self.get_folder(target))
        if target.scope is InstallScope.PROJECT:
            folder = PurePath(target.root) / ".codex"
        return (
            ConfigFile(path=str(folder / "hooks.json"), hooks=True),
            ConfigFile(path=str(folder / "config.toml"), servers=True),
        )

    def list_shared_files(self, _target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        return ()

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        if file.servers:
            return toml_config.edit_config(text, desired.server)
        return json_config.edit_config(
            file,
            text,
            hooks={event: _build_entry(event, desired.hook) for event in EVENTS if desired.hook},
            server=None,
            lists=HookLists(),
        )

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        if not file.servers:
            return json_config.find_entries(file, text, HookLists())
        settings = toml_config.read(text)
        features = settings.get("features")
        switched = features if isinstance(features, dict) else {}
        off = next((name for name in SWITCHES if switched.get(name) is False), "")
        return InstalledEntries(
            servers=toml_config.find_servers(settings), off=f"features.{off} = false" if off else ""
        )

    def get_advice(self, target: InstallTarget, /) -> str:
        trust = " in a project that it trusts" if target.scope is InstallScope.PROJECT else ""
        return (
            f"Start a new session of Codex{trust}, enter /hooks and trust them:"
            " Codex runs no hook before that."
        )


def _build_entry(event: str, command: str) -> Json:
    handler = json_config.build_command(command, timeout=event not in OWN_TIMEOUT)
    return json_config.build_group(handler, tools=event in ABOUT_TOOLS)
