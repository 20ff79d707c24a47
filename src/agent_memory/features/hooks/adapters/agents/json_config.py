"""What agents with JSON files have in common: reading them, and settling what of ours is there."""

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
    """`own` are keys that a file must have to be read at all, and that alone say nothing."""
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
        text=document.text, bare=all(each.key in own for each in document.root.pieces)
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


def group(handler: Json, *, tools: bool) -> Json:
    """Handlers of an event that concerns tools say which: all of them."""
    return {"matcher": ALL_TOOLS, "hooks": [handler]} if tools else {"hooks": [handler]}


def stdio(server: McpServer | None) -> Json | None:
    return None if server is None else {"command": server.command, "args": list(server.args)}
