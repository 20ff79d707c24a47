"""Memories between clones, machines and remotes: real daemons and `memory sync`."""

import http.server
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_memory.features.memories.adapters.git import records
from agent_memory.features.memories.adapters.git.records import NoteRecord
from agent_memory.features.memories.model.memories import Memory as StoredMemory
from tests import git_repositories
from tests.chosen_store import lose_store
from tests.command_runner import Answer, Home, Word, wait_until
from tests.git_repositories import (
    DOMAIN,
    Repository,
    clone_repository,
    make_repository,
    route_over_ssh,
)
from tests.memory_commands import NETWORK, OK, STORAGE, MemoryCommand, assert_refused

BODIES = {
    "rules": "---\nid: decisions:000000000000:0\nbytes: 3\n---\nnot a record\n---\n",
    "front matter": "---\ntitle: x\ntags: [a, b]\n---\n\n# Title\n",
    "windows": "one\r\ntwo\r\n\r\n---\r\nthree\r\n",
    "unfinished": "the last line has no end",
    "blank": "\n\n  \n",
    "long": "0123456789abcde\n" * (100 * 1024 // 16),
    "emoji": "\N{ROCKET} naïve \N{ZERO WIDTH JOINER} 中文\n",
}
OURS = "refs/notes/mem/"

_numbers = count()


class Clone(NamedTuple):
    """A repository, and the command run in it."""

    memory: MemoryCommand
    repository: Repository

    def sync(self, *options: Word, env: dict[str, str] | None = None) -> Answer:
        answer = self.memory("sync", "--domain", "project", *options, env=env)
        assert answer.code == OK, answer
        return answer

    def exported(self) -> dict[str, Any]:
        """Return what the store has of this project, by id. Machines may name it differently."""
        told = self.memory("export", "--domain", "project", "--include-archived", "--format=json")
        assert told.code == OK, told
        found = {each["id"]: each for each in told.json()["memories"]}
        for each in found.values():
            del each["uri"], each["domain"]
        return found

    def noted(self) -> dict[str, StoredMemory]:
        """Return what its notes hold, by id; assert that nothing occurs twice."""
        return noted(self.repository)


def noted(repository: Repository) -> dict[str, StoredMemory]:
    found: dict[str, StoredMemory] = {}
    for ref in repository.refs():
        if not ref.startswith(OURS):
            continue
        for line in repository.git("ls-tree", "-r", ref).splitlines():
            text = repository.raw("cat-file", "blob", line.split()[2])
            for part in records.parse(text, DOMAIN, ref.removeprefix(OURS)):
                if isinstance(part, NoteRecord):
                    assert part.memory.id not in found, f"{part.memory.id} stands there twice"
                    found[part.memory.id] = part.memory
    return found


def annotated(repository: Repository, ref: str = "decisions") -> set[str]:
    """Return the objects that the notes of this ref are on."""
    listed = repository.git("notes", f"--ref=mem/{ref}", "list").splitlines()
    return {line.split()[1] for line in listed}


def assert_level(*clones: Clone) -> None:
    """Assert that all have the same in store and notes."""
    exports = [each.exported() for each in clones]
    notes = [each.noted() for each in clones]
    assert all(each == exports[0] for each in exports)
    assert all(each == notes[0] for each in notes)
    assert exports[0].keys() == notes[0].keys()
    for name, memory in notes[0].items():
        assert exports[0][name]["content"] == memory.content
        assert exports[0][name]["status"] == memory.status.value
        assert exports[0][name].get("tags", []) == sorted(memory.tags)


def assert_settled(*clones: Clone, remote: Repository) -> None:
    """Assert that a further sync changes no ref, here or there."""
    everyone = [*(each.repository for each in clones), remote]
    before = [each.refs() for each in everyone]
    for each in clones:
        assert "nothing to do" in each.sync("--remote").text
    assert [each.refs() for each in everyone] == before


def at_once(*work: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(each) for each in work]]


