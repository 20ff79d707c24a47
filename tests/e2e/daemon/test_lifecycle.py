"""The daemon's life: how it is started, found, stopped, replaced, and what it survives."""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from agent_memory import __version__
from tests.chosen_store import DATABASE, locate_store, name_first_key
from tests.command_runner import SECONDS, Answer, Home, Running, patch_launcher, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

STATS = ("memory-daemon", "admin", "stats")
OLD_DAEMON = """
import sys
import agent_memory
agent_memory.__version__ = "0.0.1"
from agent_memory.daemon import daemon
sys.exit(daemon.run(daemon.DaemonOptions(flags={})))
"""


@pytest.fixture
def home() -> Iterator[Home]:
    with Home(forks=False) as created:
        yield created


@pytest.fixture(scope="module")
def running() -> Iterator[Home]:
    """A home whose daemon runs, for tests that leave it running."""
    with Home(forks=False) as created:
        created.serve()
        yield created


def _works(home: Home, **kwargs: object) -> bool:
    answer = home.run(*STATS, **kwargs)  # type: ignore[arg-type]
    return answer.code == 0 and answer.text.startswith("Database Statistics:")


# Starting and stopping.


def test_start_returns_when_it_serves_and_leaves_nothing_of_the_caller_in_the_daemon(
    home: Home,
) -> None:
    # A descriptor that the daemon would inherit, if nothing were done about it.
    inherited = os.open(home.work, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        done = subprocess.run(
            home.command("memory-daemon", "start"),
            env={**home.environ, "SECRET_TOKEN": "s3cret"},
            cwd=home.work,
            close_fds=False,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    finally:
        os.close(inherited)
    pid = home.pid()

    assert done.returncode == 0
    assert done.stdout.decode() == f"Daemon started (PID {pid})\n"
    assert home.status()["pid"] == pid
    assert pid is not None
    assert os.getsid(pid) == pid
    process = Path(f"/proc/{pid}")
    assert process.joinpath("cwd").readlink() == Path("/")
    targets = {}
    for each in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # the daemon has closed it meanwhile
            targets[int(each.name)] = str(each.readlink())
    assert str(home.work) not in targets.values()
    assert {targets[fd] for fd in (0, 1, 2)} == {"/dev/null"}
    assert "Umask:\t0077" in process.joinpath("status").read_text()


def test_the_callers_secrets_do_not_stay_in_the_daemons_environment(home: Home) -> None:
    secrets = {"SECRET_TOKEN": "s3cret", "MEMORY_KEY": "am_s3cret", "MEMORY_ENDPOINT": "s3cret:1"}

    answer = home.run(*STATS, env={"MEMORY_LOG__LEVEL": "debug", **secrets})

    assert answer.code == 0
    environ = Path(f"/proc/{home.pid()}/environ").read_bytes().split(b"\0")
    assert b"MEMORY_LOG__LEVEL=debug" not in environ
    assert not [each for each in environ if b"s3cret" in each]


def test_a_second_start_says_that_one_runs(running: Home) -> None:
    pid = running.pid()

    answer = running.run("memory-daemon", "start")

    assert answer == Answer(0, f"Daemon is already running (PID {pid})\n".encode(), b"")
    assert running.pid() == pid


@pytest.mark.soak
def test_stopped_twice_it_says_so_and_is_content(home: Home) -> None:
    home.start_daemon()

    assert home.run("memory-daemon", "stop") == Answer(0, b"Daemon stopped\n", b"")
    assert home.run("memory-daemon", "stop") == Answer(0, b"No daemon is running\n", b"")

    assert home.pid() is None
    assert not list((home.folder / ".cache/agent-memory/run").iterdir())
    answer = home.run("memory-daemon", "status", "--format", "json")
    assert (answer.code, answer.json()) == (1, {"running": False})
    assert home.pid() is None, "asking for the status has started one"


def test_status_tells_of_a_daemon_that_does_not_serve_yet_or_any_more(home: Home) -> None:
    home.data.mkdir(parents=True)
    with (home.data / "daemon.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("123\n")
        lock.flush()

        answer = home.run("memory-daemon", "status")
        as_json = home.run_forked("memory-daemon", "status", "--format", "json")

    assert answer == Answer(
        1, b"Daemon Status: Not running\n  starting or stopping (PID 123)\n", b""
    )
    assert as_json.json() == {"running": False, "state": "starting or stopping (PID 123)"}


def test_status_tells_why_the_last_start_failed(home: Home) -> None:
    home.data.mkdir(parents=True)
    (home.data / "start-failed").write_text("5 4\nerror: something\n")

    answer = home.run_forked("memory-daemon", "status")

    assert answer.code == 1
    assert re.fullmatch(
        r"Daemon Status: Not running\n  error: something\n"
        r"  \(next try in \d+ s; by hand: memory-daemon start\)\n",
        answer.text,
    )


def test_kontekst_stops_it_too(home: Home) -> None:
    home.serve()

    assert home.run("kontekst", "stop") == Answer(0, b"Daemon stopped\n", b"")
    assert home.run_forked("kontekst", "stop") == Answer(0, b"No daemon is running\n", b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_in_the_foreground_a_signal_ends_it_in_order(home: Home, number: signal.Signals) -> None:
    process = home.begin("memory-daemon", "start", "--foreground")
    with process:
        wait_until((home.data / "daemon.sock").is_symlink, "it serves")
        assert home.pid() == process.pid

        process.send_signal(number)
        process.communicate(timeout=SECONDS)

    assert process.returncode == 0
    assert not (home.data / "daemon.json").exists()


def test_status_tells_all_that_a_script_needs(running: Home) -> None:
    found = running.status()

    assert found["running"] is True
    assert found["pid"] == running.pid()
    assert found["version"] == __version__
    for port in (found["grpc_port"], found["http_port"]):
        with socket.create_connection(("127.0.0.1", port), SECONDS):
            pass
    assert stat.S_ISSOCK(Path(found["socket"]).stat().st_mode)
    assert stat.S_ISSOCK(Path(found["grpc_socket"]).stat().st_mode)
    assert stat.S_ISSOCK(Path(found["http_socket"]).stat().st_mode)
    assert found["http_scheme"] == "http"
    assert found["data_dir"] == str(running.data)
    assert found["db_path"] == locate_store(running.data)
    assert Path(found["log_path"]).is_file()
    assert found["uptime_seconds"] > 0
    assert found["events"] == 0
    assert found["db_bytes"] > 0
    assert found["warnings"] == []


def test_status_for_a_person_begins_with_whether_it_runs(running: Home) -> None:
    answer = running.run("memory-daemon", "status", "-v")

    assert answer.code == 0
    assert answer.text.startswith(f"Daemon Status: Running\n  PID: {running.pid()}\n")
    assert f"grpc.port: from {running.config_file}" in answer.text


def test_what_it_writes_is_for_its_user_only(running: Home) -> None:
    for base in (running.data, running.folder / ".cache/agent-memory/run"):
        for path in (base, *base.rglob("*")):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode):
                assert not mode & 0o077, f"{path}: {stat.filemode(mode)}"


def test_start_honours_its_options(home: Home) -> None:
    with _free_port() as grpc_port, _free_port() as http_port:
        ports = grpc_port.getsockname()[1], http_port.getsockname()[1]
    custom = home.work / "custom.toml"
    custom.write_text("[toc]\nmax_tokens = 77\n")

    # Relative paths are the caller's.
    home.start_daemon(
        *("-p", str(ports[0]), "--http-port", str(ports[1]), "--db-path", "my db"),
        *("-c", "custom.toml", "-l", "debug"),
    )

    found = home.status()
    assert (found["grpc_port"], found["http_port"]) == ports
    assert found["db_path"] == str(home.work / "my db")
    assert (home.work / "my db/CURRENT").exists()
    assert found["sources"]["toc.max_tokens"] == str(custom)
    assert found["sources"]["log.level"] == "flag"


def test_a_command_with_a_config_file_starts_the_daemon_with_it(home: Home) -> None:
    (home.work / "custom.toml").write_text("[toc]\nmax_tokens = 77\n")

    assert home.run(*STATS, "--config", "custom.toml").code == 0

    assert home.status()["sources"]["toc.max_tokens"] == str(home.work / "custom.toml")


def test_the_version_starts_no_daemon(home: Home) -> None:
    assert home.run("memory", "-V") == Answer(0, f"memory {__version__}\n".encode(), b"")
    for program in ("memory-daemon", "kontekst"):
        answer = home.run_forked(program, "-V")
        assert answer == Answer(0, f"{program} {__version__}\n".encode(), b"")

    assert home.pid() is None
    assert not home.data.exists()


# Ports, sockets, folders.


@contextlib.contextmanager
def _free_port() -> Iterator[socket.socket]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken


@pytest.mark.parametrize("section", ["grpc", "http"])
def test_a_busy_port_fails_a_start_by_hand_and_is_named(home: Home, section: str) -> None:
    with _free_port() as taken:
        port = str(taken.getsockname()[1])

        answer = home.run("memory-daemon", "start", env={f"MEMORY_{section.upper()}__PORT": port})

    assert answer.code == 1
    assert answer.out == b""
    assert port in answer.errors
    assert f"{section}.port" in answer.errors
    assert home.pid() is None


@pytest.mark.parametrize("section", ["grpc", "http"])
def test_so_does_a_port_of_another_daemon(running: Home, home: Home, section: str) -> None:
    port = str(running.status()[f"{section}_port"])

    answer = home.fail_to_serve(**{f"MEMORY_{section.upper()}__PORT": port})

    assert answer.code == 1
    assert port in answer.errors
    assert home.pid() is None
    assert running.status()["warnings"] == []


@pytest.mark.parametrize("section", ["grpc", "http"])
def test_a_port_that_is_busy_on_ipv6_only_is_busy(home: Home, section: str) -> None:
    try:
        taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with taken:
        port = str(taken.getsockname()[1])

        answer = home.fail_to_serve(**{f"MEMORY_{section.upper()}__PORT": port})

    assert answer.code == 1
    assert f"[::1]:{port}" in answer.errors


def test_a_busy_port_is_a_warning_where_a_command_starts_the_daemon(home: Home) -> None:
    with _free_port() as grpc, _free_port() as http:
        ports = [str(each.getsockname()[1]) for each in (grpc, http)]

        home.settings |= {"grpc.port": ports[0], "http.port": ports[1]}
        answer = home.run(*STATS)

        assert (answer.code, answer.err) == (0, b"")
        warnings = home.status()["warnings"]
    assert len(warnings) == 2
    assert ports[0] in warnings[0]
    assert ports[1] in warnings[1]


def test_a_socket_path_that_is_too_long_goes_elsewhere(tmp_path: Path) -> None:
    with Home(forks=False, folder=tmp_path / ("long" * 30)) as home:
        _check_long_socket(home)


def _check_long_socket(home: Home) -> None:
    home.serve()

    assert _works(home)

    found = Path(home.status()["socket"])
    assert len(os.fsencode(found)) <= 107
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700
    home.stop()
    shutil.rmtree(found.parent)


@pytest.mark.parametrize("runtime", ["/nonexistent", "relative"])
def test_no_variable_moves_the_folder_of_sockets(running: Home, runtime: str) -> None:
    answer = running.run(
        "memory-daemon", "status", "--format", "json", env={"XDG_RUNTIME_DIR": runtime}
    )

    assert answer.json()["pid"] == running.pid()
    assert answer.json()["socket"] == str(running.folder / ".cache/agent-memory/run/daemon.sock")


def test_two_homes_have_two_daemons(running: Home, home: Home) -> None:
    home.serve()

    assert _works(home)
    assert home.pid() != running.pid()
    assert _works(running)


# Many at once, and replacing.


@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.soak)])
def test_commands_at_once_start_one_daemon(home: Home, count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        commands = [home.begin(*STATS, "--format", "json") for _ in range(count)]
        answers = list(pool.map(lambda each: each.communicate(timeout=SECONDS), commands))

    assert [each.returncode for each in commands] == [0] * count
    assert {err for _, err in answers} == {b""}
    assert {Answer(0, out, err).json()["path"] for out, err in answers} == {locate_store(home.data)}
    assert home.ready_count() == 1
    assert home.status()["pid"] == home.pid()


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.soak), 4])
def test_an_older_daemon_gives_way_to_newer_launchers_once(home: Home, count: int) -> None:
    with _old_daemon(home) as old:
        commands = [home.begin(*STATS) for _ in range(count)]
        answers = [each.communicate(timeout=SECONDS) for each in commands]

        assert old.wait(SECONDS) == 0
    assert [each.returncode for each in commands] == [0] * count
    assert {err for _, err in answers} == {b""}
    assert home.ready_count() == 2  # the old one's and the new one's
    found = home.status()
    assert found["pid"] not in (None, old.pid)
    assert found["version"] == __version__


