"""The supervision of llama-server, over real processes: small programs that stand in for it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import AgentMemoryError, Cancelled, FeatureUnavailable, LlmFailed
from agent_memory.kernel.status import ModelStatus
from agent_memory.platform.llm.external import ExternalServer
from agent_memory.platform.llm.health import KEPT_SECONDS
from agent_memory.platform.llm.leases import Lease
from agent_memory.platform.llm.llama import MAX_RESTARTS, STEADY_SECONDS, LlamaOptions, LlamaServer
from agent_memory.platform.ports import ModelServer
from tests.processes import LONG, is_running, wait_for_end, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

IDLE_MINUTES = 15
IDLE_SECONDS = IDLE_MINUTES * 60.0

# What it does stands in the file `manner`, a word each, at its start; what it was given it writes
# down. `held` is healthy once there is a file `go`, `slow` ends once there is a file `end`.
PROGRAM = """\
#!{python} -IS
import json, os, signal, socket, sys, time
folder = sys.argv[sys.argv.index("--notes") + 1]
def there(name): return os.path.exists(os.path.join(folder, name))
with open(os.path.join(folder, "manner")) as file: manner = file.read().split()
started = len([each for each in os.listdir(folder) if each.endswith(".json")])
def say(text): sys.stderr.write(text + "\\n"); sys.stderr.flush()
def end(*_):
    open(os.path.join(folder, "ending"), "w").close()
    while "slow" in manner and not there("end"): time.sleep(0.01)
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in manner else end)
if "flood" in manner: say("x" * 1_000_000); say("y\\n" * 100_000)
for each in ("loading", "\\x1b[31mtrouble\\x1b[0m", "still loading", "cannot go on"): say(each)
note = dict(pid=os.getpid(), argv=sys.argv, environ=dict(os.environ), cwd=os.getcwd())
with open(os.path.join(folder, "writing"), "w") as file: json.dump(note, file)
os.rename(os.path.join(folder, "writing"), os.path.join(folder, "%03d.json" % started))
if "dies" in manner: sys.exit(3)
if "busy" in manner and started < int(manner[-1]):
    say("couldn't bind HTTP server socket, hostname: 127.0.0.1"); sys.exit(1)
listener = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
while True:
    connection, _ = listener.accept()
    asked = connection.recv(65536).split()
    if asked[1:2] == [b"/crash"]: say("a crash \\xe9"); os._exit(7)
    well = not there("ill") and ("held" not in manner or there("go"))
    status = b"200 OK" if asked[1:2] == [b"/health"] and well else b"503 Loading"
    connection.sendall(b"HTTP/1.1 " + status + b"\\r\\ncontent-length: 0\\r\\n\\r\\n")
    connection.close()
