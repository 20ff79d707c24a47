"""`memory today`, `log` and `sessions` on a real daemon, in a zone five and a half hours ahead of
UTC."""

import re
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agent_memory.interfaces.wire.events import event_to_proto
from tests.command_runner import Answer, Home
from tests.memory_client import Client, message
from tests.memory_commands import MISSING, OK, USAGE, MemoryCommand, assert_refused
from tests.recall_parts import make_event, parse_time
from tests.toc_conversations import MINUTE, Toc

ZONE = ZoneInfo("Asia/Kolkata")
ESCAPE = "\x1b"
BRIDGE, CRANE, NEW = "8463c716-a2ea-4c14", "fa812bfe-b295-4cca", "c0ffee00-1111-2222"
SHORT = r"01[0-9A-HJKMNP-TV-Z]{12}"

# In Kolkata: 3 March 23:50 to 4 March 00:20, and 4 March 14:30.
EVENTS = [
    *(
        make_event(
            text,
            parse_time("2026-03-03 18:20") + minute * MINUTE,
            session=BRIDGE,
            name=f"bridge-{minute}",
            role=role,
            project="lantern",
            agent="claude-code",
        )
        for minute, role, text in (
            (0, "user", "Paint the bridge and decide on a colour for the railing."),
            (4, "assistant", "We decided to paint the railing green because it hides rust."),
            (25, "assistant", "The bridge is painted, and the railing has two coats of green."),
            (30, "assistant", "All 12 checks of the bridge pass."),
        )
    ),
    make_event(
        "The crane of the harbour blocks the third span of the bridge.",
        parse_time("2026-03-03 18:40"),
        session=f"{BRIDGE}/scout",
        name="scout-0",
        role="assistant",
        project="lantern",
    ),
    *(
        make_event(
            text,
            parse_time("2026-03-04 09:00") + minute * MINUTE,
            session=CRANE,
            name=f"crane-{minute}",
            role=role,
            project="harbour",
            agent="codex",
        )
        for minute, role, text in (
            (0, "user", "Why does the crane stop at half height?"),
            (3, "assistant", "It stops because the limit switch is \x1b[31mwired\x1b[0m twice."),
            (6, "assistant", "The crane now lifts to its full height, and the tests pass."),
        )
    ),
]


def load(home: Home, *events: Any) -> None:
    with Client(f"127.0.0.1:{home.status()['grpc_port']}") as client:
        assert all(each.created for each in client.ingest_all(map(event_to_proto, events)))
        Toc(client).settle()


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.settings["cli.timezone"] = "Asia/Kolkata"
        found.serve()
        load(found, *EVENTS)
        yield found


@pytest.fixture(scope="module")
def empty() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture
def memory(home: Home) -> MemoryCommand:
    return MemoryCommand(home, home.work)


def list_sessions(found: dict[str, Any]) -> list[str]:
    return [session["session_id"] for session in found["sessions"]]


def read_day(memory: MemoryCommand, day: str, *words: str) -> dict[str, Any]:
    (found,) = memory.json("today", "--date", day, *words)["days"]
    assert isinstance(found, dict)
    return found


class TestToday:
    def test_a_day_is_that_of_the_users_clock(self, memory: MemoryCommand) -> None:
        before, after = read_day(memory, "3 Mar 2026"), read_day(memory, "2026-03-04")
        assert (before["date"], after["date"]) == ("2026-03-03", "2026-03-04")
        assert list_sessions(before) == [BRIDGE]
        assert list_sessions(after) == [BRIDGE, CRANE]
        midnight = parse_time("2026-03-03 18:30")
        assert (before["end_time_ms"] + 1, after["start_time_ms"]) == (midnight, midnight)
        said = [each["timestamp_ms"] for each in before["sessions"][0]["highlights"]]
        assert all(at < midnight for at in said)
        said = [each["timestamp_ms"] for each in after["sessions"][0]["highlights"]]
        assert said
        assert all(at >= midnight for at in said)

    def test_the_layout(self, memory: MemoryCommand) -> None:
        text = memory.text("today", "--date", "2026-03-04")
        lines = text.splitlines()
        assert lines[0] == "Wednesday, March 4, 2026 (IST)"
        assert lines.index("harbour") < lines.index("lantern")
        assert re.search(r"^  fa812bfe  14:30-14:36  \S", text, re.MULTILINE)
        assert re.search(r"^  8463c716  00:00-00:20  \S", text, re.MULTILINE)
        assert re.search(rf"^    [a-z]+ +\S.*  {SHORT}$", text, re.MULTILINE)
        assert "2 sessions, " in lines[1]
        assert lines[1].endswith("26 min.")

    def test_every_id_opens(self, memory: MemoryCommand) -> None:
        text = memory.text("today", "--date", "2026-03-04") + memory.text("log")
        names = re.findall(rf"\b(?:{SHORT}|8463c716|fa812bfe)\b", text)
        assert len(set(names)) > 4
        kinds = {memory.show(name)["kind"] for name in set(names)}
        assert kinds == {"grip", "session"}

    def test_a_project(self, memory: MemoryCommand) -> None:
        found = read_day(memory, "2026-03-04", "--project", "harbour")
        assert list_sessions(found) == [CRANE]
        assert found["work"]["sessions"] == 1

    def test_several_days_newest_first(self, memory: MemoryCommand) -> None:
        found = memory.json("today", "--date", "March 2026")["days"]
        assert [day["date"] for day in found] == ["2026-03-04", "2026-03-03"]

    def test_the_quiet_form_is_the_ids(self, memory: MemoryCommand) -> None:
        text = memory.text("today", "--date", "2026-03-04", "--format", "quiet")
        assert text == f"{BRIDGE}\n{CRANE}\n"

    def test_markdown(self, memory: MemoryCommand) -> None:
        text = memory.text("today", "--date", "2026-03-04", "--format", "markdown")
        assert text.startswith("# Wednesday, March 4, 2026\n")
        assert "\n## harbour\n\n### " in text
        assert f"`{CRANE}` harbour, codex, 2026-03-04 14:30 to 14:36 IST" in text

    def test_without_anything_it_says_when_something_was(self, memory: MemoryCommand) -> None:
        text = memory.text("today", "--date", "2026-03-07")
        assert text.startswith("Nothing is recorded on 2026-03-07.\n")
        assert "2026-03-04 14:36:00 IST, session fa812bfe: " in text
        assert "memory today --date 2026-03-04" in text
        found = memory.json("today", "--date", "2026-03-07")
        assert (found["days"], found["timezone"]) == ([], "Asia/Kolkata")
        assert found["last_session"]["session_id"] == CRANE

    def test_refusals(self, memory: MemoryCommand) -> None:
        unknown = memory("today", "--project", "lanten")
        assert_refused(unknown, MISSING, "no project 'lanten'; did you mean 'lantern'?", "harbour")
        assert_refused(memory("today", "--date", "soonish"), 11, "'soonish' is not a time")


