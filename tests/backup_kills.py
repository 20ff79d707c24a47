"""Backups and restores that are killed at every step, each in a fork of this process.

`python -m tests.backup_kills backup|restore|FOLDER`: a step is a call that the interpreter audits
(a file opened, linked, renamed, removed). Prints how many kills there were; fails where what is
left is neither as before nor complete.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from agent_memory.adapters.backup import restoring, sources
from agent_memory.adapters.backup.snapshots import DataSnapshots
from agent_memory.adapters.storage import families, schema
from agent_memory.adapters.storage.committer import CommittedStore
from agent_memory.adapters.storage.rocks import RocksEngine, RocksReader
from agent_memory.domain.batches import Batch, Put
from agent_memory.domain.events import Millis

STEPS = ("open", "os.link", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")
OLD, NEW = 3, 5


def make_data(data: Path, events: int) -> None:
    """A data folder with a store, a repository and a key."""
    (data / "user.git/refs/heads").mkdir(parents=True)
    (data / "user.git/objects/ab").mkdir(parents=True)
    (data / "user.git/HEAD").write_text("ref: refs/heads/main\n")
    (data / "user.git/objects/ab/cdef").write_text(f"{events}")
    (data / "key").write_text(f"key of {events}\n")
    with_store(data, lambda store, _: fill(store, events))


def fill(store: CommittedStore, events: int) -> None:
    schema.prepare(store)
    schema.identity(store)
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
            checkpoint=engine.checkpoint,
            db_path=data / "db",
            data=data,
            version="1",
            now=lambda: Millis(1_700_000_000_000),
        ).make(str(target), done=lambda _: None)

    with_store(data, make)


def restore(data: Path, backup: Path) -> None:
    restoring.restore(
        backup,
        data=data,
        db_path=data / "db",
        index=data / "index",
        force=True,
        done=lambda _: None,
    )


def count(data: Path) -> int:
    reader = RocksReader(data / "db")
    try:
        return reader.count(families.EVENTS)
    finally:
        reader.close()


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Whether the work, in a process of its own, was killed at this step; False: it had fewer."""
    child = os.fork()
    if not child:
        seen = 0

        def audit(event: str, _: object) -> None:
            nonlocal seen
            if event in STEPS:
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(audit)
        try:
            work()
            os._exit(0)
        except BaseException as exc:
            os.write(2, f"{exc!r}\n".encode())
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def kill_backups(folder: Path) -> int:
    data, target = folder / "data", folder / "backups"
    make_data(data, OLD)
    step = 1
    while killed_at(step, lambda: back_up(data, target)):
        for snapshot in sources.named(target):
            sources.verify(sources.SnapshotFolder(snapshot), lambda: None)
            assert count(snapshot) == OLD
        step += 1
    assert len(sources.named(target)) >= 1
    assert all(not each.name.startswith(".") for each in target.iterdir())
    assert all("backup" not in each.name for each in data.iterdir()), list(data.iterdir())
    return step - 1


def kill_restores(folder: Path) -> int:
    make_data(folder / "new", NEW)
    back_up(folder / "new", folder / "backups")
    step = 1
    while True:
        data = folder / f"data{step}"
        make_data(data, OLD)
        (data / "index").mkdir()
        killed = killed_at(step, lambda data=data: restore(data, folder / "backups"))  # type: ignore[misc]
        restoring.finish(data)  # as a daemon does before it opens the store
        found = count(data)
        assert found in (OLD, NEW)
        assert (data / "key").read_text() == f"key of {found}\n", step
        assert (data / "user.git/objects/ab/cdef").read_text() == f"{found}", step
        assert (data / "index").exists() == (found == OLD), step
        if found == NEW:
            (aside,) = data.glob("replaced-*")
            assert count(aside) == OLD
            assert (aside / "key").read_text() == f"key of {OLD}\n"
        if not killed:
            assert found == NEW
            return step - 1
        step += 1


if __name__ == "__main__":
    os.umask(0o077)
    kills = {"backup": kill_backups, "restore": kill_restores}[sys.argv[1]](Path(sys.argv[2]))
    sys.stdout.write(f"{kills}\n")
