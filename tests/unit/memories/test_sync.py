"""Sync and note writing with real repositories, and what they report."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.memories.adapters.git import records
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.adapters.memory_store import (
    MemoryOutlines,
    StoredMemories,
    StoredNoteQueue,
    StoredUses,
)
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Draft, Home, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.editing import MemoryEdit, MemoryEditor
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.memories.services.project_resolver import OrgRepository, ProjectResolver
from agent_memory.features.memories.services.sync import Sync, SyncOptions, SyncResult
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import (
    AgentMemoryError,
    GitFailed,
    InvalidInput,
    RemoteUnavailable,
)
from agent_memory.kernel.ids import MemoryKey, Millis
from agent_memory.platform.store.committer import CommittedStore
from tests import git_repositories
from tests.contract.stores import unexpected
from tests.git_repositories import AT, Repository, clone_repository, make_repository, route_over_ssh
from tests.memory_engine import MemoryEngine

REF = "refs/notes/mem/decisions"
TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"
PRIVATE_KEY = f"-----BEGIN {'RSA'} PRIVATE KEY-----\n{'MIIEow' * 40}\n-----END RSA PRIVATE KEY-----"


class Ticking:
    """A clock that advances by a millisecond at each reading."""

    def __init__(self, start: int = AT) -> None:
        self._moments = count(start)

    def now(self) -> Millis:
        return Millis(next(self._moments))


class Machine:
    """The services of one computer, on its own store, with one clone."""

    def __init__(self, store: CommittedStore, repository: Repository, start: int = AT) -> None:
        self.repository = repository
        clock = Ticking(start)
        secrets = Re2Filter(mode="redact")
        self.memories = StoredMemories(store)
        self.queue = StoredNoteQueue(store)
        projects = StoredProjects(store)
        repositories = GitRepositories(repository.folder.parent / f"{repository.folder.name}.data")
        self.workplaces = ProjectResolver(
            repositories=repositories,
            projects=projects,
            shared=OrgRepository(),
            secrets=PassThrough(),
        )
        self.trouble: list[tuple[Home, AgentMemoryError]] = []
        self.notes = NoteWriter(
            memories=self.memories,
            queue=self.queue,
            repositories=repositories,
            on_failure=lambda home, exc: self.trouble.append((home, exc)),
        )
        self.capturing = Capture(
            memories=self.memories,
            log=StoredEventLog(store),
            secrets=secrets,
            clock=clock,
            on_capture=lambda: None,
        )
        self.editor = MemoryEditor(
            memories=self.memories,
            uses=StoredUses(store),
            outlines=MemoryOutlines(store),
            resolver=self.workplaces,
            capture=self.capturing,
            clock=clock,
            on_change=lambda: None,
        )
        self.imports = 0
        self.syncing = Sync(
            memories=self.memories,
            projects=projects,
            repositories=repositories,
            notes=self.notes,
            secrets=secrets,
            clock=clock,
            on_import=self._imported,
        )
        self.phases: list[str] = []

    @property
    def here(self) -> MemoryLocation:
        folder = str(self.repository.folder)
        return self.workplaces.resolve_folder(Caller(folder=folder, environ={"HOME": "/"}))

    def capture(self, summary: str, content: str = "", *tags: str) -> Memory:
        draft = Draft(namespace="decisions", summary=summary, content=content, tags=frozenset(tags))
        return self.capturing.capture(draft, self.here).memory

    def note(self, summary: str) -> Memory:
        """Capture by a signal: it awaits review."""
        draft = Draft(namespace="decisions", summary=summary, status=MemoryStatus.PENDING)
        return self.capturing.capture(draft, self.here).memory

    def move(self, memory: Memory, status: MemoryStatus) -> None:
        self.editor.set_status(memory, status, self.here)

    def edit(self, memory: Memory, summary: str) -> None:
        self.editor.edit(memory, MemoryEdit(summary=summary), self.here)

    def forget(self, memory: Memory) -> None:
        stored = self.memories.get(memory.key)
        assert stored is not None
        gone = memories.build_tombstone(stored, Millis(stored.updated_ms + 1))
        assert self.memories.write([MemoryChange(stored, gone, self.here.home)]) == [True]

    def sync(self, *, force: bool = False) -> SyncResult:
        return self._sync(SyncOptions(force=force))

    def exchange(
        self,
        remote: str = "origin",
        *,
        fetch: bool = True,
        push: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> SyncResult:
        environ = {**self.repository.environ, **(variables or {})}
        return self._sync(SyncOptions(fetch=fetch, push=push, remote=remote, environ=environ))

    def stored(self) -> Mapping[MemoryKey, Memory]:
        found = self.memories.list_domain(self.here.domain, after=None, limit=1000)
        return {each.key: each for each in found}

    def noted(self) -> Mapping[MemoryKey, Memory]:
        """Return what git finds in the notes; assert that nothing occurs twice."""
        found: dict[MemoryKey, Memory] = {}
        if REF in self.repository.refs():
            for line in self.repository.git("ls-tree", "-r", REF).splitlines():
                text = self.repository.raw("cat-file", "blob", line.split()[2])
                for part in records.parse(text, self.here.domain, "decisions"):
                    if isinstance(part, records.NoteRecord):
                        assert part.memory.key not in found
                        found[part.memory.key] = part.memory
        return found

    def _sync(self, wanted: SyncOptions) -> SyncResult:
        return self.syncing.sync(self.here, wanted, lambda phase, *_: self.phases.append(phase))

    def _imported(self) -> None:
        self.imports += 1


@contextmanager
def machines(*repositories: Repository, starts: tuple[int, ...] = ()) -> Iterator[list[Machine]]:
    with ExitStack() as stack:
        found = []
        for number, repository in enumerate(repositories):
            store = CommittedStore(MemoryEngine(), unexpected)
            stack.callback(store.close)
            start = starts[number] if starts else AT + number * 1_000_000
            found.append(Machine(store, repository, start))
        yield found


@pytest.fixture
def remote(tmp_path: Path) -> Repository:
    return clone_repository(make_repository(tmp_path / "source"), tmp_path / "team.git", "--bare")


@pytest.fixture
def ada(remote: Repository, tmp_path: Path) -> Iterator[Machine]:
    with machines(clone_repository(remote, tmp_path / "ada")) as (found,):
        yield found


@pytest.fixture
def bob(remote: Repository, tmp_path: Path) -> Iterator[Machine]:
    with machines(clone_repository(remote, tmp_path / "bob"), starts=(AT + 500,)) as (found,):
        yield found


def set_note(repository: Repository, text: bytes) -> None:
    blob = repository.git("hash-object", "-w", "--stdin", given=text)
    repository.git("notes", "--ref=mem/decisions", "add", "-f", "-C", blob)


class TestAwaitingReview:
    def test_it_is_in_no_note_until_it_is_accepted(self, ada: Machine, bob: Machine) -> None:
        noted = ada.note("Use PostgreSQL")
        assert ada.exchange().unchanged
        assert ada.sync(force=True).unchanged
        assert ada.noted() == {}
        bob.exchange()
        assert bob.stored() == {}
        accepted = ada.editor.accept(noted, ada.here)
        assert ada.exchange().pushed
        bob.exchange()
        assert bob.stored() == {noted.key: accepted}

    def test_a_discarded_one_leaves_no_trace_in_the_notes(self, ada: Machine) -> None:
        ada.forget(ada.note("Use PostgreSQL"))
        assert ada.exchange().unchanged
        assert ada.sync(force=True).unchanged
        assert ada.repository.refs().keys().isdisjoint({REF})

    def test_what_a_colleague_accepted_is_accepted(self, ada: Machine, bob: Machine) -> None:
        noted = ada.note("Use PostgreSQL")
        captured = bob.capture("Use PostgreSQL")
        bob.exchange()
        for machine in (ada, bob, ada):
            machine.exchange()
        assert ada.stored()[noted.key].status is MemoryStatus.ACTIVE
        assert captured.key == noted.key
        assert ada.stored() == ada.noted() == bob.stored() == bob.noted()

    def test_what_a_colleague_forgot_is_forgotten(self, ada: Machine, bob: Machine) -> None:
        bob.forget(bob.capture("Use PostgreSQL"))
        bob.exchange()
        noted = ada.note("Use PostgreSQL")
        ada.exchange()
        assert ada.stored()[noted.key].status is MemoryStatus.TOMBSTONE

    def test_only_a_review_changes_it(self, ada: Machine) -> None:
        noted = ada.note("Use PostgreSQL")
        for status in set(MemoryStatus) - {MemoryStatus.PENDING}:
            with pytest.raises(InvalidInput, match="awaits review"):
                ada.move(noted, status)
        with pytest.raises(InvalidInput, match="awaits review"):
            ada.edit(noted, "Use MySQL")
        assert ada.stored() == {noted.key: noted}
        accepted = ada.editor.accept(noted, ada.here)
        with pytest.raises(InvalidInput, match="does not await review: it is active"):
            ada.editor.accept(accepted, ada.here)


class TestLocally:
    def test_what_waits_is_written_and_then_there_is_nothing_to_do(self, ada: Machine) -> None:
        memory = ada.capture("Use PostgreSQL", "for its JSONB\r\n---\n", "db")
        assert ada.noted() == {}
        assert ada.sync().written == 1
        assert ada.noted() == {memory.key: memory} == ada.stored()
        refs = ada.repository.refs()
        assert ada.sync().unchanged
        assert ada.repository.refs() == refs
        assert ada.imports == 0

    def test_what_notes_have_is_imported(self, ada: Machine) -> None:
        memory = git_repositories.memory("By hand", "written by other means")
        set_note(ada.repository, records.render(memory))
        result = ada.sync()
        assert (result.imported, result.written, result.problems) == (1, 0, ())
        assert [each.content for each in ada.stored().values()] == ["written by other means"]
        assert ada.imports == 1
        assert ada.sync().unchanged

    def test_notes_are_read_anew_only_where_something_changed_or_by_force(
        self, ada: Machine
    ) -> None:
        ada.capture("Once")
        ada.sync()
        ada.phases.clear()
        ada.sync()
        assert ada.phases == ["writing notes"]
        ada.sync(force=True)
        assert "reading notes" in ada.phases

    def test_a_note_that_was_removed_is_written_again(self, ada: Machine) -> None:
        memory = ada.capture("Kept")
        ada.sync()
        ada.repository.git("update-ref", "-d", REF)
        assert ada.sync().written == 1
        assert ada.noted() == {memory.key: memory}

    def test_what_changed_in_store_and_note_is_merged(self, ada: Machine) -> None:
        memory = ada.capture("Both", "", "mine")
        ada.sync()
        theirs = replace(memory, updated_ms=Millis(AT + 10_000), tags=frozenset({"theirs"}))
        set_note(ada.repository, records.render(theirs))
        result = ada.sync()
        assert (result.imported, result.written) == (1, 1)
        (noted,), (stored,) = ada.noted().values(), ada.stored().values()
        assert noted == stored
        assert stored.tags == {"mine", "theirs"}

    def test_a_commit_that_is_gone_leaves_its_memories_on_the_present_one(
        self, ada: Machine
    ) -> None:
        ada.repository.commit("to be amended")
        memory = ada.capture("Moves")
        ada.sync()
        ada.repository.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "amended")
        assert ada.sync().moved == 1
        assert ada.repository.note().count(memory.id.encode()) == 1
        assert ada.sync().unchanged

    def test_before_the_first_commit_they_wait(self, tmp_path: Path) -> None:
        with machines(make_repository(tmp_path / "new", commits=0)) as (machine,):
            memory = machine.capture("Early")
            assert machine.sync().written == 1
            assert machine.repository.refs() == {}
            machine.repository.commit("first")
            assert machine.sync().written == 1
            assert machine.noted() == {memory.key: memory} == machine.stored()
            assert machine.sync().unchanged


class TestProblems:
    def test_what_is_no_memory_is_told_and_stays(self, ada: Machine) -> None:
        text = b"a person's words\n---\nid: [\n---\n\xff"
        set_note(ada.repository, text)
        result = ada.sync()
        assert {problem.ref for problem in result.problems} == {REF}
        assert {problem.target for problem in result.problems} == {ada.repository.head}
        assert ada.stored() == {}
        assert ada.repository.note() == text

    @pytest.mark.parametrize("secret", [TOKEN, PRIVATE_KEY])
    def test_a_secret_is_not_taken_over(self, ada: Machine, secret: str) -> None:
        bad = git_repositories.memory("Bad", f"the key is {secret}")
        good = git_repositories.memory("Good")
        text = records.render(bad) + records.render(good)
        set_note(ada.repository, text)
        result = ada.sync()
        assert [each.summary for each in ada.stored().values()] == ["Good"]
        (problem,) = result.problems
        assert bad.id in problem.reason
        assert secret not in problem.reason
        assert ada.repository.note() == text

    def test_a_repository_that_is_gone_holds_up_no_other(self, ada: Machine, bob: Machine) -> None:
        memory = ada.capture("Stays")
        elsewhere = Home(str(bob.repository.folder / "nowhere"))
        other = memories.update_fields(memory, Millis(AT + 5), tags=frozenset({"x"}))
        assert ada.memories.write([MemoryChange(memory, other, elsewhere)]) == [True]
        ada.notes.flush()
        assert ada.noted().keys() == {memory.key}
        assert [(home, type(exc)) for home, exc in ada.trouble] == [(elsewhere, GitFailed)]
        assert ada.queue.list_homes() == [elsewhere]

    def test_notes_that_cannot_be_written_wait(self, ada: Machine) -> None:
        in_the_way = ada.repository.folder / ".git/refs/notes"
        in_the_way.write_text("")
        memory = ada.capture("Waits")
        with pytest.raises(GitFailed):
            ada.sync()
        assert len(ada.queue.list_pending(ada.here.home, limit=10)) == 1
        in_the_way.unlink()
        ada.notes.flush()
        assert ada.noted() == {memory.key: memory}
        assert ada.queue.list_homes() == []


class TestWithARemote:
    def test_what_one_captured_the_other_has(
        self, ada: Machine, bob: Machine, remote: Repository
    ) -> None:
        memory = ada.capture("Shared", "the body")
        result = ada.exchange()
        assert (result.written, result.fetched, result.pushed) == (1, False, True)
        result = bob.exchange()
        assert (result.imported, result.fetched, result.pushed) == (1, True, False)
        assert bob.stored() == {memory.key: memory} == bob.noted()
        before = remote.refs(), ada.repository.refs(), bob.repository.refs()
        assert ada.exchange().unchanged
        assert bob.exchange().unchanged
        assert (remote.refs(), ada.repository.refs(), bob.repository.refs()) == before

    def test_fetching_does_not_push_and_pushing_does_not_fetch(
        self, ada: Machine, bob: Machine, remote: Repository
    ) -> None:
        ada.capture("Ours")
        assert not ada.exchange(push=False).pushed
        assert REF not in remote.refs()
        assert ada.exchange(fetch=False).pushed
        assert REF in remote.refs()
        assert bob.stored() == {}

    def test_what_was_forgotten_stays_so(self, ada: Machine, bob: Machine) -> None:
        memory = ada.capture("Secret plan", "the plan")
        ada.exchange()
        bob.exchange()
        bob.forget(memory)
        ada.move(memory, MemoryStatus.RESOLVED)
        for each in (ada, bob, ada):
            each.exchange()
        for each in (ada, bob):
            assert [it.status for it in each.stored().values()] == [MemoryStatus.TOMBSTONE]
            assert b"the plan" not in each.repository.note()

    def test_pushing_is_given_up_where_others_always_come_first(
        self, ada: Machine, bob: Machine, remote: Repository
    ) -> None:
        bob.capture("First")
        bob.exchange()
        hook = remote.folder / "hooks/pre-receive"
        hook.write_text(
            "#!/bin/sh\n"
            "unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n"
            "echo x >> pushed\n"
            f"tree=$(git rev-parse {REF}^{{tree}})\n"
            f"git update-ref {REF} $(git commit-tree -p {REF} -m $(wc -l < pushed) $tree)\n"
        )
        hook.chmod(0o755)
        memory = ada.capture("Second")
        ssh = route_over_ssh(ada.repository, remote)
        with pytest.raises(RemoteUnavailable, match="others keep pushing") as caught:
            ada.exchange(f"ssh://host{remote.folder}", variables=ssh)
        # An address may hold a password.
        assert str(remote.folder) not in str(caught.value)
        assert len((remote.folder / "pushed").read_text().splitlines()) > 1
        assert memory.key in ada.noted()
        hook.unlink()
        assert ada.exchange(variables=ssh).pushed
        bob.exchange()
        assert bob.stored() == ada.stored()
