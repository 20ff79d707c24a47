"""Addresses of PostgreSQL are shown without their passwords, and lead to the same database."""

import re

import pytest
from psycopg import conninfo

from agent_memory.kernel.errors import ConfigError
from agent_memory.platform.store.postgres import hide_password

SHOWN = {
    "postgresql://me@db.example/memory": "postgresql://me@db.example/memory",
    "postgresql:///memory": "postgresql:///memory",
    "postgresql://me:sesame@db.example/memory": "postgresql://me@db.example/memory",
    "postgres://me:sesame@a,b:5433/m?target_session_attrs=read-write": (
        "postgres://me@a,b:5433/m?target_session_attrs=read-write"
    ),
    "postgresql://me:ses%40me@[::1]:5/m": "postgresql://me@[::1]:5/m",
    "postgresql://me@/m?host=/tmp&password=sesame": "user=me dbname=m host=/tmp",
    "host=db user=me password=sesame dbname='my memory'": "host=db user=me dbname='my memory'",
    "postgresql://me@db/m?sslmode=verify-full&sslpassword=sesame": (
        "user=me dbname=m host=db sslmode=verify-full"
    ),
}


@pytest.mark.parametrize("url", SHOWN)
def test_a_password_is_left_out(url: str) -> None:
    shown = hide_password(url)
    assert conninfo.conninfo_to_dict(shown) == conninfo.conninfo_to_dict(SHOWN[url])
    assert shown == SHOWN[url] or "password" in url
    assert not re.search("ses(ame|%40me|@me)", shown)
    stored = conninfo.conninfo_to_dict(url)
    for name in ("password", "sslpassword"):
        stored.pop(name, None)
    assert conninfo.conninfo_to_dict(shown) == stored


def test_what_is_no_address_is_refused_without_repeating_it() -> None:
    with pytest.raises(ConfigError, match="not one of PostgreSQL") as refusal:
        hide_password("mysql://me:sesame@localhost/x")
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__
