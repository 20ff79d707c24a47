"""What each role may do on a team server, over HTTP, gRPC and MCP.

An operation says its role itself, streams do so in their feature, and everything else has a line
here. Anything else is refused: a new route, method or tool is closed at first. Scoped callers, who
see only some projects, may use it only if that is said: then what answers must ask
`access.get_caller` for every record it reads, as the guarded stores do.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from agent_memory.features import import_modules
from agent_memory.interfaces import catalog
from agent_memory.kernel.access import Principal, Role
from agent_memory.kernel.errors import Forbidden
from agent_memory.kernel.operations import Operation

API = "/api/v1"
WEBSOCKET = "WEBSOCKET"  # stands for the method of one


class Permission(NamedTuple):
    """The least role that is needed, and whether scoped callers may use it."""

    role: Role
    scoped: bool = False


READ = Permission(Role.READER)
READ_SCOPED = Permission(Role.READER, scoped=True)
WRITE = Permission(Role.WRITER)
WRITE_SCOPED = Permission(Role.WRITER, scoped=True)
MANAGE = Permission(Role.ADMIN)

# By method and the template of the path. Operations have theirs beside them, features in their
# modules `interfaces.permissions`.
_HTTP: Mapping[tuple[str, str], Permission] = {
    ("GET", "/metrics"): MANAGE,
    # Each tool and request of MCP has its own line below.
    ("GET", "/mcp"): READ_SCOPED,
    ("POST", "/mcp"): READ_SCOPED,
    ("DELETE", "/mcp"): READ_SCOPED,
}

# By the full name of the method.
_GRPC: Mapping[str, Permission] = {
    "memory.MemoryService.IngestEvent": WRITE_SCOPED,
    "memory.MemoryService.IngestEvents": WRITE_SCOPED,
}

# By the name of the tool, or of another request.
_MCP: Mapping[str, Permission] = {
    "resources/list": READ,
    "resources/read": READ,
    "prompts/get": READ,
    "completion/complete": READ,
}


@cache
def list_http() -> Mapping[tuple[str, str], Permission]:
    """Return the permissions of all routes, by method and template, in the order of the routes."""
    of_operations = {
        (method, path): permission
        for operation, permission in _list_operations()
        for method, _, path in [operation.http.partition(" ")]
        if path
    }
    routes = {**of_operations, **_HTTP}
    for module in import_modules("interfaces.permissions"):
        routes |= module.HTTP
    return {route: routes[route] for route in sorted(routes, key=lambda each: order_path(each[1]))}


@cache
def list_grpc() -> Mapping[str, Permission]:
    """Return the permissions of all methods."""
    return {
        **{each.rpc: permission for each, permission in _list_operations() if each.rpc},
        **_GRPC,
    }


@cache
def list_mcp() -> Mapping[str, Permission]:
    """Return the permissions of all tools and other requests of MCP."""
    return {
        **{each.tool: permission for each, permission in _list_operations() if each.tool},
        **_MCP,
    }


def _list_operations() -> list[tuple[Operation[Any], Permission]]:
    return [
        (each, Permission(each.role, each.scoped))
        for each in catalog.list_all()
        if each.role is not None
    ]


def order_path(template: str) -> tuple[int, ...]:
    """Return the place of a route: a word comes before a parameter, and a parameter of one segment
    before one of several."""
    segments = template.split("/")
    kinds = [0 if "{" not in each else 2 if each.endswith(":path}") else 1 for each in segments]
    return (*kinds, 3)


def check_http(caller: Principal, method: str, path: str) -> Permission:
    """Return what a request needs. Raises Forbidden unless the caller may send it.

    `method` is WEBSOCKET for a WebSocket.
    """
    wanted = "GET" if method == "HEAD" else method
    for route, matches, permission in _compile_routes():
        if route == wanted and matches.fullmatch(path):
            return _check(caller, permission, f"{method} {path[:200]}")
    raise Forbidden(f"{method} {path[:200]} is not served to teams: see docs/howto/team.md")


def check_grpc(caller: Principal, method: str) -> Permission:
    """Return what a call needs, by the full name of its method. Raises Forbidden."""
    return _look_up(caller, list_grpc(), method)


def check_mcp(caller: Principal, name: str) -> Permission:
    """Return what a tool or another request of MCP needs. Raises Forbidden."""
    return _look_up(caller, list_mcp(), name)


def _look_up(caller: Principal, table: Mapping[str, Permission], name: str) -> Permission:
    permission = table.get(name)
    if permission is None:
        raise Forbidden(f"{name} is not served to teams: see docs/howto/team.md")
    return _check(caller, permission, name)


def _check(caller: Principal, permission: Permission, what: str) -> Permission:
    if not caller.role.includes(permission.role):
        raise Forbidden(
            f"{what} needs the role {permission.role}, and yours is {caller.role}: ask an admin of"
            " your team"
        )
    if caller.is_scoped and not permission.scoped:
        raise Forbidden(
            f"{what} shows more than your projects, so it is not for a key that is limited to"
            " some: ask an admin of your team for a key without --project"
        )
    return permission


@cache
def _compile_routes() -> tuple[tuple[str, re.Pattern[str], Permission], ...]:
    return tuple(
        (method, compile_template(template), permission)
        for (method, template), permission in list_http().items()
    )


def compile_template(template: str) -> re.Pattern[str]:
    """Compile the template of a path as the application's router does."""
    pattern = ""
    for part in re.split(r"(\{[^}]+\})", template):
        if part.startswith("{"):
            pattern += ".*" if part.endswith(":path}") else "[^/]+"
        else:
            pattern += re.escape(part)
    return re.compile(pattern, re.DOTALL)
