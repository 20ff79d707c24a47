"""`memory import`, `export` and `migrate`: all memories arrive complete, and only once."""

import json
import random
import string
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests import git_repositories
from tests.command_runner import Home, wait_until
from tests.git_repositories import Repository
from tests.memory_commands import INVALID, OK, USAGE, MemoryCommand, assert_refused

FORMATS = ("yaml", "json", "jsonl", "markdown")
_letters = random.Random(13)  # made here, so that no scanner trips over this file
_numbers = count()
TOKEN = "ghp_" + "".join(_letters.choices(string.ascii_letters + string.digits, k=36))
PRIVATE_KEY = "\n".join(
    (
        f"-----BEGIN {'RSA'} PRIVATE KEY-----",
        *("".join(_letters.choices(string.ascii_letters, k=64)) for _ in range(12)),
        f"-----END {'RSA'} PRIVATE KEY-----",
    )
)
NASTY = (
    "---\nnamespace: decisions\nsummary: not one of its own\n---\n\n"
    "## Heading\n\n```yaml\n- a: [1, 2]\n```\ttab, \u2013 dash, \U0001f418\n"
    "'quotes' \"and\" #hash\n"
    "trailing blank \n\n\n"
)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture(scope="module")
def fresh() -> Iterator[Home]:
    """The home of another machine."""
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture
def repository(home: Home) -> Repository:
    return git_repositories.make_repository(home.work / f"app{next(_numbers)}")


@pytest.fixture
def memory(home: Home, repository: Repository) -> MemoryCommand:
    return MemoryCommand(home, repository.folder)


@pytest.fixture
def elsewhere(fresh: Home) -> MemoryCommand:
    """Return the command in a project on another machine."""
    return MemoryCommand(
        fresh, git_repositories.make_repository(fresh.work / f"app{next(_numbers)}").folder
    )


def told(memory: MemoryCommand, *words: str, given: bytes = b"") -> dict[str, Any]:
    """Import, and return the JSON output."""
    answer = memory("import", *words, "--output", "json", given=given)
    assert answer.code == OK, answer
    found: dict[str, Any] = answer.json()
    return found


def said(memory: MemoryCommand) -> list[dict[str, Any]]:
    """Return all fields of the project's memories that a file holds, oldest first."""
    found = []
    for name in memory.list_ids("--status", "all"):
        shown = memory.show(name)
        found.append(
            {
                key: shown[key]
                for key in (
                    *("id", "namespace", "summary", "content", "timestamp", "spec", "tags"),
                    *("relates_to", "status"),
                )
            }
        )
    return sorted(found, key=lambda each: (each["timestamp"], each["id"]))


def filled(memory: MemoryCommand) -> list[dict[str, Any]]:
    one = memory.capture("decisions", "Use: 'PostgreSQL' # 17", "--tags", "db,a b", "--spec", "x")
    memory.capture("learnings", "[not, a list]", "--stdin", given=NASTY.encode())
    memory.capture("blockers", "2026-01-30", "--relates-to", one, "--content", "no newline")
    memory.capture("blockers", "null", "--content", "\n\nlines before")
    done = memory.capture("progress", "Done")
    memory.text("resolve", done)
    old = memory.capture("progress", "Put away")
    memory.text("archive", old)
    return said(memory)