class TestLog:
    def test_newest_first_with_local_times(self, memory: MemoryCommand) -> None:
        text = memory.text("log")
        assert re.match(
            r"session fa812bfe\n"
            r"Project: harbour\n"
            r"Agent:   codex\n"
            r"Date:    2026-03-04 14:30 to 14:36 IST\n"
            r"Work:    1 prompt, 6 min\n"
            r"\n"
            r"    \S.*\n"
            r"\n"
            rf"(    [a-z]+ +.*  {SHORT}\n)+"
            r"\n"
            r"session 8463c716\n"
            r"Project: lantern\n"
            r"Agent:   claude-code\n"
            r"Date:    2026-03-03 23:50 to 2026-03-04 00:20 IST\n",
            text,
        ), text

    def test_a_subagent_is_part_of_its_session(self, memory: MemoryCommand) -> None:
        found = memory.json("log")
        assert list_sessions(found) == [CRANE, BRIDGE]
        segments = found["sessions"][1]["segments"]
        assert len(segments) == 2

    def test_one_line_each(self, memory: MemoryCommand) -> None:
        first, second = memory.text("log", "--oneline").splitlines()
        assert first.startswith("fa812bfe 2026-03-04 14:30 IST harbour ")
        assert second.startswith("8463c716 2026-03-03 23:50 IST lantern ")

    @pytest.mark.parametrize(
        ("words", "found"),
        [
            (("--since", "2026-03-04"), [CRANE, BRIDGE]),
            (("--since", "2026-03-04 10:00"), [CRANE]),
            (("--until", "2026-03-03"), [BRIDGE]),
            (("--project", "lantern"), [BRIDGE]),
            (("--agent", "codex"), [CRANE]),
            (("-n", "1"), [CRANE]),
        ],
    )
    def test_filters(self, memory: MemoryCommand, words: tuple[str, ...], found: list[str]) -> None:
        for command in ("log", "sessions"):
            answer = memory(command, *words, "--format", "json")
            assert list_sessions(answer.json()) == found
            assert ("-n 2 shows them" in answer.errors) == (words == ("-n", "1"))

    def test_nothing_passes_the_filters(self, memory: MemoryCommand) -> None:
        text = memory.text("log", "--since", "2026-03-05")
        assert text == (
            "No session passes these filters. The last activity of all was"
            " 2026-03-04 14:36:00 IST.\n"
        )
        assert memory.json("log", "--since", "2026-03-05") == {"sessions": []}

    def test_refusals(self, memory: MemoryCommand) -> None:
        swapped = memory("log", "--since", "2026-03-05", "--until", "2026-03-01")
        assert_refused(swapped, 11, "swap them")
        assert_refused(memory("log", "-n", "0"), USAGE, "0")
        assert_refused(memory("log", "--project", "habour"), MISSING, "'harbour'")


