"""Commands in a sandbox that forbids connections, as that of Codex does: memory can be read."""

import platform
import sys
from collections.abc import Iterator

import pytest

from tests import forbid_connections
from tests.chosen_store import describe_store
from tests.command_runner import Answer, Home
from tests.memory_commands import CONFIG

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in forbid_connections.CONNECT,
    reason="needs seccomp of Linux",
)


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as home:
        home.serve()
        yield home


def run_sandboxed(home: Home, *arguments: str, program: str = "memory") -> Answer:
    wrapper = forbid_connections.__file__
    return home.run_words([sys.executable, wrapper, *home.command(program, *arguments)])


@pytest.mark.rocksdb("the sandboxed command reads its files")
def test_memory_is_read_and_a_write_is_refused_with_the_way_that_works(home: Home) -> None:
    home.run("memory", "capture", "decisions", "The lamp store is in PostgreSQL")

    recalled = run_sandboxed(home, "recall", "lamp store")
    assert (recalled.code, recalled.errors) == (0, "")
    assert "The lamp store is in PostgreSQL" in recalled.text

    listed = run_sandboxed(home, "list", "--format", "json").json()["memories"]
    assert [each["summary"] for each in listed] == ["The lamp store is in PostgreSQL"]

    refused = run_sandboxed(home, "capture", "learnings", "Oil is low")
    assert refused.code == 4
    assert "can only be read here" in refused.errors
    assert "MCP" in refused.errors

    assert len(home.run("memory", "list", "--format", "json").json()["memories"]) == 1


def test_what_needs_no_connection_works_and_the_rest_says_why_not(home: Home) -> None:
    version = run_sandboxed(home, "--version")
    assert (version.code, version.errors) == (0, "")
    assert version.text.startswith("memory ")

    reason = "this sandbox forbids connections to the daemon"
    for refused in (
        run_sandboxed(home, "serve"),
        run_sandboxed(home, "start", program="memory-daemon"),
    ):
        assert refused.errors.startswith(f"error: {reason}"), refused
        assert refused.code != 0

    examined = run_sandboxed(home, "doctor")
    assert f"daemon      {reason}" in examined.text
    assert examined.errors == ""


def test_a_memory_on_a_server_cannot_be_read_there_and_names_the_way_that_works() -> None:
    with Home() as home:
        home.configure(describe_store(home.data))
        home.serve()
        refused = run_sandboxed(home, "recall", "lamp store")
    assert (refused.code, refused.text) == (CONFIG, "")
    assert "the database is on a server: use the MCP tools of memory" in refused.errors
