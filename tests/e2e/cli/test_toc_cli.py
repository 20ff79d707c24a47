"""The table of contents and its jobs on the command line: layouts, formats, refusals."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Answer, Home
from tests.memory_client import Client
from tests.memory_commands import assert_refused
from tests.toc_conversations import (
    EVERYTHING,
    JOBS,
    MINUTE,
    NIGHT,
    ROLLUP,
    SEGMENTS,
    Toc,
    conversation,
    make_event,
)

OK, GENERAL, USAGE, NOT_FOUND, INVALID = 0, 1, 2, 10, 11
MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
ULID = r"[0-9A-HJKMNP-TV-Z]{26}"
GRIP = rf"grip:\d{{13}}:{ULID}"
FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
CONTROL_DAY = "toc:day:2021-06-07"
CONTROL = conversation(
    "esc\u00e9",
    "2021-06-07 12:00",
    [
        ("user", "The \x1b]0;owned\x07\x1b[2J printer decided to \x9b2J clear the \x08 screen."),
        ("assistant", "An \x1b[31m error \x1b[0m in the \x7f driver made it \r jump back."),
    ],
)

Run = Callable[..., Answer]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One whose daemon was told everything, and has it in its table of contents."""
    with Home() as found:
        found.serve()
        with Client(f"127.0.0.1:{found.status()['grpc_port']}") as client:
            client.ingest_all([*EVERYTHING, *CONTROL])
            Toc(client).settle()
        yield found


@pytest.fixture
def run(home: Home) -> Run:
    def call(*words: str) -> Answer:
        if "-e" in words:  # for which there must be no daemon
            return home.run_forked("memory-daemon", *words)
        return home.run("memory-daemon", *words)

    return call


@pytest.fixture
def toc(home: Home) -> Iterator[Toc]:
    with Client(f"127.0.0.1:{home.status()['grpc_port']}") as client:
        yield Toc(client)


@pytest.fixture
def empty() -> Iterator[Home]:
    """One with a daemon of the test's own, which was told nothing."""
    with Home() as found:
        found.serve()
        yield found


def shown(answer: Answer) -> str:
    assert answer.code == OK, answer.errors
    return answer.text


def first_grip(toc: Toc, node_id: str) -> str:
    return toc.get_node(node_id).bullets[0].grip_ids[0]