def captured(clone: Clone, *summaries: str) -> list[str]:
    return [clone.memory.capture("decisions", summary) for summary in summaries]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the remotes for user and organisation memories."""
    folder = tmp_path_factory.mktemp("shared")
    make_repository(folder / "user.git", bare=True)
    clone_repository(make_repository(folder / "source"), folder / "org.git", "--bare")
    return folder


def _home(shared: Path, org: str) -> Iterator[Home]:
    with Home() as found:
        found.configure(
            f'[memories]\nuser_remote = "{shared}/user.git"\n'
            f'org = "acme"\norg_repository = "{org}"\n'
        )
        found.serve()
        yield found


@pytest.fixture(scope="module")
def one(shared: Path) -> Iterator[Home]:
    """Return Ada's machine, which has the organisation's repository."""
    yield from _home(shared, f"{shared}/org.git")


@pytest.fixture(scope="module")
def two(shared: Path) -> Iterator[Home]:
    """Return Bob's machine, which reaches the organisation's repository by address."""
    yield from _home(shared, f"file://{shared}/org.git")


@pytest.fixture
def remote(tmp_path: Path) -> Repository:
    """Return a bare repository with one commit."""
    return clone_repository(
        make_repository(tmp_path / "source"), tmp_path / f"team{next(_numbers)}.git", "--bare"
    )


def clone(home: Home, remote: Repository) -> Clone:
    repository = clone_repository(remote, home.work / f"clone{next(_numbers)}")
    return Clone(MemoryCommand(home, repository.folder), repository)


def alone(home: Home) -> Clone:
    """Return a repository without a remote."""
    repository = make_repository(home.work / f"app{next(_numbers)}")
    return Clone(MemoryCommand(home, repository.folder), repository)


@pytest.fixture
def ada(one: Home, remote: Repository) -> Clone:
    return clone(one, remote)


@pytest.fixture
def bob(two: Home, remote: Repository) -> Clone:
    return clone(two, remote)


class TestTwoClones:
    @pytest.mark.parametrize("daemons", [1, 2])
    def test_captures_on_both_at_one_commit_and_concurrent_syncs(
        self, one: Home, two: Home, remote: Repository, daemons: int
    ) -> None:
        left, right = clone(one, remote), clone(one if daemons == 1 else two, remote)
        expected: dict[str, str] = {}
        for number, (about, body) in enumerate(BODIES.items()):
            for here in (left, right):
                for summary in (f"{about} of {here.repository.folder.name}", f"{about} of both"):
                    told = here.memory.json(
                        "capture",
                        ("decisions", "learnings")[number % 2],
                        summary,
                        "--stdin",
                        given=body.encode(),
                    )
                    expected[told["memory_id"]] = body
        assert len(expected) == 3 * len(BODIES)
        at_once(*(partial(each.sync, "--remote") for each in (left, right) * 2))
        for each in (right, left):
            each.sync("--remote")
        assert_level(left, right)
        assert {name: it.content for name, it in left.noted().items()} == expected
        assert noted(remote) == left.noted()
        assert_settled(left, right, remote=remote)

    def test_what_changes_on_three_sides_meets(
        self, one: Home, two: Home, remote: Repository
    ) -> None:
        clones = [clone(one, remote), clone(two, remote), clone(one, remote)]
        first, second, third = clones
        names = captured(first, "Cache it", "Shard it", "Drop it", "Tag it")
        for each in clones:
            each.sync("--remote")
        second.repository.commit("only here")
        first.memory.text("resolve", names[0])
        second.memory.text("archive", names[1])
        replaced = second.memory.json("edit", names[2], "--summary", "Keep it")["id"]
        second.memory.text("capture", "decisions", "Tag it", "--tags", "b")
        third.memory.text("capture", "decisions", "Tag it", "--tags", "c")
        captured(third, "New on the third")
        captured(second, "New on the second")
        at_once(*(partial(each.sync, "--remote") for each in clones))
        for each in (*clones, *clones):
            each.sync("--remote")
        assert_level(*clones)
        known = first.exported()
        assert len(known) == 7
        assert [known[name]["status"] for name in names] == [
            *("resolved", "archived", "archived", "active")
        ]
        assert known[names[2]]["superseded_by"] == replaced
        assert known[names[3]]["tags"] == ["b", "c"]
        assert_settled(*clones, remote=remote)

    def test_each_sees_what_the_other_changed_later(self, ada: Clone, bob: Clone) -> None:
        (name,) = captured(ada, "Back and forth")
        for word, here, there in (
            ("resolved", ada, bob),
            ("active", bob, ada),
            ("archived", bob, ada),
        ):
            here.sync("--remote")
            there.sync("--remote")
            words = {
                "resolved": ("resolve", name),
                "active": ("resolve", name, "--reopen"),
                "archived": ("archive", name),
            }[word]
            here.memory.text(*words)
            here.sync("--push")
            there.sync("--fetch")
            assert there.memory.show(name)["status"] == word
        assert_level(ada, bob)

    def test_tags_of_the_other_clone_reach_this_ones_notes_under_one_daemon(
        self, one: Home, two: Home, remote: Repository
    ) -> None:
        left, right, other = clone(one, remote), clone(one, remote), clone(two, remote)
        other.memory.text("capture", "decisions", "Tagged", "--tags", "old")
        other.sync("--remote")
        left.memory.text("capture", "decisions", "Tagged", "--tags", "new")
        left.sync()
        right.sync("--remote")
        left.sync()
        assert [sorted(each.tags) for each in left.noted().values()] == [["new", "old"]]


class TestCapturesAtOnce:
    def test_twenty_processes_lose_nothing(self, one: Home) -> None:
        here = alone(one)
        answers = at_once(
            *(
                partial(here.memory, "capture", "progress", f"Step {number}", "--format=quiet")
                for number in range(20)
            )
        )
        assert [answer.code for answer in answers] == [OK] * 20
        names = {answer.text.strip() for answer in answers}
        assert len(names) == 20
        assert here.exported().keys() == names
        wait_until(lambda: here.noted().keys() == names, "all of them are in the note")

    def test_captures_while_syncs_run_are_not_lost(self, ada: Clone, bob: Clone) -> None:
        work = [partial(each.sync, "--remote") for each in (ada, bob) * 4]
        captures = [
            partial(captured, each, f"{number} during a sync")
            for number, each in enumerate((ada, bob) * 6)
        ]
        at_once(*work[:2], *captures, *work[2:])
        for each in (ada, bob, ada):
            each.sync("--remote")
        assert len(ada.exported()) == 12
        assert_level(ada, bob)

    def test_a_remote_that_does_not_answer_holds_no_note_up(
        self, one: Home, tmp_path: Path
    ) -> None:
        here, other = alone(one), alone(one)
        fifo, waiting = tmp_path / "fifo", tmp_path / "waiting"
        environ = {
            "GIT_SSH_COMMAND": f"touch {waiting}; read word < {fifo}; exit 1; :",
            "GIT_SSH_VARIANT": "ssh",
        }
        here.repository.git("remote", "add", "origin", "ssh://host.invalid/app.git")
        os.mkfifo(fifo)
        with ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(here.memory, "sync", "--remote", env=environ)
            try:
                wait_until(waiting.exists, "the sync waits for its remote")
                for each in (here, other):
                    (name,) = captured(each, "Said meanwhile")
                    wait_until(lambda e=each, n=name: n in e.noted(), "it is in a note", 10)  # type: ignore[misc]
            finally:
                fifo.write_text("go on\n")
            assert hanging.result().code == NETWORK


class TestHistoryThatChanges:
    def test_nothing_is_lost_by_amending_rebasing_deleting_and_collecting(
        self, ada: Clone, bob: Clone, remote: Repository
    ) -> None:
        git = ada.repository.git
        names = captured(ada, "On the first")
        ada.repository.commit("second")
        names += captured(ada, "On what is amended")
        ada.sync()
        git("commit", "--quiet", "--amend", "--allow-empty", "--message", "amended")
        git("checkout", "--quiet", "-b", "side")
        ada.repository.commit("on the side")
        names += captured(ada, "On what is rebased")
        ada.sync()
        git("checkout", "--quiet", "main")
        ada.repository.commit("third")
        git("rebase", "--quiet", "--reapply-cherry-picks", "--empty=keep", "main", "side")
        git("checkout", "--quiet", "-b", "dead", "main")
        ada.repository.commit("dead end")
        names += captured(ada, "On what is deleted")
        ada.sync()
        git("checkout", "--quiet", "main")
        git("branch", "--quiet", "-D", "dead")
        _collect(ada.repository)
        ada.sync("--remote")
        assert ada.noted().keys() == set(names)
        _assert_reachable(ada.repository)
        assert ada.repository.succeeds("fsck", "--strict")
        git("push", "--quiet", "origin", "main")
        _collect(remote)
        assert set(ada.memory.recall_ids("On")) == set(names)
        assert ada.memory("status", "--domain", "project", "--verify").code == OK
        bob.sync("--fetch")
        assert set(bob.memory.recall_ids("On")) == set(names)
        bob.sync("--remote")
        assert_level(ada, bob)
        assert_settled(ada, bob, remote=remote)

    def test_what_was_shared_before_it_was_amended_moves_too(
        self, ada: Clone, bob: Clone, remote: Repository
    ) -> None:
        ada.repository.commit("second")
        (name,) = captured(ada, "Shared")
        ada.sync("--remote")
        bob.sync("--remote")
        ada.repository.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "amended")
        ada.sync("--remote")
        _assert_reachable(ada.repository)
        _collect(ada.repository)
        bob.sync("--remote")
        assert bob.noted().keys() == {name}
        assert annotated(bob.repository) == {ada.repository.head}
        assert_settled(ada, bob, remote=remote)


def _collect(repository: Repository) -> None:
    repository.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")


def _assert_reachable(repository: Repository) -> None:
    stored = set(repository.git("rev-list", "--branches", "HEAD").splitlines())
    assert annotated(repository) <= stored


class TestFreshFolders:
    def test_a_fresh_clone_recalls_what_the_team_knew(self, ada: Clone, remote: Repository) -> None:
        name = ada.memory.capture("decisions", "Use PostgreSQL", "--content", "for its JSONB")
        ada.sync("--remote")
        with Home() as home:
            home.serve()
            new = clone(home, remote)
            assert new.memory.recall_ids("PostgreSQL") == []
            assert "1 imported" in new.sync("--fetch").text
            assert new.memory.recall_ids("PostgreSQL") == [name]
            assert new.memory.show(name)["content"] == "for its JSONB"
            home.stop()
            lose_store(home.data)
            assert new.memory.recall_ids("PostgreSQL") == []
            assert "1 imported" in new.sync("--force").text
            assert new.memory.recall_ids("JSONB") == [name]
            assert_level(ada, new)
            assert_settled(ada, new, remote=remote)


class TestWhatIsNotOurs:
    def test_it_stays_byte_for_byte_and_is_reported(self, ada: Clone, bob: Clone) -> None:
        repository = ada.repository
        names = captured(ada, "Before", "Damaged")
        ada.sync()
        written = b"Ada: ask Bob first.\n---\nnot: [yaml\n---\nand \xff\xfe\x00 bytes"
        whole = repository.note()
        broken = whole.replace(b"summary: Damaged", b"summary: Damage")
        _set_note(repository, "mem/decisions", broken + b"\n" + written)
        for ref, text in (("commits", b"a plain note\n"), ("cs/decisions", b"of another tool\n")):
            _set_note(repository, ref, text)
        answer = ada.sync()
        assert "warning: refs/notes/mem/decisions on " in answer.errors
        captured(ada, "After")
        bob.sync("--remote")
        captured(bob, "Elsewhere")
        bob.sync("--remote")
        ada.sync("--remote")
        assert "warning: " in bob.sync("--remote").errors
        for each in (ada, bob):
            assert written in each.repository.note()
            assert b"summary: Damage\n" in each.repository.note()
            assert each.exported().keys() >= {names[0]}
            assert len(each.exported()) == 4
            assert {it["summary"] for it in each.exported().values()} == {
                *("Before", "Damaged", "After", "Elsewhere")
            }
        assert repository.raw("notes", "show") == b"a plain note\n"
        assert repository.raw("notes", "--ref=cs/decisions", "show") == b"of another tool\n"
        assert not any(ref.startswith("refs/notes/c") for ref in bob.repository.refs())
        assert_level(ada, bob)

    def test_text_appended_by_git_is_no_part_of_a_memory(self, ada: Clone, bob: Clone) -> None:
        name = ada.memory.capture("decisions", "Noted", "--content", "the body")
        ada.sync("--remote")
        bob.sync("--remote")
        for each in (ada, bob):
            who = each.repository.folder.name
            each.repository.git("notes", "--ref=mem/decisions", "append", "-m", f"said by {who}")
        ada.sync("--remote")
        bob.sync("--remote")
        ada.sync("--remote")
        for each in (ada, bob):
            note = each.repository.note()
            for author in (ada, bob):
                assert note.count(f"said by {author.repository.folder.name}\n".encode()) == 1
            assert each.memory.show(name)["content"] == "the body"
        assert_level(ada, bob)

    @pytest.mark.parametrize("field", ["content", "summary", "tags", "spec", "event_id"])
    def test_a_secret_in_a_note_is_not_taken_over(self, two: Home, bob: Clone, field: str) -> None:
        secret = "ghp_" + f"{next(_numbers):04}aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX"
        fields: dict[str, Any] = {"summary": "By hand"}
        fields[field] = frozenset({secret}) if field == "tags" else secret
        event_id = fields.pop("event_id", "")
        memory = git_repositories.memory(fields.pop("summary"), **fields)
        text = records.render(memory)
        if event_id:
            text = text.replace(b"status:", f"event_id: {event_id}\nstatus:".encode())
        _set_note(bob.repository, "mem/decisions", text)
        answer = bob.sync()
        assert "holds a secret" in answer.errors
        assert secret not in answer.errors + answer.text
        assert bob.exported() == {}
        assert bob.memory.recall_ids("hand") == []
        assert bob.repository.note() == text
        files = [path for path in two.data.rglob("*") if path.is_file()]
        assert [path for path in files if secret.encode() in path.read_bytes()] == []


def _set_note(repository: Repository, ref: str, text: bytes) -> None:
    blob = repository.git("hash-object", "-w", "--stdin", given=text)
    repository.git("notes", f"--ref={ref}", "add", "-f", "-C", blob)


class TestPlaces:
    def test_a_bare_repository(self, one: Home, remote: Repository) -> None:
        here = Clone(MemoryCommand(one, remote.folder), remote)
        names = captured(here, "In a bare one")
        here.sync()
        assert here.noted().keys() == set(names)
        assert here.memory.recall_ids("bare") == names

    def test_a_detached_head(self, ada: Clone, remote: Repository) -> None:
        ada.repository.git("checkout", "--quiet", "--detach")
        head = ada.repository.commit("on no branch")
        names = captured(ada, "Detached")
        ada.sync("--remote")
        assert annotated(ada.repository) == {head}
        assert noted(remote).keys() == set(names)
        ada.repository.git("checkout", "--quiet", "main")
        ada.sync("--remote")
        assert annotated(ada.repository) == {ada.repository.head}
        assert ada.noted().keys() == set(names)
        assert_settled(ada, remote=remote)

    def test_where_notes_cannot_be_written_they_wait(self, one: Home) -> None:
        here = alone(one)
        in_the_way = here.repository.folder / ".git/refs/notes"
        in_the_way.write_text("")
        (name,) = captured(here, "Waits for its note")
        assert_refused(here.memory("sync", "--domain", "project"), STORAGE)
        assert here.memory.recall_ids("note") == [name]
        assert here.memory.json("status", "--domain", "project")["notes_waiting"] == 1
        in_the_way.unlink()
        here.sync()
        assert here.noted().keys() == {name}
        assert here.memory.json("status", "--domain", "project")["notes_waiting"] == 0

    def test_a_repository_that_is_deleted_and_cloned_again(
        self, ada: Clone, one: Home, remote: Repository
    ) -> None:
        names = captured(ada, "Shared")
        ada.sync("--remote")
        names += captured(ada, "Not shared yet")
        while ada.repository.folder.exists():  # the daemon may be writing its notes
            shutil.rmtree(ada.repository.folder, ignore_errors=True)
        again = clone(one, remote)
        assert set(again.memory.recall_ids("shared")) == set(names)
        again.sync("--remote")
        assert noted(remote).keys() == set(names)
        ada.repository.folder.mkdir()
        assert ada.memory("recall", "shared").code == OK


class TestDomains:
    def test_the_users_own_memories_travel_between_machines(self, ada: Clone, bob: Clone) -> None:
        words = ("--domain", "user")
        names = {ada.memory.capture("patterns", "Of Ada's laptop", *words)}
        names.add(bob.memory.capture("patterns", "Of Ada's desktop", *words))
        for each in (ada, bob, ada):
            assert each.memory("sync", *words, "--remote").code == OK
        for each in (ada, bob):
            listed = each.memory.json("list", *words)["memories"]
            assert {it["id"] for it in listed} == names
            assert "nothing to do" in each.memory.text("sync", *words, "--remote")

    def test_an_organisation_by_path_and_by_address(
        self, ada: Clone, bob: Clone, shared: Path
    ) -> None:
        words = ("--domain", "org")
        names = {bob.memory.capture("learnings", "Learned by Bob", *words)}
        names.add(ada.memory.capture("learnings", "Learned by Ada", *words))
        for _ in range(2):
            assert ada.memory("sync", *words).code == OK
            assert bob.memory("sync", *words, "--remote").code == OK
        assert ada.memory("sync", *words).code == OK
        org = Repository(shared / "org.git", ada.repository.environ)
        for each in (ada, bob):
            listed = each.memory.json("list", *words)["memories"]
            assert {it["id"] for it in listed} == names
            assert {it["domain"] for it in listed} == {"org:acme"}
        before = org.refs()
        assert "nothing to do" in bob.memory.text("sync", *words, "--remote")
        assert "nothing to do" in ada.memory.text("sync", *words)
        assert org.refs() == before

    def test_a_sync_of_everything_takes_what_has_a_remote(self, ada: Clone, bob: Clone) -> None:
        for each in (ada, bob):
            told = each.memory.json("sync", "--remote")["domains"]
            assert [it["domain"].partition(":")[0] for it in told] == ["project", "user", "org"]


class _Refusing(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="team"')
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[int]:
    """Return the port of a server that refuses everyone."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


