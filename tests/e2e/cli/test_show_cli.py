"""`memory show` through a real daemon: every kind of hit is opened by what recall prints."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.command_runner import Home
from tests.http_client import Web
from tests.memory_client import message
from tests.memory_commands import INVALID, MISSING, OK, USAGE, MemoryCommand, assert_refused
from tests.search_client import connect
from tests.toc_conversations import EVERYTHING, MILL, OUTBOX, Toc, conversation, millis

FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
CONTROL = conversation(
    "esc\u00e9",
    "2021-06-07 12:00",
    [("user", "The \x1b]0;owned\x07\x1b[2J printer decided to \x9b2J clear the \x08 screen \r x")],
)
CONTROL[0].metadata.update(
    {"project": "p\x1b[31m", "agent": "a\x07", "speaker": "s\x9b\n", "tool_name": "t\x1b"}
)
ODD = "odd/id 100%:ü"
PROSE = "An iguana basks. " * 300
LONG = [
    message(f"iguana-{n}", millis("2021-06-08 12:00") + n, f"{n} {PROSE}", session_id=ODD)
    for n in range(3)
]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One whose daemon was told everything."""
    with Home() as found:
        found.serve()
        with connect(found) as client:
            client.ingest_all([*EVERYTHING, *CONTROL, *LONG])
            toc = Toc(client)
            toc.settle()
            assert toc.run(OUTBOX).success
        yield found


@pytest.fixture
def memory(home: Home) -> MemoryCommand:
    return MemoryCommand(home, home.work)


def find(memory: MemoryCommand, words: str, kind: str) -> dict[str, Any]:
    found = memory.json("recall", words, "--in", kind, "--mode", "bm25", "--limit", "1")
    hit: dict[str, Any] = found["results"][0]
    return hit


class TestEvents:
    def test_one_stands_between_its_turns(self, memory: MemoryCommand) -> None:
        hit = find(memory, "water mill controller", "events")
        assert memory.text("show", hit["uri"], "--around", "1") == (
            "Event mill-0000\n"
            "Session: mill\n"
            "URI: memory://events/mill-0000\n"
            "\n"
            "> 2026-01-30 09:00:30 UTC | user | mill-0000\n"
            f">   {MILL[0].text}\n"
            "\n"
            "  2026-01-30 09:01:30 UTC | assistant | mill-0001\n"
            f"    {MILL[1].text}\n"
        )

    def test_json_has_the_events_as_they_are(self, memory: MemoryCommand) -> None:
        for name in ("mill-0002", "memory://events/mill-0002"):
            shown = memory.show(name)
            assert list(shown) == ["kind", "uri", "event", "before", "after"]
            assert (shown["kind"], shown["uri"]) == ("event", "memory://events/mill-0002")
            assert shown["event"]["text"] == MILL[2].text
            assert [e["event_id"] for e in shown["before"]] == ["mill-0000", "mill-0001"]
            assert [e["text"] for e in shown["after"]] == [e.text for e in MILL[3:6]]
        as_yaml = memory.text("show", "mill-0002", "--format", "yaml")
        assert yaml.safe_load(as_yaml) == memory.show("mill-0002")

    def test_long_turns_are_cut_but_the_event_is_whole(self, memory: MemoryCommand) -> None:
        for style in ("text", "markdown"):
            words = ("show", "iguana-1", "--format", style)
            cut = memory.text(*words)
            assert cut.count("more characters: --full shows all]") == 2
            assert f"1 {PROSE}".strip() in cut
            assert f"0 {PROSE}".strip() not in cut
            full = memory.text(*words, "--full")
            assert "--full" not in full
            assert f"0 {PROSE}".strip() in full
        assert memory.text("show", "iguana-1", "--format", "quiet") == f"1 {PROSE}\n"

    @pytest.mark.parametrize("around", ["-1", "51", "x"])
    def test_around_has_limits(self, memory: MemoryCommand, around: str) -> None:
        assert_refused(memory("show", "mill-0002", "--around", around), USAGE)

    def test_around_nothing(self, memory: MemoryCommand) -> None:
        shown = memory.json("show", "mill-0002", "--around", "0")
        assert (shown["before"], shown["after"]) == ([], [])

    def test_what_a_terminal_would_obey_is_not_passed_on(self, memory: MemoryCommand) -> None:
        hit = find(memory, "printer", "events")
        for name in (hit["uri"], hit["node_id"], hit["session_id"], hit["event_id"][:4]):
            for style in ("text", "markdown", "quiet"):
                answer = memory("show", name, "--format", style)
                assert not FORBIDDEN.search(answer.text + answer.errors), answer
        assert memory.show(hit["uri"])["event"]["text"] == CONTROL[0].text


