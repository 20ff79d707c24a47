"""What a daemon loads and starts before anyone asks it anything, as the system sees it."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_runner import Home, Running, wait_until

# Only questions, clients of MCP and REST, and conversations of OpenCode need these.
LATE_LIBRARIES = re.compile(r"numpy|openblas|cygrpc|onnxruntime|tokenizers|pydantic_core|sqlite3")
LATE_PACKAGES = {
    "grpc",
    "numpy",
    "onnxruntime",
    "sqlite3",
    "mcp",
    "fastapi",
    "pydantic",
    "httpx",
    "xml",
}
IMPORTED = re.compile(r"^import time:.*\|\s+(\S+)$", re.MULTILINE)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")


@pytest.fixture
def home() -> Iterator[Home]:
    with Home(embedder="bge") as home:
        yield home


@pytest.mark.rocksdb("a server's tenant may have vectors of another test")
def test_an_unused_daemon_has_loaded_no_library_that_only_questions_need(home: Home) -> None:
    python = (sys.executable, "-I", "-X", "importtime", "-m")
    words = (*python, "agent_memory.daemon", "--home", str(home.folder))
    errors = home.folder / "errors"
    with errors.open("wb") as target, Running(words, env=home.environ, stderr=target) as daemon:
        wait_until(lambda: "daemon.ready" in home.log(), "the daemon is ready")
        maps = Path(f"/proc/{daemon.pid}/maps").read_text()
        daemon.terminate()
        daemon.wait()
    imported = set(IMPORTED.findall(errors.read_text()))

    assert "tantivy" in imported
    assert "rocksdict" in maps
    assert not LATE_PACKAGES & imported
    assert not LATE_LIBRARIES.findall(maps)


@pytest.mark.rocksdb("a server's tenant may have vectors of another test")
def test_the_embedder_starts_with_the_first_record_and_then_with_the_daemon(home: Home) -> None:
    home.run("memory-daemon", "start")
    first = home.run("memory", "recall", "where is the lantern?", "--format", "json")

    assert first.code == 0, first.errors
    assert "embedder.loaded" not in home.log()

    words = ("memory", "capture", "patterns", "The lantern is in the attic", "--domain", "user")
    assert home.run(*words).code == 0
    wait_until(lambda: "embedder.loaded" in home.log(), "the first record is embedded")

    def has_vectors() -> bool:
        stats = home.run("memory-daemon", "admin", "index-stats", "--format", "json").json()
        return bool(stats["vectors"]["documents"])

    wait_until(has_vectors, "the record has a vector")
    home.run("memory-daemon", "stop")
    loaded = home.log().count("embedder.loaded")
    home.run("memory-daemon", "start")
    wait_until(lambda: home.log().count("embedder.loaded") > loaded, "it is loaded again")
