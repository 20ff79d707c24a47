"""Two versions on one machine: a copy of the package with another version and another schema."""

import json
import os
import shutil
import sys
import sysconfig
import venv
from importlib.util import cache_from_source
from pathlib import Path

import pytest

import agent_memory
from tests.command_runner import Answer, Home, wait_until
from tests.mcp_clients import LineClient

NEWER = "9.9.9"
PACKAGE = Path(agent_memory.__file__).parent
MIGRATIONS = "MIGRATIONS: Mapping[int, Migration] = {}"


class Newer:
    """A newer installation: a virtual environment that finds the copy, then what it needs."""

    def __init__(self, folder: Path) -> None:
        package = folder / "tree/agent_memory"
        shutil.copytree(PACKAGE, package)  # with what is compiled already
        self._change(package / "__init__.py", '"0.1.0"', f'"{NEWER}"')
        client = package / "launcher/command_client.py"
        self._change(client, 'VERSION = "0.1.0"', f'VERSION = "{NEWER}"')
        schema = package / "platform/store/schema.py"
        self._change(schema, "VERSION = 1", "VERSION = 2")
        self._change(schema, MIGRATIONS, MIGRATIONS.replace("{}", "{2: lambda store: None}"))
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self._python = folder / "venv/bin/python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        places = folder / "venv/lib" / version / "site-packages/newer.pth"
        places.write_text(f"{folder / 'tree'}\n{sysconfig.get_paths()['purelib']}\n")
        self._launcher = package / "launch.py"

    @staticmethod
    def _change(path: Path, old: str, new: str) -> None:
        text = path.read_text()
        assert text.count(old) == 1, (path, old)
        path.write_text(text.replace(old, new))
        Path(cache_from_source(str(path))).unlink(missing_ok=True)

    def run(self, home: Home, program: str, *words: str) -> Answer:
        _, *rest = home.command(program, *words, launcher=self._launcher)
        return home.run_words([str(self._python), *rest])


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Newer:
    return Newer(tmp_path_factory.mktemp("newer"))


def test_the_version_is_told_without_a_daemon_and_without_touching_one(
    newer: Newer,
) -> None:
    with Home(forks=False) as home:
        assert newer.run(home, "memory", "--version") == Answer(
            0, f"memory {NEWER}\n".encode(), b""
        )
        assert not home.data.exists()
        pid = home.serve()
        told = newer.run(home, "memory", "--version")
        assert told.text == (
            f"memory {NEWER} (daemon {agent_memory.__version__} is running;"
            " the next command replaces it once it is idle)\n"
        )
        same = home.run("memory-daemon", "-V")
        assert same.text == f"memory-daemon {agent_memory.__version__}\n"
        assert home.pid() == pid


def test_a_newer_daemon_is_not_said_to_be_replaced(newer: Newer) -> None:
    with Home(forks=False) as home:
        home.serve()
        assert newer.run(home, "memory", "capture", "decisions", "x", "--domain", "user").code == 0
        pid = home.pid()
        told = home.run("memory", "--version")
        assert told.text == (
            f"memory {agent_memory.__version__} (daemon {NEWER} is running;"
            " it is newer than this command, and answers it)\n"
        )
        assert home.run("memory", "list", "--domain", "user").code == 0
        assert home.pid() == pid


def test_an_mcp_client_that_asks_nothing_keeps_no_older_daemon(newer: Newer) -> None:
    with Home(forks=False) as home:
        home.serve()
        with LineClient(home) as client:
            client.call(1, "memory_status")
            assert client.receive()["id"] == 1
            status = newer.run(home, "memory-daemon", "status", "--format", "json")
            assert status.json()["version"] == NEWER, status
            assert client.wait_exit() == (0, b"")
        with LineClient(home) as client:  # as clients start it again
            client.call(1, "memory_status")
            assert client.receive()["id"] == 1


@pytest.mark.rocksdb("looks into the backup of its files")
def test_an_idle_older_daemon_is_replaced_and_its_store_backed_up_before_it_is_migrated(
    newer: Newer,
) -> None:
    with Home(forks=False) as home:
        pid = home.serve()
        home.run("memory", "capture", "decisions", "Use RocksDB", "--domain", "user")
        status = json.loads(newer.run(home, "memory-daemon", "status", "--format", "json").out)
        assert status["version"] == NEWER
        assert home.pid() != pid
        place = Path(status["backup"]["before_upgrade"])
        assert place.parent == home.data / "upgrades"
        manifest = json.loads((place / "manifest.json").read_text())
        assert (manifest["schema"], manifest["parts"]) == (1, ["db"])
        assert "store.backed_up_before_upgrade" in home.log()
        home.stop()
        # The older version does not open it any more, and comes back by the backup.
        answer = home.run("memory-daemon", "start")
        assert (answer.code, "upgrade" in answer.errors) == (4, True)
        answer = home.run("memory-daemon", "admin", "restore", str(place), "--force")
        assert answer.code == 0, answer.errors
        home.serve()
        found = home.run("memory", "recall", "RocksDB", "--domain", "user").text
        assert "Use RocksDB" in found
        assert os.listdir(home.data / "upgrades") == [place.name]  # noqa: PTH208
        # Only the last two of them stay.
        for _ in range(2):
            home.stop()
            assert newer.run(home, "memory", "recall", "RocksDB", "--domain", "user").code == 0
            home.stop()
            latest = json.loads((home.data / "backup.json").read_text())["before_upgrade"]
            home.run_forked("memory-daemon", "admin", "restore", latest, "--force")
        assert len(os.listdir(home.data / "upgrades")) == 2  # noqa: PTH208


def test_a_busy_older_daemon_goes_on_until_it_is_idle(newer: Newer) -> None:
    with Home(forks=False) as home:
        pid = home.serve()
        with home.on_terminal("memory-daemon", "token", "revoke", "default") as screen:
            screen.read_until("Revoke the key")
            answer = newer.run(home, "memory-daemon", "status", "--format", "json")
            assert answer.json()["version"] == agent_memory.__version__
            assert "is busy; " in answer.errors
            assert home.pid() == pid
            screen.type("n\n")
            assert screen.finish() == 1
        wait_until(lambda: home.pid() != pid, "it has made way")
        assert newer.run(home, "memory-daemon", "status").code == 1
        assert newer.run(home, "memory", "recall", "anything").code == 0
        status = newer.run(home, "memory-daemon", "status", "--format", "json").json()
        assert status["version"] == NEWER