class TestSessions:
    def test_the_table(self, memory: MemoryCommand) -> None:
        head, first, second = memory.text("sessions").splitlines()
        titles = "ID STARTED (IST) AGE TIME PROJECT AGENT PROMPTS TITLE"
        assert " ".join(head.split()) == titles
        assert re.match(r"fa812bfe  2026-03-04 14:30  \d+ \w+ .* harbour  codex .* 1  \S", first)
        assert re.match(r"8463c716  2026-03-03 23:50  \d+ \w+ .* lantern  claude-code", second)

    def test_an_active_session_is_marked(self, empty: Home) -> None:
        now = int(time.time() * 1000)
        text = "Where is the key of the lighthouse?"
        load(empty, make_event(text, now - MINUTE, session=NEW, name="new-0", project="beacon"))
        memory = MemoryCommand(empty, empty.work)
        (line,) = (each for each in memory.text("sessions").splitlines() if "c0ffee00" in each)
        assert re.search(r"\bactive\b", line)
        (entry,) = memory.json("sessions", "--project", "beacon")["sessions"]
        assert entry["active"] is True
        day = datetime.fromtimestamp((now - MINUTE) / 1000, ZoneInfo("UTC")).date()
        found = read_day(memory, day.isoformat())
        assert list_sessions(found) == [NEW]


class TestTerminal:
    @pytest.mark.parametrize("columns", [60, 80, 140])
    @pytest.mark.parametrize(
        "words",
        [
            ("today", "--date", "2026-03-04"),
            ("log",),
            ("log", "--oneline"),
            ("sessions",),
        ],
    )
    def test_it_fits_and_has_colours(
        self, home: Home, words: tuple[str, ...], columns: int
    ) -> None:
        with home.on_terminal("memory", *words, columns=columns, lines=99) as screen:
            assert screen.finish() == OK
        assert re.search(rf"{ESCAPE}\[[\d;]*33m(session )?fa812bfe", screen.text)
        plain = re.sub(rf"{ESCAPE}\[[\d;]*m", "", screen.text)
        assert ESCAPE not in plain
        for line in plain.splitlines():
            assert len(line) <= columns, line

    @pytest.mark.parametrize("words", [("today", "--date", "2026-03-04"), ("log",), ("sessions",)])
    def test_in_a_pipe_there_are_no_colours(
        self, memory: MemoryCommand, words: tuple[str, ...]
    ) -> None:
        for form in ("text", "markdown"):
            assert ESCAPE not in memory.text(*words, "--format", form)


class TestShow:
    def test_a_session_has_its_figures_and_highlights(self, memory: MemoryCommand) -> None:
        text = memory.text("show", "8463c716")  # not its subagent, whose id begins alike
        assert text.startswith(f"Session {BRIDGE}\n")
        assert "Work: 1 prompt, " in text
        assert "\nHighlights:\n  - " in text
        found = memory.show("8463c716")
        assert (found["work"]["prompts"], len(found["segments"])) == (1, 2)
        assert found["title"]
        for each in found["highlights"]:
            assert memory.show(each["grip_ids"][0])["kind"] == "grip"

    def test_a_segment_opens_by_its_short_id(self, memory: MemoryCommand) -> None:
        node_id = memory.show("fa812bfe")["segments"][0]["node_id"]
        found = memory.show(node_id.rpartition(":")[2][:14])
        assert (found["node_id"], found["kind"]) == (node_id, "segment")
        assert (found["session_id"], found["project"]) == (CRANE, "harbour")
        assert all(bullet["kind"] for bullet in found["bullets"])


class TestTree:
    def test_of_a_project(self, home: Home) -> None:
        def run(*words: str) -> Answer:
            return home.run("memory-daemon", "query", "tree", *words)

        def walk(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
            for node in nodes:
                yield node
                yield from walk(node["children"])

        found = list(walk(run("--project", "harbour", "--format", "json").json()["nodes"]))
        assert {node["project"] for node in found if node["level"] == "segment"} == {"harbour"}
        (day,) = (node for node in found if node["level"] == "day")
        assert day["node_id"] == "toc:day:2026-03-04"
        assert (day["summary"], day["work"]["prompts"]) == ("", 1)
        assert day["child_node_ids"] == [child["node_id"] for child in day["children"]]
        assert_refused(run("--project", "habour"), MISSING, "did you mean 'harbour'?")

    def test_segments_have_local_times(self, home: Home) -> None:
        text = home.run("memory-daemon", "query", "tree", "--no-bullets").text
        assert re.search(rf"── 14:30 IST \S.*  {SHORT}$", text, re.MULTILINE)
        # 18:40 UTC is on the next day there.
        assert re.search(rf"── 2026-03-04 00:10 IST \S.*  {SHORT}$", text, re.MULTILINE)


class TestEmptyStore:
    def test_it_says_how_to_begin_and_what_is_not_listed_yet(self) -> None:
        with Home() as fresh:
            fresh.configure("scheduler.enabled = false\n")
            fresh.serve()
            for command in ("today", "log", "sessions"):
                answer = fresh.run("memory", command)
                assert (answer.code, answer.errors) == (OK, "")
                assert answer.text.startswith("Nothing is recorded yet. `memory install AGENT`")
            with Client(f"127.0.0.1:{fresh.status()['grpc_port']}") as client:
                client.ingest(message("first", 1_700_000_000_000))
            for command in ("today", "log", "sessions"):
                text = fresh.run("memory", command).text
                assert text.startswith("What is recorded is not in the table of contents yet.")
