"""The Notebook port, over real repositories and remotes."""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from agent_memory.features.memories.adapters.git import note_edits, records, trees
from agent_memory.features.memories.adapters.git.notebook import GitNotebook
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.ports import Notebook
from agent_memory.kernel.errors import GitFailed, InvalidInput, RemoteUnavailable
from agent_memory.kernel.ids import USER, Domain, Millis
from agent_memory.platform.priority import ThreadPriority
from agent_memory.platform.worker.process import ProcessWorker
from tests.git_repositories import (
    AT,
    DOMAIN,
    Repository,
    build_environ,
    clone_repository,
    make_repository,
    memory,
    route_over_ssh,
)
from tests.inline_worker import InlineWorker

REF = "refs/notes/mem/decisions"
LATER = Millis(AT + 1000)
DEADLINE_SECONDS = 30

T = TypeVar("T")


def opened(repository: Repository, domain: Domain = DOMAIN) -> GitNotebook:
    """Open a notebook as another process would, with no index."""
    return GitRepositories(repository.folder.parent / "data", InlineWorker()).open_notebook(
        repository.home, domain
    )


def read_memories(notebook: Notebook) -> dict[str, Memory]:
    return {each.digest: each for each in notebook.read().memories}


def many(count: int, *, start: int = 0, commit: str = "") -> list[Memory]:
    return [
        memory(f"number {number}", f"body {number}\n---\n", commit=commit)
        for number in range(start, start + count)
    ]


def pointed(repository: Repository, entries: dict[str, bytes], ref: str = REF) -> None:
    """Point a notes ref at a tree with these texts, made by git."""
    index = repository.folder / "other-index"
    index.unlink(missing_ok=True)
    apart = Repository(repository.folder, {**repository.environ, "GIT_INDEX_FILE": str(index)})
    for path, text in entries.items():
        blob = repository.git("hash-object", "-w", "--stdin", given=text)
        apart.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    commit = apart.git("commit-tree", "-m", "notes", apart.git("write-tree"))
    repository.git("update-ref", ref, commit)
    index.unlink()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "app")


@pytest.fixture
def notebook(repository: Repository) -> GitNotebook:
    return opened(repository)