@contextlib.contextmanager
def _old_daemon(home: Home) -> Iterator[Running]:
    with Running(
        [sys.executable, "-c", OLD_DAEMON], env=home.environ, stderr=subprocess.DEVNULL
    ) as process:
        wait_until((home.data / "daemon.sock").is_symlink, "the old daemon serves")
        yield process


@pytest.mark.soak
def test_commands_are_answered_while_daemons_are_stopped_under_them(home: Home) -> None:
    home.start_daemon()
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(home.run, *STATS) for _ in range(24)]
        for _ in range(2):
            wait_until(lambda: home.pid() is not None, "a daemon runs")
            home.stop()
        found = [each.result() for each in answers]

    assert [each for each in found if each.code or each.err] == []


@pytest.mark.soak
def test_a_stop_that_meets_a_start_ends_it_in_order(home: Home) -> None:
    """From the lock on a daemon is known by its process, long before it serves."""
    for _ in range(5):
        process = home.begin("memory-daemon", "start", "--foreground")
        with process:
            wait_until(partial(_lock_names, home, process.pid), "the lock names its holder")
            process.terminate()
            process.communicate(timeout=SECONDS)
        assert process.returncode == 0
    assert not (home.data / "start-failed").exists()


def _lock_names(home: Home, pid: int) -> bool:
    lock = home.data / "daemon.lock"
    return lock.exists() and str(pid) in lock.read_text()