"""


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Due:
    seconds: float
    call: Callable[[], None]
    called_off: bool = False

    def call_off(self) -> None:
        self.called_off = True


class Agenda:
    """What is to be done later. Nothing is, unless a test does it."""

    def __init__(self) -> None:
        self.all: list[Due] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        self.all.append(Due(seconds, call))
        return self.all[-1].call_off

    def open(self) -> list[Due]:
        return [each for each in self.all if not each.called_off]

    def pauses(self) -> list[float]:
        return [each.seconds for each in self.open()]

    def next(self) -> Due:
        """The only one that is due, which is taken off."""
        wait_until(lambda: bool(self.open()))
        (due,) = self.open()
        self.all.remove(due)
        return due


@dataclass
class Stand:
    """A LlamaServer, and all that it touches."""

    folder: Path
    setup: LlamaOptions
    agenda: Agenda = field(default_factory=Agenda)
    clock: Clock = field(default_factory=Clock)
    environ: dict[str, str] = field(default_factory=dict)
    created: LlamaServer | None = None

    @property
    def server(self) -> LlamaServer:
        if self.created is None:
            self.created = LlamaServer(
                self.setup, self.environ, later=self.agenda, timer=self.clock
            )
        return self.created

    def behaves(self, *manner: str) -> None:
        (self.folder / "manner").write_text(" ".join(manner))

    def mark(self, name: str) -> None:
        (self.folder / name).touch()

    def notes(self) -> list[dict[str, Any]]:
        """What each start of the program was given."""
        return [json.loads(each.read_text()) for each in sorted(self.folder.glob("*.json"))]

    @contextmanager
    def lease(self, cancel: CancelToken | None = None) -> Iterator[Lease]:
        cancel = cancel or CancelToken()
        given_up = threading.Timer(LONG, cancel.set)
        given_up.start()
        try:
            with self.server.lease(cancel) as lease:
                yield lease
        finally:
            given_up.cancel()

    def used(self, cancel: CancelToken | None = None) -> Lease:
        """Leased and returned."""
        with self.lease(cancel) as lease:
            return lease

    def failure(self) -> AgentMemoryError:
        with pytest.raises(AgentMemoryError) as failed, self.lease():
            pass
        return failed.value

    def pid(self) -> int:
        return self.server.status().pid

    def off(self, trouble: str = "") -> ModelStatus:
        return ModelStatus(
            endpoint="", model_dir=str(self.setup.model_dir), healthy=False, trouble=trouble
        )

    def dies(self) -> int:
        """The running one is killed, and that is known; its pid."""
        pid = self.pid()
        assert pid
        lease = self.used()
        os.kill(pid, signal.SIGKILL)
        assert lease.get_exit_reason()
        return pid

    def wait_until_starting(self) -> ModelStatus:
        wait_until(lambda: self.server.status().running and bool(self.notes()))
        return self.server.status()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    folder = tmp_path / "notes"
    folder.mkdir()
    program = tmp_path / "bin/llama-server"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o700)
    models = tmp_path / "models"
    models.mkdir()
    (models / "tiny.gguf").touch()
    new = Stand(
        folder,
        LlamaOptions(
            server=str(program),
            model_dir=models,
            args=("--notes", str(folder)),
            start_seconds=LONG,
            idle_minutes=IDLE_MINUTES,
        ),
    )
    new.behaves("well")
    yield new
    new.mark("end")
    new.server.close()


def changed(stand: Stand, **settings: Any) -> None:
    given = {name: getattr(stand.setup, name) for name in LlamaOptions.__dataclass_fields__}
    stand.setup = LlamaOptions(**given | settings)


class Watched(CancelToken):
    """Who has looked at it once waits, if there is something to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = threading.Event()

    def check(self) -> None:
        super().check()
        self.looked.set()


def waiting(
    pool: ThreadPoolExecutor, stand: Stand, cancel: Watched | None = None
) -> "Future[Lease]":
    """One who waits for the server."""
    cancel = cancel or Watched()
    future = pool.submit(lambda: stand.used(cancel))
    assert cancel.looked.wait(LONG)
    return future


