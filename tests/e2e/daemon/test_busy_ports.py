"""Ports that another program has: no reason not to start for a daemon that starts by itself."""

import configparser
import shlex
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent_memory.interfaces.cli import service_unit
from agent_memory.interfaces.command_socket.calls import CommandCall
from tests.command_runner import Home, Running, wait_until


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as created:
        del created.settings["grpc.port"], created.settings["http.port"]
        yield created


@pytest.fixture
def busy() -> Iterator[dict[str, int]]:
    """A port for each section of the settings, with someone behind it."""
    with ExitStack() as listeners:
        found = {}
        for section in ("grpc", "http"):
            listener = listeners.enter_context(socket.create_server(("127.0.0.1", 0)))
            found[section] = listener.getsockname()[1]
        yield found


def settings(busy: dict[str, int]) -> str:
    return "".join(f"[{section}]\nport = {port}\n" for section, port in busy.items())


def warnings(busy: dict[str, int]) -> list[str]:
    return [
        f"cannot listen on 127.0.0.1:{port}: Address already in use;"
        f" set {section}.port, or 0 for a free one"
        for section, port in busy.items()
    ]


@pytest.mark.parametrize("where", ["settings", "chosen file"])
def test_a_command_starts_a_daemon(home: Home, busy: dict[str, int], where: str) -> None:
    words: tuple[str, ...] = ()
    if where == "settings":
        home.configure(settings(busy))
    else:
        chosen = home.work / "chosen.toml"
        chosen.write_text(settings(busy))
        words = ("--config", str(chosen))

    assert home.run("memory", *words, "status").code == 0

    assert home.status()["warnings"] == warnings(busy)


@pytest.mark.parametrize("chosen", [False, True], ids=["settings", "chosen file"])
def test_the_service_serves(home: Home, busy: dict[str, int], chosen: bool) -> None:
    file = home.work / "chosen.toml"
    file.write_text(settings(busy))
    if not chosen:
        home.configure(settings(busy))

    with Running(
        service(home, file if chosen else None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=home.environ,
    ) as daemon:
        wait_until(
            lambda: (home.data / "daemon.sock").is_symlink() or not _runs(daemon), "it serves"
        )
        assert _runs(daemon), daemon.stderr and daemon.stderr.read()
        assert home.status()["warnings"] == warnings(busy)
        home.stop()


def service(home: Home, config_file: Path | None) -> list[str]:
    """What systemd would run."""
    call = CommandCall(
        program="memory-daemon",
        arguments=("service", "install"),
        cwd=Path("/"),
        environ=home.environ,
        input_is_terminal=False,
        output_is_terminal=False,
        errors_are_terminal=False,
    )
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.read_string(service_unit.for_platform(call, "linux", config_file=config_file).text)
    return shlex.split(unit["Service"]["ExecStart"])


def _runs(process: Running) -> bool:
    return process.poll() is None
