"""The `memory` commands: capture, recall, edit, list, status and their exit codes."""

import random
import re
import string
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import yaml

from agent_memory.features.recall.model.contexts import UNCONFIRMED
from tests import git_repositories
from tests.command_runner import Home, wait_until
from tests.contract.scripted_llm import Reply, ScriptedLlm, completion, error, scripted
from tests.git_repositories import Repository
from tests.memory_client import message
from tests.memory_commands import (
    BLOCKED,
    CONFIG,
    GENERAL,
    INVALID,
    LLM,
    MISSING,
    NETWORK,
    OK,
    STORAGE,
    USAGE,
    MemoryCommand,
    assert_refused,
)
from tests.search_client import connect, count_waiting

ID = r"decisions:[0-9a-f]{12}:0"
_letters = random.Random(11)  # generated, so that no secret scanner reports this file
_numbers = count()


def generate(length: int, alphabet: str) -> str:
    return "".join(_letters.choices(alphabet, k=length))


AWS_KEY = "AKIA" + generate(16, string.ascii_uppercase + "234567")
PRIVATE_KEY = "\n".join(
    (
        f"-----BEGIN {'RSA'} PRIVATE KEY-----",
        *(generate(64, string.ascii_letters + string.digits) for _ in range(12)),
        f"-----END {'RSA'} PRIVATE KEY-----",
    )
)
COMMANDS = (
    *("capture", "recall", "show", "list", "edit", "resolve", "archive", "review"),
    *("status", "sync", "consolidate", "import", "export", "migrate"),
)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture
def repository(home: Home) -> Repository:
    """A repository for one test, with a commit."""
    return git_repositories.make_repository(home.work / f"app{next(_numbers)}")


@pytest.fixture
def memory(home: Home, repository: Repository) -> MemoryCommand:
    return MemoryCommand(home, repository.folder)


@pytest.fixture(scope="module")
def counted() -> Iterator[MemoryCommand]:
    """The command in a new home with five memories."""
    with Home() as home:
        home.serve()
        here = MemoryCommand(home, git_repositories.make_repository(home.work / "app").folder)
        for number in range(3):
            here.capture("decisions", f"Decision {number}")
        here.capture("learnings", "Learning")
        here.capture("patterns", "Pattern", "--domain", "user")
        here.text("sync")
        yield here


@pytest.fixture(scope="module")
def llm() -> Iterator[ScriptedLlm]:
    """Serve a model whose answers tests add to its script."""
    with scripted() as found:
        yield found


@pytest.fixture(scope="module")
def reasoning(llm: ScriptedLlm) -> Iterator[MemoryCommand]:
    """The command in a home whose daemon has a model."""
    with with_llm(llm.url) as home:
        home.serve()
        memory = MemoryCommand(home, git_repositories.make_repository(home.work / "app").folder)
        record = (
            b'{"namespace": "decisions", "summary": "Use PostgreSQL for the data layer",'
            b' "content": "Decided yesterday.", "timestamp": "2026-01-30T10:00:00Z"}'
        )
        memory.text("import", "--format", "jsonl", given=record)
        yield memory


@pytest.fixture(scope="module")
def other_machine() -> Iterator[Home]:
    """The command in a home whose daemon has a model that does not answer."""
    with with_llm("http://127.0.0.1:1") as home:
        yield home


def with_llm(url: str) -> Home:
    home = Home()
    home.settings |= {
        "summarizer.provider": "openai",
        "summarizer.base_url": url,
        "summarizer.model": "scripted",
    }
    return home


def with_note(repository: Repository, text: str, namespace: str = "decisions") -> None:
    """Wait until a note of the current commit contains a text."""
    wait_until(
        lambda: (
            repository.succeeds("notes", f"--ref=mem/{namespace}", "show")
            and text.encode() in repository.note(namespace)
        ),
        "the note is written",
    )


