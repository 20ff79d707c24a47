"""Writing over REST: events, uses of procedures, jobs; and what is refused."""

import subprocess
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.interfaces.wire.events import event_json, event_to_proto
from agent_memory.kernel.ids import EventId, Millis, SessionId
from tests.command_runner import Home, wait_until
from tests.http_client import Web
from tests.memory_client import Client

EVENTS = "/api/v1/events/"
BATCH = "/api/v1/events/batch/"
JOBS = "/api/v1/jobs/"
MEMORIES = "/api/v1/memories/"
PROCEDURES = "/api/v1/memories/procedures/"
TREE = "/api/v1/toc/tree/"
JOB = "hourly-rollup"
SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with Home() as home:
        home.serve()
        yield Web(home)


@pytest.fixture(scope="module")
def api(web: Web) -> Iterator[httpx.Client]:
    with web.client() as client:
        yield client


@pytest.fixture
def session() -> str:
    return f"session-{uuid4().hex}"


def read_session(api: httpx.Client, session: str) -> list[dict[str, object]]:
    events = api.get(f"/api/v1/sessions/{session}/events/").json()["events"]
    assert isinstance(events, list)
    return events


class TestEvents:
    def test_an_event_is_stored_as_it_was_sent(self, api: httpx.Client, session: str) -> None:
        sent = {
            "event_id": uuid4().hex,
            "session_id": session,
            "timestamp_ms": 1_770_000_000_000,
            "event_type": "tool_result",
            "role": "tool",
            "text": "3 passed",
            "metadata": {"tool_name": "Bash"},
        }
        answer = api.post(EVENTS, json=sent)
        assert answer.status_code == 201
        assert answer.json() == {"event_id": sent["event_id"], "created": True, "error": None}
        assert read_session(api, session) == [sent]

    def test_an_event_without_id_and_time_gets_both(self, api: httpx.Client, session: str) -> None:
        name = api.post(EVENTS, json={"session_id": session, "text": "hello"}).json()["event_id"]
        (stored,) = read_session(api, session)
        assert stored["event_id"] == name
        assert stored["timestamp_ms"]
        assert (stored["event_type"], stored["role"]) == ("user_message", "user")

    def test_the_same_again_is_stored_once(self, api: httpx.Client, session: str) -> None:
        event = {"session_id": session, "text": "hello", "event_id": uuid4().hex}
        assert api.post(EVENTS, json=event).status_code == 201
        again = api.post(EVENTS, json=event)
        assert (again.status_code, again.json()["created"]) == (200, False)
        assert len(read_session(api, session)) == 1

    def test_it_is_the_event_that_grpc_would_store(
        self, web: Web, api: httpx.Client, session: str
    ) -> None:
        event = Event(
            event_id=EventId("over-grpc"),
            session_id=SessionId(session),
            at_ms=Millis(1_770_000_000_000),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text="hello",
        )
        with Client(f"unix:{web.record['grpc_socket']}") as client:
            client.ingest_all([event_to_proto(event)])
        api.post(EVENTS, json={**event_json(event), "event_id": "over-rest"})
        one, other = read_session(api, session)
        assert {**one, "event_id": ""} == {**other, "event_id": ""}

    def test_secrets_are_removed(self, api: httpx.Client, session: str) -> None:
        api.post(EVENTS, json={"session_id": session, "text": f"the token is {SECRET}"})
        (stored,) = read_session(api, session)
        assert SECRET not in str(stored["text"])
        assert "REDACTED" in str(stored["text"])

    def test_of_many_each_has_its_outcome(self, api: httpx.Client, session: str) -> None:
        names = sorted((uuid4().hex, uuid4().hex))  # events of one millisecond are read by id
        events = [
            {"session_id": session, "text": "one", "event_id": names[0]},
            {"session_id": "", "text": "no session"},
            {"session_id": session, "event_type": "usr_message"},
            {"session_id": session, "text": "two", "event_id": names[1]},
            {"session_id": session, "text": "one", "event_id": names[0]},
        ]
        outcomes = api.post(BATCH, json={"events": events}).json()["outcomes"]
        assert [outcome["created"] for outcome in outcomes] == [True, False, False, True, False]
        assert "session_id is required" in outcomes[1]["error"]
        assert "did you mean 'user_message'?" in outcomes[2]["error"]
        assert outcomes[4]["error"] is None
        assert [event["event_id"] for event in read_session(api, session)] == names

    def test_too_many_at_once_are_refused(self, api: httpx.Client, session: str) -> None:
        events = [{"session_id": session}] * 1_001
        assert api.post(BATCH, json={"events": events}).status_code == 422
        assert read_session(api, session) == []


