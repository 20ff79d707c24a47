"""The commands through the real launcher: output, errors and exit codes."""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import grpc
import pytest
import yaml

import agent_memory
from agent_memory import config
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.store import schema
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine
from agent_memory.proto import memory_pb2 as pb
from tests.chosen_store import IS_POSTGRES, has_stored, locate_store
from tests.command_runner import wait_until
from tests.fork_server import ForkServer
from tests.home_settings import choose_home, prepare_home
from tests.memory_client import SERVICE, Client, message

LAUNCHER = Path(agent_memory.__file__).with_name("launch.py")
COMMAND_SECONDS = 60.0
JANUARY = 1_769_767_200_000  # 2026-01-30 10:00:00
END_OF_TIME = 9_999_999_999_999

OK, GENERAL, USAGE, CONFIG, STORAGE, NETWORK, NOT_FOUND, INVALID = 0, 1, 2, 3, 4, 5, 10, 11

Ended = subprocess.CompletedProcess[str]


class Home:
    """The folders and commands of a user."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "TZ": "UTC",
            **environ,
        }
        self.settings: dict[str, object] = {"grpc.port": 0, "http.port": 0}

    @property
    def data(self) -> Path:
        return self.folder / ".local/share/agent-memory"

    @property
    def config_file(self) -> Path:
        return self.folder / ".config/agent-memory/config.toml"

    def run(
        self,
        program: str,
        *arguments: str | bytes,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Ended:
        return self._fork(program, arguments, cwd, environ, launches=True)

    def run_forked(
        self,
        program: str,
        *arguments: str | bytes,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a command without launcher and daemon."""
        return self._fork(program, arguments, cwd, environ, launches=False)

    def _fork(
        self,
        program: str,
        arguments: Sequence[str | bytes],
        cwd: Path | None,
        environ: Mapping[str, str] | None,
        *,
        launches: bool,
    ) -> Ended:
        prepare_home(self.environ, self.settings)
        option, folder = choose_home(self.environ, environ)
        words = (program, option, folder, *arguments)
        environ = {**self.environ, **(environ or {})}
        data = config.folders({"HOME": folder}).data
        server = (
            ForkServer.choose(program, arguments, data) if launches else ForkServer.get_shared()
        )
        code, out, err = server.run(words, environ, cwd or self.folder, launches=launches)
        return Ended(words, code, out.decode(), err.decode())

    def daemon(self, *arguments: str | bytes, **more: Any) -> Ended:
        return self.run("memory-daemon", *arguments, **more)

    def memory(self, *arguments: str | bytes, **more: Any) -> Ended:
        return self.run("memory", *arguments, **more)

    def json(self, program: str, *arguments: str, **more: Any) -> Any:
        ended = self.run(program, *arguments, "--format", "json", **more)
        assert ended.returncode == OK, ended.stderr
        return json.loads(ended.stdout)

    def status(self) -> Any:
        return self.json("memory-daemon", "status")

    def close(self) -> None:
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            # It did not stop, so something is broken; leave no process behind.
            os.kill(int((self.data / "daemon.lock").read_text()), signal.SIGKILL)
        name = hashlib.sha256(os.fsencode(self.folder / ".cache/agent-memory/run")).hexdigest()
        sockets = Path("/tmp", f"agent-memory-{os.getuid()}-{name[:16]}")  # noqa: S108
        shutil.rmtree(sockets, ignore_errors=True)


