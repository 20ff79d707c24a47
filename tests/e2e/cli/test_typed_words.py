"""What people type: near misses, times, beginnings of ids, and errors for programs."""

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest

from agent_memory.interfaces.cli.programs import PROGRAMS
from tests.command_runner import Answer, Home
from tests.memory_client import message
from tests.memory_commands import (
    CONFIG,
    INVALID,
    MISSING,
    OK,
    USAGE,
    MemoryCommand,
    assert_refused,
)
from tests.search_client import connect
from tests.toc_conversations import OUTBOX, Toc, millis


def walk(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from walk(below, *path, name)


WITH_TIMES = [
    path
    for program, root in PROGRAMS.items()
    for path, command in walk(root, program)
    if any("--since" in option.opts for option in command.params)
]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        with connect(found) as client:
            for name in ("4f2a-harbor", "4f2a-lighthouse", "7c1f-quarry", "9e9e-old", "9e9e-older"):
                at = millis("2021-06-07 12:00")
                events = [
                    message(f"{name}-{number}", at + number, f"We dig at the {name}, part {number}")
                    for number in range(2)
                ]
                for event in events:
                    event.session_id = name
                    event.metadata["project"] = "coast"
                client.ingest_all(events)
            toc = Toc(client)
            toc.settle()
            assert toc.run(OUTBOX).success
        yield found


@pytest.fixture
def memory(home: Home) -> MemoryCommand:
    return MemoryCommand(home, home.work)


def read_error(answer: Answer) -> dict[str, Any]:
    """Return the error that the last line of standard error describes."""
    assert answer.text == ""
    error: dict[str, Any] = json.loads(answer.errors.splitlines()[-1])["error"]
    assert error["exit_code"] == answer.code
    return error


class TestNamespaces:
    @pytest.mark.parametrize(
        ("typed", "namespace"),
        [
            ("decision", "decisions"),
            ("Learnings", "learnings"),
            ("retrospectives", "retrospective"),
        ],
    )
    def test_another_number_or_case_is_understood(
        self, memory: MemoryCommand, typed: str, namespace: str
    ) -> None:
        name = memory.capture(typed, f"Typed as {typed}")
        assert name.startswith(f"{namespace}:")
        shown = memory.show(f"{typed.lower()}:{name.partition(':')[2]}")
        assert shown["summary"] == f"Typed as {typed}"
        for words in (("list",), ("recall",)):
            answer = memory(*words, "--namespace", typed, "--format", "quiet")
            assert name.split(":")[1] in answer.text

    def test_a_misspelled_one_gets_the_nearest(self, memory: MemoryCommand) -> None:
        assert_refused(memory("capture", "decsions", "x"), USAGE, "did you mean 'decisions'?")
        assert_refused(memory("capture", "zebras", "x"), USAGE, "is not one of 'decisions'")

    def test_an_import_understands_it_too(self, memory: MemoryCommand) -> None:
        record = {"namespace": "Blocker", "summary": "The crane is stuck"}
        memory.text("import", given=json.dumps([record]).encode())
        assert "The crane is stuck" in memory.text("list", "--namespace", "blockers")


class TestNearMisses:
    @pytest.mark.parametrize(
        ("program", "words", "said"),
        [
            ("memory", ("recal", "x"), "did you mean 'recall'?"),
            ("memory", ("search", "x"), "did you mean `memory recall`?"),
            ("memory", ("start",), "did you mean `memory-daemon start`?"),
            ("memory", ("zzz",), "`memory --help` lists the commands"),
            ("memory-daemon", ("recall", "x"), "did you mean `memory recall`?"),
            ("memory-daemon", ("query", "evnts"), "did you mean 'events'?"),
            ("memory", ("recall", "x", "--limt", "3"), "did you mean '--limit'?"),
            ("memory", ("recall", "x", "--json"), "did you mean '--format json'?"),
            ("memory", ("log", "--after", "today"), "did you mean '--since'?"),
            ("memory", ("--limit", "3", "recall"), "write it after the command"),
            ("memory", ("recall", "x", "--in", "evnts"), "did you mean 'events'?"),
            ("memory", ("recall", "x", "--mode", "hybird"), "did you mean 'hybrid'?"),
            ("memory", ("install", "claude"), "did you mean 'claude-code'?"),
            ("memory", ("capture", "decisions", "two", "words"), "Quote a text of several words"),
            ("kontekst", ("seesions",), "did you mean 'sessions'?"),
        ],
    )
    def test_the_nearest_is_named(
        self, home: Home, program: str, words: tuple[str, ...], said: str
    ) -> None:
        assert_refused(home.run(program, *words), USAGE, said)

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (("scheduler", "run", "backlog-embeder"), MISSING, "did you mean 'backlog-embedder'?"),
            (("admin", "compact", "--cf", "evnts"), INVALID, "did you mean 'events'?"),
        ],
    )
    def test_so_is_the_nearest_record(
        self, home: Home, words: tuple[str, ...], code: int, said: str
    ) -> None:
        assert_refused(home.run("memory-daemon", *words), code, said)