def get(url: str, path: str = "/health") -> int:
    """The status that it answers with; 0 where it does not."""
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        with socket.create_connection((host, int(port)), LONG) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
            answer = connection.recv(100).split()
    except ConnectionError:
        return 0
    return int(answer[1]) if answer else 0


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class TestStarting:
    def test_nothing_runs_until_somebody_needs_it(self, stand: Stand) -> None:
        assert stand.server.status() == stand.off()
        assert stand.notes() == []
        assert stand.agenda.all == []

    def test_who_leases_it_can_ask_it(self, stand: Stand) -> None:
        with stand.lease() as lease:
            assert get(lease.url) == 200
            (note,) = stand.notes()
            assert is_running(note["pid"])
        assert stand.server.status() == ModelStatus(
            endpoint=lease.url,
            model_dir=str(stand.setup.model_dir),
            healthy=True,
            running=True,
            pid=note["pid"],
        )

    def test_it_is_told_what_is_configured_and_further_arguments_come_last(
        self, stand: Stand
    ) -> None:
        changed(stand, context_size=512, parallel=3)
        lease = stand.used()
        (note,) = stand.notes()
        program, *arguments = note["argv"]
        assert program == stand.setup.server
        assert arguments == [
            *("--model", str(stand.setup.model_dir / "tiny.gguf"), "--host", "127.0.0.1"),
            *("--port", lease.url.rpartition(":")[2], "--ctx-size", "1536", "--parallel", "3"),
            *("--jinja", "--no-webui", "--notes", str(stand.folder)),
        ]
        assert note["cwd"] == "/"

    def test_its_key_is_where_nobody_else_can_read_it(self, stand: Stand) -> None:
        lease = stand.used()
        (note,) = stand.notes()
        assert note["environ"]["LLAMA_API_KEY"] == lease.key
        assert len(lease.key) >= 32
        for pid in (note["pid"], parent_of(note["pid"])):
            assert lease.key not in Path(f"/proc/{pid}/cmdline").read_text()
        assert lease.key not in repr(lease)

    def test_its_environment_has_what_it_needs_and_nothing_of_ours(self, stand: Stand) -> None:
        passed = {
            "HOME": "/home/ada",
            "LC_ALL": "C.UTF-8",
            "CUDA_VISIBLE_DEVICES": "0",
            "GGML_VK_VISIBLE_DEVICES": "1",
            "PATH": "/usr/bin",
        }
        stand.environ |= passed | {
            "LD_LIBRARY_PATH": "/opt/lib",
            "MEMORY_KEY": "hush",
            "OPENAI_API_KEY": "hush",
            "LLAMA_ARG_HOST": "0.0.0.0",  # noqa: S104
            "PYTHONPATH": "/x",
            "SSH_AUTH_SOCK": "/x",
        }
        lease = stand.used()
        (note,) = stand.notes()
        beside = Path(stand.setup.server).parent
        assert note["environ"] == passed | {
            "LD_LIBRARY_PATH": f"{beside}:/opt/lib",
            "LLAMA_API_KEY": lease.key,
        }

    def test_it_is_started_once_for_all_who_come_while_it_starts(self, stand: Stand) -> None:
        stand.behaves("held")
        with ThreadPoolExecutor(20) as pool:
            leases = [waiting(pool, stand) for _ in range(20)]
            stand.wait_until_starting()
            assert not any(each.done() for each in leases)
            stand.mark("go")
            found = {(lease.url, lease.key, lease.serial) for lease in map(result, leases)}
        assert len(found) == 1
        assert len(stand.notes()) == 1
        assert stand.used().serial == next(iter(found))[2]
        assert len(stand.notes()) == 1

    def test_that_it_does_not_start_is_told_to_all_with_its_last_words(self, stand: Stand) -> None:
        stand.behaves("held")
        with ThreadPoolExecutor(5) as pool:
            leases = [waiting(pool, stand) for _ in range(5)]
            os.kill(stand.wait_until_starting().pid, signal.SIGKILL)
            reasons = [each.exception(LONG) for each in leases]
        for reason in reasons:
            assert isinstance(reason, LlmFailed)
            assert str(reason) == (
                "llama-server did not start with tiny.gguf (killed by signal 9):"
                " [31mtrouble [0m | still loading | cannot go on"
            )
        assert len(set(map(id, reasons))) == 5, "a traceback belongs to one"
        assert len(stand.notes()) == 1
        assert stand.server.status() == stand.off(str(reasons[0]))
        assert stand.agenda.all == [], "who needs it tries again, nobody else"

    def test_after_a_failure_the_next_who_needs_it_tries_again(self, stand: Stand) -> None:
        stand.behaves("dies")
        for _ in range(2):
            assert "(exit code 3)" in str(stand.failure())
        stand.behaves("well")
        stand.used()
        assert len(stand.notes()) == 3

    def test_one_that_is_not_ready_in_time_is_ended(self, stand: Stand) -> None:
        changed(stand, start_seconds=0.5)
        stand.behaves("held")
        failed = stand.failure()
        assert isinstance(failed, LlmFailed)
        assert str(failed) == (
            "llama-server did not load tiny.gguf within 0.5 s (llama.start_seconds):"
            " [31mtrouble [0m | still loading | cannot go on"
        )
        (note,) = stand.notes()
        assert not is_running(note["pid"])
        assert stand.server.status() == stand.off(str(failed))

    def test_where_somebody_takes_its_port_it_gets_another(self, stand: Stand) -> None:
        stand.behaves("busy", "2")
        lease = stand.used()
        assert get(lease.url) == 200
        ports = [note["argv"][note["argv"].index("--port") + 1] for note in stand.notes()]
        assert len(ports) == 3
        assert lease.url.endswith(f":{ports[-1]}")

    def test_where_there_is_no_port_at_all_it_says_so(self, stand: Stand) -> None:
        stand.behaves("busy", "99")
        assert "couldn't bind HTTP server socket" in str(stand.failure())
        assert len(stand.notes()) == 3

    def test_what_it_says_at_length_does_not_block_it(self, stand: Stand) -> None:
        stand.behaves("flood")
        assert get(stand.used().url) == 200
        stand.server.close()

    def test_without_a_program_or_a_model_it_says_what_is_missing(self, stand: Stand) -> None:
        given = stand.setup
        for settings, told in (
            ({"server": "/no/such/program"}, "/no/such/program is not a program"),
            ({"server": ""}, "no llama-server on PATH"),
            ({"model": "other"}, "llama.model is other, and"),
            ({"model_dir": stand.folder}, "there is no model in"),
        ):
            stand.setup, stand.created, stand.environ = given, None, {"PATH": "/nonexistent"}
            changed(stand, **settings)
            failed = stand.failure()
            assert isinstance(failed, FeatureUnavailable)
            assert told in str(failed)
            assert stand.server.status() == stand.off(str(failed))
        assert stand.notes() == []

    def test_a_program_that_cannot_be_run_is_told(self, stand: Stand) -> None:
        Path(stand.setup.server).write_bytes(b"\x7fELF of another kind of computer")
        failed = stand.failure()
        assert isinstance(failed, FeatureUnavailable)
        assert str(failed) == f"{stand.setup.server} cannot be run: Exec format error"

    def test_a_model_that_has_come_meanwhile_is_found(self, stand: Stand) -> None:
        (stand.setup.model_dir / "tiny.gguf").unlink()
        assert isinstance(stand.failure(), FeatureUnavailable)
        (stand.setup.model_dir / "new.gguf").touch()
        stand.used()
        assert str(stand.setup.model_dir / "new.gguf") in stand.notes()[0]["argv"]


