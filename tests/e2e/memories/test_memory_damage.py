"""Notes damaged by a power cut are repaired, and every memory gets its note again."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_runner import Home, wait_until
from tests.git_repositories import Repository, make_repository
from tests.memory_commands import OK, STORAGE, MemoryCommand

REF = "refs/notes/mem/decisions"


def objects(repository: Repository, commit: str) -> list[str]:
    """Return a commit of notes, its trees and its blobs."""
    listed = repository.git("ls-tree", "-r", "-t", commit).splitlines()
    return [commit, repository.git("rev-parse", f"{commit}^{{tree}}")] + [
        line.split()[2] for line in listed
    ]


def loose(repository: Repository, oid: str) -> Path:
    return Path(repository.home) / "objects" / oid[:2] / oid[2:]


def empty(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(b"")


def empty_ref(repository: Repository) -> None:
    empty(Path(repository.home) / REF)


def lose_commit(repository: Repository) -> None:
    loose(repository, repository.refs()[REF]).unlink()


def lose_newest_objects(repository: Repository) -> None:
    """Lose the objects that only the last commit has."""
    new = set(objects(repository, repository.refs()[REF]))
    for oid in new - set(objects(repository, f"{REF}~1")):
        loose(repository, oid).unlink()


def empty_newest_objects(repository: Repository) -> None:
    new = set(objects(repository, repository.refs()[REF]))
    for oid in new - set(objects(repository, f"{REF}~1")):
        empty(loose(repository, oid))


def lose_history(repository: Repository) -> None:
    loose(repository, repository.git("rev-parse", f"{REF}~1")).unlink()


def lose_everything(repository: Repository) -> None:
    """Lose the earlier values of the ref too."""
    for oid in repository.git("rev-list", "--objects", REF).splitlines():
        empty(loose(repository, oid.split()[0]))


def hole(path: Path) -> None:
    """Lose the first sectors of a file, as when only its length was on disk yet."""
    path.chmod(0o600)
    content = path.read_bytes()
    path.write_bytes(bytes(min(512, len(content) - 4)) + content[512:])


def hole_what_no_ref_leads_to(repository: Repository) -> None:
    """Take back the ref, as a power cut before it was written, and tear all that it led to."""
    written = repository.git("rev-list", "--objects", REF).splitlines()
    repository.git("update-ref", "-d", REF)
    shutil.rmtree(Path(repository.home) / "logs")
    for oid in written:
        hole(loose(repository, oid.split()[0]))


def notes(repository: Repository) -> bytes:
    listed = repository.git("ls-tree", "-r", repository.refs()[REF]).splitlines()
    return b"".join(repository.raw("cat-file", "blob", line.split()[2]) for line in listed)


@pytest.mark.parametrize(
    "damage",
    [
        *(empty_ref, lose_commit, lose_newest_objects, empty_newest_objects),
        *(lose_history, lose_everything, hole_what_no_ref_leads_to),
    ],
)
def test_a_sync_mends_notes_and_loses_no_memory(
    memory: MemoryCommand, repository: Repository, damage: Callable[[Repository], None]
) -> None:
    names = []
    for number in range(3):
        names.append(memory.capture("decisions", f"Berth {number} is free"))
        memory.text("sync", "--domain", "project")

    damage(repository)
    memory.capture("decisions", "Said after the damage")
    memory.text("sync", "--domain", "project", "--force")

    text = notes(repository)
    for name in names:
        assert text.count(f"\nid: {name}\n".encode()) == 1, name
    assert repository.succeeds("rev-list", "--objects", REF)
    assert set(memory.list_ids()) >= set(names)


def test_objects_that_a_power_cut_left_short_do_not_stop_the_daemon() -> None:
    """libgit2 reads such an object forever, and blocks every thread meanwhile."""
    with Home() as home:
        home.serve()
        repository = make_repository(home.work / "app")
        memory = MemoryCommand(home, repository.folder)
        names = [memory.capture("decisions", f"Berth {number} is free") for number in range(3)]
        memory.text("sync", "--domain", "project")
        pid = home.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not home.processes(), "it is gone")
        short = objects(repository, repository.refs()[REF])
        for number, oid in enumerate(short):
            path = loose(repository, oid)
            path.chmod(0o600)
            if number % 2:
                hole(path)
            else:
                os.truncate(path, path.stat().st_size * 2 // 3)
        home.serve()

        memory.text("sync", "--domain", "project", "--force")

        text = notes(repository)
        for name in names:
            assert text.count(f"\nid: {name}\n".encode()) == 1, name
        stored = {each.name for each in (home.data / "torn-objects").iterdir()}
        assert stored == set(short)
        assert f"{len(stored)} git objects" in home.run("memory", "doctor").text


def test_torn_objects_are_told_and_stop_no_write(
    home: Home, memory: MemoryCommand, repository: Repository
) -> None:
    captured = memory.capture("decisions", "Berth 1 is free")
    memory.text("sync", "--domain", "project")
    hole_what_no_ref_leads_to(repository)

    checked = home.run("memory-daemon", "admin", "verify", cwd=repository.folder)
    assert checked.code == STORAGE
    assert f"{repository.home} has " in checked.text
    repaired = home.run("memory-daemon", "admin", "verify", "--repair", cwd=repository.folder)

    assert repaired.code == OK, repaired
    assert f"\nid: {captured}\n".encode() in notes(repository)
    assert repository.succeeds("fsck", "--strict")


def test_what_people_wrote_into_notes_survives_where_it_can_be_read(
    memory: MemoryCommand, repository: Repository
) -> None:
    memory.capture("decisions", "Berth 1 is free")
    memory.text("sync", "--domain", "project")
    repository.git("notes", f"--ref={REF}", "append", "-m", "By hand, of the harbour master")
    memory.capture("decisions", "Berth 2 is free")
    memory.text("sync", "--domain", "project")

    lose_newest_objects(repository)
    memory.text("sync", "--domain", "project", "--force")

    assert b"By hand, of the harbour master" in notes(repository)


def test_a_ref_that_someone_set_to_something_else_is_left_alone(
    memory: MemoryCommand, repository: Repository
) -> None:
    memory.capture("decisions", "Berth 1 is free")
    memory.text("sync", "--domain", "project")
    blob = repository.git("hash-object", "-w", "--stdin", given=b"not a commit")
    repository.git("update-ref", REF, blob)

    answer = memory("sync", "--domain", "project", "--force")

    assert answer.code != OK
    assert repository.refs()[REF] == blob


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:13])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("HEAD", empty), ("HEAD", tear), ("HEAD", Path.unlink)),
        *(("config", empty), ("config", tear)),
        *(("refs/heads/main", empty), ("refs/heads/main", Path.unlink)),
        *(("refs", shutil.rmtree), ("objects/8c", shutil.rmtree)),
    ],
)
def test_our_own_repository_is_mended(name: str, damage: Callable[[Path], None]) -> None:
    with Home() as home:
        home.serve()
        memory = MemoryCommand(home, home.work)
        captured = memory.capture("decisions", "Before", "--domain", "user")
        memory.text("sync", "--domain", "user")
        own = home.data / "user.git"

        damage(own / name)
        memory.text("sync", "--domain", "user", "--force")

        repository = Repository(own, make_repository(home.work / "other").environ)
        assert f"\nid: {captured}\n".encode() in notes(repository)
        assert repository.git("rev-parse", "--is-bare-repository") == "true"
        assert repository.succeeds("fsck", "--strict")
        assert repository.git("symbolic-ref", "HEAD") == "refs/heads/main"
        assert repository.head