class TestRemotes:
    def test_another_remote_by_configuration(self, ada: Clone, remote: Repository) -> None:
        other = clone_repository(remote, remote.folder.with_name("other.git"), "--bare")
        ada.repository.git("remote", "add", "upstream", str(other.folder))
        names = captured(ada, "Elsewhere")
        settings = {"memories.remote": "upstream"}
        ada.sync("--remote", env=settings)
        assert noted(other).keys() == set(names)
        assert noted(remote) == {}
        assert "refs/notes/upstream/mem/decisions" in ada.repository.refs()
        nobody = {"memories.remote": "nobody"}
        answer = ada.memory("sync", "--remote", "--domain", "project", env=nobody)
        assert_refused(answer, NETWORK, "nobody", "origin", "upstream")

    @pytest.mark.parametrize("named", ["upstream", "address"])
    def test_a_projects_file_does_not_say_where_memories_go(
        self, ada: Clone, remote: Repository, named: str
    ) -> None:
        other = clone_repository(remote, remote.folder.with_name("other.git"), "--bare")
        ada.repository.git("remote", "add", "upstream", str(other.folder))
        names = captured(ada, "Ours")
        wanted = named if named == "upstream" else str(other.folder)
        (ada.memory.folder / "memory.toml").write_text(f"[memories]\nremote = '{wanted}'\n")
        told = ada.sync("--remote")
        assert "note: ignored memories.remote in" in told.errors
        assert noted(other) == {}
        assert noted(remote).keys() == set(names)

    def test_who_is_not_let_in_is_not_asked_for_a_password(self, ada: Clone, refusing: int) -> None:
        captured(ada, "Kept here")
        address = f"http://127.0.0.1:{refusing}/team.git"
        ada.repository.git("remote", "set-url", "origin", address)
        for options in ("--fetch", "--push", "--remote"):
            answer = ada.memory("sync", options, "--domain", "project")
            assert_refused(answer, NETWORK, "access denied")

    def test_credentials_of_an_address_are_never_shown(
        self, ada: Clone, one: Home, refusing: int
    ) -> None:
        address = f"http://ada:hunter22secret@127.0.0.1:{refusing}/team.git"
        ada.repository.git("remote", "set-url", "origin", address)
        answer = ada.memory("sync", "--remote", "--domain", "project")
        assert_refused(answer, NETWORK, "origin")
        answer = ada.memory(
            *("sync", "--remote", "--domain", "project"), env={"memories.remote": address}
        )
        assert_refused(answer, NETWORK)
        assert "hunter22" not in answer.errors + one.log()
        files = [path for path in one.data.rglob("*") if path.is_file()]
        assert [path for path in files if b"hunter22" in path.read_bytes()] == []

    def test_a_push_that_someone_else_overtakes_is_tried_again(
        self, ada: Clone, bob: Clone, remote: Repository
    ) -> None:
        names = captured(bob, "Overtakes")
        bob.sync()
        bob.repository.git("push", "--quiet", "origin", f"{OURS}decisions:refs/heads/side")
        hook = remote.folder / "hooks/pre-receive"
        hook.write_text(
            "#!/bin/sh\n"
            "test -e overtaken && exit 0\n"
            "touch overtaken\n"
            f"env -u GIT_QUARANTINE_PATH git update-ref {OURS}decisions refs/heads/side\n"
        )
        hook.chmod(0o755)
        names += captured(ada, "Is overtaken")
        ada.sync("--push", env=route_over_ssh(ada.repository, remote))
        assert (remote.folder / "overtaken").exists()
        assert noted(remote).keys() == set(names)
        assert ada.exported().keys() == set(names)
        bob.sync("--remote")
        assert_level(ada, bob)


