"""MCP servers in JSON: an object of servers by name."""

from agent_memory.features.hooks.adapters.agents.json_text import Json, JsonContainer
from agent_memory.features.hooks.model.installations import SERVE, McpServer, is_our_command
from agent_memory.kernel.errors import ConfigError

SERVERS = "mcpServers"
# Another server may be called memory; it stays.
NAMES = ("memory", "agent-memory")


def reconcile(root: JsonContainer, desired: Json | None) -> None:
    """Make our entry the desired one, or remove it for None; keys that the user added stay."""
    piece = root.get(SERVERS)
    if piece is None:
        if desired is not None:
            root.append({NAMES[0]: desired}, SERVERS)
        return
    if not isinstance(piece.value, dict):
        raise ConfigError(f"{SERVERS!r} is not an object")
    servers = root.open(piece)
    own = [server for server in servers.pieces if match_server(server.value) is not None]
    if desired is None:
        for server in own:
            servers.remove(server)
        if own and not servers.pieces:
            root.remove(piece)
        return
    if not own:
        servers.append(desired, find_free_name([server.key for server in servers.pieces]))
        return
    for server in own[1:]:
        servers.remove(server)
    entry = servers.open(own[0])
    for key, value in desired.items():
        present = entry.get(key)
        if present is None:
            entry.append(value, key)
        elif present.value != value:
            entry.put(present, value)


def find_servers(root: JsonContainer) -> tuple[McpServer, ...]:
    piece = root.get(SERVERS)
    if piece is None or not isinstance(piece.value, dict):
        return ()
    servers = map(match_server, piece.value.values())
    return tuple(server for server in servers if server is not None)


def match_server(entry: Json) -> McpServer | None:
    """Return the server of an entry if it runs our program."""
    if not isinstance(entry, dict):
        return None
    command, args = entry.get("command"), entry.get("args", [])
    if not isinstance(command, str) or not isinstance(args, list):
        return None
    words = tuple(word for word in args if isinstance(word, str))
    if not is_our_command(command, words, verb=SERVE):
        return None
    return McpServer(command=command, args=words)


def find_free_name(taken: list[str]) -> str:
    for name in NAMES:
        if name not in taken:
            return name
    names = " and ".join(repr(name) for name in NAMES)
    raise ConfigError(f"other MCP servers are called {names}: rename one of them")
