"""MCP servers in JSON: an object of servers by name."""

from dataclasses import dataclass

from agent_memory.features.hooks.adapters.agents.json_text import Json, JsonContainer
from agent_memory.features.hooks.model.installations import SERVE, McpServer, is_our_command
from agent_memory.kernel.errors import ConfigError

# Another server may be called memory; it stays.
NAMES = ("memory", "agent-memory")


@dataclass(frozen=True, slots=True)
class ServerTable:
    """The object of servers, under the key that an agent has for it."""

    key: str = "mcpServers"

    def reconcile(self, root: JsonContainer, desired: Json | None) -> None:
        """Make our entry the desired one, or remove it for None; keys that the user added stay."""
        piece = root.get(self.key)
        if piece is None:
            if desired is not None:
                root.append({NAMES[0]: desired}, self.key)
            return
        if not isinstance(piece.value, dict):
            raise ConfigError(f"{self.key!r} is not an object")
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
        _update(servers.open(own[0]), desired)

    def find_servers(self, root: JsonContainer) -> tuple[McpServer, ...]:
        piece = root.get(self.key)
        if piece is None or not isinstance(piece.value, dict):
            return ()
        servers = map(match_server, piece.value.values())
        return tuple(server for server in servers if server is not None)


def match_server(entry: Json) -> McpServer | None:
    """Return the server of an entry if it runs our program. OpenCode has all words in a list."""
    if not isinstance(entry, dict):
        return None
    command, args = entry.get("command"), entry.get("args", [])
    words = command if isinstance(command, list) else [command, *_get_list(args)]
    if not words or not all(isinstance(word, str) for word in words):
        return None
    program, *rest = words
    if not is_our_command(program, rest, verb=SERVE):
        return None
    return McpServer(command=program, args=tuple(rest))


def find_free_name(taken: list[str]) -> str:
    for name in NAMES:
        if name not in taken:
            return name
    names = " and ".join(repr(name) for name in NAMES)
    raise ConfigError(f"other MCP servers are called {names}: rename one of them")


def _update(entry: JsonContainer, desired: Json) -> None:
    for key, value in desired.items():
        present = entry.get(key)
        if present is None:
            entry.append(value, key)
        elif isinstance(value, dict) and isinstance(present.value, dict):
            _update(entry.open(present), value)  # variables, of which some are the user's own
        elif present.value != value:
            entry.put(present, value)


def _get_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [None]