class TestTheUsersRepository:
    def test_a_sync_leaves_all_else_as_it_is(self, ada: Clone, bob: Clone) -> None:
        repository = ada.repository
        git = repository.folder / ".git"
        (repository.folder / "file.txt").write_text("one\n")
        repository.git("add", "file.txt")
        repository.commit("a file")
        (repository.folder / "file.txt").write_text("two\n")
        repository.git("stash", "push", "--quiet")
        (repository.folder / "file.txt").write_text("three\n")
        repository.git("add", "file.txt")
        (repository.folder / "file.txt").write_text("four\n")
        (repository.folder / "other.txt").write_text("untracked\n")
        repository.git("tag", "v1")
        bob.repository.commit("not to be fetched")
        bob.repository.git("push", "--quiet", "origin", "main")
        bob.repository.git("push", "--quiet", "origin", "main:refs/tags/v2")
        ran = repository.folder.with_suffix(".ran")
        for name in ("pre-push", "reference-transaction", "post-checkout", "pre-commit"):
            hook = git / "hooks" / name
            hook.write_text(f"#!/bin/sh\necho {name} >> {ran}\nexit 1\n")
            hook.chmod(0o755)
        (git / "FETCH_HEAD").write_text("as it was\n")
        captured(bob, "Theirs")
        bob.sync("--remote")
        before = _files(repository.folder)
        refs = repository.refs()
        captured(ada, "Ours")
        ada.sync("--remote")
        ada.memory.text("recall", "theirs")
        after = _files(repository.folder)
        assert before.items() <= after.items()
        new = {path for path in after.keys() - before.keys() if "objects" not in path.parts}
        assert all("notes" in path.parts for path in new), new
        assert repository.refs().keys() - refs.keys() == {
            "refs/notes/mem/decisions",
            "refs/notes/origin/mem/decisions",
        }
        assert refs.items() <= repository.refs().items()
        assert not ran.exists()


def _files(folder: Path) -> dict[Path, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder): path.read_bytes() for path in found}