def started(folder: Path, **environ: str) -> Iterator[Home]:
    home = Home(folder, **environ)
    prepare_home(home.environ, home.settings)
    daemon = ForkServer.get_shared().start(home.environ, folder / "daemon.stderr")
    try:
        wait_until((home.data / "daemon.json").exists, "the daemon serves")
        wait_until(lambda: "Now filling" not in home.daemon("status").stdout, "it has its indexes")
        yield home
        assert daemon.poll() is None
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(COMMAND_SECONDS) == OK
        assert "Traceback" not in (home.data / "logs/daemon.log").read_text()
    finally:
        daemon.kill()
        home.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with a running daemon."""
    yield from started(tmp_path_factory.mktemp("home"))


@pytest.fixture
def quiet_home(tmp_path: Path) -> Iterator[Home]:
    """A home without a daemon."""
    found = Home(tmp_path)
    yield found
    found.close()


@pytest.fixture
def client(home: Home) -> Iterator[Client]:
    with Client(f"127.0.0.1:{home.status()['grpc_port']}") as connected:
        yield connected


@pytest.fixture
def own_config(tmp_path: Path) -> dict[str, str]:
    """Return an environment with settings for this test only."""
    (tmp_path / "own").mkdir()
    return {"HOME": str(tmp_path / "own")}


class TestStatus:
    def test_it_has_the_layout_of_the_reference(self, home: Home) -> None:
        # A daemon that has just started also reports that it fills its indexes.
        wait_until(
            lambda: "\n  Now " not in home.daemon("status").stdout, "it has looked at the store"
        )
        ended = home.daemon("status")
        assert ended.returncode == OK
        assert re.fullmatch(
            r"Daemon Status: Running\n"
            r"  PID: \d+\n"
            r"  Port: \d+\n"
            r"  Uptime: (\d+[dhm] )*\d+s\n"
            r"  Events stored: [\d,]+\n"
            r"  Database size: \d+(\.\d)? [KMG]?B\n"
            r"  Word index: [\d,]+ documents?, [\d,]+ changes? waiting\n"
            r"  Meaning: [\d,]+ (documents? embedded, nothing waiting|of [\d,]+ embedded; .*)\n",
            ended.stdout,
        )

    def test_as_json_it_tells_a_script_where_everything_is(self, home: Home) -> None:
        found = home.status()
        assert found["running"] is True
        os.kill(found["pid"], 0)
        assert f"127.0.0.1:{found['grpc_port']}" in found["grpc_addresses"]
        assert f"127.0.0.1:{found['http_port']}" in found["http_addresses"]
        assert Path(found["socket"]).is_socket()
        assert Path(found["grpc_socket"]).is_socket()
        assert found["data_dir"] == str(home.data)
        assert found["db_path"] == locate_store(home.data)
        assert Path(found["log_path"]).is_file()
        assert found["uptime_seconds"] > 0
        assert found["events"] >= 0
        assert found["db_bytes"] > 0
        assert found["indexes"]["words"]["size_bytes"] > 0
        assert found["indexes"]["vectors"]["documents"] >= 0
        assert found["warnings"] == []
        assert found["sources"]["grpc.port"] == str(home.config_file)

    def test_yaml_says_the_same(self, home: Home) -> None:
        ended = home.daemon("status", "--format", "yaml")
        assert yaml.safe_load(ended.stdout).keys() == home.status().keys()

    def test_verbose_adds_addresses_paths_and_where_settings_come_from(self, home: Home) -> None:
        text = home.daemon("status", "--verbose").stdout
        assert f"  Database: {locate_store(home.data)}\n" in text
        assert f"    grpc.port: from {home.config_file}\n" in text

    def test_quiet_says_it_by_the_exit_code_only(self, home: Home) -> None:
        ended = home.daemon("status", "--format", "quiet")
        assert (ended.returncode, ended.stdout) == (OK, "")

    def test_without_a_daemon_it_says_so_and_starts_none(self, quiet_home: Home) -> None:
        ended = quiet_home.daemon("status")
        assert (ended.returncode, ended.stdout) == (GENERAL, "Daemon Status: Not running\n")
        as_json = quiet_home.run_forked("memory-daemon", "status", "--format", "json")
        assert as_json.returncode == GENERAL
        assert json.loads(as_json.stdout) == {"running": False}
        assert not (quiet_home.data / "daemon.json").exists()


class TestQueryEvents:
    def test_it_has_the_layout_of_the_reference(self, home: Home, client: Client) -> None:
        client.ingest(message("01HXYZABC001", JANUARY, "What is Rust?"))
        client.ingest(
            message(
                "01HXYZABC002",
                JANUARY + 5_000,
                "Rust is a systems\nprogramming language...",
                event_type=pb.EVENT_TYPE_ASSISTANT_MESSAGE,
                role=pb.EVENT_ROLE_ASSISTANT,
            )
        )
        client.ingest(message("01HXYZABC003", JANUARY + 15_000, "How does ownership work?"))
        ended = home.daemon(
            "query", "events", "--from", str(JANUARY), "--to", str(JANUARY + 3_600_000)
        )
        assert ended.returncode == OK
        assert ended.stdout == (
            "Events (1769767200000 - 1769770800000):\n"
            "  1. 01HXYZABC001 [USER] 2026-01-30 10:00:00 UTC\n"
            '     "What is Rust?"\n'
            "  2. 01HXYZABC002 [ASSISTANT] 2026-01-30 10:00:05 UTC\n"
            '     "Rust is a systems programming language..."\n'
            "  3. 01HXYZABC003 [USER] 2026-01-30 10:00:15 UTC\n"
            '     "How does ownership work?"\n'
            "\n"
            "Total: 3 events (has_more: false)\n"
        )

    def test_json_has_the_names_of_the_wire_and_lower_case_enums(
        self, home: Home, client: Client, hour: int, name: str
    ) -> None:
        client.ingest(
            message(
                name,
                hour,
                "done 日本",
                session_id="s",
                event_type=pb.EVENT_TYPE_TOOL_RESULT,
                role=pb.EVENT_ROLE_TOOL,
                metadata={"tool_name": "Bash"},
            )
        )
        assert home.json("memory-daemon", *events(hour)) == {
            "events": [
                {
                    "event_id": name,
                    "session_id": "s",
                    "timestamp_ms": hour,
                    "event_type": "tool_result",
                    "role": "tool",
                    "text": "done 日本",
                    "metadata": {"tool_name": "Bash"},
                }
            ],
            "has_more": False,
            "continuation_token": None,
        }

    def test_tokens_lead_from_page_to_page_to_the_end(
        self, home: Home, client: Client, hour: int, name: str
    ) -> None:
        """All events have the same time: only the token says where a page ended."""
        client.ingest_all(message(f"{name}-{n}", hour) for n in range(7))
        found: list[str] = []
        more: list[str] = []
        while True:
            page = home.json("memory-daemon", *events(hour), "-l", "3", *more)
            found += [each["event_id"] for each in page["events"]]
            assert page["has_more"] == (page["continuation_token"] is not None)
            if not page["has_more"]:
                break
            more = ["--token", page["continuation_token"]]
        assert found == [f"{name}-{n}" for n in range(7)]

    def test_text_says_how_to_get_the_next_page(
        self, home: Home, client: Client, hour: int, name: str
    ) -> None:
        client.ingest_all(message(f"{name}-{n}", hour) for n in range(3))
        first = home.daemon(*events(hour), "--limit", "2").stdout
        assert "Total: 2 events (has_more: true)\n" in first
        (token,) = re.findall(r"^Next page: --token (\S+)$", first, re.MULTILINE)
        second = home.daemon(*events(hour), "-t", token).stdout
        assert f"  1. {name}-2 " in second
        assert second.endswith("Total: 1 event (has_more: false)\n")

    def test_a_long_text_is_cut_and_full_shows_all_of_it(
        self, home: Home, client: Client, hour: int, name: str
    ) -> None:
        client.ingest(message(name, hour, f"{'a' * 300}\nlast line"))
        cut = home.daemon(*events(hour)).stdout
        assert f'     "{"a" * 197}..."\n' in cut
        whole = home.daemon(*events(hour), "--full").stdout
        assert f"     {'a' * 300}\n     last line\n" in whole

    @pytest.mark.parametrize("full", [(), ("--full",)])
    def test_recorded_text_cannot_command_the_terminal(
        self, home: Home, client: Client, hour: int, name: str, full: tuple[str, ...]
    ) -> None:
        client.ingest(message(name, hour, "\x1b]0;owned\x07\x9b2J tail"))
        ended = home.daemon(*events(hour), *full)
        assert "tail" in ended.stdout
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", ended.stdout)

    def test_an_empty_range_is_no_error(self, home: Home, hour: int) -> None:
        ended = home.daemon(*events(hour))
        assert (ended.returncode, ended.stdout) == (
            OK,
            f"Events ({hour} - {hour}):\n\nTotal: 0 events (has_more: false)\n",
        )
        assert home.json("memory-daemon", *events(hour))["events"] == []

    @pytest.mark.parametrize(
        ("options", "code", "said"),
        [
            (("--from", "today", "--to", "yesterday"), INVALID, "swap them"),
            (("--from", "-1", "--to", "now"), INVALID, "'-1' is not a time"),
            (("--from", "12", "--to", "now"), INVALID, "12 is not a time"),
            (("--from", "0", "--to", "10000000000000"), INVALID, "10000000000000 is not a time"),
            (("--from", "0", "--to", "9" * 40), INVALID, "is not a time: the last is"),
            (("--from", "0", "--to", "now", "-l", "-1"), USAGE, "-1 is not in the range"),
            (("--from", "0", "--to", "now", "-t", "nonsense"), INVALID, "continuation_token"),
            (("--from", "0", "--to", "now", "-t", ""), INVALID, "continuation_token"),
            (("--from", ""), USAGE, "the time is empty"),
            (("--from", "noon", "--to", "now"), INVALID, "'noon' is not a time"),
            (("--from", "0", "--to", "now", "--what"), USAGE, "No such option"),
            (("--from", "0", "--to", "now", "--format", "xml"), USAGE, "'xml' is not one of"),
        ],
    )
    def test_what_makes_no_sense_is_refused_with_a_reason(
        self, home: Home, options: tuple[str, ...], code: int, said: str
    ) -> None:
        assert_refused(home.daemon("query", "events", *options), code, said)


class TestEndpoint:
    @pytest.mark.parametrize(
        ("form", "more"),
        [
            ("http://127.0.0.1:{port}", ()),
            ("localhost:{port}", ("-l", "2")),
            ("unix:{path}", ("--format", "json")),
        ],
    )
    def test_the_daemon_answers_over_grpc_as_it_does_without(
        self, home: Home, client: Client, hour: int, name: str, form: str, more: tuple[str, ...]
    ) -> None:
        client.ingest_all(message(f"{name}-{n}", hour, metadata={"n": str(n)}) for n in range(3))
        found = home.status()
        endpoint = form.format(port=found["grpc_port"], path=found["grpc_socket"])
        arguments = ("events", "--from", str(hour), "--to", str(hour), *more)
        far = home.daemon("query", "-e", endpoint, *arguments)
        near = home.daemon("query", *arguments)
        assert (far.returncode, far.stdout) == (near.returncode, near.stdout), far.stderr
        assert name in near.stdout

    @pytest.mark.parametrize(
        "options",
        [
            ("--from", "today", "--to", "yesterday"),
            ("--from", "0", "--to", "now", "-t", "nonsense"),
            ("--from", "0", "--to", "9" * 40),
        ],
    )
    def test_it_refuses_over_grpc_what_it_refuses_without(
        self, home: Home, options: tuple[str, ...]
    ) -> None:
        endpoint = f"127.0.0.1:{home.status()['grpc_port']}"
        far = home.run_forked("memory-daemon", "query", "-e", endpoint, "events", *options)
        assert_refused(far, INVALID)

    def test_where_nobody_answers_it_is_a_network_error(self, quiet_home: Home) -> None:
        endpoint = f"http://127.0.0.1:{free_port()}"
        ended = quiet_home.daemon("query", "-e", endpoint, "events", "--from", "0", "--to", "0")
        assert_refused(ended, NETWORK, "no daemon answers")
        assert endpoint in ended.stderr
        assert not (quiet_home.data / "daemon.json").exists()

    @pytest.mark.parametrize("endpoint", ["nonsense", "ftp://localhost:1", "localhost:99999", ""])
    def test_nonsense_is_refused_with_how_to_write_it(
        self, quiet_home: Home, endpoint: str
    ) -> None:
        words = ("query", "-e", endpoint, "events", "--from", "0", "--to", "0")
        assert_refused(quiet_home.run_forked("memory-daemon", *words), INVALID, "http://host:port")


class TestAdmin:
    def test_stats_have_the_layout_of_the_reference(self, home: Home) -> None:
        ended = home.daemon("admin", "stats")
        assert ended.returncode == OK
        size = r"\d+(\.\d)? [KMG]?B"
        engine = rf"\n  RocksDB Info:\n    Compaction: \d+ pending\n    WAL: {size}\n"
        assert re.fullmatch(
            r"Database Statistics:\n"
            rf"  Path: {re.escape(locate_store(home.data))}\n"
            rf"  Size: {size}\n"
            r"\n"
            r"  Column Families:\n"
            rf"(    \w+: [\d,]+ entr(y|ies), {size}\n)+" + ("" if IS_POSTGRES else engine),
            ended.stdout,
        )
        for family in ("events", "toc_nodes", "grips", "outbox"):
            assert f"    {family}: " in ended.stdout

    def test_stats_as_json_have_numbers(self, home: Home) -> None:
        found = home.json("memory-daemon", "admin", "stats")
        assert found["path"] == locate_store(home.data)
        assert {each["name"] for each in found["families"]} >= {"events", "outbox"}
        for each in (found["size_bytes"], found["wal_bytes"], found["pending_compactions"]):
            assert isinstance(each, int)

    def test_compaction_loses_nothing(
        self, home: Home, client: Client, hour: int, name: str
    ) -> None:
        client.ingest(message(name, hour))
        ended = home.daemon("admin", "compact")
        assert ended.returncode == OK
        assert re.fullmatch(r"Compacted all column families: .+ -> .+\n", ended.stdout)
        assert [each.event_id for each in client.all_events(hour, hour)] == [name]

    def test_one_family_may_be_compacted_alone(self, home: Home) -> None:
        assert home.daemon("admin", "compact", "--cf", "events").stdout.startswith(
            "Compacted events: "
        )
        found = home.json("memory-daemon", "admin", "compact", "--cf", "grips")
        assert found.keys() == {"size_bytes_before", "size_bytes"}

    def test_an_unknown_family_is_refused_with_those_there_are(self, home: Home) -> None:
        ended = home.daemon("admin", "compact", "--cf", "nope")
        assert_refused(ended, INVALID, "no column family 'nope'; there are events, ")


class TestOtherDatabase:
    def test_it_is_opened_offline_while_the_daemon_runs(self, home: Home, tmp_path: Path) -> None:
        store_with_events(tmp_path / "other", 3)
        found = home.json("memory-daemon", "admin", "--db-path", str(tmp_path / "other"), "stats")
        assert found["path"] == str(tmp_path / "other")
        assert {each["name"]: each["entries"] for each in found["families"]}["events"] == 3

    def test_and_without_a_daemon_and_starts_none(self, quiet_home: Home, tmp_path: Path) -> None:
        store_with_events(tmp_path / "other", 2)
        ended = quiet_home.daemon("admin", "--db-path", str(tmp_path / "other"), "compact")
        assert ended.returncode == OK, ended.stderr
        assert ended.stdout.startswith("Compacted all column families: ")
        assert not (quiet_home.data / "daemon.json").exists()

    def test_a_relative_path_is_the_callers(self, home: Home, tmp_path: Path) -> None:
        store_with_events(tmp_path / "other", 1)
        ended = home.daemon("admin", "--db-path", "other", "stats", cwd=tmp_path)
        assert f"  Path: {tmp_path / 'other'}\n" in ended.stdout

    @pytest.mark.rocksdb("names the files of the store")
    def test_the_daemons_own_is_asked_of_the_daemon(self, home: Home) -> None:
        own = home.daemon("admin", "--db-path", str(home.data / "db"), "stats")
        assert own.returncode == OK, own.stderr
        assert f"  Path: {home.data / 'db'}\n" in own.stdout

    def test_a_missing_one_is_named_and_not_made(self, home: Home, tmp_path: Path) -> None:
        missing = tmp_path / "missing"
        ended = home.daemon("admin", "--db-path", str(missing), "stats")
        assert_refused(ended, CONFIG, f"there is no database at {missing}")
        assert not missing.exists()

    def test_one_in_use_is_a_storage_error(self, home: Home, tmp_path: Path) -> None:
        engine = RocksEngine(tmp_path / "used")
        try:
            ended = home.daemon("admin", "--db-path", str(tmp_path / "used"), "stats")
        finally:
            engine.close()
        assert_refused(ended, STORAGE, f"another process has {tmp_path / 'used'} open")

    def test_a_damaged_one_is_a_storage_error(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / "CURRENT").write_text("nonsense")
        assert_refused(home.daemon("admin", "--db-path", str(tmp_path), "stats"), STORAGE)


class TestTokens:
    def test_the_first_start_leaves_a_key_for_its_owner_only(self, home: Home) -> None:
        file = home.data / "key"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert_admitted(home, file.read_text().strip())

    def test_a_key_is_shown_once_and_then_listed_by_name_only(self, home: Home, name: str) -> None:
        ended = home.daemon("token", "create", name)
        assert ended.returncode == OK
        assert re.fullmatch(r"am_[\w-]{43}\n", ended.stdout)
        secret = ended.stdout.strip()
        listed = home.daemon("token", "list").stdout
        assert re.search(rf"^{name}  created \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC$", listed, re.M)
        assert secret not in listed
        as_json = home.json("memory-daemon", "token", "list")
        (found,) = [each for each in as_json if each["name"] == name]
        of_people = {"person", "role", "projects", "created_by"}
        assert found.keys() == {"name", "created_ms", "refused", *of_people}
        for log in (home.data / "logs").iterdir():
            assert secret not in log.read_text()
        assert not has_stored(home.data, secret)

    def test_it_can_be_asked_for_as_json(self, home: Home, name: str) -> None:
        created = home.json("memory-daemon", "token", "create", name)
        assert created["name"] == name
        assert created["token"].startswith("am_")
        assert (created["person"], created["role"], created["projects"]) == (None, None, None)

    def test_a_key_opens_until_it_is_revoked(self, home: Home, name: str) -> None:
        secret = home.json("memory-daemon", "token", "create", name)["token"]
        assert_admitted(home, secret)
        ended = home.daemon("token", "revoke", name)
        assert (ended.returncode, ended.stdout) == (OK, f"Revoked {name}\n")
        assert_not_admitted(home, f"Bearer {secret}", "the key is unknown or revoked")
        listed = home.json("memory-daemon", "token", "list")
        assert name not in [each["name"] for each in listed]

    @pytest.mark.parametrize("given", ["Bearer", "Bearer am_wrong", "Basic am_x", "am_x", ""])
    def test_a_wrong_key_is_unauthenticated(self, home: Home, given: str) -> None:
        assert_not_admitted(home, given)

    @pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
    def test_a_remote_command_needs_none_of_the_same_user(self, home: Home, host: str) -> None:
        endpoint = f"{host}:{home.status()['grpc_port']}"
        words = ("query", "-e", endpoint, "events", "--from", "0", "--to", "0")
        ended = home.run_forked("memory-daemon", *words)
        assert ended.returncode == OK, ended.stderr
        wrong = home.run_forked("memory-daemon", *words, environ={"MEMORY_KEY": "am_wrong"})
        assert_refused(wrong, GENERAL, "the key is unknown or revoked")
        assert "am_wrong" not in wrong.stderr

    def test_commands_and_the_unix_socket_need_none(self, home: Home) -> None:
        assert home.daemon(*events(0)).returncode == OK
        path = home.status()["grpc_socket"]
        words = ("query", "-e", f"unix:{path}", "events", "--from", "0", "--to", "0")
        ended = home.run_forked("memory-daemon", *words)
        assert ended.returncode == OK, ended.stderr
        with Client(f"unix:{path}") as local:
            assert not local.get_events(0, 1).has_more

    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            (("create", "a b"), INVALID, "is not a valid key name"),
            (("create", ""), INVALID, "is not a valid key name"),
            (("create",), USAGE, "Missing argument 'NAME'"),
            (("revoke", "nobody"), NOT_FOUND, "no key 'nobody'"),
            (("revoke", b"\xff"), NOT_FOUND, "no key"),
        ],
    )
    def test_what_cannot_be_is_refused(
        self, home: Home, arguments: tuple[str | bytes, ...], code: int, said: str
    ) -> None:
        assert_refused(home.daemon("token", *arguments), code, said)

    def test_a_name_is_taken_once(self, home: Home, name: str) -> None:
        assert home.daemon("token", "create", name).returncode == OK
        again = home.daemon("token", "create", name)
        assert_refused(again, INVALID, f"there is a key '{name}' already")


class TestConfig:
    def test_a_value_in_force_is_shown_as_it_is_written(self, home: Home) -> None:
        assert home.memory("config", "get", "toc.max_tokens").stdout == "4096\n"
        assert home.memory("config", "get", "cli.color").stdout == "true\n"
        assert home.memory("config", "get", "hooks.post_tool_use.trigger_tools").stdout == (
            "Read, Edit, Write\n"
        )
        assert home.json("memory", "config", "get", "hooks.post_tool_use.trigger_tools") == [
            "Read",
            "Edit",
            "Write",
        ]
        assert home.json("memory", "config", "get", "cli.color") is True

    def test_the_callers_environment_and_project_count(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / "memory.toml").write_text("[hooks.stop]\nenabled = false\n")
        asked = ("config", "get", "hooks.stop.enabled")
        assert home.memory(*asked, cwd=tmp_path).stdout == "false\n"
        environ = {"MEMORY_HOOKS__STOP__ENABLED": "no"}  # which a variable may tighten
        assert home.memory(*asked, environ=environ).stdout == "false\n"
        assert home.memory(*asked).stdout == "true\n"

    def test_all_are_listed_with_where_they_come_from(self, home: Home, tmp_path: Path) -> None:
        project = tmp_path / "memory.toml"
        project.write_text("[grpc]\nport = 1\n[cli]\ncolor = false\n")
        rows = {each["key"]: each for each in home.json("memory", "config", "list", cwd=tmp_path)}
        assert set(rows) == set(config.KEYS)
        assert rows["cli.color"] == {
            "key": "cli.color",
            "value": False,
            "source": str(project),
            "applies": "live",
        }
        assert rows["http.port"]["source"] == str(home.config_file)
        assert rows["toc.max_tokens"]["source"] == "default"
        listed = home.memory("config", "list", cwd=tmp_path)
        assert re.search(r"^toc\.max_tokens +4096  \(default\)$", listed.stdout, re.M)
        assert f"ignored grpc.port in {project}: only the user may set it\n" in listed.stderr

    def test_the_path_is_told_whether_or_not_the_file_is_there(
        self, quiet_home: Home, tmp_path: Path
    ) -> None:
        assert quiet_home.memory("config", "path").stdout == f"{quiet_home.config_file}\n"
        given = quiet_home.run_forked("memory", "-c", "mine.toml", "config", "path", cwd=tmp_path)
        assert given.stdout == f"{tmp_path / 'mine.toml'}\n"
        assert not (quiet_home.data / "daemon.json").exists()

    def test_set_makes_the_file_for_its_owner_only(
        self, home: Home, own_config: dict[str, str]
    ) -> None:
        ended = home.memory("config", "set", "cli.pager", "off", environ=own_config)
        file = Path(own_config["HOME"]) / ".config/agent-memory/config.toml"
        assert (ended.returncode, ended.stdout) == (OK, f"cli.pager = false  ({file})\n")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text() == "[cli]\npager = false\n"
        assert home.memory("config", "get", "cli.pager", environ=own_config).stdout == "false\n"

    def test_set_says_when_a_restart_is_needed(
        self, home: Home, own_config: dict[str, str]
    ) -> None:
        ended = home.memory("config", "set", "toc.max_tokens", "9")
        assert "It takes effect when the daemon (PID " in ended.stdout
        home.memory("config", "unset", "toc.max_tokens")
        asked = ("config", "set", "hooks.enabled", "false")
        assert "takes effect" not in home.memory(*asked, environ=own_config).stdout
        as_json = home.json("memory", "config", "set", "toc.max_tokens", "9", environ=own_config)
        assert as_json == {
            "key": "toc.max_tokens",
            "value": 9,
            "path": f"{own_config['HOME']}/.config/agent-memory/config.toml",
            "restart_needed": False,  # the daemon reads another file
        }

    def test_a_value_may_begin_with_a_dash(self, home: Home, tmp_path: Path) -> None:
        file = tmp_path / "own.toml"
        file.write_text("[llama]\nargs = []\n")
        ended = home.memory("-c", str(file), "config", "set", "llama.args", "--threads,2")
        assert ended.returncode == OK, ended.stderr
        assert file.read_text() == '[llama]\nargs = ["--threads", "2"]\n'

    def test_set_keeps_comments_order_and_everything_else(self, home: Home, tmp_path: Path) -> None:
        file = tmp_path / "mine.toml"
        file.write_text(
            "# my settings\n\n[toc]  # contents\nmax_tokens = 1 # few\ntime_gap_ms = 2\n\n"
            "[grpc]\nport = 3\n"
        )
        ended = home.memory("-c", str(file), "config", "set", "toc.max_tokens", "8192")
        assert ended.returncode == OK, ended.stderr
        assert file.read_text() == (
            "# my settings\n\n[toc]  # contents\nmax_tokens = 8192 # few\ntime_gap_ms = 2\n\n"
            "[grpc]\nport = 3\n"
        )

    def test_set_follows_a_link(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / "dotfiles").mkdir()
        real = tmp_path / "dotfiles/memory.toml"
        real.touch()
        link = tmp_path / "config.toml"
        link.symlink_to(real)
        home.memory("-c", str(link), "config", "set", "cli.color", "false")
        assert link.is_symlink()
        assert real.read_text() == "[cli]\ncolor = false\n"

    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            (("get", "grpc.prt"), CONFIG, "did you mean 'grpc.port'?"),
            (("set", "grpc.prt", "1"), CONFIG, "did you mean 'grpc.port'?"),
            (("set", "grpc.port", "http"), CONFIG, "a whole number from 0 to 65535, not 'http'"),
            (("set", "cli.color", "red"), CONFIG, "true or false, not 'red'"),
            (("set", "security.secrets", "no"), CONFIG, "one of redact, block, warn, off"),
            (("set", "storage.path", b"/\xff"), CONFIG, "storage.path"),
            (("set", "grpc.port"), USAGE, "Missing argument 'VALUE'"),
            (("get",), USAGE, "Missing argument 'KEY'"),
        ],
    )
    def test_what_makes_no_sense_is_refused_and_nothing_written(
        self,
        home: Home,
        own_config: dict[str, str],
        arguments: tuple[str | bytes, ...],
        code: int,
        said: str,
    ) -> None:
        assert_refused(home.memory("config", *arguments, environ=own_config), code, said)
        assert not Path(own_config["HOME"], ".config").exists()

    def test_a_file_that_cannot_be_written_is_named(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / ".config").touch()
        ended = home.memory("config", "set", "cli.color", "no", environ={"HOME": str(tmp_path)})
        assert_refused(ended, CONFIG, str(tmp_path / ".config/agent-memory"))


class TestConfigErrors:
    @pytest.mark.parametrize(
        "arguments", [("status",), ("admin", "stats"), ("token", "list"), ("query", "events",
                      "--from", "0", "--to", "0")],
    )  # fmt: skip
    def test_every_command_tells_them_also_while_a_daemon_runs(
        self, home: Home, tmp_path: Path, arguments: tuple[str, ...]
    ) -> None:
        file = tmp_path / "broken.toml"
        file.write_text("[grpc]\nprt = 1\n")
        ended = home.daemon("-c", str(file), *arguments)
        assert_refused(ended, CONFIG, f"{file}:2: unknown setting 'grpc.prt'")

    def test_one_in_the_projects_file_too(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / "memory.toml").write_text("[cli\n")
        assert_refused(home.memory("config", "list", cwd=tmp_path), CONFIG, "is not valid TOML")

    def test_one_in_the_environment_too(self, home: Home) -> None:
        ended = home.daemon("status", environ={"MEMORY_CLI__COLOR": "red"})
        assert_refused(ended, CONFIG, "MEMORY_CLI__COLOR: cli.color must be true or false")

    def test_verbose_says_what_caused_it(self, home: Home) -> None:
        words = ("-c", "/missing", "config", "list")
        plain, verbose = home.memory(*words), home.memory("-v", *words)
        assert plain.stderr.count("\n") == 1
        assert verbose.stderr.startswith(plain.stderr)
        assert "  because of FileNotFoundError: " in verbose.stderr
        assert (verbose.returncode, verbose.stdout) == (plain.returncode, "")

    def test_a_missing_file_too(self, home: Home) -> None:
        assert_refused(home.daemon("-c", "/missing", "status"), CONFIG, "cannot read /missing")

    def test_a_daemon_does_not_start_with_one(self, quiet_home: Home, tmp_path: Path) -> None:
        file = tmp_path / "broken.toml"
        file.write_text("[grpc]\nport = 'x'\n")
        assert_refused(quiet_home.daemon("-c", str(file), "start"), CONFIG, f"{file}:2: grpc.port")
        assert not (quiet_home.data / "daemon.json").exists()

    def test_an_address_that_others_can_reach_is_one(self, quiet_home: Home) -> None:
        quiet_home.settings["grpc.host"] = "0.0.0.0"  # noqa: S104
        ended = quiet_home.run_forked("memory-daemon", "start", "--foreground")
        assert_refused(ended, CONFIG, "other machines can reach")

    @pytest.mark.parametrize(
        ("program", "arguments"),
        [
            ("memory-daemon", ("--help",)),
            ("memory-daemon", ("query", "events", "--help")),
            ("memory", ("config", "path")),
            ("memory", ("completion", "bash")),
            ("memory-daemon", ("service", "install", "--dry-run")),
            ("memory", ("--version",)),
        ],
    )
    def test_what_helps_to_mend_them_still_works(
        self, home: Home, tmp_path: Path, program: str, arguments: tuple[str, ...]
    ) -> None:
        (tmp_path / "memory.toml").write_text("broken")
        assert home.run(program, *arguments, cwd=tmp_path).returncode == OK


class TestService:
    def test_a_dry_run_shows_the_unit_and_writes_nothing(self, quiet_home: Home) -> None:
        ended = quiet_home.daemon("service", "install", "--dry-run")
        assert ended.returncode == OK, ended.stderr
        assert "start --foreground" in ended.stdout
        assert "Activate it with: " in ended.stdout
        of_the_test = [quiet_home.config_file.parent]
        assert list(quiet_home.folder.rglob("*agent-memory*")) == of_the_test

    def test_it_is_installed_and_removed(self, home: Home, tmp_path: Path) -> None:
        environ = elsewhere(tmp_path)
        written = home.json("memory-daemon", "service", "install", environ=environ)
        unit = Path(written["path"])
        assert unit.is_relative_to(tmp_path)
        assert written["written"] is True
        assert written["activate"]
        assert "agent_memory.daemon.standalone" in unit.read_text()
        removed = home.run_forked(
            "memory-daemon", "service", "remove", environ={**environ, "PATH": os.devnull}
        )
        assert (removed.returncode, removed.stdout) == (OK, f"Removed {unit}\n")
        assert removed.stderr.startswith("note: the unit may still be active: `")
        assert not unit.exists()
        again = home.run_forked("memory-daemon", "service", "remove", environ=environ)
        assert (again.returncode, again.stdout) == (OK, f"{unit} does not exist.\n")

    @pytest.mark.skipif(sys.platform != "linux", reason="systemd")
    @pytest.mark.parametrize("code", [0, 3])
    def test_it_is_deactivated_before_it_is_removed(
        self, home: Home, tmp_path: Path, code: int
    ) -> None:
        environ = elsewhere(tmp_path)
        installed = home.run_forked(
            "memory-daemon", "service", "install", "--format", "json", environ=environ
        )
        unit = Path(json.loads(installed.stdout)["path"])
        systemctl = tmp_path / "bin/systemctl"
        systemctl.parent.mkdir()
        systemctl.write_text(
            f'#!/bin/sh\ntest -e "{unit}" && echo "$*" > "$0.said"\n'
            f"echo Unit is unhappy. >&2\nexit {code}\n"
        )
        systemctl.chmod(0o700)
        environ["PATH"] = f"{systemctl.parent}:{os.environ['PATH']}"
        removed = home.run_forked("memory-daemon", "service", "remove", environ=environ)
        assert (removed.returncode, removed.stdout) == (OK, f"Removed {unit}\n")
        assert Path(f"{systemctl}.said").read_text() == (
            "--user disable --now agent-memory.service\n"
        )
        assert ("Unit is unhappy." in removed.stderr) == (code != 0)
        assert not unit.exists()

    def test_the_config_file_that_is_given_goes_into_the_unit(
        self, quiet_home: Home, tmp_path: Path
    ) -> None:
        words = ("-c", "mine.toml", "service", "install", "--dry-run")
        ended = quiet_home.run_forked("memory-daemon", *words, cwd=tmp_path)
        assert str(tmp_path / "mine.toml") in ended.stdout

    def test_a_unit_that_cannot_be_written_is_named(self, home: Home, tmp_path: Path) -> None:
        blocked = tmp_path / "file"
        blocked.touch()
        environ = elsewhere(blocked)
        ended = home.run_forked("memory-daemon", "service", "install", environ=environ)
        assert_refused(ended, CONFIG, f"cannot write {blocked}")


class TestCompletion:
    @pytest.mark.parametrize("program", PROGRAMS)
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_there_is_a_script_for_every_shell(self, home: Home, program: str, shell: str) -> None:
        ended = home.run(program, "completion", shell)
        assert ended.returncode == OK
        for name in PROGRAMS:  # one script for all, whichever prints it
            assert f"_{name.upper().replace('-', '_')}_COMPLETE" in ended.stdout

    def test_another_shell_is_refused(self, home: Home) -> None:
        assert_refused(home.memory("completion", "tcsh"), USAGE, "'tcsh' is not one of")

    @pytest.mark.parametrize(
        ("shell", "word", "answer"),
        [("zsh", "1", "plain\nquery\nRead events and the table of contents.\n"),
         ("fish", "qu", "plain,query\tRead events and the table of contents.\n"),
         ("bash", "1", "plain,query\n")],
    )  # fmt: skip
    def test_the_other_shells_get_what_their_scripts_ask_for(
        self, quiet_home: Home, shell: str, word: str, answer: str
    ) -> None:
        """It works without a daemon, and starts none."""
        environ = {
            "_MEMORY_DAEMON_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": "memory-daemon qu",
            "COMP_CWORD": word,
        }
        run = quiet_home.run if shell == "bash" else quiet_home.run_forked
        ended = run("memory-daemon", environ=environ)
        assert (ended.returncode, ended.stdout) == (OK, answer)
        assert not (quiet_home.data / "daemon.json").exists()

    @pytest.mark.parametrize("flag", ["-V", "--version", "-h", "--help", "-c x", "--nope"])
    def test_it_goes_on_behind_any_option(self, home: Home, flag: str) -> None:
        line = f"memory-daemon {flag} qu"
        environ = {
            "_MEMORY_DAEMON_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split()) - 1),
        }
        ended = home.daemon(environ=environ)
        assert (ended.returncode, ended.stderr) == (OK, "")

    @pytest.mark.parametrize("position", ["", "x", "99", "-1"])
    def test_a_position_that_makes_no_sense_completes_nothing_and_harms_nothing(
        self, home: Home, position: str
    ) -> None:
        environ = {
            "_MEMORY_DAEMON_COMPLETE": "bash_complete",
            "COMP_WORDS": "memory-daemon 'qu",
            "COMP_CWORD": position,
        }
        ended = home.daemon(environ=environ)
        assert (ended.returncode, ended.stderr) == (OK, "")


def command(words: tuple[str, ...]) -> click.Command:
    found = PROGRAMS[words[0]]
    for word in words[1:]:
        assert isinstance(found, click.Group)
        found = found.commands[word]
    return found


def leaves_and_groups() -> list[tuple[str, ...]]:
    """Return the words that call each command of the three programs."""
    found: list[tuple[str, ...]] = []

    def walk(command: click.Command, words: tuple[str, ...]) -> None:
        found.append(words)
        if isinstance(command, click.Group):
            for name, below in command.commands.items():
                walk(below, (*words, name))

    for name, program in PROGRAMS.items():
        walk(program, (name,))
    return found


class TestHelp:
    @pytest.mark.parametrize("words", leaves_and_groups(), ids=" ".join)
    def test_every_command_has_a_page_with_usage_description_and_examples(
        self, home: Home, words: tuple[str, ...]
    ) -> None:
        program, *rest = words
        page = home.run_forked(program, *rest, "--help")
        assert (page.returncode, page.stderr) == (OK, "")
        usage, blank, description, *more = page.stdout.splitlines()
        assert usage.startswith(f"Usage: {' '.join(words)}")
        assert blank == ""
        assert re.match(r"  \S.*", description)
        assert "Options:" in more
        assert "Examples:" in more
        assert more[-1].startswith("  ")
        if not rest:  # by the daemon
            assert home.run(program, "-h").stdout == page.stdout

    @pytest.mark.parametrize("program", PROGRAMS)
    def test_it_needs_no_daemon_and_starts_none(self, quiet_home: Home, program: str) -> None:
        page = quiet_home.run(program, "-h")
        assert page.returncode == OK
        assert page.stdout.startswith(f"Usage: {program} ")
        assert not (quiet_home.data / "daemon.json").exists()

    @pytest.mark.parametrize("columns", ["1", "20", "200", "0", "-5", "wide", "²"])
    def test_any_width_will_do(self, home: Home, columns: str) -> None:
        page = home.daemon("query", "events", "-h", environ={"COLUMNS": columns})
        assert (page.returncode, page.stderr) == (OK, "")
        assert "--limit" in page.stdout

    # `kontekst` without arguments reads its prompt from a pipe; test_kontekst tests a terminal.
    # `memory lessons` lists them.
    @pytest.mark.parametrize(
        "words",
        [
            words
            for words in leaves_and_groups()
            if isinstance(command(words), click.Group)
            and words not in (("kontekst",), ("memory", "lessons"))
        ],
        ids=" ".join,
    )
    def test_a_group_alone_shows_its_page_and_is_a_usage_error(
        self, home: Home, words: tuple[str, ...]
    ) -> None:
        program, *rest = words
        ended = home.run(program, *rest)
        assert ended.returncode == USAGE
        assert f"Usage: {' '.join(words)}" in ended.stdout + ended.stderr

    @pytest.mark.parametrize("program", PROGRAMS)
    @pytest.mark.parametrize("flag", ["-V", "--version"])
    def test_the_version_is_told(self, home: Home, program: str, flag: str) -> None:
        assert home.run(program, flag).stdout == f"{program} {agent_memory.__version__}\n"


class TestUsage:
    @pytest.mark.parametrize("program", ["memory", "memory-daemon"])  # else it is a prompt
    def test_an_unknown_command_is_a_usage_error(self, home: Home, program: str) -> None:
        ended = home.run(program, "nope")
        assert_refused(ended, USAGE, "No such command 'nope'")
        assert f"Try '{program} --help' for help." in ended.stderr

    @pytest.mark.parametrize(
        "arguments",
        [
            ("start", "--port", "65536"),
            ("start", "-l", "loud"),
            ("--log-level", "loud", "status"),
            ("status", "--nope"),
            ("status", "extra"),
        ],
    )
    def test_so_is_a_wrong_option(self, home: Home, arguments: tuple[str, ...]) -> None:
        assert_refused(home.daemon(*arguments), USAGE)

    @pytest.mark.parametrize("level", config.LEVELS)
    def test_every_level_of_the_log_is_known(self, home: Home, level: str) -> None:
        assert home.daemon("-l", level, "status").returncode == OK

    def test_global_options_count_wherever_they_stand(self, home: Home) -> None:
        before = home.daemon("--format", "json", "status")
        after = home.daemon("status", "--format", "json")
        assert json.loads(before.stdout)["pid"] == json.loads(after.stdout)["pid"]


def events(at_ms: int) -> tuple[str, ...]:
    """Return the command that shows the events of one moment."""
    return ("query", "events", "--from", str(at_ms), "--to", str(at_ms))


def elsewhere(folder: Path) -> dict[str, str]:
    """Return the environment of a caller of this daemon who has another home."""
    return {"HOME": str(folder)}


def assert_refused(ended: Ended, code: int, said: str = "") -> None:
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    assert "error: " in ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "its log says why" not in ended.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def store_with_events(path: Path, count: int) -> None:
    """Write a store as a daemon leaves it."""

    def unexpected(health: StoreHealth) -> None:
        raise AssertionError(f"a write failed: {health.reason}")

    store = CommittedStore(RocksEngine(path), watch=unexpected)
    schema.prepare(store)
    written = [
        Event(
            event_id=EventId(f"event-{number}"),
            session_id=SessionId("session"),
            at_ms=Millis(number),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text="text",
            metadata={},
        )
        for number in range(count)
    ]
    assert all(StoredEventLog(store).append(written).result(COMMAND_SECONDS))
    store.close()


def ask_with(home: Home, authorization: str | None) -> pb.GetEventsResponse:
    """Read events over TCP with an `authorization` header, if any."""
    with grpc.insecure_channel(f"127.0.0.1:{home.status()['grpc_port']}") as channel:
        method = channel.unary_unary(
            f"/{SERVICE}/GetEvents",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=pb.GetEventsResponse.FromString,
        )
        answer: pb.GetEventsResponse = method(
            pb.GetEventsRequest(from_timestamp_ms=0, to_timestamp_ms=1),
            timeout=COMMAND_SECONDS,
            metadata=None if authorization is None else (("authorization", authorization),),
        )
        return answer


def assert_admitted(home: Home, secret: str) -> None:
    assert not ask_with(home, f"Bearer {secret}").has_more
    assert not ask_with(home, f"bearer {secret}").has_more


def assert_not_admitted(home: Home, authorization: str | None, said: str = "") -> None:
    with pytest.raises(grpc.RpcError) as refused:
        ask_with(home, authorization)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert said in (refused.value.details() or "")
