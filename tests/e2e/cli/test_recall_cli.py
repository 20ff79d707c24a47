"""Recall on the command line: what is found and shown, times, refusals, and the indexes."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from agent_memory.features.memories.model.memories import NAMESPACES
from agent_memory.features.recall.model.ranking import CERTAIN_SCORE
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Answer, Home, wait_until
from tests.memory_client import message
from tests.memory_commands import MISSING, assert_refused
from tests.search_client import Search, connect, count_waiting, read_indexes, settle
from tests.toc_conversations import (
    EVERYTHING,
    FERRY_MORNING,
    FERRY_NOON,
    MILL,
    NIGHT,
    OUTBOX,
    Toc,
    conversation,
    millis,
)

OK, GENERAL, USAGE, UNAVAILABLE, INVALID = 0, 1, 2, 3, 11
MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
GRIP = r"grip:\d{13}:[0-9A-HJKMNP-TV-Z]{26}"
FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
CONTROL = conversation(
    "esc\u00e9",
    "2021-06-07 12:00",
    [("user", "The \x1b]0;owned\x07\x1b[2J printer decided to \x9b2J clear the \x08 screen \r x")],
)
CONTROL[0].metadata.update(
    {"project": "p\x1b[31m", "agent": "a\x07", "speaker": "s\x9b", "tool_name": "t\x1b"}
)
LONG = message(
    "long", millis("2021-06-08 12:00"), "An iguana " + "basks on rocks " * 3_000, session_id="long"
)
FILLER = "Nothing else is known of it. "
ANSWER = "The <porcupine> hides *under* the boathouse."
BURIED = message(
    "buried",
    millis("2021-06-09 12:00"),
    20 * FILLER + ANSWER + " " + 20 * FILLER,
    session_id="buried",
    metadata={"project": "zoo"},
)
OUTPUT = [f"{number} lines of the output mean nothing" for number in range(100)]
OUTPUT[50] = "FAILED test_pangolin: it sleeps"
TOOL = message(
    "tool",
    millis("2021-06-10 12:00"),
    "\n".join(("Bash: pytest -q tests/animals", *OUTPUT)),
    session_id="tool",
    event_type=pb.EVENT_TYPE_TOOL_RESULT,
    role=pb.EVENT_ROLE_TOOL,
    metadata={"tool_name": "Bash"},
)
RECORDED = [*EVERYTHING, *CONTROL, LONG, BURIED, TOOL]

Run = Callable[..., Answer]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One whose daemon was told everything, and has it in its table of contents and index."""
    with Home() as found:
        found.serve()
        with connect(found) as client:
            client.ingest_all(RECORDED)
            toc = Toc(client)
            toc.settle()
            assert toc.run(OUTBOX).success
        yield found


@pytest.fixture
def recall(home: Home) -> Run:
    """`memory recall` of events, by words, which needs no warning."""

    def call(*words: str) -> Answer:
        return home.run("memory", "recall", "--in", "events", "--mode", "bm25", *words)

    return call


def shown(answer: Answer) -> str:
    assert (answer.code, answer.errors) == (OK, ""), answer
    return answer.text


def found(answer: Answer) -> dict[str, Any]:
    assert answer.code == OK, answer
    value: dict[str, Any] = json.loads(answer.out)
    return value


def ids(answer: Answer) -> list[str]:
    """Return the ids that `--format quiet` prints."""
    return shown(answer).split()