def result(future: "Future[Lease]") -> Lease:
    return future.result(LONG)


class TestHalting:
    def test_before_it_was_needed_nothing_is_started(self, stand: Stand) -> None:
        cancel = CancelToken()
        cancel.set()
        with pytest.raises(Cancelled), stand.lease(cancel):
            pass
        assert stand.server.status() == stand.off()
        assert stand.notes() == []

    def test_while_it_starts_only_those_who_are_told_to_go(self, stand: Stand) -> None:
        stand.behaves("held")
        cancel = Watched()
        with ThreadPoolExecutor(2) as pool:
            halted, other = waiting(pool, stand, cancel), waiting(pool, stand)
            stand.wait_until_starting()
            cancel.set()
            assert isinstance(halted.exception(LONG), Cancelled)
            assert not other.done()
            stand.mark("go")
            assert get(result(other).url) == 200

    def test_it_goes_on_starting_for_whoever_comes_next(self, stand: Stand) -> None:
        stand.behaves("held")
        cancel = Watched()
        with ThreadPoolExecutor(1) as pool:
            halted = waiting(pool, stand, cancel)
            stand.wait_until_starting()
            cancel.set()
            assert isinstance(halted.exception(LONG), Cancelled)
        stand.mark("go")
        wait_until(lambda: stand.agenda.pauses() == [IDLE_SECONDS])
        stand.used()
        assert len(stand.notes()) == 1


class TestStatus:
    def test_it_is_true_in_each_phase(self, stand: Stand) -> None:
        stand.behaves("held", "slow")
        assert stand.server.status() == stand.off()
        with ThreadPoolExecutor(1) as pool:
            waits = waiting(pool, stand)
            starting = stand.wait_until_starting()
            assert (starting.running, starting.healthy) == (True, False)
            assert starting.pid == stand.notes()[0]["pid"]
            stand.mark("go")
            lease = result(waits)
            up = stand.server.status()
            assert (up.running, up.healthy) == (True, True)
            assert (up.pid, up.endpoint) == (starting.pid, lease.url)
            stand.clock.at += IDLE_SECONDS
            stopping = pool.submit(stand.agenda.next().call)
            wait_until((stand.folder / "ending").exists)
            ending = stand.server.status()
            assert (ending.running, ending.healthy, ending.pid) == (True, False, starting.pid)
            stand.mark("end")
            stopping.result(LONG)
        wait_until(lambda: stand.server.status() == stand.off())
        assert not is_running(starting.pid)

    def test_health_is_asked_for_again_after_a_moment(self, stand: Stand) -> None:
        stand.used()
        assert stand.server.status().healthy
        stand.mark("ill")
        assert stand.server.status().healthy, "it has other work"
        stand.clock.at += KEPT_SECONDS + 0.1
        assert not stand.server.status().healthy
        assert stand.server.status().running
        (stand.folder / "ill").unlink()
        stand.clock.at += KEPT_SECONDS + 0.1
        assert stand.server.status().healthy

    def test_one_that_died_is_off_at_once(self, stand: Stand) -> None:
        stand.used()
        pid = stand.dies()
        assert stand.server.status() == stand.off()
        assert not is_running(pid)


