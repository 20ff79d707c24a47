"""Questions about time and kind through a real daemon, in a zone ahead of UTC by five and a half
hours: every interface gives the same, and people see the times of their own clock."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agent_memory.interfaces.wire.events import event_to_proto
from tests.command_runner import Answer, Home
from tests.http_client import Web
from tests.mcp_clients import LineClient
from tests.memory_client import Client
from tests.parity.test_search_filters import (
    Find,
    capture,
    over_commands,
    over_grpc,
    over_mcp,
    over_rest,
)
from tests.recall_parts import make_event, parse_time
from tests.toc_conversations import OUTBOX, Toc

REPORT = "The bridge is painted, and the railing has two coats of green."
EVENTS = [  # in Kolkata it is 01:00 of the 4th
    make_event("Paint the bridge.", parse_time("2026-03-03 19:30"), session="bridge", name="asked"),
    make_event(
        "I begin with the railing.",
        parse_time("2026-03-03 19:31"),
        session="bridge",
        role="assistant",
        name="begun",
    ),
    make_event(
        REPORT, parse_time("2026-03-03 19:40"), session="bridge", role="assistant", name="report"
    ),
]
KINDS = ["event", "segment", "memory"]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.settings["cli.timezone"] = "Asia/Kolkata"
        found.serve()
        with Client(f"unix:{Web(found).record['grpc_socket']}") as client:
            assert all(each.created for each in client.ingest_all(map(event_to_proto, EVENTS)))
            toc = Toc(client)
            toc.settle()
            assert toc.run(OUTBOX).success
        capture(found, "decisions", "Paint the bridge green")
        capture(found, "learnings", "The bridge needs two coats")
        capture(found, "blockers", "The crane is broken")
        assert found.run("memory", "resolve", capture(found, "blockers", "No paint left")).code == 0
        yield found


@pytest.fixture(scope="module")
def interfaces(home: Home) -> Iterator[dict[str, Find]]:
    with ExitStack() as stack:
        web = Web(home)
        target = f"unix:{web.record['grpc_socket']}"
        yield {
            "gRPC": over_grpc(stack.enter_context(Client(target))),
            "REST": over_rest(stack.enter_context(web.client())),
            "MCP": over_mcp(stack.enter_context(LineClient(home))),
            "memory recall": over_commands(home.run, "memory", "recall"),
            "query search": over_commands(home.run, "memory-daemon", "query", "search"),
        }


@pytest.mark.parametrize(
    ("question", "kinds", "first"),
    [
        ("what did we do on 4 March 2026", ["event"], ["report", "asked"]),
        ("what was the first thing we finished on 4 March 2026", ["event"], ["report"]),
        ("what did we finish on the night of 3 March 2026", ["event"], ["report"]),
        ("where did we leave off", ["event"], ["report", "asked"]),
    ],
)
def test_every_interface_tells_of_a_time_alike(
    interfaces: dict[str, Find], question: str, kinds: list[str], first: list[str]
) -> None:
    asked = {"query": question, "kinds": kinds, "mode": "bm25", "limit": 10}
    results = {name: find(asked) for name, find in interfaces.items()}
    assert results["gRPC"].ids[: len(first)] == first
    assert results == dict.fromkeys(results, results["gRPC"])


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("what's blocking us", "The crane is broken"),
        ("which decisions about the bridge", "Paint the bridge green"),
        ("what have we learned about the bridge", "The bridge needs two coats"),
        ("what did we decide today", "Paint the bridge green"),
    ],
)
def test_every_interface_prefers_a_kind_alike(
    home: Home, interfaces: dict[str, Find], question: str, first: str
) -> None:
    asked = {"query": question, "kinds": KINDS, "mode": "bm25", "limit": 10}
    results = {name: find(asked) for name, find in interfaces.items()}
    assert results == dict.fromkeys(results, results["gRPC"])
    answer = recall(home, *question.split(), "--in", "all", "--format", "json")
    assert answer.json()["results"][0]["summary"] == first


def recall(home: Home, *words: str) -> Answer:
    answer = home.run("memory", "recall", "--mode", "bm25", *words)
    assert (answer.code, answer.errors) == (0, "")
    return answer


def test_a_resolved_blocker_is_not_open(home: Home) -> None:
    found = recall(home, "what is still open", "--in", "memories", "--format", "json").json()
    assert "No paint left" not in [hit["summary"] for hit in found["results"][:1]]


def test_people_see_their_own_time_and_programs_utc(home: Home) -> None:
    words = ("what did we do on 4 March 2026", "--in", "events")
    assert "\n    2026-03-04 01:10:00 IST | assistant" in recall(home, *words).text
    assert "2026-03-04 01:10:00" in recall(home, *words, "--format", "markdown").text
    (first, *_) = recall(home, *words, "--format", "json").json()["results"]
    assert first["timestamp"] == "2026-03-03T19:40:00.000+00:00"
    shown = home.run("memory", "show", capture(home, "progress", "Half of it is painted"))
    assert " IST\n" in shown.text


def test_options_are_read_in_the_zone(home: Home) -> None:
    def count(*words: str) -> int:
        return len(recall(home, "--in", "events", *words, "--format", "json").json()["results"])

    assert count("--since", "2026-03-04", "--until", "2026-03-04") == 3
    assert count("--until", "2026-03-03") == 0
    assert count("--since", "2026-03-04T01:05", "--until", "2026-03-04") == 1


def test_events_are_listed_by_days_of_the_zone(home: Home) -> None:
    def list_days(first: str, last: str) -> str:
        answer = home.run("memory-daemon", "query", "events", "--from", first, "--to", last)
        assert (answer.code, answer.errors) == (0, "")
        return answer.text

    assert "1. asked [USER] 2026-03-04 01:00:00" in list_days("2026-03-04", "4 March 2026")
    assert "Total: 0 events" in list_days("2026-03-03", "2026-03-03")
    assert "Total: 3 events" in list_days("0", "9999999999999")


def test_a_wrong_zone_is_refused(home: Home) -> None:
    answer = home.run("memory", "config", "set", "cli.timezone", "Mars/Olympus")
    assert answer.code != 0
    assert "must be empty or the name of a time zone, such as Europe/Berlin" in answer.errors
