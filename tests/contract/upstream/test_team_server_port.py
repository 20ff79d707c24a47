"""A team's server as a machine sees it: over HTTP from a real daemon, and in a simulation."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agent_memory.features.index.model.queries import TEAM, Query
from agent_memory.features.knowledge.model.facts import Claim, Fact
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.upstream.adapters.http_server import HttpTeamServer
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.features.upstream.model.records import (
    MAX_RECORDS,
    ChangePage,
    ForgottenEvent,
    RecordBatch,
    ServerProject,
    TeamChange,
)
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.ports import TeamServer
from agent_memory.kernel.errors import InvalidInput, NotFound, RemoteUnavailable, Unauthorized
from agent_memory.kernel.ids import USER, Domain, EventId, Millis, SessionId
from tests.command_runner import Home, wait_until
from tests.memory_values import memory
from tests.simulation.laptops import (
    HOUR_MS,
    START_MS,
    SimulatedClock,
    TeamHub,
    TeamParts,
    TeamWorld,
    Wire,
)
from tests.team_laptops import TeamServerHome

SCOPE = SharedScope(frozenset({"shop", USER}))
Connect = Callable[[str], TeamServer]  # with the key of a person


class ErasingWire(Wire):
    """A simulated server that erases as its job does, before someone asks what changed."""

    def list_changes(
        self, after: str, scope: SharedScope, /, *, client: str = "", limit: int
    ) -> ChangePage:
        self._hub.erasing.run(lambda: None)
        return super().list_changes(after, scope, client=client, limit=limit)


@pytest.fixture(scope="module")
def real() -> Iterator[TeamServerHome]:
    with Home() as home:
        yield TeamServerHome(home)


@pytest.fixture(params=["http", "simulated"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    with ExitStack() as stack:
        if request.param == "http":
            server: TeamServerHome = request.getfixturevalue("real")
            number = len(server.keys)

            def over_http(person: str) -> TeamServer:
                name = f"{person}{number}"  # each test has people of its own
                key = server.keys.get(name) or server.create_key(name)
                server.keys[name] = key
                return stack.enter_context(closing(HttpTeamServer(server.url, key)))

            yield over_http
            return
        hub = TeamHub(SimulatedClock(at_ms=START_MS + HOUR_MS), TeamParts())
        stack.callback(hub.store.close)
        world = TeamWorld(0, random.Random(0), SimulatedClock(), trouble=0.0)
        yield lambda person: ErasingWire(world, hub, person, lambda: True)


def build_event(name: str, text: str = "words", project: str = "shop") -> Event:
    return Event(
        event_id=EventId(name),
        session_id=SessionId("s-1"),
        at_ms=Millis(1_767_225_600_000),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=text,
        metadata={"project": project},
    )


def build_fact(value: str, at: int, key: str) -> Fact:
    claim = Claim(scope="project:shop", key=key, value=value)
    return Fact(
        id=claim.fact_id,
        scope="project:shop",
        key=key,
        value=value,
        created_ms=Millis(at),
        updated_ms=Millis(at),
        valued_ms=Millis(at),
    )


def pull(server: TeamServer, scope: SharedScope = SCOPE) -> list[TeamChange]:
    found: list[TeamChange] = []
    after = ""
    while True:
        page = server.list_changes(after, scope, limit=2)
        found += page.changes
        if not page.more:
            return found
        after = page.next


def test_sending_again_changes_nothing(connect: Connect) -> None:
    ada = connect("ada")
    assert ada.identify().person.startswith("ada")
    batch = RecordBatch(
        machine="laptop",
        events=(build_event("again-1"),),
        memories=(memory("Sent again and again"),),
        facts=(build_fact("1", 5, "again"),),
    )
    first = ada.send(batch)
    assert (first.taken, first.known, first.refused) == (3, 0, ())
    second = ada.send(batch)
    assert (second.taken, second.known, second.refused) == (0, 3, ())


def test_a_server_counts_what_it_exchanges_with_a_client(connect: Connect) -> None:
    ada = connect("ada")
    assert ada.identify("client-1").receipt == 0
    batch = RecordBatch(client="client-1", facts=(build_fact("1", 5, "counted"),))
    assert ada.send(batch).receipt == 1
    page = ada.list_changes("", SCOPE, client="client-1", limit=100)
    assert page.changes
    assert page.receipt == 2
    assert ada.list_changes(page.next, SCOPE, client="client-1", limit=100).receipt == 2
    assert ada.identify("client-1").receipt == 2
    assert ada.identify("client-2").receipt == 0
    assert connect("bob").identify("client-1").receipt == 0
    assert ada.send(replace(batch, client="")).receipt == 0


def test_what_is_of_no_project_is_refused_and_the_rest_is_taken(connect: Connect) -> None:
    batch = RecordBatch(
        events=(build_event("none-1", project=""), build_event("none-2")),
        memories=(
            memory("Of an organization", domain=Domain("org:acme")),
            memory("Noted automatically", status=MemoryStatus.PENDING),
            memory("Of another person", domain=Domain("user:eve")),
        ),
        facts=(replace(build_fact("1", 5, "wrong"), id=build_fact("1", 5, "right").id),),
    )
    outcome = connect("ada").send(batch)
    assert outcome.taken == 1
    assert [each.kind for each in outcome.refused] == [
        "event",
        "memory",
        "memory",
        "memory",
        "fact",
    ]


def test_changes_of_one_reach_the_other_and_own_memories_do_not(connect: Connect) -> None:
    ada, bob = connect("ada"), connect("bob")
    shared, own = memory("Seen by the team"), memory("Seen by me", domain=USER)
    fact = build_fact("blue", 7, "colour")
    ada.send(RecordBatch(memories=(shared, own), facts=(fact,)))
    seen = pull(bob)
    assert shared in seen
    assert fact in seen
    assert own.summary not in [each.summary for each in seen if isinstance(each, Memory)]
    assert own in pull(ada)
    assert shared not in pull(bob, SharedScope(frozenset({"yard"})))


def test_copies_merge_and_tombstones_win(connect: Connect) -> None:
    ada, bob = connect("ada"), connect("bob")
    base = memory("Edited by two", at=1_700_000_000_100)
    ada.send(RecordBatch(memories=(base,)))
    one = memories.update_fields(base, Millis(1_700_000_000_200), tags=frozenset({"a"}))
    other = memories.update_fields(base, Millis(1_700_000_000_300), tags=frozenset({"b"}))
    bob.send(RecordBatch(memories=(other,)))
    ada.send(RecordBatch(memories=(one,)))
    (merged,) = [
        each for each in pull(bob) if isinstance(each, Memory) and each.digest == base.digest
    ]
    assert merged == memories.merge_copies(one, other)
    never_seen = memories.build_tombstone(memory("Never sent"), Millis(1_700_000_000_900))
    ada.send(RecordBatch(memories=(never_seen,)))
    outcome = bob.send(RecordBatch(memories=(memory("Never sent"),)))
    assert outcome.known == 1
    assert never_seen in [
        replace(each, updated_ms=never_seen.updated_ms)
        for each in pull(bob)
        if isinstance(each, Memory)
    ]


def test_a_removed_fact_stays_away_until_it_has_a_later_value(connect: Connect) -> None:
    ada, bob = connect("ada"), connect("bob")
    fact = build_fact("old", 10, "removed")
    ada.send(RecordBatch(facts=(fact,)))
    tombstone = FactTombstone(id=fact.id, scope=fact.scope, at_ms=Millis(20))
    bob.send(RecordBatch(removed_facts=(tombstone,)))
    wait_until(lambda: tombstone in pull(ada), "it is removed")
    assert ada.send(RecordBatch(facts=(build_fact("older", 15, "removed"),))).taken == 0
    later = build_fact("new", 30, "removed")
    assert ada.send(RecordBatch(facts=(later,))).taken == 1
    assert later in pull(bob)


def test_a_forgotten_event_does_not_come_back_and_only_its_person_learns(
    connect: Connect,
) -> None:
    ada, bob = connect("ada"), connect("bob")
    ada.send(RecordBatch(forgotten=(EventId("gone-1"),)))
    assert ada.send(RecordBatch(events=(build_event("gone-1"),))).known == 1
    assert bob.send(RecordBatch(events=(build_event("gone-1"),))).taken == 1
    assert ForgottenEvent(event_id=EventId("gone-1")) in pull(ada)
    assert ForgottenEvent(event_id=EventId("gone-1")) not in pull(bob)


def test_a_name_belongs_to_the_repository_that_had_it_first(connect: Connect) -> None:
    ada, bob = connect("ada"), connect("bob")
    one, other = "git.example/acme/till", "git.example/client/till"
    assert ada.find_project(one, "till") == ServerProject()
    assert ada.claim_project(one, "till") == "till"
    assert bob.claim_project(one, "of-bob") == "till"  # a clone that has another name there
    assert bob.find_project(other, "till") == ServerProject(taken_by=one)
    with pytest.raises(InvalidInput, match=f"{one} there.*--as NAME.*--join"):
        bob.claim_project(other, "till")
    assert bob.claim_project(other, "tills") == "tills"
    for name in ("user", "no name", ""):
        with pytest.raises(InvalidInput):
            bob.claim_project("git.example/acme/new", name)
    # A folder is one of its person, and joins by their word alone.
    assert ada.claim_project("/srv/till", "till", join=True) == "till"
    with pytest.raises(InvalidInput):
        bob.claim_project("/srv/till", "till")


def test_records_of_another_repository_are_refused(connect: Connect) -> None:
    ada, bob = connect("ada"), connect("bob")
    ours = {"mill": "git.example/acme/mill"}
    assert ada.claim_project(ours["mill"], "mill") == "mill"
    sent = RecordBatch(
        events=(build_event("mill-1", project="mill"),),
        memories=(memory("Of the mill", domain=Domain("project:mill")),),
        facts=(replace(build_fact("1", 5, "mill"), scope="project:mill"),),
    )
    for stated, reason in (
        ({}, "it names no repository: upgrade"),
        ({"mill": "git.example/client/mill"}, "that of git.example/acme/mill there"),
    ):
        outcome = bob.send(replace(sent, projects=stated))
        assert [each.kind for each in outcome.refused] == ["event", "memory", "fact"]
        assert all(reason in each.reason for each in outcome.refused)
    assert bob.claim_project("git.example/client/mill", "other-mill") == "other-mill"
    outcome = bob.send(replace(sent, projects={"mill": "git.example/client/mill"}))
    assert "is the project 'other-mill' here" in outcome.refused[0].reason
    taken = bob.send(replace(sent, projects=ours, facts=()))
    assert (taken.taken, taken.refused) == (2, ())


class TestOverHttp:
    def test_a_search_and_its_hit_are_marked_with_their_person(self, real: TeamServerHome) -> None:
        key = real.create_key("grace")
        with closing(HttpTeamServer(real.url, key)) as server:
            server.send(
                RecordBatch(
                    machine="desk", events=(build_event("find-1", "the walrus ledger is full"),)
                )
            )
            query = Query(text="walrus ledger")
            wait_until(lambda: bool(server.search(query, SCOPE).hits), "it is found")
            hit = server.search(query, SCOPE).hits[0]
            assert (hit.origin, hit.person, hit.document.id) == (TEAM, "grace", "find-1@grace")
            opened = server.open(hit.uri, SCOPE, around=2)
            assert (opened.person, opened.machine) == ("grace", "desk")
            narrow = SharedScope(frozenset({"yard"}))
            assert server.search(query, narrow).hits == ()
            with pytest.raises(NotFound):
                server.open(hit.uri, narrow, around=0)

    def test_a_secret_is_removed_here_too(self, real: TeamServerHome) -> None:
        token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
        with closing(HttpTeamServer(real.url, real.create_key("carol"))) as server:
            server.send(RecordBatch(events=(build_event("leak-1", f"use {token} now"),)))
            outcome = server.send(RecordBatch(memories=(memory("With a key", token),)))
            assert "secret" in outcome.refused[0].reason
        assert token not in str(real.list_events())

    def test_a_key_that_is_unknown_is_refused(self, real: TeamServerHome) -> None:
        with closing(HttpTeamServer(real.url, "am_unknown")) as server, pytest.raises(Unauthorized):
            server.identify()

    def test_a_batch_that_is_too_long_is_refused(self, real: TeamServerHome) -> None:
        events = tuple(build_event(f"many-{n}") for n in range(MAX_RECORDS + 1))
        key = real.create_key("dave")
        with closing(HttpTeamServer(real.url, key)) as server, pytest.raises(InvalidInput):
            server.send(RecordBatch(events=events))

    def test_a_server_that_is_away_or_another_is_reported(self) -> None:
        with (
            closing(HttpTeamServer("http://127.0.0.1:9", "k")) as nobody,
            pytest.raises(RemoteUnavailable),
        ):
            nobody.identify()
        with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as other:
            threading.Thread(target=other.serve_forever).start()
            url = f"http://127.0.0.1:{other.server_port}"
            try:
                with closing(HttpTeamServer(url, "k")) as wrong, pytest.raises(NotFound):
                    wrong.identify()
            finally:
                other.shutdown()


def test_a_connection_that_new_settings_have_replaced_counts_as_unavailable() -> None:
    server = HttpTeamServer("http://127.0.0.1:1", "key")
    server.close()
    with pytest.raises(RemoteUnavailable, match="have just changed"):
        server.identify()
