"""Edit and read our entries in JSON config files."""

from collections.abc import Mapping

from agent_memory.features.hooks.adapters.agents import server_tables
from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_text import Json, JsonDocument
from agent_memory.features.hooks.model.installations import (
    ConfigFile,
    EditedConfig,
    InstalledEntries,
    McpServer,
)

TIMEOUT_SECONDS = 10
ALL_TOOLS = "*"


def edit_config(
    file: ConfigFile,
    text: str,
    *,
    hooks: Mapping[str, Json],
    server: Json | None,
    lists: HookLists,
    own: Mapping[str, Json] | None = None,
) -> EditedConfig:
    """Return the text with our entries. `own` are keys that the agent requires in every file."""
    document = JsonDocument(text)
    own = own or {}
    before = document.text
    if file.hooks:
        if hooks:
            for key, value in own.items():
                if document.root.get(key) is None:
                    document.root.append(value, key)
        lists.reconcile(document.root, hooks)
    if file.servers:
        server_tables.reconcile(document.root, server)
    if document.text == before:
        return EditedConfig(text=text)
    return EditedConfig(
        text=document.text, bare=all(piece.key in own for piece in document.root.pieces)
    )


def find_entries(
    file: ConfigFile, text: str, lists: HookLists, *, off: str = ""
) -> InstalledEntries:
    root = JsonDocument(text).root
    return InstalledEntries(
        hooks=lists.find_commands(root) if file.hooks else (),
        servers=server_tables.find_servers(root) if file.servers else (),
        off=off,
    )


def build_command(command: str, *, timeout: bool) -> Json:
    """Build the handler of a hook, as Claude Code and Codex have it."""
    handler: Json = {"type": "command", "command": command}
    return {**handler, "timeout": TIMEOUT_SECONDS} if timeout else handler


def build_group(handler: Json, *, tools: bool) -> Json:
    """Build the group of a handler. An event about tools needs a matcher."""
    return {"matcher": ALL_TOOLS, "hooks": [handler]} if tools else {"hooks": [handler]}


def build_server(server: McpServer | None) -> Json | None:
    return None if server is None else {"command": server.command, "args": list(server.args)}