class TestKeeping:
    def test_what_is_kept_is_read_again_whole(self, notebook: GitNotebook) -> None:
        full = replace(
            memory(
                "Zürich: use Postgres",
                "# Why\r\n\r\n---\n😀 no end",
                tags=frozenset("ab"),
                spec="s",
            ),
            relates_to=("decisions:0123456789ab:0",),
            status=MemoryStatus.RESOLVED,
            updated_ms=LATER,
            superseded_by="decisions:ba9876543210:0",
            event_id="e-1",
            session_id="s 1: '",
            commit="c" * 40,
        )
        notebook.write([full, memory("empty", "")])
        assert read_memories(notebook) == {
            each.digest: each for each in (full, memory("empty", ""))
        }
        assert notebook.read().problems == ()

    def test_it_stands_on_the_commit_it_was_captured_at(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        first = repository.head
        second = repository.commit()
        notebook.write([memory("at first", commit=first), memory("at second", commit=second)])
        assert b"at first" in repository.note(commit=first)
        assert b"at second" in repository.note(commit=second)

    @pytest.mark.parametrize("commit", ["", "f" * 40])
    def test_without_that_commit_it_stands_on_the_present_one(
        self, repository: Repository, notebook: GitNotebook, commit: str
    ) -> None:
        notebook.write([memory("somewhere", commit=commit)])
        assert b"somewhere" in repository.note()

    def test_something_that_is_no_commit_gets_no_note(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        tree = repository.git("rev-parse", "HEAD^{tree}")
        notebook.write([memory("on a tree", commit=tree)])
        assert b"on a tree" in repository.note()

    def test_each_namespace_has_its_ref(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        notebook.write([memory("a"), memory("b", namespace="learnings")])
        assert b"summary: a" in repository.note("decisions")
        assert b"summary: b" in repository.note("learnings")

    def test_the_same_twice_is_one_and_writes_nothing(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        notebook.write([memory("once"), memory("once")])
        before = repository.refs()
        notebook.write([memory("once")])
        opened(repository).write([memory("once")])
        assert repository.refs() == before
        assert len(notebook.read().memories) == 1

    def test_each_write_is_one_commit_on_the_one_before(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        notebook.write(many(3))
        notebook.write(
            [memories.update_fields(many(1)[0], LATER, status=MemoryStatus.ARCHIVED), memory("new")]
        )
        assert repository.git("log", "--format=%s", REF).splitlines() == [
            "memory: 1 captured, 1 updated",
            "memory: 3 captured",
        ]

    def test_the_writer_is_who_the_repository_says(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        repository.git("config", "user.name", "Grace")
        repository.git("config", "user.email", "grace@example.org")
        notebook.write([memory("x")])
        assert repository.git("log", "--format=%an <%ae> %cn", REF) == (
            "Grace <grace@example.org> Grace"
        )

    def test_a_change_merges_with_what_is_there(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        first = memory("x", tags=frozenset({"one"}))
        notebook.write([first])
        newer = memories.update_fields(first, LATER, status=MemoryStatus.RESOLVED)
        opened(repository).write([newer])
        notebook.write([replace(first, tags=frozenset({"two"}))])
        assert read_memories(notebook)[first.digest] == replace(
            newer, tags=frozenset({"one", "two"})
        )

    def test_a_tombstone_leaves_nothing_of_what_was_said(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        said = memory("the summary", "the content", tags=frozenset({"tagged"}), spec="specced")
        notebook.write([said, memory("other")])
        gone = memories.build_tombstone(said, LATER)
        notebook.write([gone])
        notebook.write([said])
        assert read_memories(notebook)[said.digest] == gone
        assert not any(
            word in repository.note()
            for word in (b"the summary", b"the content", b"tagged", b"specced")
        )

    def test_it_touches_nothing_else(self, repository: Repository, notebook: GitNotebook) -> None:
        (repository.folder / "file").write_text("x")
        repository.git("add", "file")
        hook = repository.folder / ".git/hooks/reference-transaction"
        hook.write_text("#!/bin/sh\ntouch hooked\n")
        hook.chmod(0o755)
        config = (repository.folder / ".git/config").read_bytes()
        index = (repository.folder / ".git/index").read_bytes()
        before = repository.refs()
        status = repository.git("status", "--short")
        notebook.write([memory("x")])
        assert (repository.folder / ".git/config").read_bytes() == config
        assert (repository.folder / ".git/index").read_bytes() == index
        assert repository.git("status", "--short") == status
        assert {k: v for k, v in repository.refs().items() if k != REF} == before
        assert not list(repository.folder.rglob("hooked"))
        assert repository.succeeds("fsck", "--strict")

    def test_a_memory_of_another_domain_is_refused(self, notebook: GitNotebook) -> None:
        with pytest.raises(InvalidInput, match="user"):
            notebook.write([memory("x", domain=USER)])

    def test_before_the_first_commit_there_is_nothing_to_write_on(self, tmp_path: Path) -> None:
        empty = make_repository(tmp_path / "empty", commits=0)
        with pytest.raises(GitFailed, match="no commit"):
            opened(empty).write([memory("x")])
        assert opened(empty).read().memories == ()
        assert opened(empty).rehome() == 0

    def test_the_state_changes_with_the_notes_and_only_then(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        states = [notebook.read_state()]
        notebook.write([memory("a")])
        states.append(notebook.read_state())
        notebook.write([memory("b", namespace="learnings")])
        states.append(notebook.read_state())
        repository.commit()
        assert len(set(states)) == 3
        assert opened(repository).read_state() == states[-1]


class TestPages:
    def test_the_note_shows_the_newest_and_nothing_is_lost(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        everything = many(3 * note_edits.MAX_RECORDS + 5)
        for start in range(0, len(everything), 7):
            notebook.write(everything[start : start + 7])
        assert read_memories(notebook) == {each.digest: each for each in everything}
        note = repository.note()
        assert note.count(b"\nlength: ") <= note_edits.MAX_RECORDS
        assert b"summary: number 196\n" in note
        assert len(repository.git("ls-tree", "-r", f"{REF}:more").splitlines()) == 3

    def test_all_at_once_is_the_same(self, repository: Repository, notebook: GitNotebook) -> None:
        everything = many(2 * note_edits.MAX_RECORDS + 1)
        notebook.write(everything)
        assert read_memories(opened(repository)) == {each.digest: each for each in everything}
        assert repository.note().count(b"\nlength: ") == 1

    def test_large_memories_turn_the_page_earlier(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        large = [memory(f"large {number}", "x" * 100_000 + str(number)) for number in range(5)]
        notebook.write(large)
        sizes = repository.git("ls-tree", "-r", "--format=%(objectsize)", REF).split()
        assert max(map(int, sizes)) <= note_edits.MAX_BYTES
        assert read_memories(notebook) == {each.digest: each for each in large}

    def test_a_change_rewrites_only_the_page_it_stands_on(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        everything = many(2 * note_edits.MAX_RECORDS + 1)
        notebook.write(everything)
        changed = memories.update_fields(everything[0], LATER, status=MemoryStatus.ARCHIVED)
        notebook.write([changed])
        touched = repository.git("diff-tree", "-r", "--name-only", f"{REF}~1", REF).splitlines()
        assert touched == [f"more/{repository.head}/000001"]
        assert read_memories(notebook)[changed.digest] == changed

    def test_a_change_finds_its_page_also_where_nothing_is_known_yet(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        everything = many(note_edits.MAX_RECORDS + 1)
        notebook.write(everything)
        changed = memories.update_fields(everything[0], LATER, status=MemoryStatus.ARCHIVED)
        opened(repository).write([changed])
        assert read_memories(notebook) == {each.digest: each for each in (changed, *everything[1:])}

    def test_what_a_person_wrote_stays_on_the_note(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        notebook.write(many(note_edits.MAX_RECORDS))
        repository.git("notes", "--ref=mem/decisions", "append", "-m", "by hand")
        notebook.write([memory("one more")])
        assert repository.note().count(b"\nby hand\n") == 1
        assert repository.note().count(b"\nlength: ") == 1
        assert len(notebook.read().memories) == note_edits.MAX_RECORDS + 1

    @pytest.mark.parametrize(
        "command",
        [
            ("add", "-m", "x", "HEAD~1"),
            ("append", "-m", "x"),
            ("remove", "HEAD"),
            ("copy", "HEAD", "HEAD~1"),
            ("prune",),
        ],
    )
    def test_git_leaves_the_pages_alone(
        self, repository: Repository, notebook: GitNotebook, command: tuple[str, ...]
    ) -> None:
        repository.commit()
        everything = many(note_edits.MAX_RECORDS + 1)
        notebook.write(everything)
        before = repository.git("ls-tree", "-r", f"{REF}:more")
        repository.git("notes", "--ref=mem/decisions", *command)
        assert repository.git("ls-tree", "-r", f"{REF}:more") == before
        notebook.write(everything)
        assert read_memories(notebook) == {each.digest: each for each in everything}

    @pytest.mark.parametrize("number", [trees.MAX_PAGE, 2])
    def test_a_page_of_any_number_hides_none_that_follow(
        self, repository: Repository, notebook: GitNotebook, number: int
    ) -> None:
        theirs = memory("theirs")
        pointed(
            repository,
            {trees.page_path(repository.head, number): records.render(theirs)},
        )
        everything = many(2 * note_edits.MAX_RECORDS + 1)
        notebook.write(everything)
        assert set(read_memories(opened(repository)).values()) == {theirs, *everything}

    def test_what_is_no_page_of_ours_is_kept_and_merged(
        self, repository: Repository, tmp_path: Path
    ) -> None:
        head = repository.head
        odd = {f"more/{head}/1000000": b"a", f"more/{head}/000000": b"b", "more/x": b"c"}
        pointed(repository, odd | {f"{head[:2]}/odd": b"d"})
        other = clone_repository(repository, tmp_path / "other")
        theirs = opened(other)
        theirs.write(many(note_edits.MAX_RECORDS + 1))
        theirs.fetch("origin", other.environ)
        for path, text in (odd | {f"{head[:2]}/odd": b"d"}).items():
            assert other.raw("show", f"{REF}:{path}") == text
        assert len(read_memories(opened(other))) == note_edits.MAX_RECORDS + 1

    @pytest.mark.parametrize("name", ["more", "{head}"])
    def test_nothing_of_a_remote_takes_the_place_of_ours(
        self, repository: Repository, tmp_path: Path, name: str
    ) -> None:
        """The remote has a file where we have a folder."""
        other = clone_repository(repository, tmp_path / "other")
        everything = many(note_edits.MAX_RECORDS + 1)
        notebook = opened(other)
        notebook.write(everything)
        pointed(repository, {name.format(head=repository.head[:2]): b"in the way"})
        assert notebook.fetch("origin", other.environ)
        assert set(read_memories(opened(other)).values()) == set(everything)


class TestWhatOthersWrite:
    def test_text_by_hand_is_kept_and_told_of(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        notebook.write([memory("one", "body")])
        repository.git("notes", "--ref=mem/decisions", "append", "-m", "by hand\n\n---\nsecret")
        notebook.write([memory("two", "body")])
        reading = notebook.read()
        assert {each.summary: each.content for each in reading.memories} == {
            "one": "body",
            "two": "body",
        }
        (problem,) = reading.problems
        assert (problem.ref, problem.target) == (REF, repository.head)
        assert "secret" not in problem.reason
        assert b"by hand\n\n---\nsecret\n" in repository.note()

    def test_blank_lines_are_no_problem(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        text = records.render(memory("a")) + b"\n\n" + records.render(memory("b"))
        blob = repository.git("hash-object", "-w", "--stdin", given=text)
        repository.git("notes", "--ref=mem/decisions", "add", "-C", blob)
        assert {each.summary for each in notebook.read().memories} == {"a", "b"}
        assert notebook.read().problems == ()

    def test_a_note_without_an_end_of_line_stays_as_it_is(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        blob = repository.git("hash-object", "-w", "--stdin", given=b"no end")
        repository.git("notes", "--ref=mem/decisions", "add", "-C", blob)
        notebook.write([memory("x")])
        notebook.write([memory("y")])
        assert len(notebook.read().memories) == 2
        assert repository.note().endswith(b"\nno end")

    @pytest.mark.parametrize("cuts", [(), (2,), (2, 4)])
    def test_notes_are_found_however_git_cuts_their_paths(
        self, repository: Repository, notebook: GitNotebook, cuts: tuple[int, ...]
    ) -> None:
        head = repository.head
        ends = [*cuts, len(head)]
        path = "/".join(head[start:end] for start, end in zip((0, *cuts), ends, strict=True))
        blob = repository.git("hash-object", "-w", "--stdin", given=records.render(memory("found")))
        index = {**repository.environ, "GIT_INDEX_FILE": str(repository.folder / "index")}
        apart = Repository(repository.folder, index)
        apart.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        commit = apart.git("commit-tree", "-m", "notes", apart.git("write-tree"))
        repository.git("update-ref", REF, commit)
        notebook.write([memory("added")])
        assert {each.summary for each in notebook.read().memories} == {"found", "added"}
        assert repository.note().count(b"\nsummary: ") == 2

    def test_what_else_is_in_the_tree_stays(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        blob = repository.git("hash-object", "-w", "--stdin", given=b"theirs")
        tree = repository.git("mktree", given=f"100644 blob {blob}\tREADME\n".encode())
        repository.git("update-ref", REF, repository.git("commit-tree", "-m", "x", tree))
        notebook.write([memory("x")])
        assert repository.git("show", f"{REF}:README") == "theirs"

    def test_copies_that_git_made_are_one_and_change_as_one(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        said = memory("copied", "the content")
        notebook.write([said])
        before = repository.head
        repository.commit()
        repository.git("notes", "--ref=mem/decisions", "copy", before, "HEAD")
        assert len(notebook.read().memories) == 1
        notebook.write([memories.build_tombstone(said, LATER)])
        tip = Repository(repository.folder, repository.environ).git("ls-tree", "-r", REF)
        texts = [repository.raw("cat-file", "blob", line.split()[2]) for line in tip.splitlines()]
        assert not any(b"the content" in text for text in texts)
        assert read_memories(notebook)[said.digest].status is MemoryStatus.TOMBSTONE

    def test_the_records_of_two_domains_may_share_a_repository(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        org = Domain("org:acme")
        theirs = opened(repository, org)
        notebook.write([memory("same words")])
        theirs.write([memory("same words", domain=org)])
        assert [each.domain for each in notebook.read().memories] == [DOMAIN]
        assert [each.domain for each in theirs.read().memories] == [org]

    def test_a_ref_of_another_tool_in_the_way_is_named(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        repository.git("update-ref", "refs/notes/mem", "HEAD")
        with pytest.raises(GitFailed, match="refs/notes/mem of another tool"):
            notebook.write([memory("x")])

    def test_a_ref_that_leads_to_no_commit_is_named(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        blob = repository.git("hash-object", "-w", "--stdin", given=b"x")
        repository.git("update-ref", REF, blob)
        with pytest.raises(GitFailed, match="update-ref -d"):
            notebook.read()

    def test_a_missing_object_is_told(self, repository: Repository, notebook: GitNotebook) -> None:
        notebook.write([memory("x")])
        blob = repository.git("rev-parse", f"{REF}:{repository.head[:2]}/{repository.head[2:]}")
        (repository.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
        with pytest.raises(GitFailed, match=blob):
            opened(repository).read()

    def test_a_repository_that_is_gone_is_told(
        self, repository: Repository, notebook: GitNotebook, tmp_path: Path
    ) -> None:
        repository.folder.rename(tmp_path / "elsewhere")
        with pytest.raises(GitFailed, match="no repository"):
            notebook.read()


class TestWritersAtOnce:
    def test_threads_lose_nothing(self, repository: Repository) -> None:
        repositories = GitRepositories(repository.folder.parent / "data")
        home = repository.home

        def write(number: int) -> None:
            for each in many(5, start=number * 5):
                repositories.open_notebook(home, DOMAIN).write([each])

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(read_memories(opened(repository))) == 20

    def test_processes_lose_nothing_not_even_at_the_first_write(
        self, repository: Repository
    ) -> None:
        program = textwrap.dedent("""
            import sys
            from pathlib import Path
            from agent_memory.features.memories.adapters.git.repositories import GitRepositories
            from tests.git_repositories import DOMAIN, memory
            notebook = GitRepositories(Path(sys.argv[2])).open_notebook(sys.argv[1], DOMAIN)
            print("ready", flush=True)
            sys.stdin.readline()
            for number in range(8):
                notebook.write([memory(f"{sys.argv[3]} {number}")])
        """)
        data = str(repository.folder.parent / "data")
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", program, repository.home, data, str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            for number in range(3)
        ]
        for each in writers:
            assert each.stdout is not None
            assert each.stdout.readline() == b"ready\n"
        for each in writers:
            assert each.stdin is not None
            each.stdin.write(b"go\n")
            each.stdin.flush()
        for each in writers:
            each.communicate(timeout=60)
            assert each.returncode == 0
        assert len(read_memories(opened(repository))) == 24

    def test_a_ref_that_someone_holds_is_waited_for(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        notebook.write([memory("first")])
        lock = repository.folder / ".git" / f"{REF}.lock"
        lock.touch()
        releasing = threading.Timer(0.3, lock.unlink)
        releasing.start()
        notebook.write([memory("second")])
        releasing.join()
        assert len(read_memories(notebook)) == 2

    def test_what_git_writes_meanwhile_is_not_overwritten(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        notebook.write([memory("first")])
        repository.git("notes", "--ref=mem/decisions", "append", "-m", "by hand")
        repository.git("pack-refs", "--all")
        notebook.write([memory("second")])
        assert b"by hand" in repository.note()
        assert len(read_memories(notebook)) == 2


class TestRehoming:
    def test_an_amended_commit_leaves_its_memories_on_the_new_one(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        old = repository.commit()
        said = memory("x", commit=old)
        notebook.write([said])
        repository.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "amended")
        assert notebook.rehome() == 1
        assert b"summary: x" in repository.note()
        assert not repository.succeeds("notes", "--ref=mem/decisions", "show", old)
        assert read_memories(notebook) == {said.digest: said}
        assert notebook.rehome() == 0

    def test_pages_move_as_they_are(self, repository: Repository, notebook: GitNotebook) -> None:
        old = repository.commit()
        everything = many(2 * note_edits.MAX_RECORDS + 1, commit=old)
        notebook.write(everything)
        repository.git("reset", "--quiet", "--hard", "HEAD~1")
        notebook.write([memory("present")])
        repository.git("reflog", "expire", "--expire=now", "--all")
        repository.git("gc", "--quiet", "--prune=now")
        assert not repository.succeeds("cat-file", "-e", old)
        assert opened(repository).rehome() == len(everything)
        assert len(read_memories(notebook)) == len(everything) + 1
        paths = repository.git("ls-tree", "-r", "--name-only", REF).splitlines()
        assert {path.replace("/", "")[-46:][:40] for path in paths if "more" in path} == {
            repository.head
        }

    def test_what_git_has_copied_to_the_new_commit_is_not_doubled(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        old = repository.commit()
        everything = many(note_edits.MAX_RECORDS + 1, commit=old)
        notebook.write(everything)
        repository.git("config", "notes.rewriteRef", "refs/notes/mem/*")
        repository.git("config", "notes.rewriteMode", "overwrite")
        repository.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "amended")
        assert b"number 64" in repository.note()
        assert notebook.rehome() == len(everything)
        assert notebook.rehome() == 0
        blobs = repository.git("ls-tree", "-r", "--format=%(objectname)", REF).split()
        texts = [repository.raw("cat-file", "blob", each) for each in blobs]
        assert sum(text.count(b"\nlength: ") for text in texts) == len(everything)
        assert set(notebook.read().memories) == set(everything)

    def test_what_a_person_wrote_stays_where_it_is(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        old = repository.commit()
        notebook.write([memory("x", commit=old)])
        repository.git("notes", "--ref=mem/decisions", "append", "-m", "by hand", old)
        repository.git("reset", "--quiet", "--hard", "HEAD~1")
        assert notebook.rehome() == 1
        assert repository.note(commit=old).strip() == b"by hand"

    def test_whatever_a_ref_or_worktree_leads_to_stays(
        self, repository: Repository, notebook: GitNotebook, tmp_path: Path
    ) -> None:
        home = repository.head
        leads = []
        for name in ("branch", "tag", "remote", "detached", "stash"):
            repository.git("checkout", "--quiet", "--detach", home)
            leads.append(commit := repository.commit(name))
            match name:
                case "branch":
                    repository.git("branch", "kept")
                case "tag":
                    repository.git("tag", "-a", "v1", "-m", "v1")
                case "remote":
                    repository.git("update-ref", "refs/remotes/origin/x", commit)
                case "detached":
                    repository.git("worktree", "add", "--detach", str(tmp_path / "tree"), commit)
                case "stash":
                    repository.git("update-ref", "refs/stash", commit)
        repository.git("checkout", "--quiet", "main")
        notebook.write([memory(each, commit=each) for each in leads])
        assert notebook.rehome() == 0

    def test_notes_on_commits_of_another_clone_stay_where_the_remote_has_them(
        self, tmp_path: Path
    ) -> None:
        remote = make_repository(tmp_path / "remote.git", bare=True)
        first = make_repository(tmp_path / "first")
        first.git("remote", "add", "origin", str(remote.folder))
        first.git("push", "--quiet", "origin", "main")
        second = clone_repository(remote, tmp_path / "second")
        only_there = first.commit("not pushed")
        one, two = opened(first), opened(second)
        one.write([memory("x", commit=only_there)])
        assert one.push("origin", first.environ)
        assert two.fetch("origin", second.environ)
        second.commit()
        assert two.rehome() == 0
        assert b"summary: x" in first.note(commit=only_there)

    def test_beyond_the_edge_of_a_shallow_clone_nothing_is_lost(self, tmp_path: Path) -> None:
        source = make_repository(tmp_path / "source", commits=3)
        old = source.git("rev-parse", "HEAD~2")
        opened(source).write([memory("old", commit=old)])
        bare = tmp_path / "shallow"
        Repository(tmp_path, build_environ(tmp_path)).git(
            "clone", "--quiet", "--depth=1", f"file://{source.folder}", str(bare)
        )
        shallow = Repository(bare, build_environ(tmp_path))
        shallow.git("fetch", "--quiet", "origin", f"{REF}:{REF}")
        assert opened(shallow).rehome() == 0


class TestErasing:
    def test_it_leaves_the_notes_their_history_and_the_objects(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        said = memory("a mistake", "password hunter2")
        notebook.write([memory("before", "stays")])
        notebook.write([said])
        notebook.write([memory("after", "stays")])
        assert notebook.erase([said.key]) == 1
        assert {each.summary for each in notebook.read().memories} == {"before", "after"}
        assert b"hunter2" not in repository.objects()
        assert repository.git("rev-list", "--count", REF) == "1"
        assert repository.succeeds("fsck", "--strict")
        assert notebook.erase([said.key]) == 0

    def test_what_a_tombstone_replaced_goes_and_the_tombstone_stays(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        said = memory("a mistake", "password hunter2")
        notebook.write([said])
        notebook.write([memories.build_tombstone(said, LATER)])
        assert notebook.erase([said.key]) == 1
        assert read_memories(notebook)[said.digest].status is MemoryStatus.TOMBSTONE
        assert b"hunter2" not in repository.objects()

    def test_packs_and_copies_of_remotes_are_searched_too(
        self, repository: Repository, notebook: GitNotebook, tmp_path: Path
    ) -> None:
        remote = make_repository(tmp_path / "remote.git", bare=True)
        repository.git("remote", "add", "origin", str(remote.folder))
        said = memory("a mistake", "password hunter2")
        notebook.write([said, memory("other")])
        assert notebook.push("origin", repository.environ)
        repository.git("gc", "--quiet")
        dropped = repository.commit("dropped")
        repository.git("reset", "--quiet", "--hard", "HEAD~1")
        assert notebook.erase([said.key]) == 2
        assert b"hunter2" not in repository.objects()
        assert not [name for name in repository.refs() if "origin" in name]
        assert repository.succeeds("cat-file", "-e", dropped)
        assert repository.succeeds("fsck", "--strict")

    def test_objects_that_something_else_leads_to_stay(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        said = memory("a mistake", "password hunter2")
        notebook.write([said])
        repository.git("branch", "mine", REF)
        loose = repository.git("hash-object", "-w", "--stdin", given=b"of the user, in no tree")
        assert notebook.erase([said.key]) == 1
        assert repository.succeeds("fsck", "--strict")
        assert repository.succeeds("cat-file", "-e", loose)
        assert b"hunter2" in repository.raw("log", "-p", "mine")

    def test_what_others_still_hold_is_counted(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        said = memory("a mistake", "password hunter2")
        notebook.write([said])
        repository.git("repack", "-a", "-d", "-q")
        repository.git("tag", "mine", f"{REF}^{{tree}}")
        with capture_logs() as logs:
            assert notebook.erase([said.key]) == 1
        (left,) = [each for each in logs if each["event"] == "notes.erase_left"]
        # The tree, the folder in it and the note; the commit is gone.
        assert left["count"] == 3
        repository.git("tag", "-d", "mine")
        notebook.write([said])
        repository.git("repack", "-a", "-d", "-q")
        (pack,) = (repository.folder / ".git/objects/pack").glob("*.pack")
        pack.with_suffix(".keep").touch()
        with capture_logs() as logs:
            assert notebook.erase([said.key]) == 1
        assert [each["event"] for each in logs] == ["notes.erase_left"]
        assert read_memories(notebook) == {}
        assert repository.succeeds("fsck", "--strict")

    def test_nothing_is_told_where_nothing_is_left(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        everything = many(note_edits.MAX_RECORDS + 1)
        notebook.write(everything)
        repository.git("repack", "-a", "-d", "-q")
        with capture_logs() as logs:
            assert notebook.erase([everything[-1].key]) == 1
        assert logs == []
        assert len(read_memories(notebook)) == note_edits.MAX_RECORDS

    def test_a_fetch_that_runs_is_waited_for(self, tmp_path: Path) -> None:
        remote = make_repository(tmp_path / "remote.git", bare=True)
        here = make_repository(tmp_path / "here")
        here.git("remote", "add", "origin", f"ssh://host{remote.folder}")
        asked, go, ssh = (tmp_path / name for name in ("asked", "go", "ssh"))
        os.mkfifo(asked)
        os.mkfifo(go)
        notebook = opened(here)
        said = memory("a mistake", "password hunter2")
        notebook.write([said])
        assert notebook.push(str(remote.folder), here.environ)
        ssh.write_text(
            f'#!/bin/sh\necho > {asked}\ncat {go} >&2\nfor last; do :; done\nexec sh -c "$last"\n'
        )
        ssh.chmod(0o755)
        environ = {**here.environ, "GIT_SSH_COMMAND": str(ssh), "GIT_SSH_VARIANT": "simple"}
        fetching = threading.Thread(target=notebook.fetch, args=("origin", environ))
        fetching.start()
        asked.read_text()
        erasing = threading.Thread(target=notebook.erase, args=([said.key],))
        erasing.start()
        erasing.join(0.3)  # were it not to wait, it would be done by now
        go.write_text("")
        for each in (fetching, erasing):
            each.join(DEADLINE_SECONDS)
            assert not each.is_alive()
        assert not [name for name in here.refs() if name.endswith("/mem/decisions") and name != REF]
        assert read_memories(opened(here)) == {}
        assert b"hunter2" not in here.objects()
        assert here.succeeds("fsck", "--strict")

    def test_what_someone_begins_to_need_meanwhile_stays(
        self,
        repository: Repository,
        notebook: GitNotebook,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        said = memory("a mistake", "password hunter2")
        notebook.write([said])
        old = repository.git("rev-parse", REF)
        real = shutil.which("git")
        program = tmp_path / "bin/git"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\n{real} "$@"\ncode=$?\n'
            f"{real} -C {repository.folder} update-ref refs/heads/late {old}\nexit $code\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        assert notebook.erase([said.key]) == 1
        assert b"hunter2" in repository.raw("log", "-p", "late")
        assert repository.succeeds("fsck", "--strict")

    def test_it_ends_when_all_is_closed(self, repository: Repository) -> None:
        repositories = GitRepositories(repository.folder.parent / "data")
        notebook = repositories.open_notebook(repository.home, DOMAIN)
        said = memory("a mistake", "password hunter2")
        notebook.write([said])
        repositories.close()
        with pytest.raises(GitFailed, match=r"not removed yet: git prune was stopped.*git gc"):
            notebook.erase([said.key])
        assert read_memories(opened(repository)) == {}
        assert repository.succeeds("fsck", "--strict")

    def test_what_was_never_there_changes_nothing(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        notebook.write([memory("x")])
        before = repository.refs()
        assert notebook.erase([memory("y", namespace="learnings").key]) == 0
        assert repository.refs() == before


@pytest.fixture
def remote(tmp_path: Path) -> Repository:
    source = make_repository(tmp_path / "source")
    return clone_repository(source, tmp_path / "remote.git", "--bare")


@pytest.fixture
def clones(remote: Repository, tmp_path: Path) -> tuple[Repository, Repository]:
    return clone_repository(remote, tmp_path / "one"), clone_repository(remote, tmp_path / "two")


def synced(notebook: Notebook, repository: Repository, remote: str = "origin") -> None:
    for _ in range(20):
        notebook.fetch(remote, repository.environ)
        if notebook.push(remote, repository.environ) is not None:
            return
    raise AssertionError("rejected again and again")


def whole(notebook: Notebook, repository: Repository) -> int:
    """Sync as the service does; return how many notes were moved."""
    notebook.fetch("origin", repository.environ)
    moved = notebook.rehome()
    synced(notebook, repository)
    return moved


class TestExchange:
    def test_captures_on_both_sides_of_one_commit_meet(
        self, clones: tuple[Repository, Repository]
    ) -> None:
        one, two = clones
        first, second = opened(one), opened(two)
        body = "---\r\nid: x\n---\nbody without end"
        first.write([memory("of one", body, commit=one.head)])
        second.write([memory("of two", body, commit=two.head)])
        synced(first, one)
        synced(second, two)
        synced(first, one)
        assert read_memories(first) == read_memories(second)
        assert {each.content for each in first.read().memories} == {body}
        before = one.refs(), two.refs()
        synced(second, two)
        synced(first, one)
        assert (one.refs(), two.refs()) == before

    def test_it_tells_whether_something_changed(
        self, clones: tuple[Repository, Repository]
    ) -> None:
        one, two = clones
        first, second = opened(one), opened(two)
        assert not first.fetch("origin", one.environ)
        assert first.push("origin", one.environ) is False
        first.write([memory("x")])
        assert first.push("origin", one.environ) is True
        assert first.push("origin", one.environ) is False
        assert second.fetch("origin", two.environ)
        assert not second.fetch("origin", two.environ)

    def test_a_push_that_comes_late_is_refused_and_then_goes(
        self, clones: tuple[Repository, Repository]
    ) -> None:
        one, two = clones
        first, second = opened(one), opened(two)
        first.write([memory("x")])
        second.write([memory("y"), memory("z", namespace="learnings")])
        assert first.push("origin", one.environ)
        assert second.push("origin", two.environ) is None
        assert second.fetch("origin", two.environ)
        assert second.push("origin", two.environ)
        assert first.fetch("origin", one.environ)
        assert read_memories(first) == read_memories(second)

    def test_statuses_tags_and_tombstones_merge(
        self, clones: tuple[Repository, Repository]
    ) -> None:
        one, two = clones
        first, second = opened(one), opened(two)
        kinds = [memory(name, tags=frozenset({name})) for name in ("a", "b", "c")]
        first.write(kinds)
        synced(first, one)
        synced(second, two)
        first.write([memories.update_fields(kinds[0], LATER, status=MemoryStatus.RESOLVED)])
        second.write([replace(kinds[0], tags=frozenset({"more"}))])
        first.write([memories.build_tombstone(kinds[1], LATER)])
        second.write(
            [memories.update_fields(kinds[1], Millis(LATER + 5), status=MemoryStatus.ARCHIVED)]
        )
        for notebook, where in ((first, one), (second, two), (first, one)):
            synced(notebook, where)
        assert read_memories(first) == read_memories(second)
        merged = read_memories(first)
        assert merged[kinds[0].digest].status is MemoryStatus.RESOLVED
        assert merged[kinds[0].digest].tags == {"a", "more"}
        assert merged[kinds[1].digest].status is MemoryStatus.TOMBSTONE
        assert merged[kinds[2].digest] == kinds[2]

    def test_many_pages_on_both_sides_meet(self, clones: tuple[Repository, Repository]) -> None:
        one, two = clones
        first, second = opened(one), opened(two)
        first.write(many(2 * note_edits.MAX_RECORDS + 3))
        second.write(many(3 * note_edits.MAX_RECORDS, start=100))
        for notebook, where in ((first, one), (second, two), (first, one)):
            synced(notebook, where)
        assert read_memories(first) == read_memories(second)
        assert len(read_memories(first)) == 100 + 3 * note_edits.MAX_RECORDS
        texts = one.git("ls-tree", "-r", "--format=%(objectname)", REF).split()
        records_there = sum(
            one.raw("cat-file", "blob", each).count(b"\nlength: ") for each in texts
        )
        assert records_there == len(read_memories(first))

    def test_what_people_wrote_on_both_sides_stays_once(
        self, clones: tuple[Repository, Repository]
    ) -> None:
        one, two = clones
        first, second = opened(one), opened(two)
        first.write([memory("x")])
        synced(first, one)
        synced(second, two)
        for where, text in ((one, "from one"), (two, "from two")):
            where.git("notes", "--ref=mem/decisions", "append", "-m", text)
            where.git("notes", "--ref=mem/decisions", "append", "-m", "from both")
        for notebook, where in ((first, one), (second, two), (first, one)):
            synced(notebook, where)
        assert one.note() == two.note()
        assert one.note().count(b"from one") == one.note().count(b"from two") == 1
        assert len(first.read().memories) == 1

    def test_only_notes_travel_and_only_their_copies_appear(
        self, clones: tuple[Repository, Repository], remote: Repository
    ) -> None:
        one, two = clones
        one.git("tag", "private")
        one.commit("unpushed")
        one.git("config", "push.followTags", "true")
        two.git("config", "--add", "remote.origin.fetch", "+refs/notes/*:refs/notes/*")
        two.git("config", "remote.origin.pruneTags", "true")
        two.git("tag", "of-two")
        there, here = remote.refs(), two.refs()
        opened(one).write([memory("x")])
        opened(two).write([memory("mine, not pushed yet")])
        synced(opened(one), one)
        opened(two).fetch("origin", two.environ)
        added = {REF, "refs/notes/origin/mem/decisions"}
        assert remote.refs() == there | {REF: one.refs()[REF]}
        assert {k: v for k, v in two.refs().items() if k not in added} == here
        assert len(read_memories(opened(two))) == 2
        assert not (two.folder / ".git/FETCH_HEAD").exists()
        assert two.git("status", "--short") == ""

    def test_hooks_are_not_run(self, clones: tuple[Repository, Repository]) -> None:
        one, _ = clones
        for name in ("pre-push", "reference-transaction", "post-update"):
            hook = one.folder / ".git/hooks" / name
            hook.write_text("#!/bin/sh\ntouch hooked\nexit 1\n")
            hook.chmod(0o755)
        notebook = opened(one)
        notebook.write([memory("x")])
        synced(notebook, one)
        assert not list(one.folder.rglob("hooked"))

    def test_variables_of_another_repository_do_not_mislead(
        self, clones: tuple[Repository, Repository], tmp_path: Path
    ) -> None:
        one, two = clones
        other = make_repository(tmp_path / "other")
        misled = {
            **one.environ,
            "GIT_DIR": str(other.folder / ".git"),
            "GIT_WORK_TREE": str(other.folder),
            "GIT_OBJECT_DIRECTORY": str(other.folder / ".git/objects"),
            "GIT_INDEX_FILE": str(other.folder / "index"),
            "GIT_NAMESPACE": "elsewhere",
        }
        notebook = opened(one)
        notebook.write([memory("x")])
        notebook.fetch("origin", misled)
        assert notebook.push("origin", misled)
        assert opened(two).fetch("origin", two.environ)

    def test_an_address_will_do(
        self, clones: tuple[Repository, Repository], remote: Repository
    ) -> None:
        one, two = clones
        first, second = opened(one), opened(two)
        first.write([memory("x")])
        for address in (str(remote.folder), f"file://{remote.folder}"):
            synced(first, one, address)
            synced(second, two, address)
        assert read_memories(first) == read_memories(second)

    @pytest.mark.parametrize("name", ["mem", "commits", "team/alice", "ümlaut"])
    def test_a_remote_may_have_an_awkward_name(
        self, clones: tuple[Repository, Repository], name: str
    ) -> None:
        one, two = clones
        one.git("notes", "add", "-m", "an ordinary note")
        one.git("remote", "rename", "origin", name)
        notebook = opened(one)
        notebook.write([memory("x")])
        synced(notebook, one, name)
        synced(notebook, one, name)
        assert opened(two).fetch("origin", two.environ)

    def test_relative_addresses_are_seen_from_the_worktree(
        self, clones: tuple[Repository, Repository]
    ) -> None:
        one, two = clones
        one.git("remote", "set-url", "origin", "../remote.git")
        notebook = opened(one)
        notebook.write([memory("x")])
        synced(notebook, one)
        assert opened(two).fetch("origin", two.environ)

    def test_a_clone_without_blobs_gets_those_of_the_notes(
        self, remote: Repository, clones: tuple[Repository, Repository], tmp_path: Path
    ) -> None:
        one, _ = clones
        remote.git("config", "uploadpack.allowFilter", "true")
        notebook = opened(one)
        notebook.write([memory("x", "the body")])
        synced(notebook, one)
        outside = Repository(tmp_path, build_environ(tmp_path))
        outside.git("clone", "--quiet", "--filter=blob:none", f"file://{remote.folder}", "partial")
        partial = Repository(tmp_path / "partial", build_environ(tmp_path))
        assert opened(partial).fetch("origin", partial.environ)
        assert [each.content for each in opened(partial).read().memories] == ["the body"]

    def test_clones_that_sync_at_once_lose_nothing(
        self, clones: tuple[Repository, Repository]
    ) -> None:
        notebooks = [opened(each) for each in clones]

        def work(which: int) -> None:
            for number in range(4):
                notebooks[which].write([memory(f"{number} of {which}")])
                synced(notebooks[which], clones[which])

        threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for notebook, where in zip(notebooks, clones, strict=True):
            synced(notebook, where)
        assert read_memories(notebooks[0]) == read_memories(notebooks[1])
        assert len(read_memories(notebooks[0])) == 8

    def test_what_ssh_leaves_behind_is_not_waited_for(
        self, clones: tuple[Repository, Repository], remote: Repository, tmp_path: Path
    ) -> None:
        one, _ = clones
        ssh, left = tmp_path / "ssh", tmp_path / "left"
        ssh.write_text(
            f"#!/bin/sh\nsleep 600 </dev/null >/dev/null &\necho $! >> {left}\n"
            'for last; do :; done\nexec sh -c "$last"\n'
        )
        ssh.chmod(0o755)
        one.git("remote", "set-url", "origin", f"ssh://host{remote.folder}")
        environ = {**one.environ, "GIT_SSH_COMMAND": str(ssh), "GIT_SSH_VARIANT": "simple"}
        notebook = opened(one)
        notebook.write([memory("x")])
        try:
            assert not notebook.fetch("origin", environ)
            assert notebook.push("origin", environ)
        finally:
            for pid in left.read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        assert REF in remote.refs()

    def test_a_remote_that_lost_its_notes_gets_them_again(
        self, clones: tuple[Repository, Repository], remote: Repository
    ) -> None:
        one, _ = clones
        notebook = opened(one)
        notebook.write([memory("x")])
        synced(notebook, one)
        remote.git("update-ref", "-d", REF)
        synced(notebook, one)
        assert REF in remote.refs()


_SCRIPTS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 7),
        st.sampled_from([*MemoryStatus, "sync", "sync", "commit", "amend"]),
    ),
    max_size=14,
)


class TestManyClones:
    @settings(max_examples=3, deadline=None)
    @given(_SCRIPTS, st.permutations(range(3)))
    def test_in_whatever_order_they_sync_they_have_the_same_in_the_end(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        script: list[tuple[int, int, MemoryStatus | str]],
        order: list[int],
    ) -> None:
        self.meet(tmp_path_factory, script, order)

    @pytest.mark.soak
    @settings(max_examples=30, deadline=None)
    @given(_SCRIPTS, st.permutations(range(3)))
    def test_in_very_many_orders(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        script: list[tuple[int, int, MemoryStatus | str]],
        order: list[int],
    ) -> None:
        self.meet(tmp_path_factory, script, order)

    def meet(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        script: list[tuple[int, int, MemoryStatus | str]],
        order: list[int],
    ) -> None:
        folder = tmp_path_factory.mktemp("clones")
        remote = clone_repository(
            make_repository(folder / "source"), folder / "remote.git", "--bare"
        )
        where = [clone_repository(remote, folder / str(number)) for number in range(3)]
        notebooks = [opened(each) for each in where]
        expected: dict[str, Memory] = {}
        for at, (here, number, what) in enumerate(script, AT):
            if what == "sync":
                whole(notebooks[here], where[here])
            elif what == "commit":
                where[here].commit()
            elif what == "amend":
                where[here].git("commit", "--quiet", "--amend", "--allow-empty", "-m", str(at))
            else:
                said = memory(f"number {number}", "---\r\n" * number, commit=where[here].head)
                if what is MemoryStatus.TOMBSTONE:
                    said = memories.build_tombstone(said, Millis(at))
                elif what is not MemoryStatus.ACTIVE:
                    said = memories.update_fields(said, Millis(at), status=what)
                notebooks[here].write([said])
                known = expected.get(said.digest)
                expected[said.digest] = memories.merge_copies(known, said) if known else said
        for here in (*order, *order):
            whole(notebooks[here], where[here])
        before = [each.refs() for each in (*where, remote)]
        for each in where:
            assert read_memories(opened(each)) == expected
            assert each.succeeds("fsck", "--strict")
        for here in range(3):
            assert whole(notebooks[here], where[here]) == 0
        assert [each.refs() for each in (*where, remote)] == before


class TestEarlierLayouts:
    ENTRY = "---\ntype: {0}\ntimestamp: '{1}'\nsummary: {2}\n---\n\nbody of {2}\n"

    def entry(self, namespace: str, second: int, summary: str) -> str:
        return self.ENTRY.format(namespace, f"2025-11-03T08:15:{second:02}.000001Z", summary)

    def test_entries_of_other_tools_are_found_once_and_left_alone(
        self, repository: Repository, notebook: GitNotebook
    ) -> None:
        for ref, text in (
            ("mem/decisions", self.entry("decisions", 2, "second")),
            ("mem/decisions", self.entry("decisions", 3, "third")),
            ("origin/mem/decisions", self.entry("decisions", 2, "second")),
            ("cs/learnings", self.entry("learnings", 1, "first")),
            ("adr", self.entry("decisions", 9, "not ours")),
        ):
            repository.git("notes", f"--ref={ref}", "append", "-m", text)
        notebook.write([memory("ours", self.entry("decisions", 4, "only quoted"))])
        before = repository.refs()
        drafts = notebook.read_legacy()
        assert [each.summary for each in drafts] == ["first", "second", "third"]
        assert [each.content for each in drafts] == [f"body of {each.summary}" for each in drafts]
        assert repository.refs() == before
        assert [each.reason for each in notebook.read().problems] == [records.EARLIER]


class TestReadingElsewhere:
    def test_the_worker_reads_what_is_long(self, repository: Repository) -> None:
        everything = [memory(f"number {number}", "words " * 100) for number in range(300)]
        opened(repository).write(everything)
        worker = ProcessWorker()
        try:
            repositories = GitRepositories(repository.folder.parent / "data", worker)
            notebook = repositories.open_notebook(repository.home, DOMAIN)
            assert read_memories(notebook) == {each.digest: each for each in everything}
            assert worker.pid is not None  # it was started for this
        finally:
            worker.close()
        notebook.write([memory("without a worker")])
        assert len(read_memories(notebook)) == 301

    def test_what_ends_the_worker_is_not_read_here(self, repository: Repository) -> None:
        class Ending(ProcessWorker):
            def call(
                self,
                function: Callable[..., T],  # noqa: ARG002
                /,
                *arguments: object,  # noqa: ARG002
                timeout_seconds: float,
                lane: ThreadPriority | None = None,  # noqa: ARG002
            ) -> T:
                return super().call(os._exit, 3, timeout_seconds=timeout_seconds)

        opened(repository).write([memory("long", "words " * 15_000)])
        worker = Ending()
        try:
            repositories = GitRepositories(repository.folder.parent / "data", worker)
            notebook = repositories.open_notebook(repository.home, DOMAIN)
            for call in (notebook.read, lambda: notebook.write([memory("x")])):
                with pytest.raises(
                    GitFailed, match=f"{REF} of .* cannot be read: the worker ended"
                ):
                    call()
        finally:
            worker.close()

    def test_a_text_that_is_too_long_is_told_of_and_kept(
        self, repository: Repository, notebook: GitNotebook, tmp_path: Path
    ) -> None:
        long = bytes(records.MAX_TEXT_BYTES + 1)
        head = repository.head
        path = f"{head[:2]}/{head[2:]}"
        pointed(repository, {path: long})
        blob = repository.git("rev-parse", f"{REF}:{path}")
        other = clone_repository(repository, tmp_path / "other")
        notebook.write([memory("x")])
        notebook.write([memory("y")])
        ours = opened(other)
        ours.write([memory("z")])
        assert ours.fetch("origin", other.environ)
        for each, found in ((opened(repository), "xy"), (opened(other), "xyz")):
            reading = each.read()
            assert {each.summary for each in reading.memories} == set(found)
            assert [(each.target, each.reason) for each in reading.problems] == [
                (head, records.TOO_LONG)
            ]
            assert each.read_legacy() == []
        assert repository.git("rev-parse", f"{REF}:{path}") == blob
        assert blob in other.git("ls-tree", "-r", REF)


@contextlib.contextmanager
def masked(umask: int) -> Iterator[None]:
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


class TestModes:
    """Modes of files that a process with a private umask writes."""

    @pytest.mark.parametrize(
        ("umask", "shared", "folder", "file"),
        [
            (0o022, "umask", 0o755, 0o644),
            (0o002, "umask", 0o775, 0o664),
            (0o022, "group", 0o2775, 0o664),
            (0o077, "umask", 0o700, 0o600),
            (0o027, "umask", 0o750, 0o640),
        ],
    )
    def test_they_are_as_git_would_make_them(
        self, tmp_path: Path, umask: int, shared: str, folder: int, file: int
    ) -> None:
        with masked(umask):
            remote = make_repository(tmp_path / "remote.git", bare=True)
            here = Repository(tmp_path / "here", build_environ(tmp_path))
            here.folder.mkdir()
            here.git("init", "--quiet", "--initial-branch=main", f"--shared={shared}")
            here.commit()
            here.git("remote", "add", "origin", str(remote.folder))
        git = here.folder / ".git"
        before = set(git.rglob("*"))
        with masked(0o077):
            notebook = opened(here)
            notebook.write(many(note_edits.MAX_RECORDS + 1))
            synced(notebook, here)
            notebook.write([memory("more")])
            synced(notebook, here)
            here.git("pack-refs", "--all")
            (git / "packed-refs").chmod(file)
            notebook.erase([memory("more").key])
            notebook.fetch("origin", here.environ)
        for path in {git / "packed-refs", *git.rglob("*")} - (before - {git / "packed-refs"}):
            mode = stat.S_IMODE(path.stat().st_mode)
            if path.is_dir():
                assert mode == folder, path
            elif "objects" in path.parts:
                assert mode == file & 0o444, path
            else:
                assert mode == file, path

    def test_our_own_stay_ours(self, tmp_path: Path) -> None:
        with masked(0o077):
            repositories = GitRepositories(tmp_path / "data")
            notebook = repositories.open_notebook(repositories.get_private_home("user.git"), USER)
            said = memory("x", domain=USER)
            notebook.write([said])
            notebook.erase([said.key])
        for path in (tmp_path / "data").rglob("*"):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


class TestRemotesThatFail:
    def test_an_unknown_name_lists_those_that_exist(
        self, clones: tuple[Repository, Repository]
    ) -> None:
        one, _ = clones
        with pytest.raises(RemoteUnavailable, match="its remotes: origin"):
            opened(one).fetch("upstream", one.environ)

    def test_without_any_remote_it_says_how_to_add_one(self, repository: Repository) -> None:
        with pytest.raises(RemoteUnavailable, match="git remote add"):
            opened(repository).push("origin", repository.environ)

    @pytest.mark.parametrize("name", ["--upload-pack=touch x", "-x", ""])
    def test_an_option_is_no_remote(self, repository: Repository, name: str) -> None:
        with pytest.raises(InvalidInput, match="not the name or address"):
            opened(repository).fetch(name, repository.environ)

    @pytest.mark.parametrize("name", ["ext::sh -c true", "fd::0", "x::https://example.org/a"])
    def test_transport_helpers_are_refused(self, repository: Repository, name: str) -> None:
        with pytest.raises(RemoteUnavailable, match="has no remote"):
            opened(repository).fetch(name, repository.environ)

    def test_nothing_at_the_address(self, repository: Repository, tmp_path: Path) -> None:
        repository.git("remote", "add", "origin", str(tmp_path / "nowhere.git"))
        notebook = opened(repository)
        notebook.write([memory("x")])
        for call in (notebook.fetch, notebook.push):
            with pytest.raises(RemoteUnavailable, match="no repository at its address"):
                call("origin", repository.environ)

    def test_nobody_listens_and_no_password_is_told(self, repository: Repository) -> None:
        repository.git(
            "remote", "add", "origin", "http://ada:hunter22@127.0.0.1:1/a.git?token=abcdef"
        )
        with pytest.raises(RemoteUnavailable, match="unreachable") as caught:
            opened(repository).fetch("origin", repository.environ)
        assert "hunter22" not in str(caught.value)
        assert "abcdef" not in str(caught.value)

    def test_a_password_is_not_told_whatever_is_in_it(self, repository: Repository) -> None:
        repository.git("remote", "add", "origin", "http://ada:hun@ter:22@127.0.0.1:1/a.git")
        with pytest.raises(RemoteUnavailable) as caught:
            opened(repository).fetch("origin", repository.environ)
        assert not [part for part in ("ada", "hun", "ter", "22@") if part in str(caught.value)]

    @pytest.mark.parametrize("before", range(470, 500, 3))
    def test_nor_the_beginning_of_one_where_the_words_of_git_are_cut(
        self, repository: Repository, tmp_path: Path, before: int
    ) -> None:
        telling = tmp_path / "telling"
        telling.write_text(f"#!/bin/sh\necho 'fatal: {'x' * before}hunter2222' >&2\nexit 1\n")
        telling.chmod(0o755)
        repository.git("remote", "add", "origin", "ssh://ada:hunter2222@host/a.git")
        environ = {**repository.environ, "GIT_SSH_COMMAND": str(telling)}
        with pytest.raises(RemoteUnavailable) as caught:
            opened(repository).fetch("origin", environ)
        assert "hun" not in str(caught.value)

    def test_a_refusal_of_the_server_is_told(
        self, clones: tuple[Repository, Repository], remote: Repository
    ) -> None:
        one, _ = clones
        hook = remote.folder / "hooks/pre-receive"
        hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
        hook.chmod(0o755)
        notebook = opened(one)
        notebook.write([memory("x")])
        environ = {**one.environ, **route_over_ssh(one, remote)}
        with pytest.raises(RemoteUnavailable, match="hook declined"):
            notebook.push("origin", environ)

    def test_a_remote_that_hangs_is_given_up(self, repository: Repository, tmp_path: Path) -> None:
        hanging = tmp_path / "hanging"
        hanging.write_text("#!/bin/sh\nexec sleep 600\n")
        hanging.chmod(0o755)
        repository.git("remote", "add", "origin", "ssh://host/a.git")
        repositories = GitRepositories(tmp_path / "data", remote_seconds=0.3)
        notebook = repositories.open_notebook(repository.home, DOMAIN)
        with pytest.raises(RemoteUnavailable, match=r"no answer in 0\.3 s"):
            notebook.fetch("origin", {**repository.environ, "GIT_SSH_COMMAND": str(hanging)})

    def test_a_key_that_is_refused(self, repository: Repository, tmp_path: Path) -> None:
        refusing = tmp_path / "refusing"
        refusing.write_text(
            "#!/bin/sh\necho 'git@host: Permission denied (publickey).' >&2\nexit 255\n"
        )
        refusing.chmod(0o755)
        repository.git("remote", "add", "origin", "git@host:a.git")
        with pytest.raises(RemoteUnavailable, match="access denied"):
            opened(repository).fetch(
                "origin", {**repository.environ, "GIT_SSH_COMMAND": str(refusing)}
            )

    def test_without_git_it_says_so(
        self, clones: tuple[Repository, Repository], tmp_path: Path
    ) -> None:
        one, _ = clones
        with pytest.raises(GitFailed, match="install it"):
            opened(one).fetch("origin", {**one.environ, "PATH": str(tmp_path)})

    def test_our_own_side_that_fails_is_not_the_remotes_fault(
        self, clones: tuple[Repository, Repository]
    ) -> None:
        one, two = clones
        notebook = opened(one)
        notebook.write([memory("x")])
        synced(notebook, one)
        late = opened(two)  # before the lock: an older one would be that of a killed process
        lock = two.folder / ".git/refs/notes/origin/mem/decisions.lock"
        lock.parent.mkdir(parents=True)
        lock.touch()
        with pytest.raises(GitFailed, match="cannot lock ref"):
            late.fetch("origin", two.environ)
