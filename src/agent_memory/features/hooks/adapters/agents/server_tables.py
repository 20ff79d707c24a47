"""MCP servers in JSON: an object of servers by name."""

from agent_memory.features.hooks.adapters.agents.json_text import Json, JsonContainer
from agent_memory.features.hooks.model.installations import SERVE, McpServer, is_our_command
from agent_memory.kernel.errors import ConfigError

SERVERS = "mcpServers"
# Others have a server called memory too, and theirs stays.
NAMES = ("memory", "agent-memory")


def reconcile(root: JsonContainer, wanted: Json | None) -> None:
    """Our entry becomes what is wanted; what its owner has added to it stays. None removes it."""
    piece = root.get(SERVERS)
    if piece is None:
        if wanted is not None:
            root.append({NAMES[0]: wanted}, SERVERS)
        return
    if not isinstance(piece.value, dict):
        raise ConfigError(f"{SERVERS!r} is not an object")
    servers = root.open(piece)
    own = [each for each in servers.pieces if match_server(each.value) is not None]
    if wanted is None:
        for each in own:
            servers.remove(each)
        if own and not servers.pieces:
            root.remove(piece)
        return
    if not own:
        servers.append(wanted, free_name([each.key for each in servers.pieces]))
        return
    for each in own[1:]:
        servers.remove(each)
    entry = servers.open(own[0])
    for key, value in wanted.items():
        present = entry.get(key)
        if present is None:
            entry.append(value, key)
        elif present.value != value:
            entry.put(present, value)


def find_servers(root: JsonContainer) -> tuple[McpServer, ...]:
    piece = root.get(SERVERS)
    if piece is None or not isinstance(piece.value, dict):
        return ()
    servers = (match_server(each) for each in piece.value.values())
    return tuple(each for each in servers if each is not None)


def match_server(entry: Json) -> McpServer | None:
    if not isinstance(entry, dict):
        return None
    command, args = entry.get("command"), entry.get("args", [])
    if not isinstance(command, str) or not isinstance(args, list):
        return None
    words = tuple(each for each in args if isinstance(each, str))
    return (
        McpServer(command=command, args=words)
        if is_our_command(command, words, verb=SERVE)
        else None
    )


def free_name(taken: list[str]) -> str:
    for name in NAMES:
        if name not in taken:
            return name
    names = " and ".join(repr(name) for name in NAMES)
    raise ConfigError(f"other MCP servers are called {names}; please rename one of them")