class TestWhere:
    @pytest.mark.parametrize(
        "command", [("memory", "recall"), ("memory-daemon", "query", "search")]
    )
    def test_everything_but_grips_is_searched_unless_told_otherwise(
        self, home: Home, command: tuple[str, ...]
    ) -> None:
        words = ("ferry timetable", "--mode", "bm25", "--limit", "50", "--format", "json")
        results = found(home.run(*command, *words))["results"]
        assert {each["kind"] for each in results} == {"event", "segment"}

    def test_without_a_query_only_memories_are_listed(self, home: Home) -> None:
        assert shown(home.run("memory", "recall")) == "Found no memories.\n"
        assert found(home.run("memory", "recall", "--format", "json")) == {
            "results": [],
            "total": 0,
            "certain": True,
            "warning": None,
            "continuation_token": None,
        }
        assert shown(home.run("memory", "recall", "--role", "user")) == (
            "Found no memories. Only memories are listed without a query: add --in events.\n"
        )

    @pytest.mark.parametrize(
        ("where", "kinds"),
        [
            ("events", {"event"}),
            ("segments", {"segment"}),
            ("grips", {"grip"}),
            ("events,segments", {"event", "segment"}),
            (" Grips , Segments ", {"grip", "segment"}),
            ("memories,facts", set()),
            ("all", {"event", "segment", "grip"}),
        ],
    )
    def test_in_says_where_to_look(self, recall: Run, where: str, kinds: set[str]) -> None:
        answer = recall("ferry timetable", "--in", where, "--limit", "50", "--format", "json")
        assert {each["kind"] for each in found(answer)["results"]} == kinds

    @pytest.mark.parametrize("where", ["evnt", "", "events,", "all,them", "everything"])
    def test_an_unknown_place_is_refused_with_the_choices(self, recall: Run, where: str) -> None:
        assert_refused(
            recall("x", "--in", where), USAGE, "events, segments, grips, memories, facts, all"
        )

    def test_several_words_are_one_query(self, recall: Run) -> None:
        assert ids(recall("bicycles", "cargo", "--format", "quiet")) == ids(
            recall("bicycles cargo", "--format", "quiet")
        )


class TestText:
    def test_an_event_is_shown_with_where_it_stands(self, recall: Run) -> None:
        text = shown(recall("water mill controller", "--limit", "1"))
        assert re.fullmatch(
            r"Found 1 of \d+ results?:\n"
            r"\n"
            r"\[1\] event mill-0000 \([01]\.\d\d similarity\)\n"
            r"    The water mill controller opens the sluice at full speed after a reboot\.\n"
            r"    2026-01-30 09:00:30 UTC \| user \| Session: mill\n"
            r"    URI: memory://events/mill-0000\n"
            r"    Segment: toc:segment:2026-01-30:\S+\n",
            text,
        )

    def test_a_segment_and_a_grip_name_their_events(self, recall: Run) -> None:
        text = shown(recall("museum backup", "--in", "segments", "--limit", "1"))
        assert re.search(r"\n\[1\] toc:segment:2026-03-31:\S+ \(0\.\d\d similarity\)\n", text)
        assert f"    Event: {NIGHT[0].event_id}\n" in text
        assert f"    To event: {NIGHT[-1].event_id}\n" in text
        text = shown(recall("museum backup", "--in", "grips", "--limit", "1"))
        assert re.search(rf"\n\[1\] {GRIP} \(0\.\d\d similarity\)\n", text)
        assert re.search(r"\n    Event: night-\d{4}\n", text)
        assert re.search(r"\n    Segment: toc:segment:2026-03-31:\S+\n", text)

    def test_minimal_is_two_lines_and_full_says_why(self, recall: Run) -> None:
        query = ("water mill controller", "--limit", "1", "--detail")
        minimal = shown(recall(*query, "minimal"))
        assert len(minimal.splitlines()) == 4
        summary = shown(recall(*query, "summary"))
        assert summary.startswith(minimal)
        full = shown(recall(*query, "full"))
        assert full.startswith(summary)
        assert re.search(r"\n    Score: words 0\.\d{3}", full)
        assert f"\n    > {MILL[0].text}\n" in full
        assert recall("x", "--detail", "more").code == USAGE

    @pytest.mark.parametrize(
        ("question", "certain"),
        [(MILL[0].text, True), ("seven purple zeppelins, one ferry", False)],
    )
    def test_it_says_when_no_hit_is_likely_to_be_right(
        self, recall: Run, question: str, certain: bool
    ) -> None:
        answer = found(recall(question, "--format", "json"))
        assert answer["certain"] is certain
        assert (answer["results"][0]["score"] >= CERTAIN_SCORE) is certain
        head = shown(recall(question)).partition("\n")[0]
        assert bool(re.fullmatch(r"Found \d+( of \d+)? results?:", head)) is certain
        assert (head == "Nothing certain; closest:") is not certain

    def test_nothing_found_is_no_failure(self, recall: Run) -> None:
        assert shown(recall("xylophone")) == "Found no results.\n"

    def test_a_long_text_is_cut(self, recall: Run) -> None:
        text = shown(recall("iguana", "--limit", "1"))
        assert "..." in text
        assert len(text) < 1_000

    def test_in_a_pipe_there_are_no_colours(self, recall: Run) -> None:
        assert b"\x1b" not in recall("ferry", "--detail", "full").out

    @pytest.mark.parametrize("detail", ["minimal", "summary", "full"])
    @pytest.mark.parametrize("style", ["text", "markdown"])
    def test_what_a_terminal_would_obey_is_not_passed_on(
        self, recall: Run, detail: str, style: str
    ) -> None:
        text = shown(recall("printer", "--in", "all", "--detail", detail, "--format", style))
        assert "printer" in text
        assert not FORBIDDEN.search(text)

    def test_neither_on_a_terminal(self, home: Home) -> None:
        words = ("recall", "printer", "--in", "all", "--mode", "bm25", "--detail", "full")
        with home.on_terminal("memory", *words, env={"PAGER": "cat"}) as screen:
            assert screen.finish() == OK
            assert "printer" in screen.text
            for forbidden in ("\x1b]0;", "\x1b[2J", "\x9b", "\x07", "\x08"):
                assert forbidden not in screen.text


