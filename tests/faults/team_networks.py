"""Two laptops and a team's server in network namespaces of their own, with the network cut.

    python -m tests.faults.team_networks --rounds 5 --seed 1      (as root, with iproute2)

Each round cuts the link of a laptop, lets both record, edit and forget, kills a daemon now and
then, and mends the link. At the end it compares what all three have. The exit code is 1 if they
differ.
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import trustme

from agent_memory.features.upstream.model import names
from tests.command_runner import Home, wait_until
from tests.http_client import Web
from tests.memory_commands import OK
from tests.team_laptops import Laptop

NETWORK = "10.77.31"
SERVER = f"{NETWORK}.1"
PORT = 8443
PERSON = "ada"
PROJECT = "work"
TEXTS = ("Use PostgreSQL", "Cache for an hour", "Ship on Tuesdays")
SETTLE_ROUNDS = 20


class Namespace:
    """A network namespace with one link to the bridge of the host."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self._host_end = name, f"{name}h"
        _ip("netns", "add", name)
        _ip("link", "add", self._host_end, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", self._host_end, "master", "amteam", "up")
        self._inside("addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
        self._inside("link", "set", "lo", "up")
        self._inside("link", "set", "eth0", "up")

    def cut(self) -> None:
        _ip("link", "set", self._host_end, "down")

    def mend(self) -> None:
        _ip("link", "set", self._host_end, "up")

    def remove(self) -> None:
        _ip("netns", "del", self.name)

    def serve(self, home: Home) -> "subprocess.Popen[bytes]":
        """Start a daemon inside. Commands reach it by its Unix socket."""
        words = ["ip", "netns", "exec", self.name, sys.executable, "-m", "agent_memory.daemon"]
        words += ["--home", str(home.folder)]
        born = subprocess.Popen(  # our own daemon
            words,
            env=home.environ,
            cwd=home.work,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: home.pid() == born.pid and _is_ready(home, born.pid), "it serves")
        return born

    def _inside(self, *words: str) -> None:
        _ip("-n", self.name, *words)


def _is_ready(home: Home, pid: int) -> bool:
    try:
        return bool(Web(home).record["pid"] == pid)
    except (FileNotFoundError, KeyError):
        return False


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: S607


@contextmanager
def open_bridge() -> Iterator[None]:
    _ip("link", "add", "amteam", "type", "bridge")
    _ip("link", "set", "amteam", "up")
    try:
        yield
    finally:
        _ip("link", "del", "amteam")


class Trial:
    def __init__(self, stack: ExitStack, seed: int) -> None:
        self.dice = random.Random(seed)
        stack.enter_context(open_bridge())
        self.spaces = []
        for number, name in enumerate(("amsrv", "amone", "amtwo"), 1):
            space = Namespace(name, number)
            stack.callback(space.remove)
            self.spaces.append(space)
        self.homes = [stack.enter_context(Home()) for _ in self.spaces]
        authority = trustme.CA()
        certificate = authority.issue_cert(SERVER)
        server = self.homes[0]
        self._write(server.folder / "cert.pem", certificate.cert_chain_pems[0].bytes())
        self._write(server.folder / "key.pem", certificate.private_key_pem.bytes())
        server.settings |= {
            "http.host": SERVER,
            "http.port": str(PORT),
            "http.tls_cert": str(server.folder / "cert.pem"),
            "http.tls_key": str(server.folder / "key.pem"),
        }
        self.processes = [
            space.serve(home) for space, home in zip(self.spaces, self.homes, strict=True)
        ]
        answer = server.run("memory-daemon", "token", "create", PERSON, "--format", "quiet")
        assert answer.code == OK, answer
        self.laptops = [Laptop(home) for home in self.homes[1:]]
        for laptop in self.laptops:
            authority_file = laptop.home.folder / "authority.pem"
            self._write(authority_file, authority.cert_pem.bytes())
            for words in (
                ("config", "set", "upstream.certificates", str(authority_file)),
                ("remote", "add", f"https://{SERVER}:{PORT}"),
            ):
                added = laptop.memory(*words)
                assert added.code == OK, added
            logged = laptop.memory("remote", "login", given=answer.out)
            assert logged.code == OK, logged
            laptop.share(PROJECT)
            laptop.sync()
        self.recorded: set[str] = set()
        self.forgotten: set[str] = set()
        self.kills = self.cuts = 0

    def _write(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        path.chmod(0o600)

    def run_round(self, number: int) -> None:
        cut = self.dice.choice(self.spaces[1:])
        cut.cut()
        self.cuts += 1
        for index, laptop in enumerate(self.laptops):
            for step in range(4):
                self._act(laptop, f"r{number}-l{index}-{step}")
        if self.dice.random() < 0.5:
            self._kill(self.dice.randrange(3))
        cut.mend()
        for laptop in self.laptops:
            laptop.memory("remote", "sync")  # it may still be on its way back

    def _act(self, laptop: Laptop, name: str) -> None:
        action = self.dice.randrange(4)
        listed = laptop.memory.json("list", "--domain", "project")["memories"]
        if action == 0 or not listed:
            laptop.record(name, f"words of {name}", PROJECT, session=f"s-{name}")
            self.recorded.add(name)
            laptop.memory("capture", "decisions", self.dice.choice(TEXTS))
        elif action == 1:
            chosen = self.dice.choice(listed)["id"]
            laptop.memory("edit", chosen, "--tags", self.dice.choice(["api", "db", "ops"]))
        elif action == 2 and self.dice.random() < 0.4:
            laptop.memory("forget", self.dice.choice(listed)["id"], "--yes")
        else:
            own = sorted(self.recorded - self.forgotten)
            name = self.dice.choice(own) if own else ""
            if name and laptop.memory("forget", "--event", name, "--yes").code == OK:
                self.forgotten.add(name)

    def _kill(self, index: int) -> None:
        self.kills += 1
        self.homes[index].stop(signal.SIGKILL)
        self.processes[index].wait()
        self.processes[index] = self.spaces[index].serve(self.homes[index])

    def compare(self) -> str:
        """Return where the three sides differ; empty if they agree."""
        last = "nothing was compared"
        for _ in range(SETTLE_ROUNDS):
            failed = [laptop.memory("remote", "sync").code != OK for laptop in self.laptops]
            last = "a laptop cannot sync" if any(failed) else self._find_difference()
            if not last:
                return ""
            time.sleep(1.0)
        return last

    def _find_difference(self) -> str:
        memories = [_list_memories(laptop) for laptop in self.laptops]
        if memories[0] != memories[1]:
            return f"memories: {memories[0]} and {memories[1]}"
        with Web(self.homes[0]).over_socket() as client:
            answer = client.get(
                "/api/v1/upstream/changes/", params={"project": PROJECT, "limit": 500}
            )
            changes = [each["record"] for each in answer.json()["changes"]]
            on_server = {
                each["digest"][:12]: (sorted(each["tags"]), each["status"])
                for each in changes
                if "digest" in each and each["status"] != "tombstone"
            }
            events = client.get("/api/v1/events/", params={"from_timestamp_ms": 0, "limit": 1000})
        if on_server != memories[0]:
            return f"memories of the server: {on_server} and {memories[0]}"
        found = {str(names.split_event(each["event_id"])[0]) for each in events.json()["events"]}
        expected = self.recorded - self.forgotten
        return "" if found == expected else f"events: {found ^ expected}"


def _list_memories(laptop: Laptop) -> dict[str, Any]:
    words = ("list", "--domain", "project", "--status", "active")
    listed = laptop.memory.json(*words)["memories"]
    return {each["id"].split(":")[1]: (sorted(each["tags"]), each["status"]) for each in listed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    with ExitStack() as stack:
        trial = Trial(stack, options.seed)
        for number in range(options.rounds):
            trial.run_round(number)
        difference = trial.compare()
        sys.stdout.write(
            f"{options.rounds} rounds, {trial.cuts} cuts, {trial.kills} kills,"
            f" {len(trial.recorded)} events, {len(trial.forgotten)} forgotten,"
            f" {time.monotonic() - began:.0f} s:"
            f" {difference or 'all three sides agree'}\n"
        )
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