class TestDying:
    def test_who_leased_it_is_told_how_it_ended_and_its_last_line(self, stand: Stand) -> None:
        with stand.lease() as lease:
            os.kill(stand.pid(), signal.SIGKILL)
            assert (
                lease.get_exit_reason() == "llama-server ended (killed by signal 9): cannot go on"
            )
        with stand.lease() as lease:
            get(lease.url, "/crash")
            assert lease.get_exit_reason() == "llama-server ended (exit code 7): a crash é"

    def test_it_is_started_again_after_longer_and_longer_pauses_and_then_left_alone(
        self, stand: Stand
    ) -> None:
        changed(stand, idle_minutes=0)
        leases = [stand.used()]
        stand.dies()
        for pause in (1, 2, 4, 8, 16, 30):
            due = stand.agenda.next()
            assert due.seconds == pause
            due.call()
            wait_until(lambda: stand.server.status().healthy)
            leases.append(stand.used())
            stand.dies()
        assert len(leases) == MAX_RESTARTS + 1
        assert stand.agenda.all == [], "given up"
        assert len({lease.key for lease in leases}) == len({lease.serial for lease in leases}) == 7
        stand.used()
        stand.dies()
        assert stand.agenda.pauses() == [1], "somebody has needed it since"

    def test_a_restart_that_fails_counts_too(self, stand: Stand) -> None:
        changed(stand, idle_minutes=0)
        stand.used()
        stand.behaves("dies")
        stand.dies()
        pauses: list[float] = []
        while len(pauses) < MAX_RESTARTS:
            due = stand.agenda.next()
            pauses.append(due.seconds)
            due.call()
        wait_until(lambda: len(stand.notes()) == MAX_RESTARTS + 1)
        wait_until(lambda: not stand.server.status().running)
        assert pauses == [1, 2, 4, 8, 16, 30]
        assert "(exit code 3)" in str(stand.failure())
        assert stand.agenda.all == []

    def test_one_that_was_well_for_long_is_started_again_soon(self, stand: Stand) -> None:
        changed(stand, idle_minutes=0)
        stand.used()
        for pause in (1, 2):
            stand.dies()
            assert stand.agenda.pauses() == [pause]
            stand.agenda.next().call()
            wait_until(lambda: stand.server.status().healthy)
        stand.clock.at += STEADY_SECONDS
        stand.dies()
        assert stand.agenda.pauses() == [1]

    def test_who_needs_it_does_not_wait_for_the_pause(self, stand: Stand) -> None:
        changed(stand, idle_minutes=0)
        stand.used()
        stand.dies()
        (due,) = stand.agenda.open()
        stand.used()
        assert due.called_off
        pid = stand.pid()
        due.call()  # it was too late to call it off
        stand.used()
        assert stand.pid() == pid
        assert len(stand.notes()) == 2

    def test_one_that_still_runs_has_not_ended(self, stand: Stand) -> None:
        with stand.lease() as lease:
            assert lease.get_exit_reason() is None