class TestPassages:
    def test_what_answers_is_shown_and_not_the_beginning(self, recall: Run) -> None:
        text = shown(recall("porcupine", "--limit", "1"))
        assert re.fullmatch(
            r"(Found 1 result|Nothing certain; closest):\n\n"
            r"\[1\] event buried \([01]\.\d\d similarity\)\n"
            rf"    \.\.\. ({FILLER})+{re.escape(ANSWER)} ({FILLER})+\.\.\.\n"
            r"    2021-06-09 12:00:00 UTC \| user \| Session: buried \| Project: zoo\n"
            r"    URI: memory://events/buried\n"
            r"(    Segment: toc:segment:\S+\n)?",
            text,
        )

    def test_of_a_tool_the_call_is_shown_too(self, recall: Run) -> None:
        lines = shown(recall("pangolin", "--limit", "1")).splitlines()
        assert lines[3] == "    Bash: pytest -q tests/animals"
        assert "FAILED test_pangolin: it sleeps" in lines[4]
        assert lines[5] == "    2021-06-10 12:00:00 UTC | tool | Session: tool | Tool: Bash"

    def test_the_call_has_a_line_of_its_own(self, recall: Run) -> None:
        lines = shown(recall("animals 1 lines", "--session", "tool", "--limit", "1")).splitlines()
        assert lines[3] == "    Bash: pytest -q tests/animals"
        assert lines[4].startswith(f"    {OUTPUT[0]} {OUTPUT[1]}")

    def test_a_segment_leads_to_its_best_bullet(self, home: Home, recall: Run) -> None:
        words = ("museum backup failed", "--in", "segments", "--limit", "1")
        (segment,) = found(recall(*words, "--format", "json"))["results"]
        grip = home.run("memory-daemon", "query", "expand", segment["grip_id"], "--format", "json")
        passage = segment["passage"]["text"]
        text = shown(recall(*words))
        assert f"    {passage}\n" in text
        assert f"    Grip: {segment['grip_id']}\n" in text
        node = home.run("memory-daemon", "query", "node", segment["id"], "--format", "json").json()
        bullets = {each["text"]: each["grip_ids"] for each in node["bullets"]}
        assert segment["grip_id"] in bullets[passage]
        assert grip.code == OK

    def test_in_json_the_marks_count_from_the_beginning_of_the_passage(self, recall: Run) -> None:
        (hit,) = found(recall("porcupine", "--limit", "1", "--format", "json"))["results"]
        passage = hit["passage"]
        assert BURIED.text[passage["start"] : passage["end"]] == passage["text"]
        assert [passage["text"][start:end] for start, end in passage["marks"]] == ["porcupine"]
        (hit,) = found(recall("porcupine", "-l", "1", "--format", "json", "--detail", "minimal"))[
            "results"
        ]
        assert "passage" not in hit

    def test_in_markdown_matches_are_bold_and_the_rest_is_text(self, recall: Run) -> None:
        text = shown(recall("porcupine", "--limit", "1", "--format", "markdown"))
        assert r"The \<**porcupine**\> hides \*under\* the boathouse." in text
        assert "\n> ... " in text

    def test_on_a_terminal_matches_are_bold_and_lines_fit(self, home: Home) -> None:
        words = ("recall", "porcupine", "--in", "events", "--mode", "bm25")
        for columns in (40, 100):
            with home.on_terminal("memory", *words, columns=columns) as screen:
                assert screen.finish() == OK
            assert "\x1b[1mporcupine\x1b[0m" in screen.text
            lines = [re.sub(r"\x1b\[\d*m", "", line) for line in screen.text.splitlines()]
            excerpt = [line for line in lines if line.startswith("    ")][:-3]
            assert max(map(len, excerpt)) <= columns
            assert ANSWER in " ".join(line.strip() for line in excerpt)

    def test_a_terminal_that_wants_no_colours_gets_none(self, home: Home) -> None:
        words = ("recall", "porcupine", "--in", "events", "--mode", "bm25")
        with home.on_terminal("memory", *words, env={"NO_COLOR": "1"}) as screen:
            assert screen.finish() == OK
        assert "porcupine" in screen.text
        assert "\x1b[1m" not in screen.text

    def test_another_daemon_sends_the_passage(self, home: Home) -> None:
        endpoint = f"unix:{home.status()['grpc_socket']}"
        words = ("search", "porcupine", "--kinds", "events", "--mode", "bm25")
        far = home.run_forked("memory-daemon", "query", "-e", endpoint, *words)
        near = home.run("memory-daemon", "query", *words)
        assert ANSWER in far.text
        assert far.text == near.text


