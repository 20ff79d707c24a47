"""A home with a project and a remote, worked in until a fault, and examined after it."""

import json
import os
import random
import shutil
import signal
import stat
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from agent_memory.features.backups.adapters import sources
from agent_memory.kernel.errors import AgentMemoryError
from tests import git_repositories
from tests.command_runner import Home, wait_until
from tests.faults.callers import PATIENT, Callers
from tests.faults.disk import Image, Recording, read_folder, write_folder
from tests.faults.injecting import Fault, Traced, most_calls
from tests.faults.ledger import Kind, Ledger, Unacknowledged
from tests.faults.mounting import Mounted
from tests.faults.work import SCOPE, Work, digest, run_toc_jobs, shown
from tests.http_client import Web
from tests.search_client import Search

SAMPLE = 3
IMPATIENT = 5.0  # a daemon in trouble may never answer
DERIVED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found after a fault."""

    faults: list[str]  # what must not be
    complaints: list[str]  # errors that the daemon has logged since
    records: dict[Kind, dict[str, str]]
    recovered_seconds: float  # until the daemon served again


class Scene:
    """Everything lies under `home.disk`, but for the remote: that is another machine."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.disk = home.data.parent
        self.project = git_repositories.make_repository(self.disk / "project")
        self.remote = home.folder / "remote.git"
        git_repositories.make_repository(self.remote, bare=True)
        self.project.git("remote", "add", "origin", str(self.remote))
        self.project.git("push", "--quiet", "origin", "main")
        self.backups = self.disk / "backups"
        self.ledger = Ledger(moment=lambda: 1)
        self.base: Image = read_folder(self.disk)
        self.remote_base: Image = read_folder(self.remote)

    def work(self, seed: int, *, bulk: int) -> Work:
        return Work(
            ledger=self.ledger,
            folder=self.project.folder,
            spool=self.home.data / "spool",
            backups=self.backups,
            seed=seed,
            bulk=bulk,
        )

    def record(
        self, seed: int, *, steps: int, bulk: int, refused: Sequence[tuple[str, int]] = ()
    ) -> Recording:
        """Work on a forgetful disk, from the base on, until the daemon is killed. These of the
        syncs fail, counted from the start of the work."""
        self.clear()
        with Mounted(self.disk, self.base) as mounted:
            self.ledger.moment = lambda: mounted.position() + 1
            try:
                self.home.serve()
                mounted.refuse(refused)
                with self.callers() as callers:
                    self.work(seed, bulk=bulk).do(callers, steps, alive=lambda: True)
            finally:
                self.kill()
            return mounted.recording()

    def suffer(
        self, fault: Fault, seed: int, *, steps: int, bulk: int, patience: float = 0.0
    ) -> int:
        """Work from the base on, on a plain disk, while `strace` injects the fault; how often it
        did. Jobs may get to it only after the work: wait for them as long as `patience` allows. The
        daemon is killed at the end."""
        self._restore_base()
        pid = self.home.serve()
        self.ledger.moment = lambda: 1
        traced = Traced(pid, fault, self.home.folder / "strace.log")
        work = self.work(seed, bulk=bulk)
        try:
            with self.callers() as callers:  # else a fault at an early call would examine nothing
                work.ingest_many(callers, random.Random(seed))
            with traced, self.callers(IMPATIENT) as callers:
                work.do(callers, steps, alive=lambda: self.home.pid() == pid)
                if patience:
                    wait_until(lambda: traced.injected() > 0, str(fault), patience)
        finally:
            self.kill()
        return traced.injected()

    def count_calls(self, seed: int, *, steps: int, bulk: int) -> dict[str, int]:
        """How often one thread makes each call in this work."""
        self._restore_base()
        pid = self.home.serve()
        work = self.work(seed, bulk=bulk)
        work.ledger = self.ledger.copied()
        traced = Traced(pid, None, self.home.folder / "strace.log")
        with traced, self.callers() as callers:
            work.do(callers, steps, alive=lambda: True)
        self.kill()
        return most_calls(traced.calls())

    def prepare(self, seed: int, *, steps: int, bulk: int) -> None:
        """A base with something in it, of a daemon that was stopped in order."""
        self.restore(self.base)
        self.home.serve()
        with self.callers() as callers:
            self.work(seed, bulk=bulk).do(callers, steps, alive=lambda: True)
        self.home.stop()
        self.settle({kind: self.ledger.present(kind) for kind in Kind})
        self.base = read_folder(self.disk)
        self.remote_base = read_folder(self.remote)

    def settle(self, records: Mapping[Kind, Mapping[str, str]]) -> None:
        for kind, found in records.items():
            self.ledger.settle(kind, found)

    def restore(self, image: Image) -> None:
        """The disk as an image has it, on a plain file system."""
        self.clear()
        write_folder(image, self.disk)

    def _restore_base(self) -> None:
        """The remote too: the same work begins anew, and has sent nothing there yet."""
        self.restore(self.base)
        _clear(self.remote)
        write_folder(self.remote_base, self.remote)

    def clear(self) -> None:
        _clear(self.disk)

    def kill(self) -> None:
        """The daemon and all that it has started."""
        self.home.stop(signal.SIGKILL)
        for pid in self.home.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.home.processes(), "nothing of it is left")

    @contextmanager
    def callers(self, seconds: float = PATIENT) -> Iterator[Callers]:
        callers = Callers(self.home, self.project.folder, seconds)
        try:
            yield callers
        finally:
            callers.close()

    def examine(self, moment: int, *, derived: bool = True) -> Examination:
        """Start the daemon, and compare all that it has with what it must have; with `derived` also
        what it makes of that, which takes longer."""
        logged = len(self.home.log())
        began = time.monotonic()
        try:
            self.home.serve()
        except AssertionError as exc:
            return Examination([f"it does not start: {str(exc)[-400:]}"], [], {}, 0.0)
        seconds = time.monotonic() - began
        faults: list[str] = []
        records: dict[Kind, dict[str, str]] = {}
        try:
            with self.callers() as callers:
                damages = callers.daemon("status")["damages"]
                faults += [f"reported as damaged: {each['what']}" for each in damages]
                self._wait_for_spool(faults)
                records = self._records(callers)
                for kind, found in records.items():
                    faults += self.ledger.faults(kind, found, moment)
                if derived:
                    self._check_derived(callers, records, faults)
                self._check_notes(callers, faults)
                self._check_key(faults)
                self._check_writes(callers, faults)
        except Unacknowledged as exc:
            faults.append(f"a question was not answered: {exc}")
        return Examination(faults, _complaints(self.home.log()[logged:]), records, seconds)

    def _wait_for_spool(self, faults: list[str]) -> None:
        folder = self.home.data / "spool"

        def waiting() -> list[Path]:
            return [*folder.glob("*.json")]

        try:
            wait_until(lambda: not waiting(), "the spool is empty", DERIVED_SECONDS)
        except AssertionError:
            faults.append(f"left in the spool: {waiting()}")
        faults += [f"set aside: {each.name}" for each in folder.glob("*.damaged")]

    def _records(self, callers: Callers) -> dict[Kind, dict[str, str]]:
        events = callers.client.all_events()
        said = Counter(each.text for each in events if not each.event_id.startswith("e-"))
        memories = callers.memory("export", "--include-archived")["memories"]
        return {
            Kind.EVENT: {e.event_id: shown(e) for e in events if e.event_id.startswith("e-")},
            Kind.HOOK: {
                text: "once" if times == 1 else f"{times} times" for text, times in said.items()
            },
            Kind.MEMORY: {
                each["summary"]: digest(each.get("content", "").strip().encode())
                for each in memories
            },
            Kind.FACT: callers.facts(SCOPE),
            Kind.CHECKPOINT: {
                name: digest(blob)
                for name in self.ledger.keys(Kind.CHECKPOINT)
                if (blob := callers.checkpoint(*name.split("/"))) is not None
            },
            Kind.BACKUP: {
                path.name: _read_backup(path)
                for path in self.backups.glob("*")
                if path.name in self.ledger.keys(Kind.BACKUP)
            },
        }

    def _check_derived(
        self, callers: Callers, records: dict[Kind, dict[str, str]], faults: list[str]
    ) -> None:
        """The table of contents can be made, and the index of words has everything."""
        run_toc_jobs(callers)

        def waiting() -> bool:
            return bool(callers.daemon("admin", "index-stats")["words_waiting"])

        try:
            wait_until(lambda: not waiting(), "the index has caught up", DERIVED_SECONDS)
        except AssertionError as exc:
            faults.append(str(exc))
        search, there = Search(callers.client), sorted(records[Kind.EVENT])
        for name in there[:: max(1, len(there) // SAMPLE)]:
            mark = "mark" + name.removeprefix("e-").replace("-", "x")
            if name not in search.ids(mark, mode="bm25", kinds=["event"]):
                faults.append(f"event {name} is not found by {mark}")

    def _check_notes(self, callers: Callers, faults: list[str]) -> None:
        """Every memory of the project is in its notes once: first by the queue of what was to be
        written, then after a sync, which compares both."""
        if not self._is_noted(callers, faults):
            return
        try:
            callers.memory("sync")
        except Unacknowledged as exc:
            faults.append(f"notes: {exc}")
            return
        self._compare_notes(callers, faults)

    def _is_noted(self, callers: Callers, faults: list[str]) -> bool:
        """Wait until the queue of notes is empty."""

        def is_waiting() -> bool:
            return bool(callers.memory("status", "--domain", "all")["notes_waiting"])

        try:
            wait_until(lambda: not is_waiting(), "all notes are written", DERIVED_SECONDS)
        except AssertionError as exc:
            faults.append(str(exc))
            return False
        self._compare_notes(callers, faults)
        return True

    def _compare_notes(self, callers: Callers, faults: list[str]) -> None:
        listed = callers.memory("list", "--limit", "100000", "--status", "all")["memories"]
        try:
            text = self._notes()
        except AssertionError as exc:
            faults.append(f"notes cannot be read: {exc}")
            return
        for each in listed:
            times = text.count(f"\nid: {each['id']}\n".encode())
            if times != 1:
                faults.append(f"memory {each['id']} is in {times} notes")

    def _notes(self) -> bytes:
        own = git_repositories.Repository(self.home.data / "user.git", self.project.environ)
        return b"".join(
            repository.raw("cat-file", "blob", line.split()[2])
            for repository in (self.project, *([own] if own.folder.exists() else []))
            for ref, commit in repository.refs().items()
            if ref.startswith("refs/notes/mem/")
            for line in repository.git("ls-tree", "-r", commit).splitlines()
        )

    def _check_key(self, faults: list[str]) -> None:
        """Programs get in with the key that lies there for them."""
        try:
            status = Web(self.home).ask().status_code
        except (OSError, httpx.HTTPError) as exc:
            faults.append(f"the key cannot be used: {exc!r}")
            return
        if status != httpx.codes.OK:
            faults.append(f"the key is refused: {status}")

    def _check_writes(self, callers: Callers, faults: list[str]) -> None:
        """Everything can be written again."""
        scratch = Ledger(moment=lambda: 1)
        work = self.work(time.time_ns() % 10**9, bulk=2)
        work.ledger = scratch
        dice = random.Random(0)
        for step in (work.ingest_many, work.hook, work.capture, work.claim, work.checkpoint):
            step(callers, dice)
        faults += [f"{what} could not be written again" for what in scratch.unacknowledged()]


@contextmanager
def staged() -> Iterator[Scene]:
    """A scene in a home of its own. What its daemons have logged is not looked at: they were made
    to fail."""
    with Home() as home:
        scene = Scene(home)
        try:
            yield scene
        finally:
            scene.kill()
            scene.clear()


def _clear(folder: Path) -> None:
    for each in folder.iterdir():
        if stat.S_ISDIR(each.lstat().st_mode):
            shutil.rmtree(each)
        else:
            each.unlink()


def _read_backup(folder: Path) -> str:
    """Return whether a snapshot is whole, or what is wrong with it."""
    try:
        sources.verify(sources.open_backup(folder), lambda: None)
    except (AgentMemoryError, OSError) as exc:
        return str(exc)
    return "whole"


def _complaints(log: str) -> list[str]:
    found = []
    for line in log.splitlines():
        with suppress(ValueError):
            said = json.loads(line)
            if said.get("level") in ("error", "critical"):
                told = said.get("error") or str(said.get("exception", "")).strip()[-200:]
                found.append(f"{said.get('event')}: {told}")
    return found
