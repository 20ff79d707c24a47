"""Networks that can be cut: namespaces, each with one cable to a hub in which a server runs.

The network of the machine is not touched. Processes in different namespaces still reach each other
through Unix sockets.
"""

import os
import shutil
import subprocess
from contextlib import suppress
from functools import cache

_SECONDS = 20.0
_FOLDER = "/run/netns"


class CutNetworks:
    """A hub and some networks, numbered from 0. `close` removes them."""

    def __init__(self, count: int) -> None:
        self._mark = f"am{os.getpid()}"
        self._names = [self._hub]
        try:
            self._open(count)
        except BaseException:
            self.close()
            raise

    @property
    def server_address(self) -> str:
        """The addresses of the hub, for a server to listen on."""
        return "*"

    @property
    def within_hub(self) -> list[str]:
        """The words of a command that runs another one in the hub."""
        return ["nsenter", f"--net={_FOLDER}/{self._hub}", "--"]

    def get_path(self, number: int) -> str:
        """Return the path of a network, to start a process in it."""
        return f"{_FOLDER}/{self._name(number)}"

    def get_server(self, number: int) -> str:
        """Return the address under which a network knows the hub."""
        return f"10.77.{number}.1"

    def cut(self, number: int) -> None:
        """Let everything between a network and the hub be lost, without a word to either side."""
        _run("-n", self._hub, "link", "set", self._cable(number), "down")

    def mend(self, number: int) -> None:
        _run("-n", self._hub, "link", "set", self._cable(number), "up")

    def close(self) -> None:
        for name in self._names:  # their cables go with them
            with suppress(subprocess.SubprocessError):
                _run("netns", "delete", name)

    @property
    def _hub(self) -> str:
        return f"{self._mark}-hub"

    def _name(self, number: int) -> str:
        return f"{self._mark}-{number}"

    def _cable(self, number: int) -> str:
        return f"cable{number}"

    def _open(self, count: int) -> None:
        _run("netns", "add", self._hub)
        _run("-n", self._hub, "link", "set", "lo", "up")
        for number in range(count):
            name, cable = self._name(number), self._cable(number)
            self._names.append(name)
            _run("netns", "add", name)
            _run("-n", name, "link", "set", "lo", "up")
            _run(
                *("-n", self._hub, "link", "add", cable, "type", "veth"),
                *("peer", "name", "eth0", "netns", name),
            )
            _run("-n", self._hub, "address", "add", f"{self.get_server(number)}/30", "dev", cable)
            _run("-n", self._hub, "link", "set", cable, "up")
            _run("-n", name, "address", "add", f"10.77.{number}.2/30", "dev", "eth0")
            _run("-n", name, "link", "set", "eth0", "up")


@cache
def find_obstacle() -> str:
    """Say why networks cannot be made here; empty if they can."""
    if os.getuid() != 0:
        return "only root makes networks"
    if missing := [name for name in ("ip", "nsenter") if shutil.which(name) is None]:
        return f"{' and '.join(missing)}: not installed (Debian: iproute2, util-linux)"
    try:
        CutNetworks(1).close()
    except (OSError, subprocess.SubprocessError) as exc:
        return f"networks cannot be made here: {exc}"
    return ""


def _run(*words: str) -> None:
    subprocess.run(
        ["ip", *words],  # noqa: S607
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_SECONDS,
    )