class TestFormats:
    def test_json_of_an_event(self, recall: Run) -> None:
        answer = found(recall("water mill controller", "--limit", "1", "--format", "json"))
        assert set(answer) == {"results", "total", "certain", "warning", "continuation_token"}
        (result,) = answer["results"]
        event = MILL[0]
        assert result["kind"] == "event"
        assert result["id"] == result["event_id"] == event.event_id
        assert (result["session_id"], result["role"]) == ("mill", "user")
        assert result["text"] == result["summary"] == event.text
        assert result["timestamp"] == "2026-01-30T09:00:30.000+00:00"
        assert result["timestamp_ms"] == event.timestamp_ms
        assert result["uri"] == "memory://events/mill-0000"
        assert 0 < result["score"] <= 1
        assert result["node_id"].startswith("toc:segment:2026-01-30:")
        assert answer["total"] > 1
        assert (answer["warning"], answer["continuation_token"]) == (None, "1")

    def test_json_of_a_segment_and_a_grip(self, recall: Run) -> None:
        words = ("museum backup", "--limit", "1", "--format", "json", "--in")
        (segment,) = found(recall(*words, "segments"))["results"]
        assert segment["kind"] == "segment"
        assert segment["id"] == segment["node_id"]
        assert (segment["event_id"], segment["last_event_id"]) == ("night-0000", "night-0005")
        assert "text" not in segment
        (grip,) = found(recall(*words, "grips"))["results"]
        assert grip["id"] == grip["grip_id"]
        assert grip["node_id"] == segment["id"]
        assert segment["uri"] == f"memory://toc/{segment['id']}"
        assert grip["uri"] == f"memory://grips/{grip['id']}"

    def test_json_by_detail(self, recall: Run) -> None:
        words = ("iguana", "--limit", "1", "--format", "json", "--detail")
        (minimal,) = found(recall(*words, "minimal"))["results"]
        (summary,) = found(recall(*words, "summary"))["results"]
        (full,) = found(recall(*words, "full"))["results"]
        base = {"kind", "id", "uri", "score", "summary", "timestamp"}
        assert set(minimal) == base | {"origin", "person"}
        assert set(minimal) < set(summary)
        assert set(full) ^ set(summary) == {"score_parts", "show_all"}
        assert len(minimal["summary"]) <= 200
        assert minimal["summary"].endswith("...")
        assert summary["truncated"]
        assert LONG.text.startswith(summary["text"])
        assert not full["truncated"]
        assert full["text"] == LONG.text

    def test_what_is_cut_names_the_command_that_shows_all(self, home: Home, recall: Run) -> None:
        words = ("iguana", "--limit", "1", "--format", "json")
        (summary,) = found(recall(*words))["results"]
        program, *arguments = summary["show_all"].split()
        shown = home.run(program, *arguments, "--format", "json").json()
        assert shown["event"]["text"] == LONG.text

    def test_what_another_daemon_has_cut_is_marked(self, home: Home) -> None:
        endpoint = f"unix:{home.status()['grpc_socket']}"
        words = ("search", "iguana", "--kinds", "events", "--limit", "1", "--detail", "full")
        for form in ("text", "markdown"):
            far = home.run_forked(
                "memory-daemon", "query", "-e", endpoint, *words, "--format", form
            )
            near = home.run("memory-daemon", "query", *words, "--format", form)
            assert "memory show memory://events/long" in far.text, far
            assert "memory show" not in near.text

    def test_text_is_exact_in_json(self, recall: Run) -> None:
        (result,) = found(recall("printer", "--limit", "1", "--format", "json"))["results"]
        assert result["text"] == CONTROL[0].text
        assert result["session_id"] == CONTROL[0].session_id

    def test_yaml_says_the_same_as_json(self, recall: Run) -> None:
        for words in (("ferry",), ("printer",), ("xylophone",)):
            as_json = found(recall(*words, "--detail", "full", "--format", "json"))
            text = shown(recall(*words, "--detail", "full", "--format", "yaml"))
            assert yaml.safe_load(text) == as_json

    def test_markdown_is_a_heading_for_each(self, recall: Run) -> None:
        text = shown(recall("water mill controller", "--limit", "2", "--format", "markdown"))
        assert text.count("\n## ") + text.startswith("## ") == 2
        assert "`memory://events/mill-0000`" in text
        assert MILL[0].text in text

    def test_quiet_is_a_name_for_each(self, recall: Run) -> None:
        names = ids(recall("water mill controller", "--limit", "2", "--format", "quiet"))
        assert len(names) == 2
        assert names[0] == "mill-0000"
        assert shown(recall("xylophone", "--format", "quiet")) == ""


