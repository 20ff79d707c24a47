"""`memory-daemon admin verify`: damage is found, told with its time, and repaired with a copy."""

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Home, wait_until
from tests.memory_client import Client, message

EVENTS = 300
FIRST_MS = 1_738_281_600_000
DAMAGED = 4


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


def ingest(home: Home, numbers: range) -> None:
    with Client(f"unix:{socket(home)}") as client:
        for number in numbers:
            client.ingest(event(number))


def socket(home: Home) -> str:
    answer = home.run("memory-daemon", "status", "--format", "json")
    found: str = answer.json()["grpc_socket"]
    return found


def event(number: int) -> pb.Event:
    created = message(f"verify-{number:04}", FIRST_MS + 1000 * number)
    created.text = f"{number} {os.urandom(150).hex()}"
    return created


def kill(home: Home) -> None:
    pid = home.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not home.processes(), "it is gone")


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 0x10
    path.write_bytes(content)


def flip_event(path: Path, number: int) -> None:
    """Flip a bit in the text of an event: other records of a log carry no time."""
    content = bytearray(path.read_bytes())
    content[content.index(b"verify-%04d" % number) + 100] ^= 0x10
    path.write_bytes(content)


def largest(home: Home, pattern: str) -> Path:
    return max((home.data / "db").glob(pattern), key=lambda each: each.stat().st_size)


def test_what_is_sound_is_called_so(home: Home) -> None:
    ingest(home, range(20))
    assert home.run("memory", "capture", "decisions", "Verify what is stored").code == 0
    wait_until(lambda: home.run("memory-daemon", "admin", "verify").code == 0, "all is sound")
    answer = home.run("memory-daemon", "admin", "verify", "--format", "json")
    assert answer.json()["sound"] is True
    assert answer.json()["rows"] > 80
    assert answer.json()["memories"] == 1


@pytest.mark.rocksdb("damages its log")
def test_a_damaged_log_is_told_at_the_start_in_status_in_doctor_and_in_the_log(home: Home) -> None:
    ingest(home, range(EVENTS))
    kill(home)
    flip_event(largest(home, "*.log"), EVENTS // 2)

    started = home.run("memory-daemon", "start")

    assert started.code == 0
    assert "damaged records in the write-ahead log" in started.errors
    (found,) = home.run("memory-daemon", "status", "--format", "json").json()["damages"]
    assert FIRST_MS <= found["first_ms"] <= found["last_ms"] < FIRST_MS + 1000 * EVENTS
    assert Path(found["kept"]).is_dir()
    year = time.strftime("%Y-%m-%d", time.gmtime(FIRST_MS / 1000))
    assert f"from {year}" in home.run("memory-daemon", "status").text
    doctor = home.run_forked("memory", "doctor", "--format", "json")
    assert doctor.code != 0
    assert "write-ahead log" in doctor.text
    assert "store.damaged" in (home.data / "logs/daemon.log").read_text()
    with Client(f"unix:{socket(home)}") as client:
        left = {each.event_id for each in client.all_events()}
    # A record is what was written in one go: of single events, each its own.
    assert EVENTS - 5 <= len(left) < EVENTS


@pytest.mark.rocksdb("damages its tables")
def test_a_damaged_table_is_repaired_while_no_daemon_runs(home: Home) -> None:
    ingest(home, range(EVENTS))
    assert home.run("memory-daemon", "admin", "compact").code == 0
    home.stop()
    flip(largest(home, "*.sst"), 0.3)
    home.serve()

    found = home.run("memory-daemon", "admin", "verify")
    assert found.code == DAMAGED
    assert "1 damaged place in the tables of events" in found.text
    assert "memory-daemon stop && memory-daemon admin verify --repair" in found.text
    listed = home.run(
        "memory-daemon", "query", "events", "--from", "0", "--to", "9999999999999", "-l", "1000"
    )
    assert listed.code == 0  # the listing goes on behind the damage
    assert f"verify-{EVENTS - 1:04}" in listed.text
    assert "verify-0000" in listed.text

    home.stop()
    repaired = home.run("memory-daemon", "admin", "verify", "--repair")
    assert repaired.code == 0, repaired
    assert "Repaired:" in repaired.text
    assert list(home.data.glob("db.damaged-*/*.sst"))
    home.serve()
    wait_until(lambda: home.run("memory-daemon", "admin", "verify").code == 0, "all is sound")
    ingest(home, range(EVENTS))  # what was lost is taken again, what was not is known
    with Client(f"unix:{socket(home)}") as client:
        assert len(client.all_events()) == EVENTS


@pytest.mark.rocksdb("cuts its log")
def test_a_log_that_was_cut_is_told_everywhere_until_it_is_dismissed(home: Home) -> None:
    ingest(home, range(EVENTS))
    home.stop(signal.SIGKILL)
    largest(home, "*.log").unlink()
    home.serve()

    found = home.run("memory-daemon", "admin", "verify")
    assert found.code == DAMAGED
    stated = re.search(r"of ([\d,]+) records", found.text)
    assert stated is not None  # the table of contents may have been written, too
    assert EVENTS <= int(stated[1].replace(",", "")) < 2 * EVENTS
    for words in (("memory-daemon", "status"), ("memory", "doctor")):
        assert "ends before what was acknowledged" in home.run(*words).text

    (stored,) = home.data.glob("db.damaged-*")
    shutil.rmtree(stored)
    assert home.run("memory-daemon", "admin", "verify").code == 0


def test_a_damaged_index_is_found_and_rebuilt(home: Home) -> None:
    ingest(home, range(40))
    index = home.data / "index/lexical"
    home.hold_still()
    assert home.run("memory-daemon", "admin", "verify").code == 0
    flip(max(index.glob("*.term"), key=lambda each: each.stat().st_size), 0.3)
    found = home.run("memory-daemon", "admin", "verify", "--format", "json")
    assert found.code == DAMAGED
    assert ".term" in found.json()["indexes"]["index of words"]
    assert home.run("memory-daemon", "admin", "verify", "--repair").code == 0
    assert home.run("memory-daemon", "admin", "verify").code == 0


def test_another_database_is_neither_read_nor_repaired(home: Home, tmp_path: Path) -> None:
    home.stop()
    for options in ([], ["--repair"]):
        answer = home.run(
            "memory-daemon", "admin", "--db-path", str(tmp_path / "other"), "verify", *options
        )
        assert answer.code == 2
        assert "--db-path" in answer.errors
    assert not list(home.data.glob("db.damaged-*"))


def test_a_store_that_compacts_is_read_all_the_same(home: Home) -> None:
    ingest(home, range(EVENTS))
    with home.begin("memory-daemon", "admin", "compact") as compacting:
        assert home.run("memory-daemon", "admin", "verify").code == 0
        assert compacting.wait(40) == 0


def test_repairing_what_is_sound_changes_nothing(home: Home) -> None:
    answer = home.run("memory-daemon", "admin", "verify", "--repair", "--format", "json")
    assert answer.code == 0
    assert answer.json()["sound"] is True