# Killed.

MILESTONES = (
    ".local/share/agent-memory/daemon.lock",
    ".local/share/agent-memory/logs/daemon.log",
    f".local/share/agent-memory/{DATABASE}/LOCK",
    f".local/share/agent-memory/{DATABASE}/CURRENT",
    ".local/share/agent-memory/key",
    ".cache/agent-memory/run/grpc.sock",
    ".cache/agent-memory/run/daemon.sock",
    ".local/share/agent-memory/daemon.json",
    ".cache/agent-memory/run/daemon.pid",
    ".local/share/agent-memory/daemon.sock",
)


@pytest.mark.soak
def test_killed_at_any_milestone_of_its_start_it_heals(home: Home) -> None:
    """All on one folder: what each dead daemon leaves is what the next one finds."""
    for milestone in MILESTONES:
        for path in (home.folder / each for each in MILESTONES):
            if f"/{DATABASE}/" not in str(path) and path.name != "key":
                path.unlink(missing_ok=True)
        process = home.begin("memory-daemon", "start", "--foreground")
        with process:
            wait_until(lambda at=milestone: os.path.lexists(home.folder / at), milestone)  # type: ignore[misc]
            process.kill()
            process.communicate(timeout=SECONDS)
    assert _works(home)
    assert (home.data / "key").read_text().strip()


