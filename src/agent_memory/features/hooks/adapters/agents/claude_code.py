"""Claude Code: hooks in settings files of three levels, MCP servers in files of their own."""

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


class ClaudeCode:
    agent = Agent.CLAUDE_CODE
    title = "Claude Code"

    def folder(self, seat: Seat, /) -> str:
        return seat.moved("CLAUDE_CONFIG_DIR") or str(PurePath(seat.home) / ".claude")

    def files(self, seat: Seat, /) -> tuple[ConfigFile, ...]:
        if seat.scope is Scope.PROJECT:
            # Not settings.json, which is for all who work on the project: what is written has
            # paths of this machine.
            root = PurePath(seat.root)
            return (
                ConfigFile(path=str(root / ".claude" / "settings.local.json"), hooks=True),
                ConfigFile(path=str(root / ".mcp.json"), servers=True),
            )
        servers = PurePath(seat.moved("CLAUDE_CONFIG_DIR") or seat.home) / ".claude.json"
        return (
            ConfigFile(path=str(PurePath(self.folder(seat)) / "settings.json"), hooks=True),
            ConfigFile(path=str(servers), servers=True),
        )

    def shared(self, seat: Seat, /) -> tuple[ConfigFile, ...]:
        if seat.scope is Scope.USER:
            return ()
        path = PurePath(seat.root) / ".claude" / "settings.json"
        return (ConfigFile(path=str(path), hooks=True),)

    def edited(self, file: ConfigFile, text: str, wanted: Wanted, /) -> Edited:
        server = json_config.stdio(wanted.server)
        return json_config.edited(
            file,
            text,
            hooks={event: _entry(event, wanted.hook) for event in EVENTS if wanted.hook},
            server=None if server is None else {"type": "stdio", **server},
            lists=HookLists(),
        )

    def ours(self, file: ConfigFile, text: str, /) -> Ours:
        off = Document(text).root.get("disableAllHooks") if file.hooks else None
        switched = off is not None and off.value is True
        return json_config.ours(
            file, text, HookLists(), off="disableAllHooks = true" if switched else ""
        )

    def advice(self, _seat: Seat, /) -> str:
        return "Start a new session of Claude Code; /hooks lists them there."


def _entry(event: str, command: str) -> Json:
    handler: Json = {"type": "command", "command": command}
    if event not in OWN_TIMEOUT:
        handler["timeout"] = TIMEOUT_SECONDS
    return json_config.group(handler, tools=event in ABOUT_TOOLS)