class TestIdleness:
    def test_it_is_ended_when_nobody_has_needed_it_for_long(self, stand: Stand) -> None:
        lease = stand.used()
        pid = stand.pid()
        assert stand.agenda.pauses() == [IDLE_SECONDS]
        stand.clock.at += IDLE_SECONDS
        stand.agenda.next().call()
        assert not is_running(pid)
        assert lease.get_exit_reason() == "llama-server was stopped"
        assert stand.server.status() == stand.off()
        assert stand.agenda.all == [], "it was no death"
        stand.used()
        assert stand.pid() != pid

    def test_it_is_not_ended_while_somebody_has_it(self, stand: Stand) -> None:
        stand.used()
        pid = stand.pid()
        with stand.lease(), stand.lease():
            stand.clock.at += IDLE_SECONDS
            stand.agenda.next().call()
            assert stand.agenda.all == []
            assert is_running(pid)
        assert stand.agenda.pauses() == [IDLE_SECONDS]
        assert is_running(pid)

    def test_idleness_begins_with_the_last_who_had_it(self, stand: Stand) -> None:
        stand.used()
        pid = stand.pid()
        stand.clock.at += IDLE_SECONDS - 60
        stand.used()
        stand.clock.at += 60
        stand.agenda.next().call()
        assert is_running(pid)
        assert stand.agenda.pauses() == [IDLE_SECONDS - 60]
        stand.clock.at += IDLE_SECONDS - 60
        stand.agenda.next().call()
        assert not is_running(pid)

    def test_one_look_at_a_time_is_due(self, stand: Stand) -> None:
        for _ in range(5):
            stand.used()
        assert len(stand.agenda.all) == 1

    def test_it_may_be_left_running_for_ever(self, stand: Stand) -> None:
        changed(stand, idle_minutes=0)
        stand.used()
        assert stand.agenda.all == []

    def test_one_that_was_started_again_for_nobody_is_ended_too(self, stand: Stand) -> None:
        stand.used()
        look = stand.agenda.next()
        stand.dies()
        look.call()
        stand.agenda.next().call()
        wait_until(lambda: stand.agenda.pauses() == [IDLE_SECONDS])
        pid = stand.pid()
        stand.clock.at += IDLE_SECONDS
        stand.agenda.next().call()
        assert not is_running(pid)

    def test_who_comes_while_it_ends_gets_a_new_one(self, stand: Stand) -> None:
        stand.behaves("slow")
        first = stand.used()
        pid = stand.pid()
        stand.clock.at += IDLE_SECONDS
        with ThreadPoolExecutor(2) as pool:
            stopping = pool.submit(stand.agenda.next().call)
            wait_until((stand.folder / "ending").exists)
            waits = waiting(pool, stand)
            stand.mark("end")
            stopping.result(LONG)
            second = result(waits)
        assert second.serial != first.serial
        assert second.url != first.url
        assert get(second.url) == 200
        assert not is_running(pid)


class TestClosing:
    def test_it_ends_with_us(self, stand: Stand) -> None:
        with stand.lease() as lease:
            pid = stand.pid()
            stand.server.close()
            assert not is_running(pid)
            assert lease.get_exit_reason() == "llama-server was stopped"
        assert stand.server.status() == stand.off()
        assert stand.agenda.open() == []
        failed = stand.failure()
        assert isinstance(failed, FeatureUnavailable)
        assert "the daemon is stopping" in str(failed)
        stand.server.close()
        assert len(stand.notes()) == 1

    def test_it_ends_though_it_does_not_listen(self, stand: Stand) -> None:
        stand.behaves("deaf")
        stand.used()
        pid = stand.pid()
        stand.server.close()
        assert not is_running(pid)

    def test_while_it_starts_those_who_wait_are_told(self, stand: Stand) -> None:
        stand.behaves("held")
        with ThreadPoolExecutor(3) as pool:
            leases = [waiting(pool, stand) for _ in range(3)]
            pid = stand.wait_until_starting().pid
            stand.server.close()
            reasons = [each.exception(LONG) for each in leases]
        assert all(isinstance(reason, FeatureUnavailable) for reason in reasons)
        assert not is_running(pid)
        assert len(stand.notes()) == 1

    def test_nothing_is_started_again(self, stand: Stand) -> None:
        changed(stand, idle_minutes=0)
        stand.used()
        stand.dies()
        (due,) = stand.agenda.open()
        stand.server.close()
        assert due.called_off
        due.call()
        assert stand.server.status() == stand.off()
        assert len(stand.notes()) == 1

    def test_what_never_ran_is_closed_as_well(self, stand: Stand) -> None:
        stand.server.close()
        assert isinstance(stand.failure(), FeatureUnavailable)
        assert stand.notes() == []


PARENT = """
import sys
from pathlib import Path
from agent_memory.platform.llm.llama import LlamaOptions, LlamaServer
from agent_memory.kernel.cancellation import CancelToken
program, models, *arguments = sys.argv[1:]
options = LlamaOptions(server=program, model_dir=Path(models), args=tuple(arguments))
server = LlamaServer(options, {})
with server.lease(CancelToken()):
    print(server.status().pid, file=sys.stderr, flush=True)
    sys.stdin.read()
"""


class TestOrphans:
    def test_none_is_left_when_we_are_killed(self, stand: Stand) -> None:
        setup = stand.setup
        with subprocess.Popen(
            [sys.executable, "-c", PARENT, setup.server, str(setup.model_dir), *setup.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # its log
            stderr=subprocess.PIPE,
        ) as parent:
            try:
                assert parent.stderr is not None
                pid = int(parent.stderr.readline())
                supervisor = parent_of(pid)
                assert is_running(pid)
            finally:
                parent.kill()
        wait_for_end(pid)
        wait_for_end(supervisor)


class Site:
    """A server that somebody else runs: statuses by path, and what it was asked."""

    def __init__(self, **statuses: int) -> None:
        self.statuses: Mapping[str, int] = statuses
        self.asked: list[tuple[str, str]] = []
        self._begin(0)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def again(self) -> None:
        self._begin(self.port)

    def end(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _begin(self, port: int) -> None:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, self.headers.get("authorization", "")))
                self.send_response(site.statuses.get(self.path.strip("/").replace("/", "_"), 404))
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.01))
        self._thread.start()


