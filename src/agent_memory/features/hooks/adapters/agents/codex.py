"""Codex: hooks in JSON, MCP servers in TOML."""

from dataclasses import replace
from pathlib import PurePath
from typing import Any

from agent_memory.features.hooks.adapters.agents import toml_config
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.model.installations import (
    MARKETPLACE,
    PLUGIN,
    Agent,
    AgentPlugin,
    ConfigFile,
    DesiredConfig,
    EditedConfig,
    InstalledEntries,
    InstallScope,
    InstallTarget,
)
from agent_memory.features.hooks.ports import ReadText
from agent_memory.kernel.json_fields import Fields

# Not PostCompact: Codex sends it without the summary, which only the transcript has.
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PreCompact",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
)
SETTINGS = "config.toml"
SWITCHES = ("hooks", "codex_hooks")  # the second is the earlier name
_NAME = f"{PLUGIN}@{MARKETPLACE}"
OWN_PLUGIN = AgentPlugin(name=_NAME, removal=f"codex plugin remove {_NAME}")


class CodexInstaller(JsonInstaller):
    agent = Agent.CODEX
    title = "Codex"
    folder = ".codex"
    files = (
        ConfigFile(path="hooks.json", hooks=True),
        ConfigFile(path=SETTINGS, servers=True),
    )
    events = EVENTS
    matchers = {"PreToolUse": "Bash|apply_patch"}  # noqa: RUF012

    def get_folder(self, target: InstallTarget, /) -> str:
        return target.read_override("CODEX_HOME") or super().get_folder(target)

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        if file.servers:
            return toml_config.edit_config(text, desired.server)
        return super().edit_file(file, text, desired)

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        if not file.servers:
            return super().find_entries(file, text)
        settings = toml_config.read(text)
        features = settings.get("features")
        switched = features if isinstance(features, dict) else {}
        off = next((name for name in SWITCHES if switched.get(name) is False), "")
        return InstalledEntries(
            servers=toml_config.find_servers(settings),
            off=f"features.{off} = false" if off else "",
            plugin=_find_plugin(settings),
        )

    def find_distrust(self, target: InstallTarget, read: ReadText, /) -> str:
        """Look for the hashes of trusted hooks, which the user's settings have for all scopes."""
        settings = toml_config.read(read(str(PurePath(self.get_folder(target)) / SETTINGS)) or "")
        hooks, *_ = self.list_files(target)
        trusted = _count_trusted(settings, hooks.path)
        if trusted >= len(EVENTS):
            return ""
        return f"{self.title} does not trust {'all of ' if trusted else ''}its hooks yet"

    def get_advice(self, target: InstallTarget, /) -> str:
        trust = " in a project that it trusts" if target.scope is InstallScope.PROJECT else ""
        return (
            f"Start a new session of Codex{trust}, enter /hooks and trust them:"
            " Codex runs no hook before that."
        )


def _find_plugin(settings: dict[str, Any]) -> AgentPlugin | None:
    plugins = settings.get("plugins")
    entry = plugins.get(OWN_PLUGIN.name) if isinstance(plugins, dict) else None
    if not isinstance(entry, dict) or entry.get("enabled") is not True:
        return None
    if _count_trusted(settings, OWN_PLUGIN.name) >= len(EVENTS):
        return OWN_PLUGIN
    return replace(OWN_PLUGIN, distrust="Codex does not trust the hooks of the plugin yet")


def _count_trusted(settings: dict[str, Any], origin: str) -> int:
    """Count the hooks of a file or a plugin that the user trusts."""
    section = Fields(settings).fields("hooks").value("state")
    states = section if isinstance(section, dict) else {}
    own = [entry for name, entry in states.items() if name.startswith(f"{origin}:")]
    return sum(isinstance(entry, dict) and bool(entry.get("trusted_hash")) for entry in own)