class TestRoundTrip:
    @pytest.mark.parametrize("format_", FORMATS)
    def test_every_format_carries_everything_to_another_machine(
        self, memory: MemoryCommand, elsewhere: MemoryCommand, format_: str
    ) -> None:
        before = filled(memory)
        words = ("--domain", "project", "--include-archived", "--format", format_)
        written = memory("export", *words)
        assert (written.code, written.errors) == (OK, "")
        first = told(elsewhere, "--from-format", format_, given=written.out)
        assert (first["captured"], first["skipped"], first["refused"]) == (6, 0, [])
        assert said(elsewhere) == before
        again = told(elsewhere, "--from-format", format_, given=written.out)
        assert (again["captured"], again["skipped"]) == (0, 6)
        assert said(elsewhere) == before
        guessed = told(elsewhere, given=written.out)
        assert (guessed["captured"], guessed["skipped"]) == (0, 6)

    @pytest.mark.parametrize(
        ("name", "begin"),
        [("m.yaml", b"memories:"), ("m.json", b'{"memories"'), ("m.jsonl", b'{"id"'),
         ("m.md", b"---\n"), ("memories", b"memories:")],
    )  # fmt: skip
    def test_a_file_tells_its_format_by_its_name(
        self, memory: MemoryCommand, tmp_path: Path, name: str, begin: bytes
    ) -> None:
        memory.capture("decisions", "One", "--content", "two\nlines")
        memory.capture("decisions", "Two")
        path = tmp_path / name
        answer = memory("export", "--domain", "project", "-o", str(path))
        assert (answer.code, answer.text) == (OK, "")
        assert f"2 memories written to {path}" in answer.errors
        assert path.read_bytes().startswith(begin)
        into = f"app{next(_numbers)}"
        other = MemoryCommand(
            memory.home, git_repositories.make_repository(memory.home.work / into).folder
        )
        assert told(other, str(path))["captured"] == 2
        assert other.list_ids() == memory.list_ids()

    def test_into_another_domain(self, memory: MemoryCommand) -> None:
        name = memory.capture("patterns", f"Pattern of {memory.folder.name}")
        written = memory("export", "--domain", "project")
        found = told(memory, "--domain", "user", given=written.out)
        assert found["memory_ids"] == [name]
        uri = f"subcog://user/{name.replace(':', '/', 1)}"
        assert memory.show(uri)["domain"] == "user"
        assert memory.show(name)["domain"] == f"project:{memory.folder.name}"

    def test_what_recall_tells_in_full_can_be_imported(
        self, memory: MemoryCommand, elsewhere: MemoryCommand
    ) -> None:
        name = memory.capture("decisions", "Use PostgreSQL", "--content", "It has JSONB.")
        words = ("recall", "all", "--domain", "project", "--format", "json", "--detail")
        found = told(elsewhere, given=memory(*words, "full").out)
        assert found["memory_ids"] == [name]
        answer = elsewhere("import", given=memory(*words, "summary").out)
        assert answer.code == INVALID
        assert "record 1: the content is missing" in answer.errors

    def test_an_export_is_filtered(self, memory: MemoryCommand) -> None:
        filled(memory)
        text = memory.text("export", "--domain", "project", "--namespace", "progress")
        assert ("Done" in text, "Put away" in text, "PostgreSQL" in text) == (True, False, False)
        assert memory.text("export", "--domain", "project", "--namespace", "reviews") == (
            "memories: []\n"
        )


class TestDomains:
    def test_what_is_the_users_stays_so_and_other_projects_are_told_of(
        self, fresh: Home, memory: MemoryCommand
    ) -> None:
        words = f"Mine alone {next(_numbers)}"
        memory.capture("patterns", words, "--domain", "user")
        memory.capture("decisions", f"Ours {words}")
        exported = memory.text("export", "--format", "json").encode()
        other = MemoryCommand(
            fresh, git_repositories.make_repository(fresh.work / f"other{next(_numbers)}").folder
        )
        answer = other("import", "--from-format", "json", given=exported)
        assert answer.code == OK
        assert f"go to project:{other.folder.name}" in answer.errors
        mine = other.json("list", "--domain", "user")["memories"]
        assert words in {each["summary"] for each in mine}
        ours = {each["summary"] for each in other.json("list", "--domain", "project")["memories"]}
        assert f"Ours {words}" in ours
        assert words not in ours


class TestExport:
    def test_a_file_is_not_overwritten(self, memory: MemoryCommand, tmp_path: Path) -> None:
        memory.capture("decisions", "One")
        path = tmp_path / "kept.yaml"
        path.write_text("precious")
        assert_refused(memory("export", "-o", str(path)), INVALID, str(path), "exists")
        assert path.read_text() == "precious"
        nowhere = tmp_path / "no/such/folder/m.yaml"
        assert_refused(memory("export", "-o", str(nowhere)), INVALID, str(nowhere))

    def test_a_path_is_relative_to_the_caller(self, memory: MemoryCommand) -> None:
        memory.capture("decisions", "One")
        assert memory("export", "-o", "here.json", "--domain", "project").code == OK
        assert json.loads((memory.folder / "here.json").read_text())["memories"]
        assert told(memory, "here.json")["skipped"] == 1