class TestAnExternalServer:
    @pytest.fixture
    def site(self) -> Iterator[Site]:
        new = Site()
        yield new
        new.end()

    def status(self, site: Site, path: str = "", who: str = "", key: str = "") -> ModelStatus:
        endpoint = f"http://{who}127.0.0.1:{site.port}{path}"
        server: ModelServer = ExternalServer(endpoint=endpoint, api_key=key, model_dir="/models")
        found = server.status()
        server.close()
        return found

    @pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
    def test_it_is_well_when_it_says_so(self, site: Site, path: str) -> None:
        site.statuses = {"health": 200}
        endpoint = f"http://127.0.0.1:{site.port}{path}"
        assert self.status(site, path, key="hush") == ModelStatus(
            endpoint=endpoint, model_dir="/models", healthy=True
        )
        assert site.asked == [("/health", "")]

    @pytest.mark.parametrize("status", [500, 503, 429])
    def test_it_is_not_while_it_says_so(self, site: Site, status: int) -> None:
        site.statuses = {"health": status, "v1_models": 200}
        assert not self.status(site).healthy

    @pytest.mark.parametrize("status", [401, 403, 404, 405, 501])
    @pytest.mark.parametrize(
        ("path", "asked"),
        [
            ("", "/v1/models"),
            ("/", "/v1/models"),
            ("/v1/", "/v1/models"),
            ("/v1beta/openai", "/v1beta/openai/models"),
        ],
    )
    def test_one_that_does_not_tell_is_asked_for_its_models_with_the_key(
        self, site: Site, status: int, path: str, asked: str
    ) -> None:
        site.statuses = {"health": status, asked.strip("/").replace("/", "_"): 200}
        assert self.status(site, path, key="hush\n").healthy
        assert site.asked[-1] == (asked, "Bearer hush")
        site.statuses = {"health": status, asked.strip("/").replace("/", "_"): 401}
        assert not self.status(site, path).healthy
        assert site.asked[-1] == (asked, "")

    def test_who_we_are_there_is_told_to_it_and_to_nobody_else(self, site: Site) -> None:
        site.statuses = {"v1_models": 200}
        found = self.status(site, "/v1", who="ada:hush%21@")
        assert found.healthy
        assert found.endpoint == f"http://127.0.0.1:{site.port}/v1"
        kind, told = site.asked[-1][1].split()
        assert (kind, b64decode(told)) == ("Basic", b"ada:hush!")

    @pytest.mark.parametrize(
        "endpoint",
        ["localhost:1", "http://", "ftp://localhost", "http://[::1", "http://a:b@c:d", "x"],
    )
    def test_an_address_that_is_none_is_not_well(self, endpoint: str) -> None:
        found = ExternalServer(endpoint=endpoint, api_key="", model_dir="").status()
        assert not found.healthy
        assert "b@" not in found.endpoint

    def test_that_it_goes_away_and_comes_back_is_noticed(self, site: Site) -> None:
        site.statuses = {"health": 200}
        clock = Clock()
        endpoint = f"http://127.0.0.1:{site.port}"
        server = ExternalServer(endpoint=endpoint, api_key="", model_dir="", timer=clock)
        assert server.status().healthy
        site.end()
        assert server.status().healthy, "it was asked a moment ago"
        clock.at += KEPT_SECONDS + 0.1
        assert not server.status().healthy
        site.again()
        assert not server.status().healthy
        clock.at += KEPT_SECONDS + 0.1
        assert server.status().healthy

    def test_who_leases_it_gets_its_address_and_key(self, site: Site) -> None:
        server = ExternalServer(endpoint=" http://x/v1 ", api_key=" hush\n", model_dir="")
        with server.lease(CancelToken()) as lease:
            assert (lease.url, lease.key, lease.get_exit_reason()) == ("http://x/v1", "hush", None)
        cancel = CancelToken()
        cancel.set()
        with pytest.raises(Cancelled), server.lease(cancel):
            pass
        assert site.asked == []