@pytest.mark.soak
def test_killed_after_any_time_of_its_start_it_heals(home: Home) -> None:
    for millis in range(0, 1000, 240):
        process = home.begin("memory-daemon", "start", "--foreground")
        with process, contextlib.suppress(subprocess.TimeoutExpired):
            try:
                process.wait(millis / 1000)
            finally:
                process.kill()
                process.communicate(timeout=SECONDS)
    assert _works(home)


@pytest.mark.soak
def test_killed_under_its_launcher_it_is_told_of_and_started_again_by_hand(home: Home) -> None:
    command = home.begin(*STATS)
    with command:
        wait_until(lambda: home.pid() is not None, "the daemon holds its lock")
        pid = home.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        _, err = command.communicate(timeout=SECONDS)

    assert command.returncode == 1
    assert err == b"error: the daemon ended at its start\n"
    home.start_daemon()
    assert _works(home)


def test_killed_while_it_serves_it_is_started_again_by_the_next_command(home: Home) -> None:
    first = home.serve()

    home.stop(signal.SIGKILL)

    assert _works(home)
    assert home.pid() != first


def test_killed_between_making_the_first_key_and_writing_it_down_it_makes_another(
    home: Home,
) -> None:
    """As the kill leaves it: the key is in the store, and its file is not in its place yet."""
    assert _works(home)
    home.stop()
    key = home.data / "key"
    lost = key.read_text()
    key.rename(home.data / ".key.0123456789abcdef.part")
    (home.data / "key.pending").touch(mode=0o600)

    assert _works(home)

    assert key.read_text().strip() not in ("", lost.strip())
    assert not (home.data / "key.pending").exists()
    names = home.run("memory-daemon", "token", "list", "--format", "json").json()
    assert [each["name"] for each in names] == [name_first_key(home.data)]