class TestProcedures:
    def test_uses_are_counted(self, api: httpx.Client) -> None:
        created = api.post(PROCEDURES, json={"name": "deploy", "times_succeeded": 2}).json()
        assert (created["times_used"], created["success_rate"]) == (2, 1.0)
        uses = f"{PROCEDURES}{created['id']}/uses/"
        assert api.post(uses, json={"success": True}).status_code == 201
        counted = api.post(uses, json={"success": False}).json()
        assert (counted["times_used"], counted["times_succeeded"]) == (4, 3)
        assert counted["times_failed"] == 1
        assert counted["success_rate"] == 0.75

    def test_a_use_of_an_unknown_one_is_not_found(self, api: httpx.Client) -> None:
        answer = api.post(f"{PROCEDURES}{uuid4()}/uses/", json={"success": True})
        assert answer.status_code == 404


class TestJobs:
    def test_a_job_is_paused_and_resumed(self, api: httpx.Client) -> None:
        listed = api.get(JOBS).json()
        assert listed["scheduler_running"]
        assert JOB in [job["job_name"] for job in listed["jobs"]]
        assert api.post(f"{JOBS}{JOB}/pause/").json()["is_paused"]
        assert not api.post(f"{JOBS}{JOB}/resume/").json()["is_paused"]

    def test_a_job_runs_when_asked(self, api: httpx.Client) -> None:
        before = {job["job_name"]: job for job in api.get(JOBS).json()["jobs"]}[JOB]["run_count"]
        job = api.post(f"{JOBS}{JOB}/run/").json()
        assert (job["last_result"], job["run_count"] > before) == ("success", True)

    @pytest.mark.parametrize("act", ["run", "pause", "resume"])
    def test_an_unknown_job_is_not_found(self, api: httpx.Client, act: str) -> None:
        assert api.post(f"{JOBS}nope/{act}/").status_code == 404


class TestTree:
    def test_the_tree_goes_down_to_its_depth(self, api: httpx.Client, session: str) -> None:
        api.post(
            EVENTS,
            json={
                "session_id": session,
                "text": "We decided to use PostgreSQL for the invoices.",
                "timestamp_ms": 1_770_000_000_000,
            },
        )
        days = {"from": "2026-02-01", "to": "2026-02-03"}

        def read(depth: str) -> list[str]:
            levels = []
            nodes = api.get(TREE, params={**days, "depth": depth}).json()["nodes"]
            while nodes:
                levels.append(nodes[0]["level"])
                nodes = nodes[0]["children"]
            return levels

        wait_until(lambda: read("segment")[-1:] == ["segment"], "the segment")
        assert read("segment") == ["year", "month", "week", "day", "segment"]
        assert read("month") == ["year", "month"]

    def test_all_segments_of_all_years_are_refused(self, api: httpx.Client) -> None:
        answer = api.get(TREE, params={"depth": "segment"})
        assert answer.status_code == 422
        assert "`from` and `to`" in answer.json()["detail"]


class TestUnknownParameters:
    @pytest.mark.parametrize(
        ("path", "name", "nearest"),
        [
            ("/api/v1/search/", "q", "did you mean 'query'?"),
            ("/api/v1/search/", "kind", "did you mean 'kinds'?"),
            ("/api/v1/memories/", "namspace", "did you mean 'namespace'?"),
            ("/api/v1/toc/", "limit", "it takes none"),
            ("/api/v1/sessions/", "zebra", "it takes session_id, limit, offset"),
        ],
    )
    def test_they_are_refused_with_the_nearest_name(
        self, api: httpx.Client, path: str, name: str, nearest: str
    ) -> None:
        answer = api.get(path, params={name: "x"})
        assert answer.status_code == 422
        assert f"unknown parameter '{name}'" in answer.json()["detail"]
        assert nearest in answer.json()["detail"]

    def test_known_ones_pass_by_the_names_of_the_reference(self, api: httpx.Client) -> None:
        known = {"query": "x", "from_timestamp_ms": "0", "min_score": "0.5", "kinds": "event"}
        assert api.get("/api/v1/search/", params=known).status_code == 200


