"""A real daemon as a process of its own, on folders of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fork_server import ForkedProcess, ForkServer
from tests.home_settings import BASE, prepare_home
from tests.memory_client import Client

START_SECONDS = 30.0
STOP_SECONDS = 30.0
_TICK = 0.02


class Daemon:
    """Started on entry, ended on exit, however the test went. May be killed and restarted.

    It embeds nothing unless told to: that takes time, and few tests look at it. Root may give it
    another user, in a home that this user can enter.
    """

    def __init__(
        self,
        home: Path,
        *,
        embedder: str = "none",
        settings: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        uid: int | None = None,
    ) -> None:
        self.data_dir = home / ".local/share/agent-memory"
        self._settings = {**BASE, "embedder.provider": embedder, **(settings or {})}
        self.home = home
        self._uid = uid
        self._stderr = home / "daemon.stderr"
        self._environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "TZ": "UTC",
            **(environ or {}),
        }
        self._process: ForkedProcess | None = None
        self.port = 0
        self.socket = Path()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        if error is None:
            assert "Traceback" not in self.log(), self.log()[-4000:]

    @property
    def db_path(self) -> Path:
        return self.data_dir / "db"

    @property
    def environ(self) -> dict[str, str]:
        """The variables that it is started with."""
        return dict(self._environ)

    @property
    def pid(self) -> int:
        return self._running().pid

    def client(self, host: str = "127.0.0.1") -> Client:
        return Client(f"{host}:{self.port}")

    def unix_client(self) -> Client:
        return Client(f"unix:{self.socket}")

    def start(self) -> None:
        assert self._process is None, "the daemon is running already"
        self._prepare()
        self._process = ForkServer.get_shared().start(self._environ, self._stderr, self._uid)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._is_announced():
                return
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(_TICK)
                raise AssertionError(f"the daemon ended with {code}: {self.log()}")
        raise AssertionError(f"no daemon after {START_SECONDS} s: {self.log()}")

    def run_to_its_end(self, port: int = 0) -> "subprocess.CompletedProcess[str]":
        """A further daemon on the same folders, which is expected not to start."""
        options = ("--home", self._environ["HOME"], "--port", str(port))
        return subprocess.run(
            [sys.executable, "-m", "agent_memory.daemon", *options],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )

    def kill(self) -> None:
        """As a crash would: no warning, no clean-up."""
        process = self._running()
        process.kill()
        process.wait(STOP_SECONDS)
        self._process = None

    def terminate(self) -> None:
        """Ask it to stop; `wait_stopped` waits until it has."""
        self._running().send_signal(signal.SIGTERM)

    def wait_stopped(self) -> None:
        code = self._running().wait(STOP_SECONDS)
        self._process = None
        assert code == 0, f"the daemon ended with {code}: {self.log()}"

    def stop(self) -> None:
        self.terminate()
        self.wait_stopped()

    def restart(self) -> None:
        """Start again on the same folders; a running daemon is stopped in order first."""
        if self._process is not None:
            self.stop()
        self.start()

    def log(self) -> str:
        """What the daemon has written to stderr, over all its starts."""
        return self._stderr.read_text() if self._stderr.exists() else ""

    def _prepare(self) -> None:
        prepare_home(self._environ, self._settings)
        if self._uid is not None:
            for path in (self.home, *self.home.rglob(".config/**")):
                os.chown(path, self._uid, self._uid)

    def _running(self) -> ForkedProcess:
        assert self._process is not None, "the daemon is not running"
        return self._process

    def _is_announced(self) -> bool:
        """Whether daemon.json is this process's; a killed one leaves its own behind."""
        try:
            found = json.loads((self.data_dir / "daemon.json").read_text())
        except FileNotFoundError:
            return False
        if found["pid"] != self._running().pid:
            return False
        self.port = found["grpc_port"]
        self.socket = Path(found["grpc_socket"])
        return True

    def _end(self) -> None:
        if self._process is not None:
            self.kill()
        if self.socket.is_absolute():
            shutil.rmtree(self.socket.parent, ignore_errors=True)
