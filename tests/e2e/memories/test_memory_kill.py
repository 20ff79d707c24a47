"""Killed or stopped at any moment: acknowledged captures survive and get their notes."""

import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.command_runner import Home, wait_until
from tests.git_repositories import Repository
from tests.memory_commands import OK, MemoryCommand

KILLS = 2
REF = "refs/notes/mem/decisions"
SECONDS = 15


def notes(repository: Repository) -> bytes:
    """Return all text in the notes, as git reads it."""
    ref = repository.refs().get(REF)
    if ref is None:
        return b""
    listed = repository.git("ls-tree", "-r", ref).splitlines()
    return b"".join(repository.raw("cat-file", "blob", line.split()[2]) for line in listed)


def assert_noted_once(repository: Repository, names: set[str]) -> None:
    text = notes(repository)
    for name in names:
        assert text.count(f"\nid: {name}\n".encode()) == 1, name


def until_noted(repository: Repository, names: set[str]) -> None:
    def there() -> bool:
        text = notes(repository)
        return all(name.encode() in text for name in names)

    wait_until(there, "every memory is in a note", SECONDS)
    assert_noted_once(repository, names)


class TestKilled:
    def test_at_once_after_a_capture(
        self, home: Home, memory: MemoryCommand, repository: Repository
    ) -> None:
        name = memory.capture("decisions", "Acknowledged")
        home.stop(signal.SIGKILL)
        home.serve()
        until_noted(repository, {name})
        assert memory.list_ids() == [name]

    def test_between_store_and_note(
        self, home: Home, memory: MemoryCommand, repository: Repository
    ) -> None:
        in_the_way = repository.folder / ".git/refs/notes"
        in_the_way.write_text("")
        name = memory.capture("decisions", "In the store only")
        home.stop(signal.SIGKILL)
        in_the_way.unlink()
        assert notes(repository) == b""
        home.serve()
        until_noted(repository, {name})

    def test_while_it_held_the_lock_of_the_notes(
        self, home: Home, memory: MemoryCommand, repository: Repository
    ) -> None:
        before = memory.capture("decisions", "Before")
        memory.text("sync", "--domain", "project")
        lock = repository.folder / f".git/{REF}.lock"
        lock.write_text("")
        after = memory.capture("decisions", "After")
        told = f'"home": "{repository.home}", "error": "{REF}'
        wait_until(lambda: told in home.log(), "it respects the lock of someone else")
        assert lock.exists()
        home.stop(signal.SIGKILL)
        home.serve()
        until_noted(repository, {before, after})
        assert not lock.exists()

    @pytest.mark.soak
    def test_again_and_again_while_capturing(
        self, home: Home, memory: MemoryCommand, repository: Repository
    ) -> None:
        acknowledged: set[str] = set()
        ended = threading.Event()

        def capture(worker: int) -> None:
            for number in range(1000):
                if ended.is_set():
                    return
                words = ("capture", "decisions", f"{worker} says {number}", "--format", "quiet")
                answer = memory(*words)
                if answer.code == OK:
                    acknowledged.add(answer.text.strip())

        moments = random.Random(6)
        with ThreadPoolExecutor(3) as pool:
            workers = [pool.submit(capture, each) for each in range(3)]
            try:
                for _ in range(KILLS):
                    enough = len(acknowledged) + moments.randint(1, 12)
                    wait_until(lambda n=enough: len(acknowledged) >= n, "captures go on")  # type: ignore[misc]
                    home.stop(signal.SIGKILL)
            finally:
                ended.set()
            for worker in workers:
                worker.result()
        home.run("memory-daemon", "start")
        until_noted(repository, acknowledged)
        listed = memory.list_ids()
        assert len(listed) == len(set(listed))
        assert set(listed) >= acknowledged
        memory.text("sync", "--domain", "project")
        assert memory("status", "--domain", "project", "--verify").code == OK
        assert repository.succeeds("fsck", "--strict")


class TestStopped:
    def test_notes_are_written_before_it_ends(
        self, home: Home, memory: MemoryCommand, repository: Repository
    ) -> None:
        names = {memory.capture("decisions", f"Number {number}") for number in range(10)}
        home.stop()
        assert home.pid() is None
        assert_noted_once(repository, names)

    @pytest.mark.soak
    def test_also_while_a_remote_does_not_answer(
        self, home: Home, memory: MemoryCommand, repository: Repository, tmp_path: Path
    ) -> None:
        fifo, waiting = tmp_path / "fifo", tmp_path / "waiting"
        os.mkfifo(fifo)
        repository.git("remote", "add", "origin", "ssh://host.invalid/app.git")
        environ = {
            "GIT_SSH_COMMAND": f"touch {waiting}; read word < {fifo}; exit 1; :",
            "GIT_SSH_VARIANT": "ssh",
        }
        with ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(memory, "sync", "--remote", env=environ)
            try:
                wait_until(waiting.exists, "the sync waits for its remote")
                name = memory.capture("decisions", "Said meanwhile")
                home.stop()
                assert_noted_once(repository, {name})
            finally:
                _release(fifo)
            assert hanging.result().code != OK


def _release(fifo: Path) -> None:
    """Unblock a reader, if git was not ended."""
    try:
        handle = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    os.write(handle, b"go on\n")
    os.close(handle)


def test_what_git_worked_in_is_removed_by_the_next_daemon(
    home: Home, memory: MemoryCommand, repository: Repository, tmp_path: Path
) -> None:
    fifo, waiting, scratch = tmp_path / "fifo", tmp_path / "waiting", home.data / "scratch"
    os.mkfifo(fifo)
    repository.git("remote", "add", "origin", "ssh://host.invalid/app.git")
    environ = {
        "GIT_SSH_COMMAND": f"touch {waiting}; read word < {fifo}; exit 1; :",
        "GIT_SSH_VARIANT": "ssh",
    }
    with ThreadPoolExecutor(1) as pool:
        syncing = pool.submit(memory, "sync", "--domain", "project", "--fetch", env=environ)
        try:
            wait_until(waiting.exists, "git waits for its remote")
            assert scratch.stat().st_mode & 0o077 == 0
            assert len(list(scratch.iterdir())) == 1
            home.stop(signal.SIGKILL)
        finally:
            fifo.write_text("go on\n")
        assert syncing.result().code != OK
    assert len(list(scratch.iterdir())) == 1
    home.serve()
    assert not scratch.exists()