class TestListing:
    @pytest.mark.parametrize("query", [(), ("all",), ("",)])
    def test_without_a_query_everything_is_listed_newest_first(
        self, recall: Run, query: tuple[str, ...]
    ) -> None:
        wanted = sorted(
            (event for event in RECORDED if event.text), key=lambda event: -event.timestamp_ms
        )
        names = ids(recall(*query, "--format", "quiet"))
        assert len(names) == len(wanted)
        assert set(names) == {event.event_id for event in wanted}
        assert names[0] == wanted[0].event_id

    def test_more_than_a_page_is_listed_and_a_limit_holds(self) -> None:
        with Home() as home:
            home.serve()
            with connect(home) as client:
                client.ingest_all(
                    message(f"e-{number:03}", 1_000 + number, f"herring {number}")
                    for number in range(230)
                )
            words = ("recall", "--in", "events", "--format", "quiet")
            newest_first = [f"e-{number:03}" for number in range(229, -1, -1)]
            assert ids(home.run("memory", *words)) == newest_first
            assert ids(home.run("memory", *words, "-l", "150")) == newest_first[:150]
            assert ids(home.run("memory", *words, "-l", "3")) == newest_first[:3]
            endpoint = f"127.0.0.1:{home.status()['grpc_port']}"
            remote = ("query", "-e", endpoint, "search", "--kinds", "events", "--format", "quiet")
            assert ids(home.run("memory-daemon", *remote)) == newest_first

    def test_filters_hold(self, recall: Run) -> None:
        names = ids(recall("--session", "mill", "--role", "user", "--format", "quiet"))
        assert names == ["mill-0004", "mill-0002", "mill-0000"]


