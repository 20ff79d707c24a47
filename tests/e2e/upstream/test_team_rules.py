"""Laptops of several people and a team server: whose a record is, and what a key may do."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agent_memory.features.knowledge.model.facts import Claim, apply_claim
from agent_memory.features.memories.model.memories import build_tombstone
from agent_memory.features.upstream.model import records
from agent_memory.kernel.ids import Domain, Millis
from tests.command_runner import Home, wait_until
from tests.hostile_team_server import open_hostile_server
from tests.memory_commands import INVALID, MISSING, OK, assert_refused
from tests.memory_values import memory
from tests.team_laptops import AT, Laptop, TeamServerHome, get_repository, open_team

OK_STATUS, CREATED, NOT_FOUND = 200, 201, 404
DAY_MS = 86_400_000
RECORDS = "/api/v1/upstream/records/"
Team = tuple[TeamServerHome, Laptop, Laptop]


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    """A team server, and laptops of Ada and Bob that share the project `work`."""
    with open_team(2, people=True) as (server, (ada, bob)):
        ada.connect(server, server.create_key("ada"), "work")
        bob.connect(server, server.create_key("bob"), "work")
        yield server, ada, bob


def capture(laptop: Laptop, words: str) -> str:
    answer = laptop.memory.json("capture", "decisions", words, "--domain", "project:work")
    return str(answer["memory_id"])


def test_recall_says_whose_a_memory_is_that_came_down(team: Team) -> None:
    server, ada, bob = team
    capture(ada, "The heron gateway has two nodes")
    mine = capture(bob, "The heron gateway runs on port 9000")
    for laptop in (ada, bob):
        laptop.sync()
    found = bob.recall("heron", "gateway")["results"]
    theirs = next(hit for hit in found if "two nodes" in json.dumps(hit))
    own = next(hit for hit in found if "9000" in json.dumps(hit))
    assert (theirs["origin"], theirs["person"]) == ("team", "ada")
    assert (own["origin"], own["person"]) == ("local", None)
    assert bob.memory.show(mine)["summary"].endswith("9000")
    # The server has no clone of the project, and so no notes.
    verified = server.home.run("memory-daemon", "admin", "verify")
    assert verified.code == OK, verified


def test_only_the_one_who_captured_a_memory_can_forget_it_for_all(team: Team) -> None:
    _, ada, bob = team
    name = capture(ada, "The crane service retries three times")
    for laptop in (ada, bob):
        laptop.sync()
    report = bob.memory("forget", name, "--yes")
    assert report.code == OK
    assert "ada captured it" in report.text
    assert_refused(bob.memory("show", name), MISSING)
    bob.sync()
    ada.sync()
    assert ada.memory.show(name)["summary"].endswith("three times")
    assert ada.memory("forget", name, "--yes").code == OK
    ada.sync()
    assert_refused(ada.memory("show", name), MISSING)


def test_what_a_key_may_not_send_is_named_and_sent_with_one_that_may(team: Team) -> None:
    server, _, bob = team
    bob.log_in(server.create_key("bob", "--project", "web"))
    bob.record("refused-1", "the pelican index is rebuilt at night", "work")
    refused = {each["name"]: each["reason"] for each in bob.sync()["last_refused"]}
    assert refused["refused-1"] == "it is of no project that you may write to"
    assert f": {refused['refused-1']}" in bob.memory.text("remote", "status")
    assert server.find_event("refused-1@bob") is None
    bob.log_in(server.create_key("bob"))
    assert "refused-1" not in {each["name"] for each in bob.sync()["last_refused"]}
    assert server.find_event("refused-1@bob") is not None


def test_a_reader_gets_what_others_change(team: Team) -> None:
    server, ada, bob = team
    bob.log_in(server.create_key("bob", role="reader"))
    bob.record("unsent-1", "this stays on the machine of a reader", "work")
    name = capture(ada, "The stork queue has a limit of ten")
    ada.sync()
    status = bob.sync()
    assert (status["rights"], status["last_error"]) == ("reader", None)
    assert bob.memory.show(name)["summary"].endswith("limit of ten")
    assert "Your key may only read" in bob.memory.text("remote", "status")
    assert server.find_event("unsent-1@bob") is None
    bob.log_in(server.create_key("bob"))
    bob.sync()
    assert server.find_event("unsent-1@bob") is not None


def test_a_server_is_not_removed_while_a_forgetting_waits_for_it() -> None:
    with open_team(1) as (server, (laptop,)):
        laptop.connect(server, server.create_key("ada"), "work")
        laptop.record("waits-1", "this is to be forgotten", "work")
        laptop.sync()
        server.home.stop()
        assert laptop.memory("forget", "--event", "waits-1", "--yes").code == OK
        assert "nothing is exchanged with team" in laptop.memory("doctor").text
        refused = laptop.memory("remote", "remove")
        assert refused.code == INVALID
        assert "1 record that you have forgotten would stay there" in refused.errors
        assert laptop.memory("remote", "remove", "--yes").code == OK


def now_ms() -> int:
    return int(time.time() * 1000)


def send(server: TeamServerHome, key: str, **batch: list[Any]) -> dict[str, Any]:
    body = {**batch, "projects": {"work": get_repository("work")}}
    answer = server.web.ask("POST", RECORDS, key=key, json=body)
    assert answer.status_code == OK_STATUS, answer.text
    outcome: dict[str, Any] = answer.json()
    return outcome


def build_event(name: str, project: str) -> dict[str, Any]:
    return {
        "event_id": name,
        "session_id": "s-1",
        "timestamp_ms": AT,
        "type": 2,
        "role": 1,
        "text": f"words of {name}",
        "metadata": {"project": project},
    }


def build_fact(scope: str, key: str) -> dict[str, Any]:
    claim = Claim(scope=scope, key=key, value="forty")
    fact, _ = apply_claim(None, claim, Millis(now_ms()))
    return records.encode_fact(fact)


def build_stone(summary: str, domain: str) -> dict[str, Any]:
    """Return the tombstone of a decision."""
    return records.encode_memory(
        build_tombstone(memory(summary, domain=Domain(domain)), Millis(AT))
    )


class TestLimitedKey:
    """A writer key for the project `work` that fell into the wrong hands."""

    def test_it_removes_no_fact_of_another_scope(self, team: Team) -> None:
        server, ada, bob = team
        own = [bob.state_fact(scope, "owner", "Bob") for scope in ("project:diary", "global")]
        shared = ada.state_fact("project:work", "region", "eu-west-1")
        every = server.create_key("ada")
        web = build_fact("project:web", "region")
        assert send(server, every, facts=[web])["refused"] == []
        for laptop in (ada, bob):
            laptop.sync()
        stolen = server.create_key("bob", "--project", "work")
        stones = [
            {"id": fact["id"], "scope": "project:work", "at_ms": now_ms()}
            for fact in (*own, web, shared)
        ]
        outcome = send(server, stolen, removed_facts=stones)
        assert outcome["refused"] == []  # nor does it say which of them there are
        forged = build_fact("project:work", "region") | {"id": own[0]["id"]}
        assert "does not fit" in json.dumps(send(server, stolen, facts=[forged])["refused"])
        ada.sync()

        def is_removed() -> bool:
            bob.sync()
            return bob.find_fact(shared["id"]) is None

        wait_until(is_removed, "tombstones arrive")
        assert [(bob.find_fact(fact["id"]) or {}).get("value") for fact in own] == ["Bob", "Bob"]
        found = server.web.ask(path=f"/api/v1/memories/facts/{web['id']}/", key=every)
        assert found.json()["value"] == "forty"
        # What was claimed does not keep the fact from coming later, or being removed.
        later = build_fact("project:web", "owner")
        stone = {"id": later["id"], "scope": "project:work", "at_ms": now_ms()}
        send(server, stolen, removed_facts=[stone])
        assert send(server, every, facts=[later])["taken"] == 1
        send(server, every, removed_facts=[dict(stone, scope="project:web")])

        def is_gone() -> bool:
            found = server.web.ask(path=f"/api/v1/memories/facts/{later['id']}/", key=every)
            return found.status_code == NOT_FOUND

        wait_until(is_gone, "it is removed")

    def test_it_forgets_no_event_and_no_memory_of_another_project(self, team: Team) -> None:
        server, _, _ = team
        every, stolen = server.create_key("ada"), server.create_key("ada", "--project", "work")
        send(server, every, events=[build_event("web-1", "web")])
        refused = send(server, stolen, forgotten=["web-1", "web-2", "work-2"])["refused"]
        assert [each["name"] for each in refused] == ["web-1"]
        assert server.find_event("web-1@ada") is not None
        # It cannot keep away what comes later either, but for the project that it may write to.
        come = [build_event("web-2", "web"), build_event("work-2", "work")]
        assert send(server, every, events=come) | {"receipt": 0} == {
            "taken": 1,
            "known": 1,
            "refused": [],
            "receipt": 0,
            "lowered": [],
        }
        assert server.find_event("web-2@ada") is not None
        stone = build_stone("Herons sleep at noon", "project:web")
        assert "no project that you may" in json.dumps(send(server, stolen, memories=[stone]))


def test_a_hostile_server_touches_nothing_that_was_not_shared_with_it() -> None:
    with open_hostile_server() as hostile, Home() as home:
        home.configure("[upstream]\ndelay_minutes = 0\n")
        laptop = Laptop(home)
        home.serve()
        laptop.clone("work")
        private = [laptop.state_fact(scope, "a", "b") for scope in ("project:diary", "global")]
        shared = laptop.state_fact("project:work", "a", "b")
        laptop.record("sent-1", "this is shared", "work")
        laptop.record("diary-1", "of the same session, and private", "diary")
        saved = laptop.memory.capture("decisions", "Keep this", "--domain", "user")
        gone = laptop.memory.capture("decisions", "Keep that", "--domain", "project:work")
        assert laptop.memory("remote", "add", hostile.url).code == OK
        laptop.log_in("am_key")
        laptop.share("work")
        laptop.sync()
        for fact in (*private, shared):
            hostile.add("removed_fact", id=fact["id"], scope="project:work", at_ms=now_ms())
        hostile.add("fact", **build_fact("project:work", "a") | {"id": private[0]["id"]})
        hostile.add("memory", **build_stone("Keep this", "user"))
        hostile.add("memory", **build_stone("Keep that", "project:work"))
        for name in ("diary-1", "sent-1", "diary-2", "sent-2"):
            hostile.add("forgotten_event", event_id=name)
        laptop.sync()
        # What it may erase waits for a day.
        assert laptop.has_event("sent-1")
        assert laptop.find_fact(shared["id"]) is not None
        waiting = laptop.memory.json("team", "waiting")["here"]
        assert sorted(each["kind"] for each in waiting) == ["event", "fact", "memory"]
        assert {each["asked_by"] for each in waiting} == {"team"}
        assert {each["due_ms"] - each["asked_ms"] for each in waiting} == {DAY_MS}
        assert laptop.status()["to_erase"] == len(waiting)
        assert "3 records are to be erased" in laptop.memory("doctor").text
        refused = laptop.memory("team", "keep", "--all", env={"CLAUDECODE": "1"})
        assert_refused(refused, INVALID, "only you")
        laptop.wait_before_erasing(0)
        laptop.record("diary-2", "this comes later, and is private", "diary")
        laptop.record("sent-2", "this was forgotten elsewhere before it came", "work")
        wait_until(lambda: laptop.sync() is not None and not laptop.has_event("sent-2"), "it goes")
        assert not laptop.has_event("sent-1")
        assert laptop.find_fact(shared["id"]) is None
        assert [(laptop.find_fact(f["id"]) or {}).get("value") for f in private] == ["b", "b"]
        assert laptop.has_event("diary-1")
        assert laptop.has_event("diary-2")
        assert laptop.memory.show(saved)["summary"] == "Keep this"
        assert_refused(laptop.memory("show", gone), MISSING)


class TestErasingWaits:
    @pytest.fixture
    def waiting(self, team: Team) -> Iterator[Team]:
        server, ada, bob = team
        ada.log_in(server.create_key("ada"))
        bob.log_in(server.create_key("bob"))
        server.wait_before_erasing(24)
        yield team
        server.wait_before_erasing(0)

    def test_a_stolen_key_erases_nothing_for_a_day(self, waiting: Team) -> None:
        server, ada, bob = waiting
        names = [f"toucan-{number}" for number in range(20)]
        for name in names:
            ada.record(name, f"the toucan service has port {name}", "work")
        ada.sync()
        stolen = server.create_key("ada")
        assert send(server, stolen, forgotten=names)["taken"] == len(names)
        ada.sync()
        bob.sync()
        listed = {event["event_id"] for event in server.list_events()}
        assert {f"{name}@ada" for name in names} <= listed
        # Nobody's agents are given them, and the person is told.
        assert not [hit for hit in bob.recall("toucan")["results"] if "toucan" in hit["id"]]
        assert ada.status()["to_erase"] == len(names)
        assert f"{len(names)} records: memory team waiting" in ada.memory.text("remote", "status")
        there = ada.memory.json("team", "waiting")["on_server"]
        assert {each["asked_by"] for each in there} == {"ada"}
        assert bob.memory.json("team", "waiting")["on_server"] == []
        assert ada.memory.json("team", "keep", there[0]["name"])["on_server"] == 1
        assert ada.memory.json("team", "keep", "--all") == {"here": 0, "on_server": len(names) - 1}
        server.wait_before_erasing(0)
        assert ada.sync()["to_erase"] == 0
        assert {f"{name}@ada" for name in names} <= {
            event["event_id"] for event in server.list_events()
        }
        assert all(map(ada.has_event, names))

    def test_your_own_forgetting_counts_here_at_once_and_there_after_the_wait(
        self, waiting: Team
    ) -> None:
        server, ada, _ = waiting
        ada.record("macaw-1", "the macaw index is private after all", "work")
        ada.sync()
        assert ada.memory("forget", "--event", "macaw-1", "--yes").code == OK
        assert not ada.has_event("macaw-1")
        assert server.find_event("macaw-1@ada") is not None
        assert ada.recall("macaw")["results"] == []
        operator = server.home.run("memory", "team", "waiting", "--format", "json").json()
        (pending,) = (each for each in operator["here"] if each["name"] == "macaw-1@ada")
        assert pending["asked_by"] == "ada"
        erased = server.home.run("memory", "team", "erase", "macaw-1@ada", "--yes")
        assert erased.code == OK, erased
        assert server.find_event("macaw-1@ada") is None
        ada.record("macaw-2", "another one of the macaw index", "work")
        ada.sync()
        ada.memory("forget", "--event", "macaw-2", "--yes")
        assert server.find_event("macaw-2@ada") is not None
        server.wait_before_erasing(0)
        ada.sync()
        wait_until(lambda: server.find_event("macaw-2@ada") is None, "it has waited")


def test_a_key_that_someone_else_makes_in_your_name_is_shown_to_you(team: Team) -> None:
    server, ada, _ = team
    ada.sync()
    ada.memory("team", "keys")  # has seen those so far
    admin = server.create_key("root", role="admin")
    key = {"name": "spy", "person": "ada", "role": "reader"}
    answer = server.web.ask("POST", "/api/v1/keys/", key=admin, json=key)
    assert answer.status_code == CREATED, answer.text
    assert ada.sync()["new_keys"] == ["spy"]
    assert "New keys in your name: spy" in ada.memory.text("remote", "status")
    assert "new keys in your name: spy" in ada.memory("doctor").text
    keys = {each["name"]: each for each in ada.memory.json("team", "keys")["keys"]}
    assert (keys["spy"]["created_by"], keys["spy"]["rights"]) == ("root", "reader")
    assert keys[next(iter(keys))]["created_by"] == ""
    assert ada.sync()["new_keys"] == []
    log = server.web.ask(path="/api/v1/audit/", key=admin, params={"target": "spy"}).json()
    assert any(each["person"] == "root" for each in log["entries"])


def test_what_a_client_says_of_time_is_not_later_than_now(team: Team) -> None:
    server, ada, bob = team
    for laptop, person in ((ada, "ada"), (bob, "bob")):
        laptop.log_in(server.create_key(person))
        laptop.share("work")
    name = capture(bob, "The ostrich gate opens at nine")
    for laptop in (bob, ada):
        laptop.sync()
    key = server.create_key("ada")
    last = 9_999_999_999_999
    changes = server.web.ask(
        path="/api/v1/upstream/changes/", key=key, params={"project": ["work"], "limit": 500}
    ).json()["changes"]
    live = next(each["record"] for each in changes if "ostrich" in json.dumps(each))
    ahead = dict(live, status="archived", updated_ms=last)
    fact = build_fact("project:work", "gate") | {"valued_ms": now_ms() + 3_600_000}
    answer = send(server, key, memories=[ahead], facts=[fact])
    assert answer["refused"] == []
    lowered = {each["kind"]: each["record"] for each in answer["lowered"]}
    assert lowered["memory"]["updated_ms"] <= now_ms()
    assert lowered["fact"]["valued_ms"] <= now_ms()
    # Sending it again does not make it newer.
    again = send(server, key, memories=[ahead], facts=[fact])
    assert (again["taken"], again["known"]) == (0, 2)
    bob.sync()
    assert bob.memory.show(name)["status"] == "archived"
    assert capture(bob, "The ostrich gate opens at nine") == name  # which makes it active again
    bob.state_fact("project:work", "gate", "nine")
    for laptop in (bob, ada, bob):
        laptop.sync()
    for laptop in (ada, bob):
        assert laptop.memory.show(name)["status"] == "active"
        assert (laptop.find_fact(fact["id"]) or {})["value"] == "nine"
    event = build_event("ahead-1", "work") | {"timestamp_ms": last}
    assert send(server, key, events=[event])["taken"] == 1
    stored = server.find_event("ahead-1@ada")
    assert stored is not None
    assert stored["timestamp_ms"] <= now_ms()