class TestTheRest:
    def test_a_segment_a_day_and_a_grip(self, memory: MemoryCommand) -> None:
        segment = find(memory, "water mill controller", "segments")
        shown = memory.show(segment["uri"])
        assert (shown["kind"], shown["node_id"]) == ("segment", segment["id"])
        assert shown["grips"]
        text = memory.text("show", segment["id"][:-6])
        assert text.startswith(f"{shown['title']}\nLevel: Segment\n")
        assert "Time: 2026-01-30 09:00:30 to 2026-01-30 09:05:30 UTC\n" in text
        for bullet in shown["bullets"]:
            assert f"  - {bullet['text']}\n    memory://grips/{bullet['grip_ids'][0]}\n" in text
        day = memory.show("toc:day:2026-01-30")
        assert day["kind"] == "day"
        assert segment["uri"] in [child["uri"] for child in day["children"]]
        assert f"    {segment['uri']}\n" in memory.text("show", "memory://toc/toc:day:2026-01-30")
        grip = memory.show(shown["grips"][0]["uri"])
        assert grip["kind"] == "grip"
        assert grip["grip"]["excerpt"] in grip["excerpt_events"][0]["text"]
        text = memory.text("show", grip["grip"]["grip_id"], "--around", "1")
        assert re.search(r"\n> 2026-01-30 09:0\d:30 UTC \| (user|assistant) \| mill-\d+\n", text)

    def test_a_session(self, memory: MemoryCommand) -> None:
        shown = memory.show("mill")
        assert (shown["kind"], shown["uri"]) == ("session", "memory://sessions/mill")
        assert shown["events"] == len(MILL)
        assert shown["first_prompt"]["text"] == MILL[0].text
        assert shown["last_answer"]["text"] == MILL[-1].text
        assert shown["segments"][0]["uri"] == find(memory, "water mill", "segments")["uri"]
        text = memory.text("show", "memory://sessions/mill")
        assert "Start: 2026-01-30 09:00:30 UTC\n" in text
        assert f"Events: {len(MILL)}\n" in text
        assert shown["segments"][0]["title"] in text
        odd = memory.show(ODD)
        assert odd["uri"] == "memory://sessions/odd%2Fid%20100%25:%C3%BC"
        assert memory.show(odd["uri"]) == odd == memory.show(ODD[:6])

    def test_a_fact(self, memory: MemoryCommand, home: Home) -> None:
        for value in ("vim", "helix"):
            given = {"key": "favourite editor", "value": value}
            told = Web(home).ask("POST", "/api/v1/memories/facts/", json=given).json()
        shown = memory.show(told["id"])
        assert (shown["kind"], shown["uri"]) == ("fact", f"memory://facts/{told['id']}")
        assert (shown["value"], shown["history"][0]["value"]) == ("helix", "vim")
        text = memory.text("show", told["id"][:8])
        assert "Key: favourite editor\n" in text
        assert re.search(r"\nEarlier values:\n  - vim \(", text)

    def test_every_hit_is_opened_by_its_uri_and_by_its_id(self, memory: MemoryCommand) -> None:
        memory.capture("decisions", "Merge stops within ten metres")
        for kind in ("memories", "events", "segments", "grips"):
            hit = find(memory, "merge stops", kind)
            assert memory.show(hit["uri"])["uri"] == hit["uri"]
            assert memory.show(hit["id"])["uri"] == hit["uri"]


class TestRefusals:
    def test_several_are_listed(self, memory: MemoryCommand) -> None:
        answer = memory("show", "mill-000")
        assert_refused(answer, INVALID, "'mill-000'", "memory://events/mill-0003")
        row = f"  event   2026-01-30 memory://events/mill-0002  {MILL[2].text}"
        assert row in answer.errors.splitlines()

    def test_nothing_says_how_to_search(self, memory: MemoryCommand) -> None:
        for name in ("no-such-id", "memory://events/none", "memory://zoo/lion"):
            assert_refused(memory("show", name), MISSING, name, "`memory recall")

    @pytest.mark.parametrize("name", [b"\xff\xfe\xff\xfe", b"\x1b[2J\x07\x07", b"%" * 5_000, b"-"])
    def test_hostile_names(self, memory: MemoryCommand, name: bytes) -> None:
        answer = memory("show", "--", name)
        assert answer.code in (MISSING, INVALID), answer
        assert not FORBIDDEN.search(answer.errors)
        assert len(answer.errors) < 500

    def test_a_forgotten_one_is_gone(self, memory: MemoryCommand, home: Home) -> None:
        with connect(home) as client:
            client.ingest(message("secret-plan", millis("2019-01-01 12:00"), "A plan."))
        assert memory.show("secret-plan")["kind"] == "event"
        forgotten = memory("forget", "--event", "secret-plan", "--yes")
        assert forgotten.code == OK, forgotten
        assert_refused(memory("show", "secret-pl"), MISSING)