# What the disk may be like.


def test_a_file_in_place_of_the_data_folder_is_told_of(home: Home) -> None:
    home.data.parent.mkdir(parents=True)
    home.data.write_text("")

    for words in (STATS, ("memory-daemon", "start")):
        answer = home.run(*words)

        assert (answer.code, answer.out) == (4, b"")
        assert str(home.data) in answer.errors
        assert answer.errors.count("\n") == 1


@pytest.mark.rocksdb("has a file in its place")
def test_a_file_in_place_of_the_database_is_told_of(home: Home) -> None:
    home.data.mkdir(parents=True)
    (home.data / DATABASE).write_text("")

    answer = home.run("memory-daemon", "start")

    assert (answer.code, answer.out) == (4, b"")
    assert str(home.data / DATABASE) in answer.errors
    assert "Traceback" not in answer.errors


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_a_data_folder_that_may_not_be_written_is_told_of(home: Home) -> None:
    home.data.mkdir(parents=True)
    home.folder.chmod(0o755)
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*become, sys.executable, "-c", ""], check=False).returncode:
        pytest.skip("another user may not run this Python")

    answer = home.run_words([*become, *home.command(*STATS)], cwd=Path("/"))

    assert (answer.code, answer.out) == (4, b"")
    assert answer.errors == f"error: cannot use the data folder {home.data}: Permission denied\n"


@pytest.mark.parametrize("kilobytes", [0, 16])
def test_a_full_disk_is_told_of(home: Home, kilobytes: int) -> None:
    """A limit on the size of files stands for the disk: it can be set by everyone."""
    answer = home.run_shell(f"ulimit -f {kilobytes}; $RUN_daemon start")

    assert (answer.code, answer.out) == (4, b"")
    assert answer.errors.startswith("error: ")
    assert str(home.data) in answer.errors
    assert "Traceback" not in answer.errors


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system")
def test_a_disk_without_room_is_told_of(home: Home) -> None:
    home.data.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(home.data)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount")
    try:
        answer = home.run("memory-daemon", "start")
        for path in home.data.rglob("*"):
            if path.is_file():
                path.unlink()
    finally:
        unmount = ["umount", "--lazy", str(home.data)]
        subprocess.run(unmount, check=True)

    assert (answer.code, answer.out) == (4, b"")
    assert str(home.data) in answer.errors
    assert "Traceback" not in answer.errors