class TestImport:
    def test_a_dry_run_changes_nothing(self, memory: MemoryCommand, repository: Repository) -> None:
        known = memory.capture("decisions", "Known")
        memory.text("sync", "--domain", "project")
        before = repository.refs()
        given = b"- {namespace: decisions, summary: Known}\n- {namespace: decisions, summary: New}"
        found = told(memory, "--dry-run", given=given)
        assert (found["dry_run"], found["captured"], found["skipped"]) == (True, 1, 1)
        answer = memory("import", "--dry-run", given=given)
        assert answer.text == "✓ Would capture 1 memory, skipped 1 that already exist\n"
        memory.text("sync", "--domain", "project")
        assert repository.refs() == before
        assert memory.list_ids() == [known]
        answer = memory("import", given=given)
        assert answer.text == "✓ Captured 1 memory, skipped 1 that already exist\n"
        (name,) = told(memory, given=given.replace(b"New", b"Newer"))["memory_ids"]
        assert name in memory.list_ids()

    def test_what_was_imported_is_found_and_noted(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        given = b"## The axolotl grows back\n\nIts legs, too.\n"
        (name,) = told(memory, "--namespace", "learnings", given=given)["memory_ids"]
        assert memory.recall_ids("axolotl") == [name]
        wait_until(
            lambda: (
                "refs/notes/mem/learnings" in repository.refs()
                and name.encode() in repository.note("learnings")
            ),
            "the note is written",
        )

    def test_bad_records_are_told_of_and_the_good_ones_kept(self, memory: MemoryCommand) -> None:
        records = [
            {"namespace": "decisions", "summary": "Good"},
            {"namespace": "decisions", "summary": "x" * 101},
            {"namespace": "nonsense", "summary": "Bad namespace"},
            {"summary": "No namespace"},
            {"namespace": "decisions", "summary": "A key", "content": PRIVATE_KEY},
            {"namespace": "decisions", "summary": "Also good"},
        ]
        given = "\n".join(map(json.dumps, records)).encode() + b"\n{broken\n"
        answer = memory("import", "--output", "json", given=given)
        assert answer.code == INVALID
        found = answer.json()
        assert (found["success"], found["captured"]) == (False, 2)
        places = [each.partition(":")[0] for each in found["refused"]]
        assert sorted(places) == ["line 2", "line 3", "line 4", "line 7", "record 5"]
        assert all(f"warning: {each}\n" in answer.errors for each in found["refused"])
        error = json.loads(answer.errors.splitlines()[-1])["error"]
        assert error["message"] == "5 records could not be imported"
        assert PRIVATE_KEY.split("\n")[2] not in answer.errors + answer.text
        summaries = {memory.show(name)["summary"] for name in memory.list_ids()}
        assert summaries == {"Good", "Also good"}

    def test_in_lists_records_are_counted(self, memory: MemoryCommand) -> None:
        records = [
            {"summary": "No namespace"},
            {"namespace": "decisions", "summary": "Good"},
            {"namespace": "decisions", "summary": "A key", "content": PRIVATE_KEY},
        ]
        answer = memory("import", "--output", "json", given=json.dumps(records).encode())
        assert answer.code == INVALID
        places = [each.partition(":")[0] for each in answer.json()["refused"]]
        assert sorted(places) == ["record 1", "record 3"]

    @pytest.mark.parametrize(
        ("format_", "given", "words"),
        [
            ("json", b'{"memories": [', ("line 1",)),
            ("yaml", b"memories:\n  - a: [", ("line ",)),
            ("json", b"12", ("a number",)),
            ("yaml", b"caf\xe9: 1", ("UTF-8",)),
            ("markdown", b"no entries", ("## ",)),
        ],
    )
    def test_a_file_that_cannot_be_read_at_all(
        self, memory: MemoryCommand, format_: str, given: bytes, words: tuple[str, ...]
    ) -> None:
        assert_refused(memory("import", "--from-format", format_, given=given), INVALID, *words)

    def test_secrets_are_removed(self, memory: MemoryCommand) -> None:
        given = f'{{"namespace": "learnings", "summary": "Key", "content": "it is {TOKEN}"}}'
        (name,) = told(memory, given=given.encode())["memory_ids"]
        assert "[REDACTED:" in memory.show(name)["content"]

    def test_what_is_twice_in_a_file_is_one_memory(self, memory: MemoryCommand) -> None:
        given = b"- {namespace: decisions, summary: Twice}\n" * 2
        found = told(memory, given=given)
        assert (found["captured"], found["skipped"]) == (1, 1)

    def test_nothing_is_nothing(self, memory: MemoryCommand) -> None:
        for given in (b"", b"\n\n", b"[]"):
            found = told(memory, given=given)
            assert (found["captured"], found["skipped"], found["refused"]) == (0, 0, [])

    def test_a_file_that_is_not_there(self, memory: MemoryCommand) -> None:
        answer = memory("import", "no-such.yaml")
        assert_refused(answer, INVALID, str(memory.folder / "no-such.yaml"))

    def test_an_unknown_format_is_refused(self, memory: MemoryCommand) -> None:
        assert_refused(memory("import", "--from-format", "xml", given=b"<a/>"), USAGE, "'jsonl'")
        assert_refused(memory("export", "--format", "text"), USAGE, "'jsonl'")

    def test_without_a_pipe_it_asks_for_a_file(self, home: Home) -> None:
        with home.on_terminal("memory", "import") as screen:
            assert screen.finish() == USAGE
            assert "FILE" in screen.text

    def test_quiet_it_names_what_is_new(self, memory: MemoryCommand) -> None:
        given = b"- {namespace: decisions, summary: Hush}"
        answer = memory("import", "--output", "quiet", given=given)
        assert answer.text.split() == memory.list_ids()


FIRST = """\
---
type: decisions
timestamp: '2025-11-03T08:15:30.004512+00:00'
summary: 'Queue: keep retries in the worker'
---

Retries stay local to the worker.
"""
SECOND = """\
---
type: decisions
timestamp: '2025-11-03T09:00:00.100000+00:00'
summary: Build host runs out of inodes when two nightly jobs overlap on the same
  volume
spec: nightly
status: resolved
tags:
- ci
- build hosts
relates_to:
- decisions:1a2b3c4:0
---

Cause found.

---

A rule, and not an entry.
"""
THIRD = """\
---
type: decisions
timestamp: '2025-11-04T09:00:00.200000+00:00'
summary: Second one, no body
---
"""


class TestMigrate:
    def noted(self, repository: Repository) -> None:
        """The earlier tool writes three entries into a note, and two of them again into a copy."""
        for entry in (FIRST, SECOND, THIRD):
            words = ("notes", "--ref=mem/decisions", "append", "-F", "-")
            repository.raw(*words, given=entry.encode())
        first = repository.head
        repository.commit("rewritten")
        repository.git("notes", "--ref=mem/decisions", "copy", first, "HEAD")
        repository.git("notes", "--ref=commits", "add", "-m", "of a person")

    def test_memories_of_an_earlier_layout_are_taken_over(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        self.noted(repository)
        refs = repository.refs()
        found = memory.json("migrate", "--dry-run")
        assert (found["dry_run"], found["captured"]) == (True, 3)
        assert memory.list_ids() == []
        assert repository.refs() == refs
        found = memory.json("migrate")
        assert (found["captured"], found["refused"]) == (3, [])
        third, second, first = [memory.show(name) for name in memory.list_ids("--status", "all")]
        assert first["summary"] == "Queue: keep retries in the worker"
        assert first["content"] == "Retries stay local to the worker."
        assert first["timestamp"] == "2025-11-03T08:15:30.004+00:00"
        assert second["summary"] == (
            "Build host runs out of inodes when two nightly jobs overlap on the same volume"
        )
        assert (second["spec"], second["status"]) == ("nightly", "resolved")
        assert second["tags"] == ["build hosts", "ci"]
        assert second["relates_to"] == ["decisions:1a2b3c4:0"]
        assert second["content"] == "Cause found.\n\n---\n\nA rule, and not an entry."
        assert (third["summary"], third["content"]) == ("Second one, no body", "")

    def test_the_old_notes_stay_and_nothing_is_taken_twice(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        self.noted(repository)
        before = repository.note()
        memory.text("migrate")
        answer = memory("sync", "--domain", "project")
        assert (answer.code, answer.errors) == (OK, "")
        assert memory("status", "--domain", "project", "--verify").code == OK
        assert before.rstrip() in repository.note()
        person = repository.raw("notes", "--ref=commits", "show")
        assert person == b"of a person\n"
        found = memory.json("migrate")
        assert (found["captured"], found["skipped"]) == (0, 3)
        assert memory.recall_ids("inodes") == memory.list_ids("--spec", "nightly")

    def test_with_nothing_to_take_over(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "Of today")
        memory.text("sync", "--domain", "project")
        found = memory.json("migrate")
        assert (found["captured"], found["refused"]) == (0, [])
        assert memory.recall_ids("today") == [name]

    def test_before_it_a_sync_says_what_to_do(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        self.noted(repository)
        answer = memory("sync", "--domain", "project")
        assert answer.code == OK
        assert "memory migrate" in answer.errors