class TestMemories:
    def capture(self, api: httpx.Client, summary: str, **fields: object) -> str:
        answer = api.post(MEMORIES, json={"namespace": "decisions", "summary": summary, **fields})
        assert answer.status_code == 201, answer.text
        namespace, _, name = answer.json()["memory_id"].partition(":")
        return f"{MEMORIES}{namespace}/{name}/"

    def test_a_captured_memory_can_be_read_and_found(self, api: httpx.Client) -> None:
        word = uuid4().hex
        path = self.capture(api, f"Use {word} for the data layer", tags=["db"], content="It works.")
        stored = api.get(path).json()
        assert (stored["tags"], stored["content"]) == (["db"], "It works.")
        assert stored["domain"] == "user"
        found = api.get("/api/v1/search/", params={"query": word}).json()["results"]
        assert stored["id"] in [hit["id"] for hit in found]

    def test_the_same_again_is_one_memory(self, api: httpx.Client) -> None:
        summary = f"Use {uuid4().hex}"
        self.capture(api, summary)
        again = api.post(MEMORIES, json={"namespace": "decisions", "summary": summary})
        assert (again.status_code, again.json()["created"]) == (200, False)

    def test_tags_and_status_change_in_place(self, api: httpx.Client) -> None:
        path = self.capture(api, f"Use {uuid4().hex}", tags=["db", "draft"])
        changed = api.patch(
            path, json={"add_tags": ["sql"], "remove_tags": ["draft"], "status": "resolved"}
        ).json()
        assert (changed["tags"], changed["status"]) == (["db", "sql"], "resolved")
        assert api.get(path).json()["status"] == "resolved"
        assert api.patch(path, json={"status": "archived"}).json()["status"] == "archived"
        assert api.patch(path, json={"status": "active"}).json()["status"] == "active"

    def test_a_change_reaches_the_notes_of_the_user(self, web: Web, api: httpx.Client) -> None:
        summary, tag = f"Seal jar {uuid4().hex}", f"jars-{uuid4().hex}"
        notes = ("git", "--git-dir", web.home.data / "user.git", "log", "--all", "--patch")

        def is_noted(text: str) -> bool:
            return text in subprocess.run(notes, check=False, capture_output=True, text=True).stdout

        path = self.capture(api, summary)
        wait_until(lambda: is_noted(summary), "the note of the capture")
        assert api.patch(path, json={"add_tags": [tag]}).status_code == 200
        wait_until(lambda: is_noted(tag), "the note of the change")

    def test_new_text_supersedes_the_old(self, api: httpx.Client) -> None:
        path = self.capture(api, f"Use {uuid4().hex}")
        new = api.patch(path, json={"summary": f"Use {uuid4().hex} instead"}).json()
        old = api.get(path).json()
        assert (old["status"], old["superseded_by"]) == ("archived", new["id"])

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({}, "nothing to change"),
            ({"remove_tags": ["nope"]}, "has no tag 'nope'"),
            ({"status": "pending"}, "status"),
            ({"sumary": "x"}, "sumary"),
        ],
    )
    def test_a_wrong_change_is_refused(
        self, api: httpx.Client, change: dict[str, object], reason: str
    ) -> None:
        path = self.capture(api, f"Use {uuid4().hex}")
        answer = api.patch(path, json=change)
        assert answer.status_code == 422
        assert reason in answer.text

    def test_forgetting_asks_again_and_leaves_nothing(self, api: httpx.Client) -> None:
        word = uuid4().hex
        path = self.capture(api, f"Use {word}")
        refused = api.delete(path)
        assert refused.status_code == 422
        assert "confirm=true" in refused.json()["detail"]
        assert api.get(path).status_code == 200
        report = api.delete(path, params={"confirm": "true"}).json()
        assert report["found_in"] == []
        assert api.get(path).status_code == 404
        assert api.get("/api/v1/search/", params={"query": word}).json()["results"] == []

    def test_an_unknown_one_is_not_found(self, api: httpx.Client) -> None:
        path = f"{MEMORIES}decisions/000000000000:0/"
        assert api.patch(path, json={"status": "resolved"}).status_code == 404
        assert api.delete(path).status_code == 404

    def test_an_unknown_project_names_the_known_ones(self, api: httpx.Client) -> None:
        answer = api.post(
            MEMORIES, json={"namespace": "decisions", "summary": "x", "domain": "project:nowhere"}
        )
        assert answer.status_code in (404, 422)
        assert "nowhere" in answer.json()["detail"]