class TestQuery:
    def test_root_has_the_layout_of_the_reference(self, run: Run) -> None:
        assert shown(run("query", "root")) == (
            "TOC Root Nodes:\n"
            '  - toc:year:2026 "2026" (2 children)\n'
            '  - toc:year:2024 "2024" (1 child)\n'
            '  - toc:year:2021 "2021" (1 child)\n'
        )

    @pytest.mark.parametrize(
        ("asked", "node_id", "title", "level", "children", "range_"),
        [
            ("toc:year:2026", "toc:year:2026", "2026", "Year", 2, "2026-01-01 to 2026-12-31"),
            (
                "toc:month:2026-01",
                "toc:month:2026:01",
                "January 2026",
                "Month",
                2,
                "2026-01-01 to 2026-01-31",
            ),
            (
                "toc:week:2026-W01",
                "toc:week:2026:W01",
                "Week 1 of 2026",
                "Week",
                1,
                "2025-12-29 to 2026-01-04",
            ),
            (
                "toc:day:2026-01-30",
                "toc:day:2026-01-30",
                "Friday, January 30, 2026",
                "Day",
                3,
                "2026-01-30 to 2026-01-30",
            ),
        ],
    )
    def test_node_has_the_layout_of_the_reference(
        self, run: Run, asked: str, node_id: str, title: str, level: str, children: int, range_: str
    ) -> None:
        assert re.fullmatch(
            rf"Node: {node_id}\n"
            rf"  Title: {title}\n"
            rf"  Level: {level}\n"
            r"  Summary: .+\n"
            r"  Keywords: .+(, .+)*\n"
            rf"  Children: {children}\n"
            rf"  Time Range: {range_}\n"
            r"  Version: \d+\n"
            r"  Bullets:\n"
            rf"(    - .+\n(      {GRIP}\n)+)+",
            shown(run("query", "node", asked)),
        )

    def test_a_segment_is_shown_with_its_times(self, run: Run, toc: Toc) -> None:
        (segment,) = toc.list_children("toc:day:2026-03-31")
        text = shown(run("query", "node", segment.node_id))
        assert text.startswith(f"Node: {segment.node_id}\n  Title: {segment.title}\n")
        assert "  Level: Segment\n" in text
        assert "  Children: 0\n" in text
        assert "  Time Range: 2026-03-31 23:57:00 to 2026-04-01 00:02:00 UTC\n" in text

    def test_browse_has_the_layout_of_the_reference(self, run: Run) -> None:
        assert shown(run("query", "browse", "toc:year:2026")) == (
            "Children of toc:year:2026:\n"
            '  1. toc:month:2026:01 "January 2026"\n'
            '  2. toc:month:2026:04 "April 2026"\n'
            "\n"
            "Page 1 of 1 (has_more: false)\n"
        )
        assert shown(run("query", "browse", "toc:year:2026", "-l", "1")) == (
            "Children of toc:year:2026:\n"
            '  1. toc:month:2026:01 "January 2026"\n'
            "\n"
            'Page 1 of 2 (has_more: true, next_token: "1")\n'
        )
        assert shown(run("query", "browse", "toc:year:2026", "--limit", "1", "-t", "1")) == (
            "Children of toc:year:2026:\n"
            '  2. toc:month:2026:04 "April 2026"\n'
            "\n"
            "Page 2 of 2 (has_more: false)\n"
        )

    def test_browse_without_a_limit_has_pages_of_twenty(self, run: Run) -> None:
        text = shown(run("query", "browse", "toc:year:2026"))
        assert text.endswith("\nPage 1 of 1 (has_more: false)\n")

    def test_expand_has_the_layout_of_the_reference(self, run: Run, toc: Toc) -> None:
        grip_id = first_grip(toc, "toc:day:2026-03-31")
        found = toc.expand(grip_id)
        place = [event.event_id for event in NIGHT].index(found.grip.event_id_start)

        def lines(events: list[pb.Event]) -> str:
            roles = {pb.EVENT_ROLE_USER: "USER", pb.EVENT_ROLE_ASSISTANT: "ASSISTANT"}
            return "".join(f"  [{roles[event.role]}] {event.text}\n" for event in events)

        head = (
            f'Grip: {grip_id}\n  Excerpt: "{found.grip.excerpt}"\n  Source: {found.grip.source}\n'
        )
        text = shown(run("query", "expand", grip_id))
        assert text.startswith(head)
        assert re.search(rf"\n  Time: {MOMENT}\n\nContext:\n", text)
        assert text.partition("Context:\n")[2].rstrip("\n") == (
            f"  --- BEFORE ---\n{lines(NIGHT[max(place - 3, 0) : place])}\n"
            f"  --- EXCERPT ---\n{lines([NIGHT[place]])}\n"
            f"  --- AFTER ---\n{lines(NIGHT[place + 1 : place + 4])}"
        ).rstrip("\n")

        alone = shown(run("query", "expand", grip_id, "--before", "0", "--after", "0"))
        assert alone.partition("Context:\n")[2].rstrip("\n") == (
            f"  --- BEFORE ---\n\n  --- EXCERPT ---\n{lines([NIGHT[place]])}\n  --- AFTER ---"
        )

    def test_as_json_root_node_and_browse_have_the_names_of_the_wire(
        self, run: Run, toc: Toc
    ) -> None:
        node = run("query", "node", "toc:year:2026", "--format", "json").json()
        wire = toc.get_node("toc:year:2026")
        assert node["node_id"] == "toc:year:2026"
        assert node["level"] == "year"
        assert node["title"] == "2026"
        assert node["summary"] == wire.summary
        assert node["keywords"] == list(wire.keywords)
        assert node["child_node_ids"] == list(wire.child_node_ids)
        assert node["start_time_ms"] == wire.start_time_ms
        assert node["end_time_ms"] == wire.end_time_ms
        assert node["version"] == wire.version
        assert node["bullets"] == [
            {"text": bullet.text, "grip_ids": list(bullet.grip_ids), "kind": bullet.kind}
            for bullet in wire.bullets
        ]
        assert (node["session_id"], node["project"]) == ("", "")
        assert node["work"] == {
            "sessions": wire.work.sessions,
            "prompts": wire.work.prompts,
            "commits": wire.work.commits,
            "seconds": wire.work.seconds,
            "files": list(wire.work.files),
        }
        root = run("query", "root", "--format", "json").json()
        assert [each["node_id"] for each in root["nodes"]] == [
            each.node_id for each in toc.list_years()
        ]
        assert root["nodes"][0] == node
        page = run("query", "browse", "toc:year:2026", "-l", "1", "--format", "json").json()
        assert [each["node_id"] for each in page["children"]] == ["toc:month:2026:01"]
        assert (page["continuation_token"], page["has_more"]) == ("1", True)
        page = run("query", "browse", "toc:year:2026", "--format", "json").json()
        assert (page["continuation_token"], page["has_more"]) == (None, False)

    def test_as_json_expand_has_the_grip_and_its_events(self, run: Run, toc: Toc) -> None:
        grip_id = first_grip(toc, "toc:day:2026-03-31")
        wire = toc.expand(grip_id)
        found = run("query", "expand", grip_id, "--format", "json").json()
        assert found["grip"] == {
            "grip_id": grip_id,
            "excerpt": wire.grip.excerpt,
            "event_id_start": wire.grip.event_id_start,
            "event_id_end": wire.grip.event_id_end,
            "timestamp_ms": wire.grip.timestamp_ms,
            "source": wire.grip.source,
            "toc_node_id": wire.grip.toc_node_id,
        }
        for name in ("events_before", "excerpt_events", "events_after"):
            assert [each["event_id"] for each in found[name]] == [
                event.event_id for event in getattr(wire, name)
            ]

    def test_over_grpc_the_answers_are_the_same(self, home: Home, run: Run, toc: Toc) -> None:
        endpoint = f"http://127.0.0.1:{home.status()['grpc_port']}"
        (segment,) = toc.list_children("toc:day:2026-03-31")
        for words in (
            ("root",),
            ("node", segment.node_id),
            ("browse", "toc:year:2026", "-l", "1"),
            ("expand", first_grip(toc, "toc:day:2026-01-30"), "--before", "1", "--after", "0"),
        ):
            assert shown(run("query", "-e", endpoint, *words)) == shown(run("query", *words))

    def test_over_grpc_the_jobs_are_steered_alike(self, home: Home, run: Run) -> None:
        far = ("scheduler", "-e", f"127.0.0.1:{home.status()['grpc_port']}")
        listed = run(*far, "status", "--format", "json").json()
        assert listed["scheduler_running"]
        assert {job["job_name"] for job in listed["jobs"]} == {
            "hourly-rollup",
            "segment-summarizer",
            "outbox-processor",
            "contents-rebuild",
            "backlog-embedder",
            "team-sync",
        }
        assert shown(run(*far, "pause", "outbox-processor")) == "Job 'outbox-processor' paused\n"
        assert shown(run(*far, "resume", "outbox-processor")) == "Job 'outbox-processor' resumed\n"
        assert "outbox-processor" in shown(run(*far, "run", "outbox-processor"))
        assert_refused(run(*far, "pause", "nope"), NOT_FOUND, "Job not found: nope")

    @pytest.mark.parametrize("words", [("tree",), ("node", "toc:year:2026", "--history")])
    def test_what_cannot_be_asked_over_grpc_says_so(
        self, home: Home, run: Run, words: tuple[str, ...]
    ) -> None:
        far = ("query", "-e", f"127.0.0.1:{home.status()['grpc_port']}")
        assert_refused(run(*far, *words), USAGE, "leave --endpoint out")

    def test_over_grpc_json_is_the_same(self, home: Home, run: Run, toc: Toc) -> None:
        endpoint = f"unix:{home.status()['grpc_socket']}"
        for words in (
            ("node", "toc:year:2026"),
            ("expand", first_grip(toc, "toc:day:2026-01-30")),
        ):
            far = run("query", "-e", endpoint, *words, "--format", "json")
            assert far.json() == run("query", *words, "--format", "json").json()

    def test_what_is_unknown_is_not_found(self, home: Home, run: Run) -> None:
        endpoint = f"127.0.0.1:{home.status()['grpc_port']}"
        far = ("query", "-e", endpoint)
        for node_id in ("toc:year:1999", "nonsense"):
            assert_refused(run("query", "node", node_id), NOT_FOUND, node_id)
            assert_refused(run("query", "node", node_id, "--version", "1"), NOT_FOUND, node_id)
            assert_refused(run("query", "browse", node_id), NOT_FOUND, node_id)
        assert_refused(run(*far, "node", "toc:year:1999"), NOT_FOUND, "toc:year:1999")
        assert_refused(run("query", "expand", "grip:none"), NOT_FOUND, "grip:none")
        assert_refused(run(*far, "expand", "grip:none"), NOT_FOUND, "grip:none")

    @pytest.mark.parametrize(
        ("words", "code", "reason"),
        [
            (("node", ""), INVALID, "node_id"),
            (("expand", ""), INVALID, "grip_id"),
            (("browse", "toc:year:2026", "-l", "-1"), USAGE, "-1 is not in the range"),
            (("browse", "toc:year:2026", "-t", "x"), INVALID, "continuation_token"),
            (("browse", "toc:year:2026", "-l", "few"), USAGE, "few"),
            (("expand", "grip:none", "--before", "-1"), INVALID, "events_before is -1"),
            (("node",), USAGE, "NODE_ID"),
            (("tree", "--from", "2026-13-01"), INVALID, "2026-13-01"),
            (("tree", "--to", "someday"), INVALID, "someday"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, run: Run, words: tuple[str, ...], code: int, reason: str
    ) -> None:
        assert_refused(run("query", *words), code, reason)


class TestVersions:
    def test_history_and_version_read_what_was_kept(self, run: Run, toc: Toc) -> None:
        (segment,) = toc.list_children("toc:day:2026-03-31")
        assert re.fullmatch(
            rf"History of {segment.node_id}:\n"
            rf"(  v\d+  {MOMENT}  \d+ bullets?  .+\n)+",
            shown(run("query", "node", segment.node_id, "--history")),
        )
        stored = run("query", "node", segment.node_id, "--history", "--format", "json").json()
        assert stored["versions"][0]["version"] == segment.version
        assert all(each["created_at_ms"] > 0 for each in stored["versions"])
        version = ("query", "node", segment.node_id, "--version", str(segment.version))
        assert shown(run(*version)) == shown(run("query", "node", segment.node_id))
        assert run(*version, "--format", "json").json() == stored["versions"][0]

    def test_a_version_that_was_not_kept_is_not_found(self, run: Run) -> None:
        for number in ("0", "999", "-1"):
            words = ("query", "node", "toc:day:2026-03-31", "--version", number)
            assert_refused(run(*words), NOT_FOUND, "toc:day:2026-03-31")
        assert_refused(run("query", "node", "toc:year:1999", "--history"), NOT_FOUND)

    def test_a_closed_segment_keeps_the_version_before_a_late_event(self, empty: Home) -> None:
        with Client(f"127.0.0.1:{empty.status()['grpc_port']}") as client:
            toc = Toc(client)
            client.ingest_all(NIGHT)
            toc.settle()
            (before,) = toc.segments()
            text = "The decisive error was that the catalogue lock is never released."
            client.ingest(make_event("night", 50, NIGHT[1].timestamp_ms + 1, "user", text))
            toc.settle()
            (after,) = toc.segments()
        assert after.version == before.version + 1
        words = ("memory-daemon", "query", "node", before.node_id)
        stored = empty.run(*words, "--history", "--format", "json").json()["versions"]
        assert [each["version"] for each in stored] == [after.version, before.version]
        old = empty.run(*words, "--version", str(before.version), "--format", "json").json()
        assert old["bullets"] == [
            {"text": bullet.text, "grip_ids": list(bullet.grip_ids), "kind": bullet.kind}
            for bullet in before.bullets
        ]

    def test_the_history_of_an_open_conversation_is_its_present_until_it_ends(
        self, empty: Home
    ) -> None:
        now = int(time.time() * 1000) - MINUTE
        with Client(f"127.0.0.1:{empty.status()['grpc_port']}") as client:
            toc = Toc(client)
            client.ingest(make_event("open", 0, now, "user", "How do we seal the cistern lid?"))
            toc.settle()
            (segment,) = toc.segments()
            words = ("memory-daemon", "query", "node", segment.node_id, "--history")
            (present,) = empty.run(*words, "--format", "json").json()["versions"]
            assert present["version"] == segment.version
            client.ingest(make_event("open", 1, now + 1000, "end"))
            toc.settle()
            (closed,) = toc.segments()
        assert shown(empty.run(*words)).startswith(
            f"History of {segment.node_id}:\n  v{closed.version} "
        )


class TestTree:
    def test_in_a_pipe_it_is_a_plain_tree(self, run: Run, toc: Toc) -> None:
        text = shown(run("query", "tree"))
        assert not FORBIDDEN.search(text)
        titles = [node.title for node in toc.walk() if node.level != pb.TOC_LEVEL_SEGMENT]
        for title in titles:
            assert re.search(rf"(^|[├└]── ){re.escape(title)}  toc:", text, re.MULTILINE), title
        assert text.index("2021") < text.index("2024") < text.index("Week 1 of 2026")
        assert re.search(r"├── 09:00 UTC .", text)
        assert re.search(r"23:57 UTC .", text)

    def test_every_line_but_a_summary_ends_with_an_id_that_opens(
        self, home: Home, run: Run, toc: Toc
    ) -> None:
        summaries = {" ".join(node.summary.split()) for node in toc.walk() if node.summary}
        lines = shown(run("query", "tree", "--from", "2026-03-31")).splitlines()
        titled = [line for line in lines if line.lstrip("│ ") not in summaries]
        assert 0 < len(titled) < len(lines)
        for line in titled:
            opened = home.run("memory", "show", line.split()[-1], "--format", "json")
            assert opened.code == OK, (line, opened.errors)
            assert opened.json()["kind"] in ("year", "month", "week", "day", "segment", "grip")

    def test_the_depth_is_the_lowest_level(self, run: Run, toc: Toc) -> None:
        def list_levels(nodes: list[dict[str, Any]]) -> Iterator[str]:
            for node in nodes:
                yield node["level"]
                yield from list_levels(node["children"])

        order = ("year", "month", "week", "day", "segment")
        for place, depth in enumerate(order):
            found = run("query", "tree", "--depth", depth, "--format", "json").json()["nodes"]
            assert set(list_levels(found)) == set(order[: place + 1])
        whole = run("query", "tree", "--format", "json").json()["nodes"]
        assert len(list(list_levels(whole))) == len(list(toc.walk()))

    def test_bullets_can_be_left_out(self, run: Run) -> None:
        bare = shown(run("query", "tree", "--no-bullets"))
        assert len(bare.splitlines()) < len(shown(run("query", "tree")).splitlines())
        assert "Friday, January 30, 2026" in bare

    def test_on_a_terminal_it_is_coloured(self, home: Home) -> None:
        words = ("memory-daemon", "query", "tree", "--from", "2026-03-31", "--no-bullets")
        with home.on_terminal(*words, lines=60) as screen:
            assert screen.finish() == OK
        assert re.search(r"\x1b\[[\d;]*35m2026\x1b\[0m", screen.text)
        assert "Tuesday, March 31, 2026" in screen.text
        with home.on_terminal(*words, lines=60, env={"NO_COLOR": "1"}) as screen:
            assert screen.finish() == OK
        assert not re.search(r"\x1b\[[\d;]*3\dm", screen.text)

    @pytest.mark.parametrize(
        ("options", "days"),
        [
            (("--from", "2026-01-30"), ["2026-01-30", "2026-03-31"]),
            (("--to", "2024-07-03"), ["2021-06-07", "2024-07-03"]),
            (("--from", "2025-12-29", "--to", "2025-12-29"), ["2025-12-29"]),
            (("--from", "2024-07-04", "--to", "2026-01-29"), ["2025-12-29"]),
        ],
    )
    def test_only_the_days_asked_for(
        self, run: Run, options: tuple[str, ...], days: list[str]
    ) -> None:
        def leaves(nodes: list[dict[str, object]]) -> Iterator[str]:
            for node in nodes:
                if node["level"] == "day":
                    yield str(node["node_id"]).removeprefix("toc:day:")
                children = node["children"]
                assert isinstance(children, list)
                yield from leaves(children)

        found = run("query", "tree", *options, "--format", "json").json()
        assert sorted(leaves(found["nodes"])) == days

    def test_an_empty_store_says_so(self, empty: Home) -> None:
        assert (
            shown(empty.run("memory-daemon", "query", "tree"))
            == "Nothing is recorded in this time.\n"
        )
        assert empty.run("memory-daemon", "query", "tree", "--format", "json").json() == {
            "nodes": []
        }
        assert shown(empty.run("memory-daemon", "query", "root")) == "TOC Root Nodes:\n"


class TestControlCharacters:
    def test_what_was_said_does_not_command_the_terminal(self, run: Run, toc: Toc) -> None:
        (segment,) = toc.list_children(CONTROL_DAY)
        grips = [grip_id for bullet in segment.bullets for grip_id in bullet.grip_ids]
        assert grips
        for words in (
            ("node", CONTROL_DAY),
            ("node", segment.node_id),
            ("node", segment.node_id, "--history"),
            ("browse", CONTROL_DAY),
            ("tree", "--to", "2021-12-31"),
            *(("expand", grip_id) for grip_id in grips),
        ):
            assert not FORBIDDEN.search(shown(run("query", *words))), words

    def test_nor_on_a_terminal(self, home: Home) -> None:
        words = ("memory-daemon", "query", "tree", "--to", "2021-12-31")
        with home.on_terminal(*words, lines=60) as screen:
            assert screen.finish() == OK
        assert "printer" in screen.text
        colours_aside = re.sub(r"\x1b\[[\d;]*m", "", screen.text)
        assert not FORBIDDEN.search(colours_aside)
        assert "\x1b[2J" not in screen.text


class TestScheduler:
    def test_status_has_the_layout_of_the_reference(self, run: Run) -> None:
        job = (
            r"    Status: (Active|RUNNING)\n"
            rf"    Last Run: (never|{MOMENT} \([\d.e-]+s, SUCCESS\))\n"
            rf"    Next Run: {MOMENT}\n"
            r"    Stats: [\d,]+ runs?, 0 errors\n"
        )
        assert re.fullmatch(
            r"Scheduler: Running\n"
            r"\n"
            r"Jobs:\n"
            r"  hourly-rollup\n"
            r"    Schedule: 0 0 \* \* \* \* \(hourly\)\n" + job + r"\n"
            r"  segment-summarizer\n"
            r"    Schedule: 0 \*/15 \* \* \* \* \(every 15 min\)\n" + job + r"\n"
            r"  outbox-processor\n"
            r"    Schedule: 0 \* \* \* \* \* \(every minute\)\n" + job + r"\n"
            r"  contents-rebuild\n"
            r"    Schedule: 0 0 \* \* \* \* \(hourly\)\n" + job + r"\n"
            r"  backlog-embedder\n"
            r"    Schedule: 0 \* \* \* \* \* \(every minute\)\n" + job + r"\n"
            r"  team-sync\n"
            r"    Schedule: 0 \* \* \* \* \* \(every minute\)\n" + job,
            shown(run("scheduler", "status")),
        )

    def test_as_json_it_has_the_names_of_the_wire(self, run: Run) -> None:
        found = run("scheduler", "status", "--format", "json").json()
        assert found["scheduler_running"] is True
        assert [job["job_name"] for job in found["jobs"]] == list(JOBS)
        for job in found["jobs"]:
            assert set(job) == set(pb.JobStatusProto.DESCRIPTOR.fields_by_name)
            assert job["last_result"] in ("success", "unspecified", "never_run")
            assert job["next_run_ms"] > 0

    def test_a_job_is_paused_and_resumed_by_its_name(self, run: Run, toc: Toc) -> None:
        assert shown(run("scheduler", "pause", ROLLUP)) == "Job 'hourly-rollup' paused\n"
        assert toc.job(ROLLUP).is_paused
        text = shown(run("scheduler", "status"))
        assert "(hourly)\n    Status: Paused\n" in text
        assert shown(run("scheduler", "resume", ROLLUP)) == "Job 'hourly-rollup' resumed\n"
        assert not toc.job(ROLLUP).is_paused
        assert run("scheduler", "pause", ROLLUP, "--format", "json").json() == {"success": True}
        assert run("scheduler", "resume", ROLLUP, "--format", "json").json() == {"success": True}

    def test_a_job_is_run_by_its_name(self, run: Run, toc: Toc) -> None:
        before = toc.job(SEGMENTS).run_count
        text = shown(run("scheduler", "run", SEGMENTS))
        assert text.startswith("  segment-summarizer\n")
        assert "SUCCESS" in text
        assert toc.job(SEGMENTS).run_count > before
        found = run("scheduler", "run", SEGMENTS, "--format", "json").json()
        assert (found["job_name"], found["last_result"]) == (SEGMENTS, "success")

    @pytest.mark.parametrize("command", ["pause", "resume", "run"])
    def test_an_unknown_job_is_not_found(self, run: Run, command: str) -> None:
        assert_refused(run("scheduler", command, "nope"), NOT_FOUND, "Job not found: nope")
        assert_refused(run("scheduler", command), USAGE, "JOB_NAME")


class TestRebuild:
    def test_the_tree_is_the_same_afterwards(self, run: Run, toc: Toc) -> None:
        before = list(toc.walk())
        assert shown(run("admin", "rebuild-toc")) == (
            "Read 6 sessions: 0 segments rewritten, 0 removed, 0 periods rolled up\n"
        ).replace("6", str(len({event.session_id for event in [*EVERYTHING, *CONTROL]})))
        toc.settle()
        assert list(toc.walk()) == before

    def test_a_dry_run_changes_nothing_and_says_so(self, run: Run, toc: Toc) -> None:
        before = list(toc.walk())
        text = shown(run("admin", "rebuild-toc", "--dry-run"))
        assert "0 segments would be rewritten, 0 would be removed" in text
        assert list(toc.walk()) == before

    def test_from_a_date_on_only_its_sessions_are_read(self, run: Run) -> None:
        found = run("admin", "rebuild-toc", "--from-date", "2026-03-01", "--format", "json").json()
        assert found == {"sessions": 1, "written": 0, "removed": 0, "rolled_up": 0}
        found = run("admin", "rebuild-toc", "--from-date", "2030-01-01", "--format", "json").json()
        assert found["sessions"] == 0

    def test_what_no_job_has_seen_yet_is_built(self, empty: Home) -> None:
        with Client(f"127.0.0.1:{empty.status()['grpc_port']}") as client:
            toc = Toc(client)
            for name in (SEGMENTS, ROLLUP):
                toc.pause(name)
            client.ingest_all(EVERYTHING)
            words = ("memory-daemon", "admin", "rebuild-toc", "--format", "json")
            dry = empty.run(*words, "--dry-run").json()
            assert (dry["sessions"], dry["written"], dry["removed"]) == (4, 6, 0)
            assert toc.list_years() == []
            done = empty.run(*words).json()
            assert (done["sessions"], done["written"], done["removed"]) == (4, 6, 0)
            built = toc.tree()
            assert len([node for node in built if node.level == pb.TOC_LEVEL_SEGMENT]) == 6
            for name in (SEGMENTS, ROLLUP):
                toc.resume(name)
            toc.settle()
            assert toc.tree() == built

    @pytest.mark.soak
    def test_a_rebuild_under_other_rules_cuts_anew(self, empty: Home) -> None:
        port = empty.status()["grpc_port"]
        with Client(f"127.0.0.1:{port}") as client:
            client.ingest_all(EVERYTHING)
            Toc(client).settle()
        empty.stop()
        empty.settings["toc.time_gap_ms"] = str(24 * 60 * MINUTE)
        empty.serve()
        found = empty.run("memory-daemon", "admin", "rebuild-toc", "--format", "json").json()
        assert (found["written"], found["removed"]) == (1, 1)
        with Client(f"127.0.0.1:{empty.status()['grpc_port']}") as client:
            assert len(Toc(client).list_children("toc:day:2026-01-30")) == 2

    @pytest.mark.parametrize(
        ("date", "code"), [("2026-13-01", INVALID), ("someday", INVALID), ("", USAGE)]
    )
    def test_a_date_that_is_none_is_refused(self, run: Run, date: str, code: int) -> None:
        for option in ("--from-date", "--since"):
            assert_refused(run("admin", "rebuild-toc", option, date), code)

    def test_on_a_terminal_no_progress_is_left_behind(self, home: Home) -> None:
        with home.on_terminal("memory-daemon", "admin", "rebuild-toc", columns=200) as screen:
            assert screen.finish() == OK
        left = re.sub(r".*\r\x1b\[K", "", screen.text)
        assert re.fullmatch(r"Read \d+ sessions: [^\n]+\n", left)


def test_the_daemon_is_started_by_a_look_at_its_table_of_contents() -> None:
    with Home() as home:
        assert shown(home.run("memory-daemon", "query", "root")) == "TOC Root Nodes:\n"
        assert home.pid() is not None
