"""Backups and restores that are killed at every step, each in a fork of this process.

`python -m tests.backup_kills backup FOLDER`, or `restore FOLDER`: a step is a call that the
interpreter audits (a file linked, renamed, removed, a folder made). Prints how many kills there
were; fails where what is left is neither as before nor complete. `cut-off DATA BACKUP` leaves a
data folder in the middle of a restore.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from agent_memory.features.backups.adapters import restore_journal, restoring, sources
from agent_memory.features.backups.adapters.restore_journal import RestorePlace
from agent_memory.features.backups.adapters.snapshots import DataSnapshots
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store import families, schema
from agent_memory.platform.store.batches import Batch, Put
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine

STEPS = ("os.link", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")
OLD, NEW = 3, 5
FAILED = 101


def make_data(data: Path, events: int) -> None:
    """A data folder with a store, a repository and a key."""
    (data / "user.git/refs/heads").mkdir(parents=True)
    (data / "user.git/objects/ab").mkdir(parents=True)
    (data / "user.git/HEAD").write_text("ref: refs/heads/main\n")
    (data / "user.git/objects/ab/cdef").write_text(f"{events}")
    (data / "key").write_text(f"key of {events}\n")
    (data / "spool").mkdir()
    (data / f"spool/{events}.json").write_text("{}")
    with_store(data, lambda store, _: fill(store, events))


def fill(store: CommittedStore, events: int) -> None:
    schema.prepare(store)
    schema.ensure_identity(store)
    store.submit(
        [Batch((Put(families.EVENTS, b"%03d" % n, b"x"),)) for n in range(events)]
    ).result()


def with_store(data: Path, work: Callable[[CommittedStore, RocksEngine], object]) -> None:
    engine = RocksEngine(data / "db")
    store = CommittedStore(engine, lambda _: None)
    try:
        work(store, engine)
    finally:
        store.close()


def back_up(data: Path, target: Path) -> None:
    def make(_: CommittedStore, engine: RocksEngine) -> None:
        DataSnapshots(
            checkpoint=engine.copy_to,
            db_path=data / "db",
            data=data,
            version="1",
            now=lambda: Millis(1_700_000_000_000),
        ).create(str(target), on_progress=lambda _: None)

    with_store(data, make)


def restore(data: Path, backup: Path) -> None:
    restoring.restore(
        backup,
        data=data,
        db_path=data / "db",
        index=data / "index",
        force=True,
        on_progress=lambda _: None,
    )


def count(data: Path) -> int:
    reader = RocksEngine(data / "db", read_only=True)
    try:
        return reader.count(families.EVENTS)
    finally:
        reader.close()


def run_forked(work: Callable[[], object]) -> int:
    """The result of work in a process of its own, a small number. RocksDB has threads that a fork
    would lack: this process opens no database itself."""
    child = os.fork()
    if not child:
        try:
            found = work()
            os._exit(found if isinstance(found, int) else 0)
        except BaseException as exc:
            os.write(2, f"{exc!r}\n".encode())
            os._exit(FAILED)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code != FAILED
    return code


def is_killed_at(step: int, work: Callable[[], object]) -> bool:
    """Whether the work, in a process of its own, was killed at this step; False: it had fewer."""

    def watched() -> None:
        seen = 0

        def audit(event: str, _: object) -> None:
            nonlocal seen
            if event in STEPS:
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(audit)
        work()

    code = run_forked(watched)
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def kill_backups(folder: Path) -> int:
    data, target = folder / "data", folder / "backups"
    run_forked(lambda: make_data(data, OLD))
    step = 1
    while is_killed_at(step, lambda: back_up(data, target)):
        for snapshot in sources.list_snapshots(target):
            sources.verify(sources.SnapshotFolder(snapshot), lambda: None)
            assert run_forked(lambda snapshot=snapshot: count(snapshot)) == OLD  # type: ignore[misc]
        step += 1
    assert len(sources.list_snapshots(target)) >= 1
    assert all(not each.name.startswith(".") for each in target.iterdir())
    assert all("backup" not in each.name for each in data.iterdir()), list(data.iterdir())
    return step - 1


def kill_restores(folder: Path) -> int:
    template, backup = folder / "old", folder / "backups"
    run_forked(lambda: make_data(template, OLD))
    (template / "index").mkdir()
    run_forked(lambda: make_data(folder / "new", NEW))
    run_forked(lambda: back_up(folder / "new", backup))
    step = 1
    while _kill_restore(step, template, backup, folder / f"data{step}"):
        step += 1
    return step - 1


def _kill_restore(step: int, template: Path, backup: Path, data: Path) -> bool:
    shutil.copytree(template, data)
    killed = is_killed_at(step, lambda: restore(data, backup))
    restore_journal.finish(find_place(data))  # as a daemon does before it opens the store
    found = run_forked(lambda: count(data))
    assert found in ((OLD, NEW) if killed else (NEW,)), (step, found)
    assert (data / "key").read_text() == f"key of {found}\n", step
    assert (data / "user.git/objects/ab/cdef").read_text() == f"{found}", step
    assert (data / "index").exists() == (found == OLD), step
    spooled = {each.name for each in (data / "spool").iterdir()}
    assert spooled == {f"{OLD}.json"} | ({f"{NEW}.json"} if found == NEW else set()), step
    if found == NEW:
        (aside,) = data.glob("replaced-*")
        assert run_forked(lambda: count(aside)) == OLD
        assert (aside / "key").read_text() == f"key of {OLD}\n"
    shutil.rmtree(data)
    return killed


def find_place(data: Path) -> RestorePlace:
    return RestorePlace(data=data, db_path=data / "db", index=data / "index")


def cut_off(data: Path, backup: Path) -> int:
    """Leave a data folder in the middle of the renames of a restore."""
    step = 1
    while not (data / restore_journal.JOURNAL).exists():
        assert is_killed_at(step, lambda: restore(data, backup))
        step += 1
    assert is_killed_at(
        3, lambda: restore_journal.finish(find_place(data))
    )  # some of them are done
    assert (data / restore_journal.JOURNAL).exists()
    return step


if __name__ == "__main__":
    os.umask(0o077)
    what, *folders = sys.argv[1:]
    works: dict[str, Callable[..., int]] = {
        "backup": kill_backups,
        "restore": kill_restores,
        "cut-off": cut_off,
    }
    kills = works[what](*map(Path, folders))
    sys.stdout.write(f"{kills}\n")