class TestTimes:
    def listed(self, recall: Run, *words: str) -> set[str]:
        return set(ids(recall(*words, "--format", "quiet")))

    def test_days_given_are_included(self, recall: Run) -> None:
        day = {event.event_id for event in (*FERRY_MORNING, *FERRY_NOON, *MILL)}
        for since, until_ in (
            ("2026-01-30", "2026-01-30"),
            ("30 January 2026", "January 30, 2026"),
            ("2026-01-01", "2026-02-28"),
            ("January 2026", "January 2026"),
            (str(millis("2026-01-30 00:00")), str(millis("2026-01-30 23:59"))),
        ):
            assert self.listed(recall, "--since", since, "--until", until_) == day

    def test_a_moment_is_a_moment(self, recall: Run) -> None:
        noon = {event.event_id for event in FERRY_NOON}
        assert self.listed(recall, "--since", "2026-01-30T12:00", "--until", "2026-01-30") == noon
        assert (
            self.listed(recall, "--since", "2026-01-30T12:00:00Z", "--until", "2026-01-30T12:03")
            == noon
        )
        assert (
            self.listed(recall, "--since", "2026-01-30 13:00+01:00", "--until", "2026-01-30")
            == noon
        )

    def test_words_are_understood(self, recall: Run) -> None:
        assert self.listed(recall, "--since", "2030-01-01") == set()
        everything = {event.event_id for event in RECORDED if event.text}
        assert self.listed(recall, "--until", "today") == everything
        assert self.listed(recall, "--since", "yesterday") == set()
        assert self.listed(recall, "--until", "2021") == {
            *(event.event_id for event in (*CONTROL, LONG, BURIED, TOOL)),
        }

    def test_they_hold_for_searches_too(self, recall: Run) -> None:
        names = ids(recall("ferry", "--until", "2025-12-31", "--format", "quiet"))
        assert names
        assert all(name.startswith("ferry-000") for name in names)

    @pytest.mark.parametrize(
        "when", ["someday", "2026-13-01", "2026-02-30", "yesterdy", "99", "-1", "now-5", "\x1b"]
    )
    def test_what_is_no_time_is_refused_with_help(self, recall: Run, when: str) -> None:
        for option in ("--since", "--until"):
            answer = recall("x", f"{option}={when}")
            assert_refused(answer, INVALID, "is not a time", "2026")
            assert "\x1b" not in answer.errors

    def test_a_range_that_ends_before_it_begins_is_refused(self, recall: Run) -> None:
        assert_refused(
            recall("x", "--since", "2026-01-02", "--until", "2026-01-01"), INVALID, "begins"
        )


