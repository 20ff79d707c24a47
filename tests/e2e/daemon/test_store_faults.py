"""A disk that fills up under a running daemon: it says so everywhere, and works again by itself."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.command_runner import Home, wait_until
from tests.memory_client import Client

pytestmark = pytest.mark.rocksdb("the disk of the store is full")

DISK = "24m"
MOUNT, UMOUNT = shutil.which("mount") or "", shutil.which("umount") or ""


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, mode=0o700)
    options = f"size={DISK},mode=700"
    subprocess.run([MOUNT, "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run([UMOUNT, "--lazy", folder], check=True)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    if os.geteuid() or not MOUNT:
        pytest.skip("a disk of a known size needs root to mount it")
    with Home() as found, small_disk(found.data / "db"):
        found.serve()
        assert found.run("memory", "capture", "decisions", "Use RocksDB for the store").code == 0
        wait_until(lambda: indexed(found), "what was captured is indexed")
        fill(found)
        yield found
        wait_until(lambda: end_all(found), "it has ended")  # before its disk goes


def end_all(home: Home) -> bool:
    """Kill all processes of a home, those that hooks start meanwhile too. Return whether there were
    none."""
    running = home.processes()
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not running


def indexed(home: Home) -> bool:
    waiting: int = status(home)["indexes"]["words_waiting"]
    return waiting == 0


def fill(home: Home) -> None:
    """Leave no byte free, and write until that is noticed."""
    with filler(home).open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    for number in range(200):
        if home.run("memory", "capture", "learnings", f"number {number} " + "x" * 60).code:
            return
    raise AssertionError("a full disk took 200 memories")


def filler(home: Home) -> Path:
    return home.data / "db/filler"


def status(home: Home) -> Any:
    return home.run("memory-daemon", "status", "--format", "json").json()


def record(home: Home) -> Any:
    return json.loads((home.data / "daemon.json").read_text())


def asked(home: Home, path: str) -> httpx.Response:
    key = (home.data / "key").read_text().strip()
    address = f"http://127.0.0.1:{record(home)['http_port']}{path}"
    return httpx.get(address, headers={"Authorization": f"Bearer {key}"}, timeout=20)


def health(home: Home) -> tuple[int, Any]:
    answer = asked(home, "/health")
    return answer.status_code, answer.json()


def grpc_health(home: Home) -> str:
    with grpc.insecure_channel(f"unix:{record(home)['grpc_socket']}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=20)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


class TestFull:
    """The tests of this class leave the disk full, in which all of them find it."""

    def test_a_write_is_refused_with_the_reason(self, home: Home) -> None:
        answer = home.run("memory", "capture", "decisions", "Refuse what cannot be kept")
        assert answer.code == 4
        assert "No space left on device" in answer.errors

    def test_recall_goes_on_again_and_again(self, home: Home) -> None:
        for _ in range(3):
            answer = home.run("memory", "recall", "rocksdb store")
            assert answer.code == 0, answer
            assert "Use RocksDB for the store" in answer.text

    def test_status_says_so(self, home: Home) -> None:
        found = status(home)["store"]
        assert (found["writable"], found["readable"]) == (False, True)
        assert "No space left on device" in found["reason"]
        assert "STORE FAILING" in home.run("memory-daemon", "status").text

    def test_health_checks_say_so(self, home: Home) -> None:
        assert health(home) == (503, {"status": "failing", "store": "read_only"})
        assert grpc_health(home) == "NOT_SERVING"
        assert "agent_memory_store_writable 0.0" in asked(home, "/metrics").text

    def test_doctor_says_so(self, home: Home) -> None:
        answer = home.run_forked("memory", "doctor", "--format", "json")
        assert answer.code != 0
        problems = [each for each in answer.json()["findings"] if each["health"] == "problem"]
        assert any("cannot be written" in each["said"] for each in problems)


class TestRoomAgain:
    def test_it_works_again_by_itself_and_takes_up_what_hooks_left(self, home: Home) -> None:
        pid = home.pid()
        given = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "while-full",
            "prompt": "said while the disk was full",
            "cwd": str(home.work),
        }
        answer = home.run("memory", "hook", "auto", given=json.dumps(given).encode())
        assert answer.code == 0
        spool = home.data / "spool"
        assert list(spool.glob("*.json"))

        filler(home).unlink()

        wait_until(lambda: status(home)["store"]["writable"] is True, "it can be written again")
        wait_until(lambda: not list(spool.glob("*.json")), "the spool is recorded")
        with Client(f"unix:{record(home)['grpc_socket']}") as client:
            wait_until(lambda: said_while_full(client) == 1, "the hook's event is stored, once")
        assert home.run("memory", "capture", "decisions", "There is room again").code == 0
        assert health(home) == (200, {"status": "ok"})
        assert grpc_health(home) == "SERVING"
        assert home.pid() == pid  # without a restart


def said_while_full(client: Client) -> int:
    return [event.text for event in client.all_events()].count("said while the disk was full")
