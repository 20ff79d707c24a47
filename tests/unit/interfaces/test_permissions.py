"""The table of permissions: it names the routes, methods and tools that there are."""

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import compile_path

from agent_memory.interfaces import permissions
from agent_memory.interfaces.mcp.tools import TOOLS
from agent_memory.interfaces.permissions import (
    WEBSOCKET,
    check_http,
    list_grpc,
    list_http,
    list_mcp,
)
from agent_memory.kernel.access import NOBODY, OWNER, Principal, Role
from agent_memory.kernel.errors import Forbidden
from agent_memory.proto import checkpoints_pb2, kontekst_pb2, memory_pb2

READER = Principal(person="eve", role=Role.READER)
SCOPED = Principal(person="ada", role=Role.WRITER, projects=frozenset({"shop"}))


def test_every_method_and_tool_is_known() -> None:
    methods = {
        method.full_name
        for module in (checkpoints_pb2, kontekst_pb2, memory_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert list_grpc().keys() <= methods
    assert methods - list_grpc().keys() == {"kontekst.AgentService.Run"}
    tools = {name for name in list_mcp() if "/" not in name}
    assert tools <= TOOLS.keys()
    assert TOOLS.keys() - tools == {"memory_sync", "memory_configure"}


def test_templates_mean_what_the_router_makes_of_them() -> None:
    for _, template in list_http():
        ours, theirs = permissions.compile_template(template), compile_path(template)[0]
        for path in (template, re.sub(r"\{[^}]+\}", "a", template), f"{template}/x", "/"):
            assert bool(ours.fullmatch(path)) == bool(theirs.match(path)), (template, path)


WORDS = st.sampled_from(["api", "v1", "memories", "users", "facts", "events", "x", "", "mcp", "ui"])


@given(st.lists(WORDS, max_size=7), st.sampled_from(["GET", "POST", "DELETE", "PATCH", "PUT", "X"]))
def test_a_reader_gets_nothing_that_needs_more(words: list[str], method: str) -> None:
    path = "/" + "/".join(words)
    with suppress(Forbidden):
        assert check_http(READER, method, path).role is Role.READER
    with suppress(Forbidden):
        assert check_http(SCOPED, method, path).scoped


@pytest.mark.parametrize(
    ("caller", "method", "path", "allowed"),
    [
        (OWNER, "GET", "/metrics", True),
        (READER, "GET", "/metrics", False),
        (READER, "HEAD", "/api/v1/events/", True),
        (READER, "POST", "/api/v1/events/", False),
        (SCOPED, "POST", "/api/v1/events/", True),
        (SCOPED, "GET", "/api/v1/toc/", False),
        (SCOPED, WEBSOCKET, "/ws", True),
        (OWNER, "GET", "/ws", False),
        (OWNER, "GET", "/api/v1/events", False),
        # The specific route comes first, as it does in the router.
        (READER, "GET", "/api/v1/memories/users/me/", False),
        (READER, "GET", "/api/v1/memories/decisions/me/", True),
        (NOBODY, "POST", "/api/v1/memories/", False),
    ],
)
def test_examples(caller: Principal, method: str, path: str, allowed: bool) -> None:
    refused: Any = None
    try:
        check_http(caller, method, path)
    except Forbidden as exc:
        refused = exc
    assert (refused is None) == allowed