class TestOptions:
    def test_an_unknown_namespace_is_refused_with_the_choices(self, recall: Run) -> None:
        assert_refused(recall("x", "--namespace", "dreams"), USAGE, *NAMESPACES)
        assert shown(recall("ferry", "--namespace", "decisions")) == (
            "Found no results. Only memories have a namespace: search them with --in memories.\n"
        )

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("--mode", "fuzzy"),
            ("--limit", "0"),
            ("--limit", "-1"),
            ("--limit", "many"),
            ("--role", "robot"),
            ("--detail", "most"),
            ("--min-similarity", "1.5"),
            ("--min-similarity", "-0.1"),
            ("--format", "toml"),
        ],
    )
    def test_what_is_out_of_range_is_refused(self, recall: Run, option: str, value: str) -> None:
        assert_refused(recall("x", option, value), USAGE, option)

    @pytest.mark.parametrize(
        "words",
        [
            ("--domain", "project"),
            ("--domain", "project:my-app"),
            ("--domain", "user"),
            ("--tags", "a,b"),
            ("--spec", "auth"),
            ("--agent", "none"),
            ("--role", "system"),
            ("--min-similarity", "1"),
        ],
    )
    def test_filters_that_nothing_passes(self, recall: Run, words: tuple[str, ...]) -> None:
        assert shown(recall("ferry", *words)) == "Found no results.\n"

    def test_an_unknown_project_is_named_with_the_known_ones(self, home: Home, recall: Run) -> None:
        for answer in (
            recall("ferry", "--project", "none"),
            home.run("memory", "context", "--project", "none"),
        ):
            assert_refused(answer, MISSING, "no project 'none'", "Known projects: ", "zoo")

    @pytest.mark.parametrize(
        "words",
        [
            ("--domain", "all"),
            ("--tags", ""),
            ("--tags", " , "),
            ("--include-archived",),
            ("--min-similarity", "0"),
            ("--session", "ferry"),
            ("-l", "1"),
        ],
    )
    def test_filters_that_the_best_passes(self, recall: Run, words: tuple[str, ...]) -> None:
        names = ids(recall("Larkhaven pier twice", *words, "--format", "quiet"))
        assert names[0] == "ferry-0004"

    def test_a_least_similarity_cuts_on_the_score_shown(self, recall: Run) -> None:
        words = ("ferry pier", "--format", "json", "--limit", "50")
        scores = [each["score"] for each in found(recall(*words))["results"]]
        least = scores[len(scores) // 2] + 0.0001
        stored = [
            each["score"]
            for each in found(recall(*words, "--min-similarity", str(least)))["results"]
        ]
        assert stored == [score for score in scores if score >= least]

    def test_a_project_is_found_by_its_name(self, recall: Run) -> None:
        assert ids(recall("printer", "--project", "p\x1b[31m", "--format", "quiet")) == [
            CONTROL[0].event_id
        ]

    def test_a_least_similarity_that_is_no_number_is_refused(self, recall: Run) -> None:
        assert_refused(recall("x", "--min-similarity", "nan"), INVALID, "from 0 to 1")

    def test_reasons_need_an_llm(self, recall: Run) -> None:
        assert_refused(recall("x", "--reason", "why?"), UNAVAILABLE, "LLM")

    def test_a_query_that_is_too_long_is_refused(self, recall: Run) -> None:
        assert_refused(recall("x" * 10_001), INVALID, "10,001", "10,000")

    @pytest.mark.parametrize("mode", ["hybrid", "vector"])
    def test_without_an_embedder_words_are_searched_and_it_is_said(
        self, recall: Run, mode: str
    ) -> None:
        answer = recall("water mill controller", "--mode", mode, "--limit", "1", "--format", "json")
        assert "words alone" in found(answer)["warning"]
        # Where the settings ask for words alone, only who asks for meaning alone is told.
        assert ("embedder.provider" in answer.errors) == (mode == "vector")
        assert found(answer)["results"][0]["id"] == "mill-0000"

    def test_help_tells_what_there_is(self, home: Home) -> None:
        text = shown(home.run("memory", "recall", "--help"))
        for word in ("--in", "--since", "--until", "--namespace", "--detail", "last week"):
            assert word in text
        assert "recall" in shown(home.run("memory", "--help"))


class TestQuerySearch:
    @pytest.mark.parametrize(
        ("where", "kinds"),
        [("all", {"event", "segment", "grip"}), ("segments", {"segment"})],
    )
    def test_kinds_are_chosen(self, home: Home, where: str, kinds: set[str]) -> None:
        words = ("query", "search", "ferry timetable", "--mode", "bm25", "--format", "json")
        answer = found(home.run("memory-daemon", *words, "--limit", "50", "--kinds", where))
        assert {each["kind"] for each in answer["results"]} == kinds

    @pytest.mark.parametrize(
        "words",
        [
            ("ferry timetable",),
            ("ferry timetable", "--limit", "120", "--detail", "full"),
            ("printer", "--detail", "full"),
            ("--session", "mill", "--kinds", "all"),
            ("ferry", "--since", "January 2026", "--until", "today", "--role", "user"),
            ("ferry", "--min-similarity", "0.3", "--kinds", "events,grips"),
            ("ferry", "--include-archived"),
            ("xylophone",),
            ("iguana", "--detail", "full", "--kinds", "all"),
        ],
    )
    @pytest.mark.parametrize("style", ["text", "json"])
    def test_over_grpc_the_answers_are_the_same(
        self, home: Home, words: tuple[str, ...], style: str
    ) -> None:
        endpoint = f"http://127.0.0.1:{home.status()['grpc_port']}"
        asked = ("search", *words, "--mode", "bm25", "--format", style)
        here = home.run("memory-daemon", "query", *asked)
        there = home.run_forked("memory-daemon", "query", "-e", endpoint, *asked)
        assert shown(there) == shown(here)

    def test_over_grpc_what_is_wrong_is_refused_alike(self, home: Home) -> None:
        endpoint = f"http://127.0.0.1:{home.status()['grpc_port']}"
        for words in (("x", "--since", "someday"), ("x" * 10_001,)):
            assert_refused(
                home.run_forked("memory-daemon", "query", "-e", endpoint, "search", *words),
                INVALID,
            )

    def test_where_nobody_listens_it_is_said(self, home: Home) -> None:
        answer = home.run_forked(
            "memory-daemon", "query", "-e", "http://127.0.0.1:1", "search", "x"
        )
        assert answer.code not in (OK, USAGE)
        assert "error: " in answer.errors
        assert "Traceback" not in answer.errors


class TestIndexes:
    def test_without_an_embedder_there_are_words_alone(self, home: Home) -> None:
        stats = read_indexes(home)
        with connect(home) as client:
            total = len(Search(client).all())
        assert stats["words"]["documents"] == total
        assert stats["words"]["size_bytes"] > 0
        assert (stats["words_waiting"], stats["vectors"], stats["vectors_waiting"]) == (0, None, 0)
        assert (stats["model"], stats["doing"], stats["trouble"]) == ("", "", "")
        lines = (
            f"  Word index: {total:,} documents, 0 changes waiting\n"
            "  Meaning: nothing is embedded (embedder.provider is none)\n"
        )
        assert lines in shown(home.run("memory-daemon", "admin", "index-stats"))
        assert lines in shown(home.run("memory-daemon", "status"))
        assert home.status()["indexes"] == stats

    def test_words_are_rebuilt_and_say_how_many(self, home: Home) -> None:
        before = read_indexes(home)["words"]["documents"]
        with connect(home) as client:
            hits = Search(client)("ferry timetable", limit=100)
            records = len(RECORDED) + len(Toc(client).segments())
        for words in ((), ("--words",), ("--no-wait",), ("--words", "--no-wait")):
            answer = home.run("memory-daemon", "admin", "rebuild-index", *words)
            assert answer.code == OK
            assert answer.text == f"Rebuilt words: {records:,} records\n"
            assert read_indexes(home)["words"]["documents"] == before
        answer = home.run("memory-daemon", "admin", "rebuild-index", "--format", "json")
        assert found(answer) == {"words": records}
        with connect(home) as client:
            assert Search(client)("ferry timetable", limit=100) == hits

    def test_vectors_cannot_be_rebuilt_where_nothing_is_embedded(self, home: Home) -> None:
        for words in (("--vectors",), ("--vectors", "--no-wait")):
            assert_refused(
                home.run("memory-daemon", "admin", "rebuild-index", *words),
                UNAVAILABLE,
                "embedder.provider",
            )

    @pytest.mark.soak
    def test_with_an_embedder_both_are_told_and_rebuilt(self) -> None:
        with Home(embedder="bge") as home:
            home.serve()
            with connect(home) as client:
                client.ingest_all(NIGHT)
                settle(home, Toc(client))
                before = read_indexes(home)
                total = len(Search(client).all())
                assert before["vectors"]["documents"] == before["words"]["documents"] == total
                assert "bge-small" in before["model"]
                text = shown(home.run("memory-daemon", "admin", "index-stats"))
                for line in (
                    f"  Meaning: {total:,} documents embedded, nothing waiting\n",
                    f"  Model: {before['model']}\n",
                ):
                    assert line in text
                hits = Search(client).ids("museum", mode="vector")
                for words in ((), ("--vectors",), ("--vectors", "--no-wait")):
                    answer = home.run("memory-daemon", "admin", "rebuild-index", *words)
                    assert answer.code == OK
                    assert "vectors: 7 records" in answer.text
                    assert ("words: 7" in answer.text) == (words == ())
                    assert ("background" in answer.text) == ("--no-wait" in words)
                    if "--no-wait" not in words:
                        assert count_waiting(home) == 0
                    wait_until(lambda: count_waiting(home) == 0, "everything is embedded again")
                    assert Search(client).ids("museum", mode="vector") == hits
                recalled = home.run("memory", "recall", "bikes", "--in", "all", "--mode", "vector")
                assert recalled.errors == ""
                assert "night-0" in recalled.text