class TestCapture:
    def test_it_tells_name_domain_and_uri(self, memory: MemoryCommand) -> None:
        answer = memory("capture", "decisions", "Use PostgreSQL for data layer")
        assert (answer.code, answer.errors) == (OK, "")
        name = memory.folder.name
        assert re.fullmatch(
            rf"✓ Captured memory: decisions:(?P<hex>[0-9a-f]{{12}}):0\n"
            rf"  Domain: project\n"
            rf"  URI: subcog://project:{name}/decisions/(?P=hex):0\n",
            answer.text,
        )

    def test_as_json_it_has_the_keys_of_the_specification(self, memory: MemoryCommand) -> None:
        told = memory.json("capture", "decisions", "Use PostgreSQL for data layer")
        assert re.fullmatch(ID, told["memory_id"])
        name = told["memory_id"].removeprefix("decisions:")
        assert told == {
            "success": True,
            "memory_id": told["memory_id"],
            "uri": f"subcog://project:{memory.folder.name}/decisions/{name}",
            "namespace": "decisions",
            "domain": f"project:{memory.folder.name}",
            "indexed": True,
            "created": True,
            "warning": None,
            "change": told["change"],
        }

    def test_in_other_formats_it_tells_the_same(self, memory: MemoryCommand) -> None:
        words = ("capture", "decisions")
        told = yaml.safe_load(memory.text(*words, "As YAML", "--format", "yaml"))
        assert (told["success"], told["warning"]) == (True, None)
        told = memory.text(*words, "For a script", "--format", "quiet")
        assert re.fullmatch(ID + "\n", told)
        assert re.fullmatch(ID + "\n", memory.text("-q", *words, "For a quiet one"))
        assert memory.text(*words, "As markdown", "--format", "markdown").startswith("✓ Captured")

    def test_the_content_comes_from_a_pipe_as_it_is(self, memory: MemoryCommand) -> None:
        content = "## Context\n\n---\nkey: value\n---\r\nWe need JSONB \u2013 \U0001f418…\n\n"
        name = memory.capture("decisions", "Use JSONB", "--stdin", given=content.encode())
        shown = memory.show(name)
        assert (shown["summary"], shown["content"]) == ("Use JSONB", content)

    def test_the_content_is_an_option_too(self, memory: MemoryCommand) -> None:
        name = memory.capture("learnings", "Lifetimes", "--content", "## Key Insight\n...")
        assert memory.show(name)["content"] == "## Key Insight\n..."

    def test_content_and_pipe_together_are_refused(self, memory: MemoryCommand) -> None:
        words = ("capture", "decisions", "Twice", "--stdin", "--content", "x")
        assert_refused(memory(*words, given=b"y"), USAGE, "--stdin", "--content")
        assert memory.list_ids() == []

    def test_a_pipe_that_is_no_text_is_refused(self, memory: MemoryCommand) -> None:
        answer = memory("capture", "decisions", "Bytes", "--stdin", given=b"caf\xe9")
        assert_refused(answer, INVALID, "UTF-8", "byte 3")

    def test_arguments_that_are_no_text_are_refused(self, memory: MemoryCommand) -> None:
        assert_refused(memory("capture", "decisions", b"caf\xe9"), INVALID, "UTF-8")
        words = ("capture", "decisions", "Bytes", "--content", b"caf\xe9")
        assert_refused(memory(*words), INVALID, "UTF-8")

    @pytest.mark.parametrize("size", [100 * 1024, 100 * 1024 + 1])
    def test_content_has_a_limit(self, memory: MemoryCommand, size: int) -> None:
        answer = memory("capture", "decisions", "Long", "--stdin", given=b"word " * 20_480 + b"x")
        assert_refused(answer, INVALID, "102,400")
        given = (b"word " * 21_000)[:size]
        answer = memory("capture", "decisions", "Long", "--stdin", given=given)
        assert answer.code == (OK if size == 100 * 1024 else INVALID)

    def test_a_summary_has_a_limit(self, memory: MemoryCommand) -> None:
        assert memory("capture", "decisions", "\U0001f418" * 100).code == OK
        answer = memory("capture", "decisions", "x" * 101)
        assert_refused(answer, INVALID, "101 characters", "limit is 100", "content")

    @pytest.mark.parametrize("summary", ["", "   ", "two\nlines", "bell\x07"])
    def test_a_summary_is_one_line(self, memory: MemoryCommand, summary: str) -> None:
        assert_refused(memory("capture", "decisions", summary), INVALID, "summary")

    def test_an_unknown_namespace_is_refused_with_the_choices(self, memory: MemoryCommand) -> None:
        answer = memory("capture", "decison", "x")
        assert_refused(answer, USAGE, "'decisions'", "'retrospective'", "did you mean 'decisions'?")
        assert "did you mean" not in memory("capture", "xyzzy", "x").errors

    def test_outside_a_repository_it_says_where_the_memory_is(
        self, home: Home, memory: MemoryCommand
    ) -> None:
        folder = home.work / f"plain{next(_numbers)}"
        folder.mkdir()
        answer = MemoryCommand(home, folder)("capture", "decisions", "Use no git")
        assert answer.code == OK
        assert "note: this folder is not in a git repository" in answer.errors
        assert "only if you share this folder" in answer.errors
        assert "git repository" not in memory("capture", "decisions", "Use git").errors

    def test_tags_are_a_list_with_commas_or_repeated(self, memory: MemoryCommand) -> None:
        words = ("--tags", "api, versioning,", "--tags", "breaking changes", "--tags", "api")
        name = memory.capture("decisions", "API versioning", "--spec", "feature-api", *words)
        shown = memory.show(name)
        assert shown["tags"] == ["api", "breaking changes", "versioning"]
        assert shown["spec"] == "feature-api"

    def test_the_same_twice_is_one_memory(self, memory: MemoryCommand) -> None:
        words = ("capture", "decisions", "Once", "--content", "and for all")
        first = memory.json(*words, "--tags", "a")
        answer = memory(*words, "--tags", "a", "--format", "json")
        again = answer.json()
        assert (again["memory_id"], again["uri"]) == (first["memory_id"], first["uri"])
        assert (again["success"], again["created"]) == (True, False)
        assert "already captured" in again["warning"]
        assert answer.errors == f"warning: {again['warning']}\n"
        tagged = memory.json(*words, "--tags", "b")
        assert "tags" in tagged["warning"]
        assert memory.show(first["memory_id"])["tags"] == ["a", "b"]
        assert memory.text(*words).startswith("✓ Already captured: ")
        assert memory.list_ids() == [first["memory_id"]]

    def test_other_content_or_another_spec_is_another_memory(self, memory: MemoryCommand) -> None:
        words = ("decisions", "The same words")
        names = {
            memory.capture(*words),
            memory.capture(*words, "--content", "x"),
            memory.capture(*words, "--spec", "x"),
        }
        assert len(names) == 3

    def test_an_archived_one_is_active_again(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "Back again")
        memory.text("archive", name)
        told = memory.json("capture", "decisions", "Back again")
        assert (told["memory_id"], told["created"]) == (name, False)
        assert "active again" in told["warning"]
        assert memory.show(name)["status"] == "active"

    def test_into_the_users_own_domain(self, memory: MemoryCommand) -> None:
        answer = memory("capture", "patterns", f"Pattern {memory.folder.name}", "--domain", "user")
        assert "\n  Domain: user\n  URI: subcog://user/patterns/" in answer.text
        assert memory.list_ids() == []

    def test_into_another_project_by_its_name(self, memory: MemoryCommand, home: Home) -> None:
        elsewhere = git_repositories.make_repository(home.work / f"app{next(_numbers)}")
        other = MemoryCommand(home, elsewhere.folder)
        other.capture("progress", "First")
        domain = f"project:{elsewhere.folder.name}"
        told = memory.json("capture", "decisions", "For the other one", "--domain", domain)
        assert told["uri"].startswith(f"subcog://{domain}/decisions/")
        assert other.recall_ids("--namespace", "decisions") == [told["memory_id"]]
        assert memory.list_ids() == []
        with_note(elsewhere, told["memory_id"])

    @pytest.mark.parametrize(
        ("domain", "code", "word"),
        [
            ("project:nowhere-at-all", INVALID, "no project 'nowhere-at-all'"),
            ("projects", INVALID, "'projects'"),
            ("all", INVALID, "'all'"),
            ("project:", INVALID, "'project:'"),
            ("org", CONFIG, "memories.org"),
            ("org:acme", CONFIG, "memories.org"),
        ],
    )
    def test_a_domain_that_is_none(
        self, memory: MemoryCommand, domain: str, code: int, word: str
    ) -> None:
        answer = memory("capture", "decisions", "Nowhere", "--domain", domain)
        assert_refused(answer, code, word)

    def test_what_it_relates_to_is_told_of_where_it_is_missing(self, memory: MemoryCommand) -> None:
        known = memory.capture("decisions", "The ground")
        told = memory.json("capture", "decisions", "The wall", "--relates-to", known)
        assert told["warning"] is None
        words = ("--relates-to", f"{known},decisions:abc1234:0")
        told = memory.json("capture", "decisions", "The roof", *words)
        assert "related memories not found: decisions:abc1234:0" in told["warning"]
        assert memory.show(told["memory_id"])["relates_to"] == [known, "decisions:abc1234:0"]
        answer = memory("capture", "decisions", "The door", "--relates-to", "the wall")
        assert_refused(answer, INVALID, "'the wall'", "decisions:abc1234:0")

    def test_an_event_links_it_to_its_conversation(self, memory: MemoryCommand, home: Home) -> None:
        event_id = f"event-{next(_numbers)}"
        with connect(home) as client:
            client.ingest(message(event_id, 1_772_000_000_000, "Hm.", session_id="the-session"))
        name = memory.capture("decisions", "As was said", "--event", event_id)
        shown = memory.show(name)
        assert (shown["event_id"], shown["session_id"]) == (event_id, "the-session")
        answer = memory("capture", "decisions", "As was not said", "--event", "no-such-event")
        assert_refused(answer, INVALID, "no event 'no-such-event'")

    def test_a_secret_is_redacted_and_in_no_file(
        self, memory: MemoryCommand, home: Home, repository: Repository
    ) -> None:
        words = ("--content", f"the key is {AWS_KEY}", "--tags", AWS_KEY, "--spec", AWS_KEY)
        told = memory.json("capture", "learnings", f"Key {AWS_KEY}", *words)
        assert "secret" in told["warning"]
        shown = memory.show(told["memory_id"])
        assert "[REDACTED:" in shown["summary"]
        assert "[REDACTED:" in shown["content"]
        memory.text("edit", told["memory_id"], "--content", f"still {AWS_KEY}")
        memory.text("recall", "key", "--domain", "project")
        memory.text("sync")
        assert AWS_KEY.encode() not in repository.objects()
        for folder in (home.data, home.folder / "config", home.folder / "cache", memory.folder):
            for path in folder.rglob("*"):
                assert not path.is_file() or AWS_KEY.encode() not in path.read_bytes(), path

    def test_a_private_key_is_blocked(self, memory: MemoryCommand) -> None:
        answer = memory("capture", "learnings", "Key", "--stdin", given=PRIVATE_KEY.encode())
        assert_refused(answer, BLOCKED, "private")
        assert PRIVATE_KEY.split("\n")[3] not in answer.errors
        name = memory.capture("learnings", "No key")
        answer = memory("edit", name, "--content", PRIVATE_KEY)
        assert_refused(answer, BLOCKED)
        assert memory.show(name)["status"] == "active"

    def test_the_note_is_on_the_present_commit(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        name = memory.capture("decisions", "Noted", "--content", "why")
        with_note(repository, name)
        assert memory.show(name)["commit"] == repository.head
        repository.commit()
        other = memory.capture("decisions", "Noted later")
        with_note(repository, other)
        assert name.encode() not in repository.note()


class TestRecall:
    def test_it_is_told_as_in_the_specification(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "Use PostgreSQL", "--tags", "database,architecture")
        memory.capture("decisions", "Bake bread on Sundays")
        uri = f"subcog://project:{memory.folder.name}/{name.replace(':', '/', 1)}"
        text = memory.text("recall", "PostgreSQL", "--domain", "project", "--mode", "bm25")
        assert re.fullmatch(
            rf"Found 1 memory:\n\n\[1\] {name} \(0\.\d\d similarity\)\n"
            rf"    Use PostgreSQL\n"
            rf"    \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC \| active \| Project: {memory.folder.name}"
            rf" \| Domain: project \| Tags: architecture, database\n"
            rf"    URI: {uri}\n",
            text,
        )
        memory.capture("learnings", "PostgreSQL JSONB performs well")
        text = memory.text("recall", "PostgreSQL", "--domain", "project", "--mode", "bm25")
        assert text.startswith("Found 2 memories:\n\n[1] ")
        assert "\n\n[2] " in text
        text = memory.text("recall", "postgresql", "--domain", "project", "--detail", "minimal")
        assert "URI" not in text

    def test_content_that_answers_is_shown_below_the_summary(self, memory: MemoryCommand) -> None:
        content = "The weather was fine. " * 40 + "We chose it for JSONB. " + "All agreed. " * 40
        memory.capture("decisions", "Use PostgreSQL", "--content", content)
        text = memory.text("recall", "PostgreSQL JSONB", "--domain", "project", "--mode", "bm25")
        assert re.search(
            r"\n    Use PostgreSQL\n    \.\.\. The .* We chose it for JSONB\. .*\.\.\.\n",
            text,
        )
        (found,) = memory.json("recall", "JSONB", "--domain", "project")["results"]
        passage = found["passage"]
        assert content[passage["start"] : passage["end"]] == passage["text"]
        assert [passage["text"][start:end] for start, end in passage["marks"]] == ["JSONB"]

    def test_as_json_each_result_is_whole(self, memory: MemoryCommand) -> None:
        words = ("--tags", "db", "--spec", "storage", "--content", "It has JSONB.")
        name = memory.capture("decisions", "Use PostgreSQL", *words)
        found = memory.json("recall", "postgresql", "--domain", "project", "--mode", "bm25")
        (result,) = found["results"]
        assert (found["total"], found["warning"]) == (1, None)
        assert 0 < result.pop("score") <= 1
        shown = memory.show(name)
        assert result == {
            "kind": "memory",
            "id": name,
            "uri": shown["uri"],
            "summary": "Use PostgreSQL",
            "origin": "local",
            "person": None,
            "timestamp": shown["timestamp"],
            "timestamp_ms": shown["timestamp_ms"],
            "namespace": "decisions",
            "domain": f"project:{memory.folder.name}",
            "tags": ["db"],
            "spec": "storage",
            "status": "active",
            "relates_to": [],
            "passage": None,
            "event_id": None,
        }
        asked = ("recall", "postgresql", "--domain", "project", "--detail")
        assert memory.json(*asked, "full")["results"][0]["content"] == "It has JSONB."
        assert set(memory.json(*asked, "minimal")["results"][0]) == {
            *("kind", "id", "uri", "score", "summary", "timestamp", "origin", "person")
        }

    def test_filters(self, memory: MemoryCommand) -> None:
        one = memory.capture("decisions", "Otter one", "--tags", "a,b", "--spec", "x")
        two = memory.capture("learnings", "Otter two", "--tags", "b", "--spec", "y")
        for query in (("otter",), ()):
            assert set(memory.recall_ids(*query)) == {one, two}
            assert memory.recall_ids(*query, "--namespace", "learnings") == [two]
            assert set(memory.recall_ids(*query, "--tags", "b")) == {one, two}
            assert memory.recall_ids(*query, "--tags", "a,b") == [one]
            assert memory.recall_ids(*query, "--tags", "a", "--tags", "b") == [one]
            assert memory.recall_ids(*query, "--tags", "a,c") == []
            assert memory.recall_ids(*query, "--spec", "y") == [two]
            assert len(memory.recall_ids(*query, "--limit", "1")) == 1
        answer = memory("recall", "otter", "--namespace", "otters")
        assert_refused(answer, USAGE, "'learnings'")

    def test_project_is_that_of_the_folder(self, memory: MemoryCommand, home: Home) -> None:
        elsewhere = git_repositories.make_repository(home.work / f"app{next(_numbers)}")
        other = MemoryCommand(home, elsewhere.folder)
        mine = memory.capture("decisions", "Use wombats here")
        theirs = other.capture("decisions", "Use wombats there")
        own = memory.capture("decisions", "Use wombats anywhere", "--domain", "user")
        assert memory.recall_ids("wombats") == [mine]
        assert other.recall_ids("wombats") == [theirs]

        def found(*words: str) -> set[str]:
            return {each["id"] for each in memory.json("recall", "wombats", *words)["results"]}

        assert found() == found("--domain", "all") == {mine, theirs, own}
        assert found("--domain", "user") == {own}
        assert found("--domain", f"project:{other.folder.name}") == {theirs}

    def test_what_is_archived_is_found_only_if_asked_for(self, memory: MemoryCommand) -> None:
        old, new = (memory.capture("decisions", f"Pelican {word}") for word in ("old", "new"))
        memory.text("archive", old)
        assert memory.recall_ids("pelican") == memory.recall_ids() == [new]
        assert set(memory.recall_ids("pelican", "--include-archived")) == {old, new}
        assert set(memory.recall_ids("--include-archived")) == {old, new}

    def test_a_change_counts_at_once_also_of_what_is_indexed(
        self, memory: MemoryCommand, home: Home
    ) -> None:
        old = memory.capture("decisions", "The stork nests on the roof", "--tags", "bird")
        wait_until(lambda: count_waiting(home) == 0, "it is indexed")
        memory.text("archive", old)
        assert memory.recall_ids("stork") == memory.recall_ids() == []
        memory.text("archive", old, "--restore")
        wait_until(lambda: count_waiting(home) == 0, "it is indexed")
        new = memory.json("edit", old, "--summary", "The stork nests on the tower")["id"]
        assert memory.recall_ids("stork") == memory.recall_ids() == [new]
        memory.text("edit", new, "--tags", "tower")
        assert memory.recall_ids("stork", "--tags", "tower") == [new]

    def test_the_same_content_under_two_summaries_is_found_twice(
        self, memory: MemoryCommand
    ) -> None:
        content = ("--content", "A long explanation of how toucans keep their balance in the wind")
        names = {memory.capture("learnings", f"Toucans, {word}", *content) for word in "ab"}
        names.add(memory.capture("research", "Toucans, c", *content))
        assert set(memory.recall_ids("toucans")) == names

    def test_what_is_resolved_is_still_found(self, memory: MemoryCommand) -> None:
        name = memory.capture("blockers", "The heron blocks the door")
        memory.text("resolve", name)
        (result,) = memory.json("recall", "heron", "--domain", "project")["results"]
        assert (result["id"], result["status"]) == (name, "resolved")

    def test_a_tag_is_a_word_of_it(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "Use PostgreSQL for data layer", "--tags", "database")
        assert memory.recall_ids("which", "database") == [name]

    def test_a_least_similarity_cuts_on_the_score_shown(self, memory: MemoryCommand) -> None:
        memory.capture("decisions", "Kingfisher")
        memory.capture("decisions", "A kingfisher among very many other words about a river")
        words = ("recall", "kingfisher", "--domain", "project")
        better, worse = memory.json(*words)["results"]
        assert better["score"] > worse["score"]
        least = str((better["score"] + worse["score"]) / 2)
        (stored,) = memory.json(*words, "--min-similarity", least)["results"]
        assert stored["id"] == better["id"]

    def test_without_a_query_the_newest_come_first(self, memory: MemoryCommand) -> None:
        names = [memory.capture("progress", f"Step {number}") for number in range(12)]
        assert memory.recall_ids() == memory.recall_ids("all") == names[::-1]
        assert memory.list_ids() == names[::-1]
        assert memory.recall_ids("--limit", "3") == names[:-4:-1]
        assert len(memory.recall_ids("step")) == 10

    def test_everything_as_markdown(self, memory: MemoryCommand) -> None:
        memory.capture("decisions", "First", "--content", "one\n\n* two")
        memory.capture("decisions", "Second")
        words = ("recall", "all", "--limit", "100", "--format", "markdown", "--domain", "project")
        text = memory.text(*words)
        assert text.index("## Second\n") < text.index("## First\n")
        assert "\n\none\n\n* two\n" in text
        assert "Score" not in text

    def test_what_was_said_is_found_too(self, memory: MemoryCommand, home: Home) -> None:
        event_id = f"event-{next(_numbers)}"
        with connect(home) as client:
            client.ingest(message(event_id, 1_772_000_000_000, "The narwhal was said"))
        found = memory.json("recall", "narwhal")["results"]
        assert {each["event_id"] for each in found} == {event_id}  # and perhaps its segment
        for words in (("--in", "memories"), ("--domain", "project"), ("--namespace", "decisions")):
            assert memory.text("recall", "narwhal", *words) == "Found no memories.\n"
        listed = [*memory.json("recall")["results"], *memory.json("recall", "all")["results"]]
        assert {each["kind"] for each in listed} == {"memory"}

    def test_of_a_project_whose_repository_is_gone(self, memory: MemoryCommand, home: Home) -> None:
        gone = git_repositories.make_repository(home.work / f"app{next(_numbers)}")
        name = MemoryCommand(home, gone.folder).capture("decisions", "The ibis remembers")
        with_note(gone, name)
        gone.folder.rename(home.work / f"elsewhere{next(_numbers)}")
        domain = f"project:{gone.folder.name}"
        found = memory.json("recall", "ibis", "--domain", domain)["results"]
        assert [each["id"] for each in found] == [name]
        assert memory.json("list", "--domain", domain)["total"] == 1
        assert memory.json("status", "--domain", domain)["total"] == 1
        assert name in memory.text("export", "--domain", domain)


class TestShowAndList:
    def test_a_memory_has_several_names(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "Many names", "--content", "whole\ncontent\n")
        digits = name.split(":")[1]
        uri = f"subcog://project:{memory.folder.name}/decisions/{digits}:0"
        for each in (
            *(name, uri, uri.replace("project:", "project%3A"), digits[:4], digits),
            *(f"decisions:{digits[:6]}", digits.upper(), f"{digits}:0"),
        ):
            assert memory.show(each)["id"] == name, each
        shown = memory.show(name)
        assert set(shown) == {
            *("id", "uri", "namespace", "domain", "summary", "content", "timestamp"),
            *("timestamp_ms", "updated_at", "spec", "tags", "relates_to", "status", "commit"),
            *("superseded_by", "event_id", "session_id", "author", "agent", "interface"),
            *("tier", "activation_count", "last_accessed"),
        }
        text = memory.text("show", name)
        assert text.startswith(f"{name}\nMany names\n\nDomain: project:{memory.folder.name}\n")
        assert text.endswith(f"URI: {uri}\n\nwhole\ncontent\n")
        assert memory.text("show", name, "--format", "quiet") == "whole\ncontent\n\n"
        assert memory.text("show", name, "--format", "markdown").startswith("# Many names\n")

    def test_a_name_that_may_mean_several_is_refused(self, memory: MemoryCommand) -> None:
        seen: dict[str, str] = {}
        for number in range(1_000):  # of 65,536 beginnings, two meet before long
            digits = _digits("progress", f"Step {number}")
            if digits[:4] in seen:
                break
            seen[digits[:4]] = f"Step {number}"
        one = memory.capture("progress", seen[digits[:4]])
        two = memory.capture("progress", f"Step {number}")
        assert_refused(
            memory("show", digits[:4]),
            INVALID,
            "2 memories",
            *(n.split(":")[1] for n in (one, two)),
        )
        assert memory.show(one)["id"] == one

    @pytest.mark.parametrize(
        ("name", "code"),
        [
            ("decisions:000000000000:0", MISSING),
            ("0000000000", MISSING),
            ("subcog://user/decisions/000000000000:0", MISSING),
            ("subcog://project:nobody/decisions/000000000000:0", MISSING),
            ("000", INVALID),
            ("decision:000000000000:0", MISSING),
            ("dcsn:000000000000:0", INVALID),
            ("subcog://user/decisions", INVALID),
            ("", INVALID),
        ],
    )
    def test_what_is_not_there_is_not_shown(
        self, memory: MemoryCommand, name: str, code: int
    ) -> None:
        for command in ("show", "resolve", "archive"):
            assert_refused(memory(command, name), code)
        assert_refused(memory("edit", name, "--tags", "x"), code)

    def test_lists_are_filtered(self, memory: MemoryCommand) -> None:
        one = memory.capture("blockers", "One", "--tags", "a,b", "--spec", "x")
        two = memory.capture("blockers", "Two", "--tags", "b")
        three = memory.capture("progress", "Three")
        memory.text("resolve", one)
        memory.text("archive", three)
        assert memory.list_ids() == [two, one]
        assert memory.list_ids("--status", "all") == [three, two, one]
        assert memory.list_ids("--status", "archived") == [three]
        assert memory.list_ids("--status", "resolved") == [one]
        assert memory.list_ids("--status", "active") == [two]
        assert memory.list_ids("--namespace", "progress") == []
        assert memory.list_ids("--tags", "a", "--tags", "b") == [one]
        assert memory.list_ids("--spec", "x") == [one]
        assert memory.list_ids("--limit", "1") == [two]
        text = memory.text("list", "--domain", "project", "--status", "all")
        assert re.search(rf"{one} +\d{{4}}-\d\d-\d\d  One \[resolved\]", text)
        quiet = memory.text("list", "--domain", "project", "--format", "quiet")
        assert quiet.split() == [two, one]
        assert memory.text("list", "--spec", "none such") == "No memories.\n"

    def test_being_recalled_and_shown_counts(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "A quokka counts")
        listed = memory.json("list", "--domain", "project")["memories"][0]
        assert (listed["activation_count"], listed["last_accessed"]) == (0, None)
        memory.recall_ids("quokka")
        wait_until(
            lambda: (
                memory.json("list", "--domain", "project")["memories"][0]["activation_count"] == 1
            ),
            "the recall is counted",
        )
        memory.show(name)
        wait_until(
            lambda: (
                memory.json("list", "--domain", "project")["memories"][0]["activation_count"] == 2
            ),
            "the look is counted",
        )
        listed = memory.json("list", "--domain", "project")["memories"][0]
        assert listed["last_accessed"] > listed["timestamp"]
        assert "\nRecalled: " in memory.text("show", name)


def _digits(namespace: str, summary: str) -> str:
    return git_repositories.memory(summary, namespace=namespace).digest


class TestEdit:
    def test_other_words_supersede(self, memory: MemoryCommand) -> None:
        old = memory.capture("decisions", "Use PostgreSQL 16", "--tags", "db", "--content", "c")
        told = memory.json("edit", old[10:18], "--summary", "Use PostgreSQL 17")
        new = told["id"]
        assert new != old
        before, after = memory.show(old), memory.show(new)
        assert (before["status"], before["superseded_by"]) == ("archived", new)
        assert (after["status"], after["summary"]) == ("active", "Use PostgreSQL 17")
        assert (after["content"], after["tags"]) == ("c", ["db"])
        assert memory.recall_ids("postgresql") == [new]
        text = memory.text("edit", new, "--stdin", given=b"other content")
        assert text.startswith(f"✓ Superseded {new} by: decisions:")
        assert "Superseded by: decisions:" in memory.text("show", new)

    def test_back_to_the_old_words(self, memory: MemoryCommand) -> None:
        old = memory.capture("decisions", "There")
        new = memory.json("edit", old, "--summary", "Back")["id"]
        answer = memory("edit", new, "--summary", "There")
        assert answer.code == OK
        assert old in answer.text
        assert "Superseded" in answer.text
        shown = memory.show(old)
        assert (shown["status"], shown["superseded_by"]) == ("active", None)
        shown = memory.show(new)
        assert (shown["status"], shown["superseded_by"]) == ("archived", old)

    def test_tags_and_relations_are_changed_in_place(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "Tagged", "--tags", "a,b")
        assert memory.text("edit", name, "--tags", "c, b") == f"✓ Changed: {name}\n"
        assert memory.show(name)["tags"] == ["a", "b", "c"]
        memory.text("edit", name, "--relates-to", "decisions:abc1234:0")
        assert memory.show(name)["relates_to"] == ["decisions:abc1234:0"]
        memory.text("edit", name, "--relates-to", "")
        shown = memory.show(name)
        assert (shown["relates_to"], shown["status"]) == ([], "active")
        assert memory.list_ids("--status", "all") == [name]

    def test_tags_are_added(self, memory: MemoryCommand, repository: Repository) -> None:
        name = memory.capture("decisions", "Tagged", "--tags", "a,b")
        with_note(repository, "- b")
        memory.text("edit", name, "--tags", "b,c")
        memory.text("sync", "--force", "--domain", "project")
        assert memory.show(name)["tags"] == ["a", "b", "c"]
        assert b"- c" in repository.note()

    def test_nothing_to_change_is_refused(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "As it is")
        assert_refused(memory("edit", name), USAGE, "nothing")
        assert_refused(memory("edit", name, "--summary", "x" * 101), INVALID, "limit is 100")
        assert_refused(memory("edit", name, "--summary", ""), INVALID, "summary")
        assert memory.show(name)["status"] == "active"

    def test_one_whose_event_is_on_another_machine(
        self, memory: MemoryCommand, home: Home, repository: Repository, other_machine: Home
    ) -> None:
        event_id = f"event-{next(_numbers)}"
        with connect(home) as client:
            client.ingest(message(event_id, 1_772_000_000_000, "Hm."))
        name = memory.capture("decisions", "Said over there", "--event", event_id)
        with_note(repository, name)
        there = MemoryCommand(other_machine, repository.folder)
        there.text("sync")
        assert there.show(name)["event_id"] == event_id
        new = there.json("edit", name, "--summary", "Said here")["id"]
        assert there.show(name)["superseded_by"] == new


class TestStatuses:
    def test_resolved_and_reopened(self, memory: MemoryCommand, repository: Repository) -> None:
        name = memory.capture("blockers", "The build hangs")
        assert memory.text("resolve", name) == f"✓ Resolved: {name}\n"
        with_note(repository, "status: resolved", "blockers")
        assert memory.json("resolve", name)["memories"][0]["status"] == "resolved"
        assert memory.text("resolve", name, "--reopen") == f"✓ Reopened: {name}\n"
        assert memory.show(name)["status"] == "active"

    def test_archived_and_restored(self, memory: MemoryCommand) -> None:
        name = memory.capture("progress", "Done with it")
        assert memory.text("archive", name) == f"✓ Archived: {name}\n"
        assert memory.show(name)["status"] == "archived"
        assert memory.text("archive", name, "--restore") == f"✓ Restored: {name}\n"
        assert memory.recall_ids() == [name]

    def test_several_at_once_or_none(self, memory: MemoryCommand) -> None:
        names = [memory.capture("blockers", f"Stone {word}") for word in ("one", "two")]
        assert_refused(memory("resolve", *names, "0000000000"), MISSING)
        assert memory.list_ids("--status", "resolved") == []
        assert memory("resolve", *names).text.count("✓ Resolved: ") == 2
        assert memory.text("resolve", *names, "--reopen", "--format", "quiet").split() == names
        for told in (
            memory("archive", *names, "--format", "json").json(),
            yaml.safe_load(memory.text("archive", *names, "--format", "yaml")),
        ):
            assert [each["id"] for each in told["memories"]] == names

    def test_one_that_was_superseded_is_whole_when_restored(self, memory: MemoryCommand) -> None:
        old = memory.capture("decisions", "Earlier")
        memory.text("edit", old, "--summary", "Later")
        memory.text("archive", old, "--restore")
        shown = memory.show(old)
        assert (shown["status"], shown["superseded_by"]) == ("active", None)


class TestStatus:
    def test_as_text_there_are_bars(self, counted: MemoryCommand) -> None:
        text = counted.text("status")
        assert text.startswith(
            "Memory System Status\n════════════════════\n\n"
            "Total: 5 memories (4 project, 1 user)\n\nBy Namespace:\n"
            f"  decisions       3 {'█' * 20}\n"
            f"  learnings       1 {'█' * 7}{'░' * 13}\n"
            f"  patterns        1 {'█' * 7}{'░' * 13}\n\nBy Tier:\n  hot             5 "
        )
        assert re.search(
            r"\nIndex: [\d.]+ [KM]?B \| Last Sync: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n"
            r"Recall: by words; no LLM\nRecording: on\n"
            r"Injected: [^\n]+\n$",
            text,
        )
        assert counted.text("status", "--format", "quiet") == "5\n"

    def test_more_is_told_where_it_is_wanted(self, counted: MemoryCommand) -> None:
        assert "By Status" not in counted.text("status")
        text = counted.text("status", "--verbose")
        assert "\nBy Status:\n  active          5 " in text
        assert re.search(r"\nBy Domain:\n  project:app +4 .*\n  user +1 ", text)

    def test_as_json(self, counted: MemoryCommand) -> None:
        told = counted.json("status")
        assert told.pop("index_bytes") > 0
        assert re.match(r"\d{4}-\d\d-\d\dT", told.pop("last_sync"))
        assert len(told.pop("injections")) == 7
        assert told == {
            "total": 5,
            "by_domain": {"project:app": 4, "user": 1},
            "by_namespace": {"decisions": 3, "learnings": 1, "patterns": 1},
            "by_tier": {"hot": 5},
            "by_status": {"active": 5},
            "notes_waiting": 0,
            "to_review": 0,
            "lessons": {"given": 0, "heeded": 0, "repeated": 0, "to_review": 0},
            "feature_tier": "core",
            "contents": None,
            "recording": {
                "recorded": True,
                "reason": "on",
                "detail": "",
                "until_ms": None,
                "text": "on",
            },
            "verified": None,
        }

    def test_of_one_domain(self, counted: MemoryCommand) -> None:
        assert counted.json("status", "--domain", "project")["total"] == 4
        assert counted.json("status", "--domain", "project:app")["total"] == 4
        assert counted.json("status", "--domain", "user")["total"] == 1
        assert "Total: 1 memory (1 user)" in counted.text("status", "--domain", "user")

    def test_all_is_well(self, counted: MemoryCommand) -> None:
        told = counted.json("status", "--verify")["verified"]
        assert told == {"memories": 5, "notes": 5, "problems": []}
        assert counted.text("status", "--verify").endswith(
            "\nVerified: 5 memories, 5 in notes\n  no problems\n"
        )


class TestVerify:
    def test_a_damaged_note_is_a_problem_and_stays(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        name = memory.capture("decisions", "Whole", "--content", "a body")
        memory.text("sync")
        damaged = repository.note().replace(b"summary: Whole", b"summary: Hole")
        repository.raw("notes", "--ref=mem/decisions", "add", "-f", "-F", "-", given=damaged)
        answer = memory("status", "--domain", "project", "--verify")
        assert answer.code == GENERAL
        assert f"  problem: refs/notes/mem/decisions on {repository.head[:12]}: " in answer.text
        told = memory("status", "--domain", "project", "--verify", "--format", "json")
        assert told.code == GENERAL
        assert any("decisions" in each for each in told.json()["verified"]["problems"])
        answer = memory("sync", "--domain", "project")
        assert answer.code == OK
        assert "warning: refs/notes/mem/decisions on " in answer.errors
        assert b"Hole" in repository.note()
        assert name.encode() in repository.note()

    def test_a_note_that_was_removed_is_missed_and_written_again(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        name = memory.capture("decisions", "Removed")
        memory.text("sync")
        repository.git("update-ref", "-d", "refs/notes/mem/decisions")
        answer = memory("status", "--domain", "project", "--verify")
        assert answer.code == GENERAL
        assert f"problem: {name} is in no note" in answer.text
        memory.text("sync", "--domain", "project")
        assert memory("status", "--domain", "project", "--verify").code == OK
        assert name.encode() in repository.note()

    def test_many_of_one_moment(self, memory: MemoryCommand) -> None:
        records = "".join(
            f'{{"namespace": "progress", "summary": "Step {n}", "timestamp": "2026-01-30"}}\n'
            for n in range(150)
        )
        memory.text("import", "--format", "jsonl", given=records.encode())
        memory.text("sync", "--domain", "project")
        assert memory.json("status", "--domain", "project", "--verify")["verified"] == {
            "memories": 150,
            "notes": 150,
            "problems": [],
        }


class TestFailures:
    def test_wrong_arguments_are_2(self, memory: MemoryCommand) -> None:
        assert_refused(memory("capture", "decisions"), USAGE, "SUMMARY")
        assert_refused(memory("sync", "--remote", "--fetch"), USAGE, "--remote")
        assert_refused(memory("resolve"), USAGE)
        assert_refused(memory("recall", "--limit", "0"), USAGE, "--limit")

    def test_a_broken_setting_is_3(self, memory: MemoryCommand) -> None:
        (memory.folder / "memory.toml").write_text("[memories]\nremot = 'x'\n")
        for words in (("capture", "decisions", "x"), ("recall", "x"), ("status",), ("list",)):
            assert_refused(memory(*words), CONFIG, "memory.toml", "remot")
        assert memory("capture", "--help").code == OK
        (memory.folder / "memory.toml").write_text("[memories\n")
        assert_refused(memory("sync"), CONFIG, "memory.toml")

    def test_a_feature_that_is_off_is_3(self, memory: MemoryCommand) -> None:
        answer = memory("recall", "--reason", "when did we decide to use PostgreSQL")
        assert_refused(answer, CONFIG, "summarizer.provider")
        answer = memory("sync", "--domain", "user", "--remote")
        assert_refused(answer, CONFIG, "memories.user_remote")

    def test_a_repository_that_cannot_be_read_is_4(self, memory: MemoryCommand) -> None:
        memory.capture("decisions", "Before it broke")
        memory.text("sync")
        head = memory.folder / ".git/HEAD"
        before = head.read_bytes()
        head.write_bytes(b"\0" * len(before))
        assert_refused(memory("sync", "--force", "--domain", "project"), STORAGE)
        head.write_bytes(before)
        memory.text("sync", "--force", "--domain", "project")

    def test_notes_that_lead_nowhere_are_mended(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        name = memory.capture("decisions", "Before it broke")
        memory.text("sync")
        ref = repository.refs()["refs/notes/mem/decisions"]
        (memory.folder / f".git/objects/{ref[:2]}/{ref[2:]}").unlink()
        memory.text("sync", "--force", "--domain", "project")
        assert f"id: {name}".encode() in repository.note()

    def test_a_repository_of_another_format_is_4(self, home: Home) -> None:
        folder = home.work / f"app{next(_numbers)}"
        folder.mkdir()
        created = Repository(folder, git_repositories.build_environ(home.folder))
        created.git("init", "--quiet", "--object-format=sha256")
        assert_refused(MemoryCommand(home, folder)("sync"), STORAGE, "SHA-256")

    def test_a_remote_that_cannot_be_reached_is_5(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        own = ("sync", "--domain", "project")
        assert_refused(memory(*own, "--remote"), NETWORK, "git remote add origin")
        repository.git("remote", "add", "origin", "https://127.0.0.1:1/x.git")
        name = memory.capture("decisions", "Kept here")
        for option in ("--remote", "--fetch", "--push"):
            assert_refused(memory(*own, option), NETWORK, "origin")
        answer = memory("sync", "--remote")  # the user's own is synced all the same
        assert (answer.code, answer.text) == (NETWORK, "✓ user: nothing to do\n")
        assert name.encode() in repository.note()
        assert memory("sync").code == OK

    def test_nothing_to_share_yet_is_11(self, home: Home) -> None:
        folder = git_repositories.make_repository(
            home.work / f"app{next(_numbers)}", commits=0
        ).folder
        answer = MemoryCommand(home, folder)("sync", "--domain", "project", "--remote")
        assert_refused(answer, INVALID, "commit")


class TestReason:
    def test_a_model_answers_from_what_is_found(
        self, reasoning: MemoryCommand, llm: ScriptedLlm
    ) -> None:
        reply = completion({"answer": "On 2026-01-30, for JSONB.", "sources": [1]})
        llm.script += [reply, reply]
        (name,) = reasoning.list_ids()
        words = ("recall", "--reason", "when did we decide to use PostgreSQL in January 2026")
        told = reasoning.json(*words)
        assert told["answer"] == "On 2026-01-30, for JSONB."
        assert [each["id"] for each in told["sources"]] == [name]
        assert told["sources"][0]["timestamp"].startswith("2026-01-30T10:00:00")
        assert any("2026-01-01 to 2026-01-31" in each for each in told["dates"])
        asked = llm.received[-1].payload["messages"][-1]["content"]
        assert "when did we decide" in asked
        assert "[1] 2026-01-30: Use PostgreSQL for the data layer" in asked
        assert "yesterday: 2026-01-29" in asked
        text = reasoning.text(*words)
        assert text.startswith("On 2026-01-30, for JSONB.\n")
        assert "\nSources:\n[1] 2026-01-30  Use PostgreSQL for the data layer\n" in text
        assert f"    subcog://project:app/{name.replace(':', '/', 1)}\n" in text

    def test_what_awaits_review_is_told_as_unconfirmed(
        self, reasoning: MemoryCommand, llm: ScriptedLlm
    ) -> None:
        record = (
            b'{"namespace": "learnings", "summary": "The kiln cools overnight",'
            b' "status": "pending"}'
        )
        reasoning.text("import", "--format", "jsonl", given=record)
        llm.script += [completion({"answer": "Overnight.", "sources": [1]})]
        reasoning.json("recall", "--reason", "when does the kiln cool", "--namespace", "learnings")
        asked = llm.received[-1].payload["messages"][-1]["content"]
        assert f"({UNCONFIRMED}) The kiln cools overnight" in asked

    def test_where_nothing_is_found_no_model_is_asked(
        self, reasoning: MemoryCommand, llm: ScriptedLlm
    ) -> None:
        before = len(llm.received)
        told = reasoning.json("recall", "--reason", "why is the sky green")
        assert told["sources"] == []
        assert "Nothing" in told["answer"]
        assert len(llm.received) == before

    def test_status_says_that_there_is_one(self, reasoning: MemoryCommand) -> None:
        assert "Recall: with an LLM" in reasoning.text("status")

    @pytest.mark.parametrize(
        "reply",
        [
            completion("I cannot."),
            completion({"answer": ""}),
            Reply(b"<html>"),
            error(401, "who are you?"),
        ],
        ids=["prose", "shape", "html", "refused"],
    )
    def test_nonsense_is_6(self, reasoning: MemoryCommand, llm: ScriptedLlm, reply: Reply) -> None:
        llm.script += [reply] * (len(llm.received) + 4 - len(llm.script))
        assert_refused(reasoning("recall", "--reason", "PostgreSQL?"), LLM, "LLM")
        del llm.script[len(llm.received) :]
        assert reasoning.recall_ids("PostgreSQL")

    def test_nobody_there_is_6(self, other_machine: Home) -> None:
        created = git_repositories.make_repository(other_machine.work / "app")
        memory = MemoryCommand(other_machine, created.folder)
        memory.capture("decisions", "Use PostgreSQL")
        assert_refused(memory("recall", "--reason", "PostgreSQL?"), LLM, "LLM")


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_examples(self, home: Home, command: str) -> None:
        answer = home.run("memory", command, "--help")
        assert answer.code == OK
        assert "\nExamples:\n" in answer.text
        assert f"memory {command}" in answer.text.partition("\nExamples:\n")[2]
        assert f"  {command} " in home.run("memory", "--help").text

    @pytest.mark.parametrize(
        ("line", "wanted"),
        [
            ("memory ca", {"capture"}),
            ("memory s", {"serve", "sessions", "show", "status", "sync"}),
            ("memory capture de", {"decisions"}),
            ("memory capture decisions x --re", {"--relates-to"}),
            ("memory sync --f", {"--fetch", "--force", "--format"}),
            ("memory list --status ar", {"archived"}),
            ("memory consolidate --u", {"--undo"}),
            ("memory import --format j", {"json", "jsonl"}),
        ],
    )
    def test_shells_complete_them(self, home: Home, line: str, wanted: set[str]) -> None:
        env = {
            "_MEMORY_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split()) - 1),
        }
        answer = home.run("memory", env=env)
        assert {each.removeprefix("plain,") for each in answer.text.split()} == wanted


class TestWhereTheyBelong:
    def test_the_repository_is_otherwise_untouched(self, home: Home) -> None:
        created = git_repositories.make_repository(home.work / f"app{next(_numbers)}")
        (created.folder / "file.txt").write_text("text")
        created.git("add", "file.txt")
        created.commit("a file")
        before, git = created.refs(), created.folder / ".git"
        files = {path: path.read_bytes() for path in git.rglob("*") if path.is_file()}
        memory = MemoryCommand(home, created.folder)
        name = memory.capture("decisions", "Leave no trace", "--content", "none")
        memory.text("edit", name, "--summary", "Leave no other trace")
        memory.text("capture", "learnings", "Nor here")
        memory.text("sync")
        memory.text("recall", "trace")
        memory.text("status", "--domain", "project", "--verify")
        assert created.git("status", "--porcelain", "--untracked-files=all") == ""
        gained = created.refs().keys() - before.keys()
        assert gained == {"refs/notes/mem/decisions", "refs/notes/mem/learnings"}
        assert before.items() <= created.refs().items()
        for path, data in files.items():
            assert path.read_bytes() == data, path
        new = {path for path in git.rglob("*") if path.is_file()} - files.keys()
        for path in new:
            inside = path.relative_to(git).parts
            assert (
                inside[0] == "objects"
                or inside[-4:-2] == ("notes", "mem")
                or (inside[-3:-1] == ("notes", "mem"))
            ), path
        assert created.succeeds("fsck", "--strict")

    def test_worktrees_and_subfolders_are_one_project(
        self, memory: MemoryCommand, home: Home, repository: Repository
    ) -> None:
        tree = home.work / f"tree{next(_numbers)}"
        repository.git("worktree", "add", "--quiet", "-b", "side", str(tree))
        below = memory.folder / "src/deep"
        below.mkdir(parents=True)
        names = [
            MemoryCommand(home, folder).capture("decisions", f"From {number}")
            for number, folder in enumerate((memory.folder, tree, below))
        ]
        for folder in (memory.folder, tree, below):
            assert MemoryCommand(home, folder).list_ids() == names[::-1]
        for name in names:
            with_note(repository, name)

    def test_a_folder_without_git_keeps_its_own(self, home: Home) -> None:
        folder = home.work / f"plain{next(_numbers)}"
        (folder / "below").mkdir(parents=True)
        memory = MemoryCommand(home, folder)
        name = memory.capture("decisions", "Without git")
        assert MemoryCommand(home, folder / "below").list_ids() == [name]
        assert memory.text("sync", "--domain", "project").startswith("✓ project:plain")
        assert memory("status", "--domain", "project", "--verify").code == OK
        assert [path.name for path in folder.rglob("*")] == ["below"]
        created = Repository(folder, git_repositories.build_environ(home.folder))
        created.git("init", "--quiet")
        assert memory.list_ids() == [name]
        created.commit("first")
        assert memory.list_ids() == [name]
        memory.text("sync", "--domain", "project")
        assert name.encode() in created.note()

    def test_before_the_first_commit_they_wait(self, home: Home) -> None:
        created = git_repositories.make_repository(home.work / f"app{next(_numbers)}", commits=0)
        memory = MemoryCommand(home, created.folder)
        name = memory.capture("decisions", "Before the first commit")
        memory.text("sync", "--domain", "project")
        assert created.refs() == {}
        assert memory.recall_ids("commit") == [name]
        created.commit("first")
        told = memory.json("sync", "--domain", "project")["domains"]
        assert [each["written"] for each in told] == [1]
        assert name.encode() in created.note()
        assert memory.list_ids() == [name]
        assert memory("status", "--domain", "project", "--verify").code == OK

    def test_looking_makes_no_repositories(self, home: Home) -> None:
        private = home.data / "projects"
        before = set(private.glob("*"))
        folder = home.work / f"plain{next(_numbers)}/b/c"
        folder.mkdir(parents=True)
        memory = MemoryCommand(home, folder)
        memory.text("recall", "anything")
        memory.text("list", "--domain", "project")
        memory.text("status", "--domain", "project")
        assert_refused(memory("show", "0000000000"), MISSING)
        assert set(private.glob("*")) == before
        memory.capture("decisions", "Only one repository for it")
        wait_until(lambda: set(private.glob("*")) != before, "its repository is made")
        assert len(set(private.glob("*")) - before) == 1
        created = git_repositories.make_repository(home.work / f"app{next(_numbers)}")
        MemoryCommand(home, created.folder).capture("progress", "In its own repository")
        with_note(created, "In its own repository", "progress")
        assert len(set(private.glob("*")) - before) == 1

    def test_captures_at_once_are_all_kept(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        answers: list[Any] = []
        threads = [
            threading.Thread(
                target=lambda n=number: answers.append(
                    memory("capture", "progress", f"Step {n}").code
                )
            )
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [OK] * 8
        memory.text("sync", "--domain", "project")
        assert len(memory.list_ids()) == 8
        for name in memory.list_ids():
            assert name.encode() in repository.note("progress")
