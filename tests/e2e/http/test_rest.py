"""REST of a real daemon: knowledge in its paths, fields and answers, and everything to be read."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict
from uuid import uuid4

import httpx
import pytest
from langgraph.graph import START as START_NODE
from langgraph.graph import StateGraph

from agent_memory.client.langgraph import AgentMemorySaver
from agent_memory.features.log.model.events import Event
from agent_memory.interfaces.wire.events import event_to_proto
from tests.command_runner import Home, wait_until
from tests.conversation_samples import START, THUMBNAILS, build_session
from tests.http_client import Web
from tests.memory_client import Client

FACTS = "/api/v1/memories/facts/"
EPISODES = "/api/v1/memories/episodes/"
PROCEDURES = "/api/v1/memories/procedures/"
USERS = "/api/v1/memories/users/"
CHECKPOINTS = "/api/v1/memories/checkpoints/"
KINDS = {
    FACTS: {"key": "k", "value": "v"},
    EPISODES: {"started_at": "2026-01-15T10:30:00", "ended_at": "2026-01-15T10:35:00"},
    PROCEDURES: {"name": "order_lookup"},
    USERS: {"canonical_id": "telegram:1"},
}
UNKNOWN = "6f1c1f6e-0000-5000-9b0e-0d2a9a1f5a11"


class State(TypedDict):
    said: list[str]


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
def scope() -> str:
    """One that no other test uses."""
    return f"project:{uuid4().hex}"


def create(api: httpx.Client, path: str, **fields: Any) -> dict[str, Any]:
    answer = api.post(path, json=fields)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def record(web: Web, events: list[Event]) -> None:
    """As another program would, over gRPC."""
    with Client(f"unix:{web.record['grpc_socket']}") as client:
        outcomes = client.ingest_all(map(event_to_proto, events))
    assert all(outcome.created for outcome in outcomes)


class TestFacts:
    def test_a_fact_has_the_fields_of_the_reference(self, api: httpx.Client, scope: str) -> None:
        fact = create(
            api,
            FACTS,
            scope=scope,
            agent_id="agent_abc123",
            key="company_name",
            value="Acme Corp",
            fact_type="preference",
            confidence=0.95,
        )
        assert list(fact) == [
            *("id", "scope", "agent_id", "user_id", "key", "value", "fact_type", "confidence"),
            *("times_confirmed", "access_count", "created_at", "updated_at"),
            *("session_id", "event_id"),
        ]
        assert fact["user_id"] is None
        assert (fact["confidence"], fact["times_confirmed"], fact["access_count"]) == (0.95, 1, 0)
        assert "+" not in fact["created_at"]
        assert not fact["created_at"].endswith("Z")
        assert api.get(FACTS, params={"scope": scope}).json() == {"items": [fact], "total": 1}

    def test_the_same_again_confirms_it_and_another_value_is_history(
        self, api: httpx.Client, scope: str
    ) -> None:
        first = create(api, FACTS, scope=scope, key="test", value="make test")
        again = create(api, FACTS, scope=scope, key="test", value="make test")
        assert again["id"] == first["id"]
        assert again["times_confirmed"] == 2
        assert again["confidence"] > first["confidence"]
        other = create(api, FACTS, scope=scope, key="test", value="make check")
        assert (other["times_confirmed"], other["confidence"]) == (1, first["confidence"])
        history = api.get(f"{FACTS}{first['id']}/history/").json()
        assert history["total"] == 1
        assert history["items"][0]["value"] == "make test"
        assert history["items"][0]["times_confirmed"] == 2

    def test_reading_one_is_counted_and_listing_is_not(self, api: httpx.Client, scope: str) -> None:
        fact = create(api, FACTS, scope=scope, key="k", value="v")
        for count in (1, 2):
            assert api.get(f"{FACTS}{fact['id']}/").json()["access_count"] == count
        wait_until(
            lambda: api.get(FACTS, params={"scope": scope}).json()["items"][0]["access_count"] == 2,
            "the count in the list",
        )

    def test_each_of_many_at_once_is_counted(self, api: httpx.Client, scope: str) -> None:
        fact = create(api, FACTS, scope=scope, key="k", value="v")
        with ThreadPoolExecutor(10) as readers:
            list(readers.map(lambda _: api.get(f"{FACTS}{fact['id']}/"), range(50)))
        assert api.get(f"{FACTS}{fact['id']}/").json()["access_count"] == 51

    def test_confirmed_without_its_type_it_keeps_it(self, api: httpx.Client, scope: str) -> None:
        create(api, FACTS, scope=scope, key="k", value="v", fact_type="preference")
        for value in ("v", "w"):
            again = create(api, FACTS, scope=scope, key="k", value=value)
            assert again["fact_type"] == "preference"

    def test_being_recalled_is_counted(self, api: httpx.Client, scope: str) -> None:
        word = uuid4().hex
        create(api, FACTS, scope=scope, key="codename", value=f"the codename is {word}")
        found = api.get("/api/v1/search/", params={"query": word, "kinds": "fact"}).json()
        assert [hit["key"] for hit in found["results"]] == ["codename"]
        assert word in found["results"][0]["text"]
        wait_until(
            lambda: api.get(FACTS, params={"scope": scope}).json()["items"][0]["access_count"] == 1,
            "the count in the list",
        )

    def test_a_correction(self, api: httpx.Client, scope: str) -> None:
        fact = create(api, FACTS, scope=scope, key="k", value="v")
        surer = api.patch(f"{FACTS}{fact['id']}/", json={"confidence": 1.0, "fact_type": "rule"})
        assert surer.status_code == 200
        assert (surer.json()["confidence"], surer.json()["fact_type"]) == (1.0, "rule")
        other = api.patch(f"{FACTS}{fact['id']}/", json={"value": "w"}).json()
        assert (other["value"], other["fact_type"]) == ("w", "rule")
        assert api.get(f"{FACTS}{fact['id']}/history/").json()["items"][0]["value"] == "v"

    def test_filters_and_pages(self, api: httpx.Client, scope: str) -> None:
        for number in range(7):
            kind = "odd" if number % 2 else "even"
            create(api, FACTS, scope=scope, key=f"k{number}", value="v", fact_type=kind)
        pages = [
            api.get(FACTS, params={"scope": scope, "limit": 3, "offset": offset}).json()
            for offset in (0, 3, 6, 9)
        ]
        assert [page["total"] for page in pages] == [7] * 4
        keys = [item["key"] for page in pages for item in page["items"]]
        assert sorted(keys) == [f"k{number}" for number in range(7)]
        odd = api.get(FACTS, params={"scope": scope, "fact_type": "odd"}).json()
        assert odd["total"] == 3

    def test_no_secret_is_kept(self, api: httpx.Client, scope: str, web: Web) -> None:
        secret = f"ghp_{'a1B2' * 9}"
        fact = create(api, FACTS, scope=scope, key="token", value=f"it is {secret}")
        assert secret not in json.dumps(fact)
        assert "REDACTED" in fact["value"]
        assert secret not in web.home.log()


class TestEpisodesProceduresAndUsers:
    def test_an_episode_has_the_fields_of_the_reference(self, api: httpx.Client) -> None:
        agent = uuid4().hex
        episode = create(
            api,
            EPISODES,
            agent_id=agent,
            user_id="user-uuid-5678",
            summary="Helped with order tracking",
            started_at="2025-01-15T10:30:00",
            ended_at="2025-01-15T11:35:00+01:00",
        )
        assert episode["ended_at"] == "2025-01-15T10:35:00"
        assert episode["duration_ms"] == 300_000
        assert {name: episode[name] for name in ("trigger_type", "success", "error_code")} == {
            "trigger_type": "chat",
            "success": True,
            "error_code": None,
        }
        assert list(episode)[:11] == [
            *("id", "agent_id", "user_id", "trigger_type", "success", "error_code", "summary"),
            *("started_at", "ended_at", "duration_ms", "created_at"),
        ]
        listed = api.get(EPISODES, params={"agent_id": agent}).json()
        assert listed == {"items": [episode], "total": 1}

    def test_one_that_is_said_to_have_succeeded_has_no_error(self, api: httpx.Client) -> None:
        times = KINDS[EPISODES]
        failed = create(api, EPISODES, success=False, error_code="timeout", **times)
        path = f"{EPISODES}{failed['id']}/"
        assert api.patch(path, json={"success": True}).json()["error_code"] is None
        assert api.patch(path, json={"error_code": "late"}).json()["success"] is False
        both = api.post(EPISODES, json={"success": True, "error_code": "x", **times})
        assert both.status_code == 422

    def test_a_procedure_has_the_fields_of_the_reference(self, api: httpx.Client) -> None:
        agent = uuid4().hex
        procedure = create(api, PROCEDURES, agent_id=agent, name="order_lookup")
        assert list(procedure)[:11] == [
            *("id", "agent_id", "name", "description", "procedure_type", "times_used"),
            *("times_succeeded", "times_failed", "success_rate", "is_active", "created_at"),
        ]
        assert (procedure["success_rate"], procedure["procedure_type"]) == (0.5, "tool_chain")
        changed = api.patch(
            f"{PROCEDURES}{procedure['id']}/", json={"times_succeeded": 14, "times_failed": 1}
        ).json()
        assert (changed["times_used"], changed["success_rate"]) == (15, 0.933)
        assert api.get(PROCEDURES, params={"agent_id": agent}).json()["items"] == [changed]

    def test_a_user_has_the_fields_of_the_reference(self, api: httpx.Client) -> None:
        number = uuid4().hex
        user = create(api, USERS, canonical_id=f"telegram:{number}", display_name="John Doe")
        assert list(user) == [
            *("id", "canonical_id", "display_name", "telegram_id", "email"),
            *("total_conversations", "last_seen_at", "created_at"),
        ]
        assert (user["telegram_id"], user["email"], user["total_conversations"]) == (
            number,
            None,
            0,
        )
        known = create(api, USERS, canonical_id=f"telegram:{number}", email="john@example.org")
        assert (known["id"], known["display_name"]) == (user["id"], "John Doe")
        assert known["email"] == "john@example.org"

    def test_they_grow_by_themselves(self, api: httpx.Client, web: Web) -> None:
        agent = uuid4().hex
        for number in range(3):
            name = f"{agent}/{number}"
            record(web, build_session(name, THUMBNAILS, start=START + number, agent=agent))
        found: dict[str, Any] = {}

        def learned() -> bool:
            found.update(api.get(EPISODES, params={"agent_id": agent}).json())
            return found["total"] == 3 and all(each["success"] for each in found["items"])

        wait_until(learned, "three episodes")
        assert found["items"][0]["summary"].startswith("The thumbnail of a rotated picture")
        (habit, _) = api.get(PROCEDURES, params={"agent_id": agent}).json()["items"]
        assert habit["times_used"] == 3
        users = api.get(USERS).json()["items"]
        assert {each["id"] for each in users} >= {found["items"][0]["user_id"]}
        sessions = api.get("/api/v1/sessions/").json()["items"]
        (mine,) = [each for each in sessions if each["session_id"] == f"{agent}/1"]
        assert (mine["events"], mine["ended"]) == (len(THUMBNAILS), True)
        page = api.get(f"/api/v1/sessions/{agent}/1/events/", params={"limit": 2}).json()
        assert [each["event_type"] for each in page["events"]] == ["session_start", "user_message"]
        following = {"continuation_token": page["continuation_token"], "limit": 1}
        page = api.get(f"/api/v1/sessions/{agent}/1/events/", params=following).json()
        (third,) = page["events"]
        assert third["metadata"]["tool_name"] == "Grep"
        assert api.get(f"/api/v1/events/{third['event_id']}").json() == third


class TestCheckpoints:
    """Written by a graph that runs, listed and deleted over REST."""

    def run(self, web: Web, thread: str) -> list[str]:
        graph = StateGraph(State)
        graph.add_node("one", lambda state: {"said": [*state["said"], "one"]})
        graph.add_edge(START_NODE, "one")
        with AgentMemorySaver.connect(f"unix:{web.record['grpc_socket']}") as saver:
            built = graph.compile(checkpointer=saver)
            config: Any = {"configurable": {"thread_id": thread}}
            built.invoke({"said": []}, config)
            history = list(built.get_state_history(config))
        return [state.config["configurable"]["checkpoint_id"] for state in history]

    def test_they_are_listed_and_deleted(self, api: httpx.Client, web: Web) -> None:
        thread = f"1:{uuid4().hex}"
        ids = self.run(web, thread)
        listed = api.get(CHECKPOINTS, params={"thread_id": thread}).json()
        assert listed["total"] == len(ids) == 3
        assert [item["checkpoint_id"] for item in listed["items"]] == ids
        newest = listed["items"][0]
        assert list(newest) == [
            *("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id"),
            *("step", "source", "blob_size", "timestamp_ms"),
        ]
        assert (newest["parent_checkpoint_id"], newest["step"], newest["source"]) == (
            ids[1],
            1,
            "loop",
        )
        assert newest["blob_size"] > 0
        (mine,) = [
            each
            for each in api.get(f"{CHECKPOINTS}threads/").json()["items"]
            if each["thread_id"] == thread
        ]
        assert (mine["checkpoints"], mine["latest"]) == (3, newest)
        one = api.post(f"{CHECKPOINTS}batch-delete/", json={"checkpoint_ids": [ids[0], "unknown"]})
        assert one.status_code == 204
        assert api.get(CHECKPOINTS, params={"thread_id": thread}).json()["total"] == 2
        whole = api.post(f"{CHECKPOINTS}batch-delete/", json={"thread_ids": [thread, "unknown"]})
        assert (whole.status_code, whole.content) == (204, b"")
        assert api.get(CHECKPOINTS, params={"thread_id": thread}).json() == {
            "items": [],
            "total": 0,
        }

    def test_without_a_list_nothing_is_deleted(self, api: httpx.Client) -> None:
        assert api.post(f"{CHECKPOINTS}batch-delete/", json={}).status_code == 422
        assert api.post(f"{CHECKPOINTS}batch-delete/", json={"thread_ids": []}).status_code == 204


@pytest.mark.parametrize("path", KINDS)
class TestAllKinds:
    def test_one_is_read_deleted_and_gone(self, api: httpx.Client, path: str) -> None:
        one = create(api, path, **KINDS[path])
        assert api.get(f"{path}{one['id']}/").json()["id"] == one["id"]
        gone = api.post(f"{path}batch-delete/", json={"ids": [one["id"], UNKNOWN, "x"]})
        assert (gone.status_code, gone.content) == (204, b"")
        missing = api.get(f"{path}{one['id']}/")
        assert missing.status_code == 404
        assert one["id"] in missing.json()["detail"]

    def test_nothing_to_delete_is_fine(self, api: httpx.Client, path: str) -> None:
        assert api.post(f"{path}batch-delete/", json={"ids": []}).status_code == 204

    @pytest.mark.parametrize(
        "wrong", [{"limit": 0}, {"limit": 501}, {"limit": "x"}, {"offset": -1}]
    )
    def test_a_page_that_cannot_be_is_refused(
        self, api: httpx.Client, path: str, wrong: dict[str, Any]
    ) -> None:
        answer = api.get(path, params=wrong)
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == ["query", next(iter(wrong))]

    @pytest.mark.parametrize(
        "body", [b"", b"{", b"[]", b'{"ids": 3}', b'{"ids": ["\\ud800"]}', b"\xff\xfe"]
    )
    def test_a_body_that_is_none_is_refused(
        self, api: httpx.Client, path: str, body: bytes
    ) -> None:
        head = {"content-type": "application/json"}
        assert api.post(f"{path}batch-delete/", content=body, headers=head).status_code == 422
        assert api.post(path, content=body, headers=head).status_code == 422

    def test_what_is_not_known_is_refused_by_name(self, api: httpx.Client, path: str) -> None:
        answer = api.post(path, json={**KINDS[path], "colour": "red"})
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == ["body", "colour"]
        assert "red" not in answer.text
        assert api.patch(f"{path}{UNKNOWN}/", json={"colour": "red"}).status_code == 422

    def test_one_that_is_not_there_cannot_be_changed(self, api: httpx.Client, path: str) -> None:
        assert api.patch(f"{path}{UNKNOWN}/", json={}).status_code == 404

    def test_without_its_last_slash_a_path_leads_there(self, api: httpx.Client, path: str) -> None:
        answer = api.get(path.rstrip("/"), params={"limit": 1})
        assert answer.status_code == 307
        assert answer.headers["location"].endswith(f"{path}?limit=1")


class TestReading:
    def test_from_the_years_down_to_the_events(self, api: httpx.Client, web: Web) -> None:
        session = uuid4().hex
        record(web, build_session(session, THUMBNAILS, start=START + 400 * 86_400_000))
        years: list[dict[str, Any]] = []

        def rolled_up() -> bool:
            found = api.get("/api/v1/toc/").json()["nodes"]
            years[:] = [each for each in found if each["title"] == "2027" and each["bullets"]]
            return bool(years)

        wait_until(rolled_up, "the year")
        (node,) = years
        assert api.get(f"/api/v1/toc/{node['node_id']}/").json()["node_id"] == node["node_id"]
        while node["level"] != "segment":
            children = api.get(f"/api/v1/toc/{node['node_id']}/children/").json()
            node = children["children"][0]
        grip_id = node["bullets"][0]["grip_ids"][0]
        expanded = api.get(f"/api/v1/grips/{grip_id}/", params={"events_before": 0}).json()
        assert expanded["grip"]["excerpt"] in expanded["excerpt_events"][0]["text"]
        assert expanded["events_before"] == []

    def test_memories(self, api: httpx.Client, web: Web) -> None:
        word = uuid4().hex
        captured = web.home.run(
            "memory", "capture", "decisions", f"Use {word}", "--domain", "user", "--format", "json"
        )
        uri = captured.json()["uri"]
        listed = api.get("/api/v1/memories/", params={"namespace": "decisions"}).json()
        assert uri in [each["uri"] for each in listed["results"]]
        name = uri.rpartition("/")[2]
        one = api.get(f"/api/v1/memories/decisions/{name}/", params={"domain": "user"}).json()
        assert (one["uri"], one["summary"]) == (uri, f"Use {word}")
        found = api.get("/api/v1/search/", params={"query": word, "kinds": "memory"}).json()
        assert [each["uri"] for each in found["results"]] == [uri]

    @pytest.mark.parametrize(
        "path",
        [
            "/api/v1/events/nothing",
            "/api/v1/toc/toc:year:1999/",
            "/api/v1/toc/nonsense/",
            "/api/v1/grips/grip:0/",
            "/api/v1/memories/decisions/abcdef123456:0/",
            "/api/v1/nothing/",
        ],
    )
    def test_what_is_not_there_is_told(self, api: httpx.Client, path: str) -> None:
        answer = api.get(path)
        assert answer.status_code == 404
        assert answer.json()["detail"]

    @pytest.mark.parametrize("path", ["/api/v1/search/", "/api/v1/memories/"])
    @pytest.mark.parametrize("wrong", [{"domain": "garbage"}, {"namespace": "nonsense"}])
    def test_a_filter_that_means_nothing_is_refused(
        self, api: httpx.Client, path: str, wrong: dict[str, str]
    ) -> None:
        answer = api.get(path, params=wrong)
        assert answer.status_code == 422
        assert next(iter(wrong.values())) in answer.json()["detail"]

    def test_the_page_of_the_interface_needs_no_network(self, web: Web) -> None:
        with web.client(key="") as client:
            page = client.get("/docs")
            assert page.status_code == 200
            assert "://" not in page.text.replace(str(client.base_url), "")
            for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
                assert client.get(f"/static-offline-docs/{name}").status_code == 200
            described = client.get("/openapi.json").json()
        assert FACTS in described["paths"]
        given = described["components"]["schemas"]["FactCreate"]
        assert given["examples"][0]["key"]

    def test_figures_for_prometheus(self, api: httpx.Client) -> None:
        api.get(FACTS)
        text = api.get("/metrics").text
        assert 'interface="http",operation="GET /api/v1/memories/facts/",outcome="200"' in text
        assert 'agent_memory_queue_depth{queue="words"}' in text