class TestTimes:
    @pytest.mark.parametrize(
        ("since", "until", "count"),
        [
            ("7 June 2021", "yesterday", 10),
            ("2021-06-07 11:59", "2021-06-07 12:01", 10),
            ("2021-06-07T12:01", "now", 0),
            ("2021", "2021", 10),
            ("20210607", "1 hour", 10),
            ("2 weeks", "tomorrow", 0),
        ],
    )
    def test_events_of_a_time_in_words(
        self, home: Home, since: str, until: str, count: int
    ) -> None:
        for start, end in (("--from", "--to"), ("--since", "--until")):
            words = ("query", "events", start, since, end, until, "--format", "json")
            answer = home.run("memory-daemon", *words)
            assert (answer.code, len(answer.json()["events"])) == (OK, count), answer

    def test_a_limit_may_be_larger_than_a_page_and_smaller(self, home: Home) -> None:
        for limit, count in ((3, 3), (5000, 10)):
            answer = home.run(
                "memory-daemon", "query", "events", "-n", str(limit), "--format", "json"
            )
            assert len(answer.json()["events"]) == count

    @pytest.mark.parametrize("path", WITH_TIMES, ids=" ".join)
    def test_every_command_reads_a_time_alike(self, home: Home, path: tuple[str, ...]) -> None:
        program, *words = path
        if "forget" in path:
            words += ["--until", "now"]
        taken = home.run(program, *words, "--since", "yesterday 10:30")
        # There is nothing to forget, and only a team server has an audit log.
        expected = MISSING if "forget" in path else CONFIG if "audit" in path else OK
        assert taken.code == expected, taken
        wrong = home.run(program, *words, "--since", "yesterday at the harbor")
        assert_refused(wrong, INVALID, "is not a time (only 'yesterday' of it is)")


class TestSessions:
    def test_a_beginning_that_only_one_has_is_enough(self, memory: MemoryCommand) -> None:
        for words in (("recall", "dig", "--in", "event"), ("injections",)):
            whole = memory.json(*words, "--session", "7c1f-quarry")
            assert memory.json(*words, "--session", "7c1f") == whole
        found = memory.json("recall", "dig", "--in", "event", "--session", "7c1f")["results"]
        assert {hit["id"] for hit in found} == {"7c1f-quarry-0", "7c1f-quarry-1"}

    def test_an_id_that_begins_others_is_itself(self, memory: MemoryCommand) -> None:
        found = memory.json("recall", "dig", "--in", "event", "--session", "9e9e-old")["results"]
        assert {hit["id"] for hit in found} == {"9e9e-old-0", "9e9e-old-1"}

    @pytest.mark.parametrize(
        "words", [("recall", "dig"), ("injections",), ("forget", "--yes")], ids=lambda w: w[0]
    )
    def test_of_several_the_candidates_are_listed(
        self, memory: MemoryCommand, words: tuple[str, ...]
    ) -> None:
        answer = memory(*words, "--session", "4f2a")
        assert_refused(answer, INVALID, "4f2a-harbor", "4f2a-lighthouse", "may mean any of these")
        assert "quarry" not in answer.errors

    def test_one_that_nobody_has_is_an_error(self, memory: MemoryCommand) -> None:
        for words in (("recall", "dig"), ("injections",)):
            answer = memory(*words, "--session", "4f2b")
            assert_refused(answer, MISSING, "begins with '4f2b'", "`memory sessions`")

    def test_forget_takes_a_beginning(self, home: Home, memory: MemoryCommand) -> None:
        with connect(home) as client:
            event = message("gone", millis("2021-06-08 12:00"), "Nobody needs the pier")
            event.session_id = "b0a7-pier"
            client.ingest_all([event])
        assert memory.json("forget", "--session", "b0a7", "--yes")["events"] == 1
        again = memory("forget", "--session", "b0a7-pier", "--yes")
        assert again.code == OK
        assert "an earlier call forgot them" in again.errors


