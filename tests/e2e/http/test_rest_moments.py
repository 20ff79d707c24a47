"""REST of a real daemon: any part of a session, where records come from, forgetting an event."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.command_runner import Home
from tests.conversation_samples import START
from tests.http_client import Web

EVENTS = [f"long-{number:03}" for number in range(60)]
TALK = (
    ("user", "user_message", "Which database do we take for invoices?"),
    ("assistant", "assistant_message", "Decision: we use PostgreSQL for invoices, as of today."),
    ("user", "user_message", "Remember that the reviewers prefer small pull requests."),
)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as home:
        home.serve()
        web = Web(home)
        long = [
            # Some have the same time: their ids order them.
            {"session_id": "long", "event_id": name, "text": name, "timestamp_ms": START + n // 10}
            for n, name in enumerate(EVENTS)
        ]
        talk = [
            {
                "session_id": "talk",
                "event_id": f"talk-{number}",
                "role": role,
                "event_type": kind,
                "text": text,
                "timestamp_ms": START + number * 1_000,
                "metadata": {"project": "billing"},
            }
            for number, (role, kind, text) in enumerate(TALK)
        ]
        answer = web.ask("POST", "/api/v1/events/batch/", json={"events": [*long, *talk]})
        assert all(each["created"] for each in answer.json()["outcomes"])
        for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
            assert home.run("memory-daemon", "scheduler", "run", job).code == 0
        yield home


@pytest.fixture(scope="module")
def api(home: Home) -> Iterator[httpx.Client]:
    with Web(home).client() as client:
        yield client


def read(api: httpx.Client, **params: Any) -> dict[str, Any]:
    answer = api.get("/api/v1/sessions/long/events/", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def names(page: dict[str, Any]) -> list[str]:
    return [each["event_id"] for each in page["events"]]


class TestAnyPartOfASession:
    def test_a_page_begins_at_an_event_and_is_read_both_ways(self, api: httpx.Client) -> None:
        page = read(api, from_event_id="long-035", limit=10)
        assert names(page) == EVENTS[35:45]
        later = read(api, continuation_token=page["continuation_token"], limit=100)
        assert names(later) == EVENTS[45:]
        assert (later["has_more"], later["continuation_token"]) == (False, None)
        back = {"order": "desc", "limit": 20}
        earlier = read(api, **back, continuation_token=page["reverse_token"])
        assert names(earlier) == EVENTS[15:35][::-1]
        first = read(api, **back, continuation_token=earlier["continuation_token"])
        assert names(first) == EVENTS[:15][::-1]
        assert not first["has_more"]
        assert (
            names(read(api, limit=3, continuation_token=earlier["reverse_token"]))
            == (EVENTS[35:38])
        )

    def test_a_page_begins_at_a_time(self, api: httpx.Client) -> None:
        at = {"from_timestamp_ms": START + 2, "limit": 3}
        assert names(read(api, **at)) == EVENTS[20:23]
        assert names(read(api, **at, order="desc")) == EVENTS[27:30][::-1]
        assert names(read(api, from_timestamp_ms=START + 10)) == []

    def test_the_ends(self, api: httpx.Client) -> None:
        assert names(read(api, order="desc", limit=2)) == EVENTS[:-3:-1]
        assert names(read(api, from_event_id=EVENTS[0], limit=1)) == EVENTS[:1]
        assert names(read(api, from_event_id=EVENTS[0], order="desc")) == EVENTS[:1]
        assert (
            names(read(api, from_timestamp_ms=9_999_999_999_999, order="desc", limit=1))
            == (EVENTS[-1:])
        )

    def test_one_start_of_this_session_is_needed(self, api: httpx.Client) -> None:
        path = "/api/v1/sessions/long/events/"
        both: dict[str, str | int] = {"from_event_id": EVENTS[0], "from_timestamp_ms": 1}
        assert api.get(path, params=both).status_code == 422
        assert api.get(path, params={"from_event_id": "talk-1"}).status_code == 404

    def test_segments_have_their_grips(self, api: httpx.Client) -> None:
        path = "/api/v1/sessions/talk/segments/"
        found = api.get(path).json()
        (segment,) = found["segments"]
        assert (segment["session_id"], found["has_more"]) == ("talk", False)
        grips = {grip["grip_id"]: grip["event_id_start"] for grip in segment["grips"]}
        (decided,) = [each for each in segment["bullets"] if "PostgreSQL" in each["text"]]
        assert [grips[each] for each in decided["grip_ids"]] == ["talk-1"]
        # One that began before the time and reaches into it counts.
        assert api.get(path, params={"from_timestamp_ms": START + 500}).json() == found
        assert api.get(path, params={"to_timestamp_ms": START - 1}).json()["segments"] == []

    def test_what_is_known_of_a_session(self, api: httpx.Client, home: Home) -> None:
        (known,) = api.get("/api/v1/sessions/", params={"session_id": "talk"}).json()["items"]
        assert (known["events"], known["project"]) == (len(TALK), "billing")
        assert (known["ended"], known["running"]) == (False, False)  # long ago
        for kind, running in (("user_message", True), ("session_end", False)):
            event = {"session_id": "fresh", "event_type": kind, "text": "Hello"}
            assert api.post("/api/v1/events/", json=event).status_code == 201
            assert home.run("memory-daemon", "scheduler", "run", "outbox-processor").code == 0
            (fresh,) = api.get("/api/v1/sessions/", params={"session_id": "fresh"}).json()["items"]
            assert fresh["running"] is running
        none = api.get("/api/v1/sessions/", params={"session_id": "none"}).json()
        assert none == {"items": [], "total": 0}


class TestWhy:
    def test_openapi_describes_the_answers(self, api: httpx.Client) -> None:
        paths = api.get("/openapi.json").json()["paths"]
        for path, model in (
            ("/api/v1/why/", "ExplanationAnswer"),
            ("/api/v1/events/{event_id}/derived/", "DerivedAnswer"),
        ):
            answer = paths[path]["get"]["responses"]["200"]["content"]["application/json"]
            assert answer["schema"] == {"$ref": f"#/components/schemas/{model}"}

    def test_a_fact_leads_to_the_event_it_names(self, api: httpx.Client, home: Home) -> None:
        claim = {"key": "pull_requests", "value": "small", "event_id": "talk-2"}
        fact = api.post("/api/v1/memories/facts/", json=claim).json()
        assert fact["event_id"] == "talk-2"
        name = f"memory://facts/{fact['id']}"
        explained = api.get("/api/v1/why/", params={"name": name}).json()
        assert [each["text"] for each in explained["events"]] == [TALK[2][2]]
        assert home.run("memory", "why", name, "--format", "json").json() == explained

    def test_a_new_value_has_a_new_source(self, api: httpx.Client) -> None:
        path = "/api/v1/memories/facts/"
        claim = {"key": "store", "value": "PostgreSQL", "event_id": "talk-1"}
        first = api.post(path, json=claim).json()
        other = api.post(path, json={**claim, "value": "SQLite", "event_id": None}).json()
        assert (other["id"], other["event_id"]) == (first["id"], None)
        (former,) = api.get(f"{path}{first['id']}/history/").json()["items"]
        assert former["event_id"] == "talk-1"
        # The same words again from a known place: now it has one.
        talk = {"key": "store", "value": "SQLite", "session_id": "talk"}
        again = api.post(path, json=talk).json()
        assert (again["times_confirmed"], again["session_id"]) == (2, "talk")
        name = f"memory://facts/{first['id']}"
        explained = api.get("/api/v1/why/", params={"name": name}).json()
        assert explained["events"][0]["event_id"] == "talk-2"  # the last one said before it
        assert api.get("/api/v1/why/", params={"name": "memory://facts/none"}).status_code == 404


class TestForgetting:
    def test_an_event_is_forgotten_when_confirmed(self, api: httpx.Client, home: Home) -> None:
        event = {"session_id": "slip", "event_id": "slip/1", "text": "The door code is kumquat 73"}
        for each in ({**event, "event_id": "slip/0", "text": "Welcome to the house"}, event):
            assert api.post("/api/v1/events/", json=each).status_code == 201
        claim = {"key": "door", "value": "locked", "session_id": "slip", "event_id": "slip/1"}
        fact = api.post("/api/v1/memories/facts/", json=claim).json()
        assert home.run("memory-daemon", "scheduler", "run", "segment-summarizer").code == 0
        claim = {"key": "door", "value": "kumquat", "event_id": "slip/1"}
        fact = api.post("/api/v1/memories/facts/", json=claim).json()
        derived = api.get("/api/v1/events/slip/1/derived/").json()
        assert derived["facts"] == [
            {
                "id": fact["id"],
                "uri": f"memory://facts/{fact['id']}",
                "key": "door",
                "value": "kumquat",
            }
        ]
        assert derived["event"]["text"] == event["text"]
        assert derived["segment"]["session_id"] == "slip"
        assert {each["event_id_start"] for each in derived["grips"]} == {"slip/1"}
        assert derived["memories"] == []
        refused = api.delete("/api/v1/events/slip/1")
        assert (refused.status_code, "confirm=true" in refused.text) == (422, True)
        assert api.get("/api/v1/events/slip/1").status_code == 200
        report = api.delete("/api/v1/events/slip/1", params={"confirm": "true"}).json()
        assert (report["events"], report["found_in"]) == (1, [])
        assert api.get("/api/v1/events/slip/1").status_code == 404
        assert api.get("/api/v1/events/slip/1/derived/").status_code == 404
        explained = api.get("/api/v1/why/", params={"name": f"memory://facts/{fact['id']}"}).json()
        assert explained["events"] == []  # and not those before it
        found = api.get("/api/v1/search/", params={"query": "kumquat", "kinds": "event"}).json()
        assert found["results"] == []
        # The answer may be lost: the report of the first call stays.
        again = api.delete("/api/v1/events/slip/1", params={"confirm": "true"}).json()
        assert again == report
        missing = api.delete("/api/v1/events/slip/2", params={"confirm": "true"})
        assert missing.status_code == 404