@pytest.mark.soak
def test_a_folder_that_another_process_has_locked_is_told_of(home: Home) -> None:
    home.data.mkdir(parents=True)
    with (home.data / "daemon.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        by_hand = home.run("memory-daemon", "start")
        by_itself = home.run(*STATS)

    assert (by_hand.code, by_hand.out) == (4, b"")
    assert str(home.data) in by_hand.errors
    assert (by_itself.code, by_itself.out) == (4, b"")
    assert by_itself.errors


@pytest.mark.soak
def test_a_database_that_another_daemon_has_open_is_told_of(running: Home, home: Home) -> None:
    answer = home.run("memory-daemon", "start", "--db-path", str(running.data / "db"))

    assert (answer.code, answer.out) == (4, b"")
    assert str(running.data / "db") in answer.errors
    assert _works(running)


# Failed starts.


@pytest.mark.rocksdb("has a file in its place")
def test_after_a_failed_start_commands_hold_back_and_a_start_by_hand_does_not(home: Home) -> None:
    obstacle = home.data / DATABASE
    home.data.mkdir(parents=True)
    obstacle.write_text("")
    first = home.run(*STATS)
    assert first.code == 4
    obstacle.unlink()
    assert stat.S_IMODE((home.data / "start-failed").stat().st_mode) == 0o600
    os.utime(home.data / "start-failed")  # it has failed just now, however slow this machine is

    held_back = home.run(*STATS)
    assert held_back.code == 4
    assert held_back.errors.startswith(first.errors)
    assert re.search(r"\(next try in \d s; by hand: memory-daemon start\)\n$", held_back.errors)
    assert home.pid() is None

    home.start_daemon()
    assert not (home.data / "start-failed").exists()
    assert _works(home)


def test_a_command_tries_again_when_the_time_has_passed(home: Home) -> None:
    home.data.mkdir(parents=True)
    marker = home.data / "start-failed"
    marker.write_text("3 4\nerror: something\n")
    os.utime(marker, (0, 0))

    assert _works(home)
    assert not marker.exists()


def test_a_marker_from_the_future_holds_nobody_back(home: Home) -> None:
    """A clock that was set back must not stop commands for as long as it was wrong."""
    home.data.mkdir(parents=True)
    marker = home.data / "start-failed"
    marker.write_text("1 4\nerror: something\n")
    os.utime(marker, (2**32, 2**32))

    assert _works(home)


def test_a_command_that_starts_a_daemon_for_ever_holds_others_up_for_a_while_only(
    home: Home, tmp_path: Path
) -> None:
    home.data.mkdir(parents=True)
    hurried = patch_launcher(tmp_path, "START_MILLIS = 20_000", "START_MILLIS = 100")
    with (home.data / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        answer = home.run(*STATS, launcher=hurried)

    assert (answer.code, answer.out) == (4, b"")
    assert f"error: another command has held {home.data}/start.lock" in answer.errors
    assert home.pid() is None


def test_one_callers_wrong_config_file_does_not_stop_others(home: Home) -> None:
    (home.work / "broken.toml").write_text("[grpc\n")

    assert home.run(*STATS, "--config", "broken.toml").code == 3

    assert _works(home)


# Settings that are wrong.

BROKEN = "[cli]\ncolor = true\n\n[grpc]\nprot = 50051\n"


def _assert_names_the_line(answer: Answer, path: Path) -> None:
    assert (answer.code, answer.out) == (3, b"")
    assert f"{path}:5: unknown setting 'grpc.prot'; did you mean 'grpc.port'?" in answer.errors
    assert "Traceback" not in answer.errors


def test_a_broken_config_file_stops_the_daemon_and_not_the_help(home: Home) -> None:
    home.configure(BROKEN)

    _assert_names_the_line(home.run(*STATS), home.config_file)
    _assert_names_the_line(home.run("memory-daemon", "start"), home.config_file)
    assert home.run("memory-daemon", "--help").code == 0
    assert home.run_forked("memory-daemon", "-V").code == 0
    answer = home.run_forked("memory", "config", "path")
    assert answer == Answer(0, f"{home.config_file}\n".encode(), b"")
    assert home.pid() is None


def test_while_a_daemon_runs_a_broken_config_file_stops_commands_and_not_the_help(
    home: Home,
) -> None:
    home.serve()
    home.configure(BROKEN)
    project = home.work / "project"
    project.mkdir()
    (project / "memory.toml").write_text(BROKEN)
    other = home.work / "other.toml"
    other.write_text(BROKEN)

    _assert_names_the_line(home.run(*STATS), home.config_file)
    assert home.run("memory-daemon", "--help").code == 0
    assert home.run("memory-daemon", "-V").code == 0
    answer = home.run("memory", "config", "path")
    assert answer == Answer(0, f"{home.config_file}\n".encode(), b"")
    home.config_file.unlink()
    _assert_names_the_line(home.run(*STATS, cwd=project), project / "memory.toml")
    _assert_names_the_line(home.run(*STATS, "-c", str(other)), other)
    assert _works(home)


@pytest.mark.parametrize("text", ["[grpc\n", "x = \n", "\xff"])
def test_a_file_that_is_not_toml_is_named_with_the_line(running: Home, text: str) -> None:
    path = running.work / "not.toml"
    path.write_bytes(b"\n\n" + text.encode("latin-1"))

    answer = running.run(*STATS, "-c", str(path))

    assert answer.code == 3
    assert str(path) in answer.errors
    if text != "\xff":
        assert "line 3" in answer.errors


def test_a_config_file_that_is_not_there_is_an_error(running: Home) -> None:
    answer = running.run(*STATS, "--config=/no/such.toml")

    assert (answer.code, answer.out) == (3, b"")
    assert "/no/such.toml" in answer.errors


def test_a_wrong_variable_is_named_and_a_foreign_one_is_not(running: Home) -> None:
    wrong = running.run(*STATS, env={"MEMORY_GRPC__PROT": "1"})
    foreign = running.run(*STATS, env={"MEMORY_ALPHA__BETA": "1", "MEMORY_LIMIT": "2"})

    assert (wrong.code, foreign.code) == (0, 0)
    assert "MEMORY_GRPC__PROT" in wrong.errors
    assert foreign.errors == ""