class TestProjects:
    def test_a_dot_is_the_project_of_this_folder(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "Kept in this folder")
        assert name in memory("list", "--project", ".", "--format", "quiet").text.split()

    @pytest.mark.parametrize(
        "words",
        [("recall", "x"), ("list",), ("log",), ("today",), ("context", "x"), ("injections",)],
        ids=lambda words: words[0],
    )
    def test_an_unknown_one_gets_the_nearest(
        self, memory: MemoryCommand, words: tuple[str, ...]
    ) -> None:
        answer = memory(*words, "--project", "coats")
        assert_refused(answer, MISSING, "no project 'coats'; did you mean 'coast'?")


class TestFormats:
    @pytest.mark.parametrize(
        ("words", "code", "name"),
        [
            (("show", "abcd1234abcd"), MISSING, "NotFound"),
            (("log", "--since", "noon"), INVALID, "InvalidInput"),
            (("recall", "--limit", "0"), USAGE, "UsageError"),
            (("recall", "--limt", "1"), USAGE, "UsageError"),
            (("recal",), USAGE, "UsageError"),
            (("import", "missing.yaml"), INVALID, "InvalidInput"),
            (("export", "--namespace", "zebras"), USAGE, "UsageError"),
        ],
    )
    def test_an_error_is_json_where_the_output_is(
        self, memory: MemoryCommand, words: tuple[str, ...], code: int, name: str
    ) -> None:
        for form in (("--format", "json"), ("--format=json",)):
            answer = memory(*words, *form)
            error = read_error(answer)
            assert (answer.code, error["name"]) == (code, name)
            assert error["message"] in memory(*words).errors

    def test_the_setting_counts_as_well(self, home: Home) -> None:
        environ = {"cli.default_format": "json"}
        answer = home.run("memory", "show", "abcd1234abcd", env=environ)
        assert read_error(answer)["name"] == "NotFound"

    def test_causes_are_named_on_request(self, memory: MemoryCommand) -> None:
        words = ("export", "--format", "json", "-o", "missing/folder.json")
        assert "causes" not in read_error(memory(*words))
        (cause,) = read_error(memory("-v", *words))["causes"]
        assert cause.startswith("FileNotFoundError: ")

    def test_an_error_without_a_daemon_is_json_too(self) -> None:
        with Home() as broken:
            broken.configure("[grpc]\nprot = 1\n")
            answer = broken.run("memory", "today", "--format", "json")
            assert "prot" in read_error(answer)["message"]

    def test_starting_and_stopping_is_told_in_json(self) -> None:
        with Home() as other:
            for program in ("memory-daemon", "kontekst"):
                started = other.run_forked(program, "start", "--format", "json")
                assert started.json()["message"].startswith("Daemon started (PID ")
                stopped = other.run_forked(program, "stop", "--format", "json")
                assert stopped.json() == {"message": "Daemon stopped", "exit_code": 0}

    def test_import_writes_the_format(self, memory: MemoryCommand) -> None:
        given = json.dumps({"namespace": "progress", "summary": "One line of JSON"}).encode()
        first = memory("import", "--from-format", "jsonl", "--format", "json", given=given)
        assert (first.json()["captured"], first.errors) == (1, "")
        second = memory("--format", "json", "import", given=given)
        assert second.json()["skipped"] == 1

    def test_import_still_reads_what_can_only_be_the_format_of_the_file(
        self, memory: MemoryCommand
    ) -> None:
        given = json.dumps({"namespace": "progress", "summary": "Another line"}).encode()
        answer = memory("import", "--format", "jsonl", given=given)
        assert answer.code == OK
        assert "Captured 1 memory" in answer.text
        assert "write --from-format" in answer.errors
        given = b"namespace: progress\nsummary: A line of YAML\n"
        answer = memory("import", "--format", "yaml", "--output", "json", given=given)
        assert answer.json()["captured"] == 1
        assert "write --from-format" in answer.errors
