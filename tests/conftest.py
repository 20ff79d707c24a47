"""Daemons and clients for every test that needs the real thing."""

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings

from tests.chosen_store import IS_POSTGRES
from tests.daemon_process import Daemon
from tests.memory_client import Client
from tests.slow_files import get_rank

# The suite answers the same for the same code; `make soak` is what goes looking for new examples.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("same")

# A shell starts what it puts into the background with interrupts ignored, and children inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Files of tests are in memory where there is room for them: on a disk, its file system takes a
# sixth of the processor time, and stores wait for it. Those of `make soak` are on a disk.
MEMORY_DISK = Path("/dev/shm")  # noqa: S108
_ROOM = 4 << 30
_CONTRACTS = Path(__file__).parent / "contract"

# The collector would search all that is being collected as tests, and find nothing.
gc.disable()

_HOUR = 3_600_000
_hours = count(1_700_000_000_000, _HOUR)


def _use_memory_disk() -> None:
    """Let temporary files be in memory, unless TMPDIR says where they are."""
    if "TMPDIR" in os.environ or not os.access(MEMORY_DISK, os.W_OK):
        return
    disk = os.statvfs(MEMORY_DISK)
    if not disk.f_flag & os.ST_NOEXEC and disk.f_bavail * disk.f_frsize >= _ROOM:
        os.environ["TMPDIR"] = str(MEMORY_DISK)
        tempfile.tempdir = None  # or the choice of an earlier import would count


_use_memory_disk()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon of the test's own: to kill, to restart, or to have it empty."""
    with Daemon(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for the tests of a module. They keep apart by `hour` and `name`."""
    with Daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


@pytest.fixture
def client(shared_daemon: Daemon) -> Iterator[Client]:
    with shared_daemon.client() as connected:
        yield connected


@pytest.fixture
def hour() -> int:
    """The start of an hour that no other test uses."""
    return next(_hours)


@pytest.fixture
def name() -> str:
    """An id that no other test uses."""
    return uuid4().hex


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first. Sorting is stable: within a file the order stays. On PostgreSQL,
    skip what is about RocksDB itself.

    The stores of features on PostgreSQL are left to `make suite-postgres` and `make soak`: they use
    nothing but the port, whose contract every engine passes here, and `tests/parity` runs on it."""
    items.sort(key=lambda item: get_rank(item.path))
    for item in items:
        if item.path.is_relative_to(_CONTRACTS) and item.path.parent.name != "platform":
            chosen = getattr(item, "callspec", None)
            if chosen is not None and "postgres" in chosen.id.split("-"):
                item.add_marker(pytest.mark.soak)
        mark = item.get_closest_marker("rocksdb")
        if IS_POSTGRES and mark is not None:
            item.add_marker(pytest.mark.skip(reason=f"about RocksDB: {mark.args[0]}"))


def pytest_collection_finish() -> None:
    """Let the garbage collector leave all tests alone: to look at them again and again takes a
    tenth of the time of those that are fast."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much of the docs no test runs."""
    numbers = [
        number
        for report in terminalreporter.getreports("passed")
        for name, number in report.user_properties
        if name == "not run"
    ]
    if numbers:
        terminalreporter.write_line(
            f"docs: {len(numbers)} pages run, {sum(numbers)} blocks marked as not run"
        )
