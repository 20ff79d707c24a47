"""Backup and restore of a running daemon, as a user does it."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_memory import config
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import LAUNCHER, Home, wait_until
from tests.memory_client import Client

pytestmark = pytest.mark.rocksdb("a server has backups of its own: they refuse")

BASE_MS = 1_700_000_000_000
BEFORE, WRITERS = 200, 4
# Another file system than that of homes, where there is one.
OTHER_DISK = Path("/tmp" if tempfile.gettempdir() == "/dev/shm" else "/dev/shm")  # noqa: S108


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as created:
        yield created


def event(number: int, session: str = "s") -> pb.Event:
    return pb.Event(
        event_id=f"{session}-{number:06}",
        session_id=session,
        timestamp_ms=BASE_MS + number,
        event_type=pb.EVENT_TYPE_USER_MESSAGE,
        role=pb.EVENT_ROLE_USER,
        text=f"message {number} of {session}",
    )


def client(home: Home) -> Client:
    home.serve()
    return Client(f"127.0.0.1:{home.status()['grpc_port']}")


def ingest(home: Home, count: int, session: str = "s") -> None:
    with client(home) as calls:
        calls.ingest_all([event(number, session) for number in range(count)])


def backed_up(home: Home, target: Path, *options: str) -> dict[str, Any]:
    answer = home.run("memory-daemon", "admin", "backup", str(target), *options, "--format", "json")
    assert answer.code == 0, answer
    found: dict[str, Any] = answer.json()
    return found


def restored(home: Home, source: Path, *options: str) -> dict[str, Any]:
    answer = home.run_forked(
        "memory-daemon", "admin", "restore", str(source), *options, "--format", "json"
    )
    assert answer.code == 0, answer
    found: dict[str, Any] = answer.json()
    return found


def event_ids(home: Home) -> list[str]:
    with client(home) as calls:
        found: list[str] = []
        token = None
        while True:
            page = calls.get_events(limit=1000, token=token)
            found += [each.event_id for each in page.events]
            if not page.has_more:
                return found
            token = page.continuation_token


def everything(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_backup_under_load_has_all_that_was_acknowledged_and_a_prefix_of_the_rest(
    home: Home,
) -> None:
    ingest(home, BEFORE, "before")
    acknowledged = [0] * WRITERS
    ending = threading.Event()

    def write(writer: int) -> None:
        with client(home) as calls:
            while not ending.is_set():
                calls.ingest(event(acknowledged[writer], f"w{writer}"))
                acknowledged[writer] += 1

    threads = [threading.Thread(target=write, args=(each,)) for each in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: min(acknowledged) > 20, "all of them write")
        began = list(acknowledged)
        created = backed_up(home, home.folder / "backups")
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    with Home() as other:
        restored(other, Path(created["path"]))
        found = event_ids(other)
    assert created["events"] == len(found)
    assert sum(each.startswith("before-") for each in found) == BEFORE
    for writer in range(WRITERS):
        own = sorted(each for each in found if each.startswith(f"w{writer}-"))
        assert own == [f"w{writer}-{number:06}" for number in range(len(own))]
        assert began[writer] <= len(own) <= acknowledged[writer] + 1


def test_restored_elsewhere_everything_is_there_and_nothing_names_the_old_place(home: Home) -> None:
    ingest(home, 20)
    assert home.run("memory", "capture", "decisions", "Use RocksDB", "--domain", "user").code == 0
    archive = home.folder / "all.tar.gz"
    backed_up(home, archive)
    key = (home.data / "key").read_text()
    with tarfile.open(archive) as tar:
        assert tar.getmembers()[0].name == "manifest.json"
        for member in tar.getmembers():
            assert member.isreg()
            assert (member.uid, member.uname, member.mode) == (0, "", 0o600)
            data = tar.extractfile(member)
            assert data is not None
            assert str(home.folder).encode() not in data.read() or member.name.startswith("db/")
    assert archive.stat().st_mode & 0o777 == 0o600
    with Home() as other:
        assert restored(other, archive)["moved_aside"] is None
        assert len(event_ids(other)) == 20
        assert (other.data / "key").read_text() == key
        assert "Use RocksDB" in other.run("memory", "recall", "RocksDB", "--domain", "user").text
        notes = ["git", "-C", str(other.data / "user.git"), "notes", "--ref=mem/decisions", "list"]

        def listed() -> int:
            done = subprocess.run(notes, capture_output=True, check=False)
            return len(done.stdout.split())

        wait_until(lambda: listed() == 2, "its note is there, or written once more")
        wait_until(
            lambda: other.status()["indexes"]["words"]["documents"] >= 21, "all is indexed anew"
        )
        for path in other.data.rglob("*"):
            with suppress(FileNotFoundError):  # the index replaces its files meanwhile
                assert path.is_symlink() or not path.stat().st_mode & 0o077, path


def test_a_second_snapshot_shares_its_tables_with_the_first(home: Home) -> None:
    ingest(home, 500)
    first = Path(backed_up(home, home.folder / "backups")["path"])
    ingest(home, 3, "later")
    created = backed_up(home, home.folder / "backups")
    second = Path(created["path"])
    tables = {path.name for path in (first / "db").glob("*.sst")}
    shared = [name for name in tables if (second / "db" / name).exists()]
    assert shared
    assert all((first / "db" / n).samefile(second / "db" / n) for n in shared)
    assert created["new_bytes"] < created["size_bytes"] / 10
    for folder in (first, second):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert all(not each.stat().st_mode & 0o077 for each in folder.rglob("*"))


@pytest.mark.skipif(
    not OTHER_DISK.is_dir()
    or OTHER_DISK.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev,
    reason="there is one file system only",
)
def test_on_another_disk_it_copies_once_and_replaces_a_copy_that_is_damaged(home: Home) -> None:
    folder = Path(tempfile.mkdtemp(dir=OTHER_DISK))
    try:
        ingest(home, 500)
        first = Path(backed_up(home, folder)["path"])
        second = Path(backed_up(home, folder)["path"])
        tables = sorted(path.name for path in (first / "db").glob("*.sst"))
        assert all((first / "db" / n).samefile(second / "db" / n) for n in tables)
        damaged = second / "db" / tables[0]
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
        third = Path(backed_up(home, folder)["path"])
        assert not (third / "db" / tables[0]).samefile(damaged)
        home.stop()
        answer = home.run_forked("memory-daemon", "admin", "restore", str(second), "--force")
        assert answer.code == 4
        assert f"db/{tables[0]}" in answer.errors
        assert restored(home, third, "--force")["events"] == 500
    finally:
        shutil.rmtree(folder)


def test_a_damaged_byte_in_any_file_refuses_the_restore_and_is_named(home: Home) -> None:
    ingest(home, 20)
    home.run("memory", "capture", "decisions", "Use RocksDB", "--domain", "user")
    snapshot = Path(backed_up(home, home.folder / "backups")["path"])
    home.stop()
    before = everything(home.data)
    manifest = json.loads((snapshot / "manifest.json").read_text())
    paths = [each["path"] for each in manifest["files"] if each["size"]]
    assert {each.split("/")[0] for each in paths} == {"db", "key", "user.git"}
    for path in paths:
        file = snapshot / path
        good = file.read_bytes()
        file.unlink()  # it may be the store's own file too
        file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        answer = home.run_forked("memory-daemon", "admin", "restore", str(snapshot), "--force")
        assert answer.code == 4, answer
        assert f"{path} in {snapshot} is damaged" in answer.errors
        file.write_bytes(good)
    (snapshot / "key").unlink()
    answer = home.run_forked("memory-daemon", "admin", "restore", str(snapshot), "--force")
    assert (answer.code, "key is missing" in answer.errors) == (4, True)
    assert everything(home.data) == before


def test_a_running_daemon_or_an_existing_store_is_not_overwritten(home: Home) -> None:
    ingest(home, 5)
    created = Path(backed_up(home, home.folder / "backups")["path"])
    ingest(home, 2, "later")
    answer = home.run_forked("memory-daemon", "admin", "restore", str(created), "--force")
    assert (answer.code, "is running" in answer.errors) == (4, True)
    home.stop()
    answer = home.run("memory-daemon", "admin", "restore", str(created))
    assert (answer.code, "--force" in answer.errors) == (11, True)
    assert len(event_ids(home)) == 7
    home.stop()
    aside = Path(restored(home, created, "--force")["moved_aside"])
    assert len(event_ids(home)) == 5
    home.stop()
    assert (aside / "db/CURRENT").exists()
    assert (aside / "index").exists()
    # The folder of snapshots stands for its newest one; `--to` is any data folder.
    other = home.folder / "elsewhere"
    assert restored(home, home.folder / "backups", "--to", str(other))["data"] == str(other)
    assert (other / "db/CURRENT").exists()


def hostile(folder: Path, *members: tuple[tarfile.TarInfo, bytes], files: list[Any]) -> Path:
    manifest = {
        "format": "agent-memory-backup",
        "format_version": 1,
        "made_ms": 1,
        "version": "0",
        "store": "0" * 32,
        "schema": 1,
        "events": 0,
        "parts": ["db", "user.git"],
        "files": files,
    }
    path = folder / "hostile.tar"
    path.unlink(missing_ok=True)
    with tarfile.open(path, "w") as tar:
        text = json.dumps(manifest).encode()
        first = tarfile.TarInfo("manifest.json")
        first.size = len(text)
        tar.addfile(first, io.BytesIO(text))
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def test_hostile_archives_are_refused_and_leave_nothing(home: Home) -> None:
    def named(path: str) -> dict[str, object]:
        return {"path": path, "size": 1, "sha256": "0" * 64}

    def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
        created = tarfile.TarInfo(name)
        created.type = kind
        created.linkname = "/etc/passwd"
        return created

    outside = (
        "../evil",
        "/etc/evil",
        "db/../../evil",
        "db//x",
        "logs/x",
        "db/x/y",
        "user.git/hooks/post-commit",
        "user.git/config",
        "user.git/objects/info/alternates",
        "db",
        "key/x",
        "db/a\nb",
    )
    cases: list[tuple[list[tuple[tarfile.TarInfo, bytes]], list[Any]]] = [
        ([], [named(path)]) for path in outside
    ]
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
    cases += [([(member("db/x", kind), b"")], [named("db/x")]) for kind in kinds]
    cases += [([(member("db/y"), b"1")], [named("db/x")])]
    cases += [([], [named("db/x"), named("db/x")])]
    for members, files in cases:
        path = hostile(home.folder, *members, files=files)
        answer = home.run_forked("memory-daemon", "admin", "restore", str(path))
        assert answer.code in (4, 11), (members, files, answer)
        assert answer.errors.startswith("error: ")
        assert [each.name for each in home.data.iterdir()] == ["daemon.lock"]
    long = tarfile.TarInfo("db/x")
    long.pax_headers = {"comment": "x" * (8 << 20)}
    answer = home.run_forked(
        "memory-daemon",
        "admin",
        "restore",
        str(hostile(home.folder, (long, b"1"), files=[named("db/x")])),
    )
    assert (answer.code, "too long" in answer.errors) == (11, True)


@pytest.mark.parametrize("name", ["all.tar", "all.tar.gz"])
def test_an_archive_that_was_cut_off_is_called_damaged(home: Home, name: str) -> None:
    ingest(home, 20)
    archive = home.folder / name
    backed_up(home, archive)
    os.truncate(archive, archive.stat().st_size * 2 // 3)
    with Home() as other:
        answer = other.run_forked("memory-daemon", "admin", "restore", str(archive))
        assert answer.code == 4
        assert "is damaged" in answer.errors
        assert "Traceback" not in answer.errors
        assert not (other.data / "db").exists()


@pytest.mark.parametrize("name", ["all.zip", "all.tar.xz", "all.tar.zst"])
def test_an_archive_of_another_kind_is_refused(home: Home, name: str) -> None:
    home.serve()
    answer = home.run("memory-daemon", "admin", "backup", str(home.folder / name))
    assert answer.code == 11
    assert ".tar.gz" in answer.errors
    assert not (home.folder / name).exists()


def test_a_link_in_a_snapshot_is_refused(home: Home) -> None:
    ingest(home, 5)
    snapshot = Path(backed_up(home, home.folder / "backups")["path"])
    home.stop()
    (snapshot / "key").rename(home.folder / "key")
    (snapshot / "key").symlink_to(home.folder / "key")
    (snapshot / "db").rename(home.folder / "db")
    answer = home.run_forked("memory-daemon", "admin", "restore", str(snapshot), "--force")
    assert answer.code == 4
    (snapshot / "db").symlink_to(home.folder / "db")
    answer = home.run_forked("memory-daemon", "admin", "restore", str(snapshot), "--force")
    assert (answer.code, "is a link" in answer.errors) == (11, True)


@pytest.mark.parametrize("what", ["backup", "restore"])
def test_killed_at_any_step_it_leaves_what_was_there_or_all_of_the_new(
    tmp_path: Path, what: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.backup_kills", what, str(tmp_path)],
        cwd=LAUNCHER.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def test_a_restore_that_was_cut_off_is_finished_by_the_next_daemon(home: Home) -> None:
    ingest(home, 5)
    created = backed_up(home, home.folder / "backups")["path"]
    ingest(home, 2, "later")
    home.stop()
    subprocess.run(
        [sys.executable, "-m", "tests.backup_kills", "cut-off", str(home.data), created],
        cwd=LAUNCHER.parents[2],
        check=True,
        capture_output=True,
    )
    assert len(event_ids(home)) == 5
    assert "restore.finished" in home.log()
    assert len(list(home.data.glob("replaced-*/db"))) == 1
    assert not list(home.data.glob(".restore-*"))


def test_a_folder_with_backups_of_several_stores_does_not_say_which_is_meant(home: Home) -> None:
    folder = home.folder / "backups"
    ingest(home, 1)
    first = backed_up(home, folder)["path"]
    with Home() as other:
        ingest(other, 2)
        second = backed_up(other, folder, "--keep", "1")["path"]
    home.stop()
    answer = home.run_forked("memory-daemon", "admin", "restore", str(folder), "--force")
    assert answer.code == 11
    assert all(Path(each).name in answer.errors for each in (first, second))
    assert restored(home, Path(second), "--force")["events"] == 2


def test_scheduled_backups_run_as_a_job_keep_what_they_should_and_are_told_of(home: Home) -> None:
    ingest(home, 5)
    folder = home.folder / "backups"
    foreign = folder / "20200101T000000Z-00000000"
    foreign.mkdir(parents=True)
    (foreign / "mine.txt").write_text("not a snapshot")
    backed_up(home, folder, "--schedule", "0 0 3 * * *", "--keep", "2", "--keep-weekly", "0")
    for _ in range(3):
        job = home.run("memory-daemon", "scheduler", "run", "backup", "--format", "json").json()
        assert job["last_error"] is None, job
    names = sorted(each.name for each in folder.iterdir())
    assert len(names) == 3
    assert names[0] == foreign.name
    home.stop()
    home.serve()  # the plan is in the settings
    jobs = home.run("memory-daemon", "scheduler", "status", "--format", "json").json()["jobs"]
    assert [each["cron_expr"] for each in jobs if each["job_name"] == "backup"] == ["0 0 3 * * *"]
    assert home.status()["backup"]["path"] == str(folder / names[-1])
    # A backup that fails removes nothing, and doctor tells.
    folder.rename(home.folder / "gone")
    folder.write_text("in the way")
    home.run("memory-daemon", "scheduler", "run", "backup")
    report = home.run("memory", "doctor").text
    assert "backup failed" in report
    assert len(list((home.folder / "gone").iterdir())) == 3
    folder.unlink()
    (home.folder / "gone").rename(folder)
    # Days later the last good one is old, and status tells.
    record = json.loads((home.data / "backup.json").read_text())
    record["scheduled_ms"] -= 5 * 86_400_000
    (home.data / "backup.json").write_text(json.dumps(record))
    assert any("5 days old" in each for each in home.status()["warnings"])
    # One that is taken elsewhere is the last backup, and none of the schedule.
    elsewhere = backed_up(home, home.folder / "once")["path"]
    assert home.status()["backup"]["path"] == elsewhere
    assert any("5 days old" in each for each in home.status()["warnings"])
    backed_up(home, folder)
    assert not home.status()["warnings"]
    home.run("memory-daemon", "admin", "backup", "--unschedule")
    jobs = home.run("memory-daemon", "scheduler", "status", "--format", "json").json()["jobs"]
    assert "backup" not in [each["job_name"] for each in jobs]
    answer = home.run("memory-daemon", "admin", "backup", str(folder), "--schedule", "at noon")
    assert (answer.code, "no schedule" in answer.errors) == (11, True)
    # It failed as it should: the log has that traceback, and no other.
    log = home.data / "logs/daemon.log"
    log.write_text(log.read_text().replace("Traceback", "traceback of the failed backup"))


def test_a_plan_that_cannot_be_written_down_is_not_followed(home: Home) -> None:
    ingest(home, 1)
    settings = config.folders(home.environ).config_file
    settings.unlink(missing_ok=True)
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.symlink_to("/proc/gone/settings.toml")  # no one can make a folder there
    words = ("admin", "backup", str(home.folder / "backups"), "--schedule", "0 0 3 * * *")
    answer = home.run("memory-daemon", *words)
    assert (answer.code, "cannot write" in answer.errors) == (3, True), answer
    jobs = home.run("memory-daemon", "scheduler", "status", "--format", "json").json()["jobs"]
    assert "backup" not in [each["job_name"] for each in jobs]


def test_what_a_backup_may_not_overwrite_or_be_inside_of(home: Home) -> None:
    ingest(home, 1)
    there = home.folder / "there.tar"
    there.write_text("precious")
    for target, reason in (
        (there, "is there already"),
        (home.data / "db/backups", "is inside"),
        (home.data / "spool", "is inside"),
        (home.folder / "x.tar.zst", "archives end in"),
    ):
        answer = home.run("memory-daemon", "admin", "backup", str(target))
        assert (answer.code, reason in answer.errors) == (11, True), answer
    assert there.read_text() == "precious"
    assert os.listdir(home.folder / ".local/share/agent-memory/db")  # noqa: PTH208
    assert home.run("memory-daemon", "admin", "backup").code == 2
