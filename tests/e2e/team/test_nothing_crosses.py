"""Random calls over every interface: nothing crosses between people, projects and teams.

Every record has a marker of its own. After each call, the answer is searched for markers that the
caller must not see. Faults that are planted are found: so the search has eyes.
"""

import json
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx
import psycopg
import pytest
from websockets.sync.client import connect

from agent_memory.kernel.ids import MAX_MILLIS
from agent_memory.proto import memory_pb2 as pb
from bench.postgres_server import PostgresServer
from tests.command_runner import SECONDS, Home, wait_until
from tests.postgres_server import start_server
from tests.team_server import CONFIG, Caller, TeamServer

SEEDS: tuple[object, ...] = (0, pytest.param(1, marks=pytest.mark.soak))
STEPS = 50
PROJECTS = ("shop", "web")
SHARED = [*PROJECTS, "user"]  # what a machine may ask for


@dataclass
class World:
    """What was recorded: for each marker, the names of those who may see it."""

    chance: random.Random
    seen_by: dict[str, frozenset[str]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    memories: list[str] = field(default_factory=list)  # URNs
    nodes: list[str] = field(default_factory=list)
    grips: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    def mark(self, *names: str) -> str:
        """Return a new marker: a word that nothing else has."""
        marker = f"zq{self.chance.getrandbits(40):010x}zq"
        self.seen_by[marker] = frozenset(names)
        return marker

    def find_leak(self, caller: str, answer: str, sent: str) -> str | None:
        """Return a marker that the caller must not see, unless they sent it themselves."""
        return next(
            (
                marker
                for marker, names in self.seen_by.items()
                if marker in answer and caller not in names and marker not in sent
            ),
            None,
        )

    def choose(self, found: list[str]) -> str:
        return self.chance.choice(found) if found else "nothing"


def record(world: World, writer: Caller, project: str, readers: tuple[str, ...]) -> None:
    """Let someone record an event, a memory and a fact of a project, each with its own marker."""
    number = len(world.events)
    for part in range(2):
        event = {
            "session_id": f"session-{writer.name}-{project}-{number}",
            "event_id": f"event-{writer.name}-{number}-{part}",
            "text": f"We decided that the {project} uses {world.mark(*readers)} for its cache.",
            "event_type": ("user_message", "assistant_message")[part],
            "role": ("user", "assistant")[part],
            "timestamp_ms": 1_760_000_000_000 + number * 10_000_000 + part,
            "metadata": {"project": project},
        }
        writer.rest("POST", "/api/v1/events/", json=event)
        assert writer.status == 201
        world.events.append(f"{event['event_id']}@{writer.name}")
    memory = {
        "namespace": "decisions",
        "summary": f"Use {world.mark(*readers)} in {project}",
        "domain": f"project:{project}",
    }
    world.memories.append(json.loads(writer.rest("POST", "/api/v1/memories/", json=memory))["uri"])
    fact = {"scope": f"project:{project}", "key": f"colour-{number}", "value": world.mark(*readers)}
    created = json.loads(writer.rest("POST", "/api/v1/memories/facts/", json=fact))
    world.facts.append(created["id"])


def record_private(world: World, writer: Caller) -> None:
    memory = {
        "namespace": "patterns",
        "summary": f"I like {world.mark(writer.name)}",
        "domain": "user",
    }
    world.memories.append(json.loads(writer.rest("POST", "/api/v1/memories/", json=memory))["uri"])


def read_contents(world: World, server: TeamServer) -> None:
    """Cut segments, and note the ids of the nodes and grips that there are."""

    def has_run(job: str) -> bool:  # the daemon may be running it
        return server.home.run("memory-daemon", "scheduler", "run", job).code == 0

    for job in ("segment-summarizer", "hourly-rollup"):
        wait_until(partial(has_run, job), f"the job {job} has run")
    with server.over_socket() as owner:
        for event in world.events:
            session = owner.get(f"/api/v1/events/{event}").json()["session_id"]
            found = owner.get(f"/api/v1/sessions/{session}/segments/").json()["segments"]
            for segment in found:
                world.nodes.append(segment["node_id"])
                bullets = segment.get("bullets", ())
                world.grips += [grip for each in bullets for grip in each.get("grip_ids", ())]


Call = tuple[str, Callable[[Caller], str]]


def choose_call(world: World) -> Call:
    """Return a call at random, and what it sends."""
    event, urn = world.choose(world.events), world.choose(world.memories)
    node, grip, fact = (world.choose(each) for each in (world.nodes, world.grips, world.facts))
    words = world.chance.choice([world.choose(list(world.seen_by)), "decided cache", "like", ""])
    domain, namespace, name = urn.removeprefix("subcog://").split("/") if "/" in urn else ("",) * 3
    place = f"/api/v1/memories/{namespace}/{name}/"
    session = event.replace("event-", "session-")
    calls: list[Callable[[Caller], str]] = [
        lambda c: c.get("/api/v1/events/", limit=world.chance.choice([1, 7, 200])),
        lambda c: c.get(f"/api/v1/events/{event}"),
        lambda c: c.get(f"/api/v1/sessions/{session}/events/", order="desc"),
        lambda c: c.get("/api/v1/sessions/"),
        lambda c: c.get("/api/v1/toc/tree/", depth="day"),
        lambda c: c.get(f"/api/v1/toc/{node}/"),
        lambda c: c.get(f"/api/v1/grips/{grip}/", events_before=5, events_after=5),
        lambda c: c.get("/api/v1/search/", query=words, limit=50),
        lambda c: c.get("/api/v1/search/", query=words, kinds="grips,segments,facts"),
        lambda c: c.get("/api/v1/memories/", limit=100, detail="full"),
        lambda c: c.get("/api/v1/memories/", domain=domain or "user"),
        lambda c: c.get(place, domain=domain),
        lambda c: c.get(f"{place}versions/", domain=domain),
        lambda c: c.rest("PATCH", f"{place}?domain={domain}", json={"add_tags": ["x"]}),
        lambda c: c.get("/api/v1/memories/facts/", limit=100),
        lambda c: c.get(f"/api/v1/memories/facts/{fact}/"),
        lambda c: c.get(f"/api/v1/memories/facts/{fact}/history/"),
        lambda c: c.get("/api/v1/memories/episodes/"),
        lambda c: c.rest("POST", "/stream/recall", json={"query": words or "x"}),
        lambda c: c.get("/stream/events", since="0", timeout=0),
        lambda c: c.websocket({"operation": "recall", "query": words or "x"}),
        lambda c: c.rpc(
            "GetEvents", pb.GetEventsRequest(to_timestamp_ms=MAX_MILLIS), pb.GetEventsResponse
        ),
        lambda c: c.rpc("GetNode", pb.GetNodeRequest(node_id=node), pb.GetNodeResponse),
        lambda c: c.rpc("ExpandGrip", pb.ExpandGripRequest(grip_id=grip), pb.ExpandGripResponse),
        lambda c: c.rpc("GetTocRoot", pb.GetTocRootRequest(), pb.GetTocRootResponse),
        lambda c: c.search(words),
        lambda c: c.tool("memory_recall", query=words, kinds=["all"]),
        lambda c: c.tool("memory_expand", grip_id=grip),
        lambda c: c.tool("memory_timeline", node_id=node),
        lambda c: c.tool("memory_status"),
        lambda c: c.tool("memory_forget", memory_ids=[urn], confirm=False),
        lambda c: c.get("/api/v1/upstream/changes/", project=SHARED, limit=100),
        lambda c: c.get("/api/v1/upstream/record/", uri=urn, project=SHARED),
        lambda c: c.get("/api/v1/upstream/record/", uri=f"memory://events/{event}", project=SHARED),
        lambda c: c.get("/api/v1/upstream/record/", uri=f"memory://facts/{fact}", project=SHARED),
        lambda c: c.rest(
            "POST", "/api/v1/upstream/search/", json={"query": words or "x", "projects": SHARED}
        ),
        lambda c: c.resource(urn),
        lambda c: c.resource(f"memory://events/{event}"),
        lambda c: c.resource("subcog://user/patterns"),
    ]
    return words, world.chance.choice(calls)


def fuzz(world: World, callers: list[Caller], steps: int) -> str | None:
    """Call at random. Return what a caller saw that they must not see, if there was anything."""
    for step in range(steps):
        caller = world.chance.choice(callers)
        sent, call = choose_call(world)
        answer = call(caller)
        assert '"status": 500' not in answer
        assert caller.status != 500, answer
        if (marker := world.find_leak(caller.name, answer, sent)) is not None:
            return f"step {step}: {caller.name} saw {marker} in {answer[:500]}"
    return None


def watch(caller: Caller, write: Callable[[], object]) -> str:
    """Return everything that streams bring to someone while something is written."""
    received: list[str] = []
    streamed: list[str] = []
    subscribed = threading.Barrier(3)

    def follow_socket() -> None:
        with connect(
            f"ws://127.0.0.1:{caller.http_port}/ws", additional_headers=caller.headers
        ) as socket:
            for request in ({"events": True}, {"uri": "all"}):
                socket.send(json.dumps({"operation": "subscribe", **request}))
                received.append(str(socket.recv(SECONDS)))
            subscribed.wait(SECONDS)
            subscribed.wait(SECONDS)  # it was written
            # What comes before the answer to this came from the feed: it is in order.
            socket.send(json.dumps({"operation": "recall", "query": "like"}))
            while json.loads(received[-1])["type"] != "complete":
                received.append(str(socket.recv(SECONDS)))

    def follow_events() -> None:
        with (
            httpx.Client(base_url=caller.base, headers=caller.headers, timeout=SECONDS) as client,
            client.stream("GET", "/stream/events") as stream,
        ):
            lines = stream.iter_lines()
            streamed.append(next(lines))
            subscribed.wait(SECONDS)
            subscribed.wait(SECONDS)
            streamed.append(client.get("/stream/events?since=0&timeout=0").text)

    threads = [threading.Thread(target=each) for each in (follow_socket, follow_events)]
    for thread in threads:
        thread.start()
    subscribed.wait(SECONDS)
    write()
    subscribed.wait(SECONDS)
    for thread in threads:
        thread.join(SECONDS)
    return "\n".join((*received, *streamed))


class TestPeople:
    """Two writers of different projects, and a reader and an admin of all."""

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[TeamServer]:
        with Home() as home:
            home.configure(CONFIG)
            yield TeamServer(home)

    @pytest.fixture(scope="class")
    @classmethod
    def callers(cls, server: TeamServer) -> dict[str, Caller]:
        words = {
            "ada": ("--role", "writer", "--project", "shop"),
            "bob": ("--role", "writer", "--project", "web"),
            "eve": ("--role", "reader"),
            "root": ("--role", "admin"),
        }
        return {name: server.create(name, *each) for name, each in words.items()}

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, server: TeamServer, callers: dict[str, Caller]) -> World:
        world = World(random.Random(7))
        for _ in range(3):
            record(world, callers["ada"], "shop", ("ada", "eve", "root"))
            record(world, callers["bob"], "web", ("bob", "eve", "root"))
            for name in ("ada", "bob", "root"):
                record_private(world, callers[name])
        cls.record_mixed(world, callers["root"])
        read_contents(world, server)
        assert world.nodes
        return world

    @staticmethod
    def record_mixed(world: World, root: Caller) -> None:
        """Record a session that moves from one project to another: its summary tells of both."""
        for number, project in enumerate(PROJECTS):
            readers = ("eve", "root", "ada" if project == "shop" else "bob")
            event = {
                "session_id": "mixed",
                "event_id": f"event-mixed-{number}",
                "text": f"We decided that {project} must use {world.mark(*readers)} from now on.",
                "timestamp_ms": 1_750_000_000_000 + number,
                "metadata": {"project": project},
            }
            root.rest("POST", "/api/v1/events/", json=event)
            world.events.append(f"{event['event_id']}@root")

    @pytest.mark.parametrize("seed", SEEDS)
    def test_nobody_sees_what_is_not_theirs(
        self, world: World, callers: dict[str, Caller], seed: int
    ) -> None:
        world.chance.seed(seed)
        assert fuzz(world, list(callers.values()), STEPS) is None

    def test_everyone_finds_what_is_theirs(self, world: World, callers: dict[str, Caller]) -> None:
        """Hiding everything would be no art."""
        for marker, names in world.seen_by.items():
            for name in names:
                answer = callers[name].get("/api/v1/search/", query=marker, limit=100)
                assert marker in answer.replace(f'"query":"{marker}"', ""), (marker, name)

    def test_streams_bring_each_their_own(self, world: World, callers: dict[str, Caller]) -> None:
        def write() -> None:
            record(world, callers["bob"], "web", ("bob", "eve", "root"))
            record_private(world, callers["root"])

        assert world.find_leak("ada", watch(callers["ada"], write), "") is None
        before = set(world.seen_by)
        received = watch(callers["eve"], write)
        assert world.find_leak("eve", received, "") is None
        assert any(marker in received for marker in world.seen_by.keys() - before)

    def test_a_key_with_too_many_projects_is_found(self, server: TeamServer, world: World) -> None:
        """The planted fault: a key of ada's that sees everything."""
        faulty = server.create("wide", "--role", "writer")
        faulty.name = "ada"
        world.chance.seed(1)
        assert fuzz(world, [faulty], STEPS) is not None


# The planted fault of a daemon: its statements forget the tenant.
FORGETFUL = """
import sys
from agent_memory.platform.store import postgres
for name in ("_SCAN", "_READ_KEYS", "_NEIGHBORS"):
    statement = getattr(postgres, name)
    setattr(postgres, name, statement.replace("tenant = %s", "%s <> ''"))
from agent_memory.daemon.__main__ import main
import os
sys.exit(main(["--home", os.environ["HOME"]]))
"""
LEAK = "CREATE POLICY leak ON agent_memory.kv USING (true)"


@contextmanager
def run_forgetful(home: Home) -> Iterator[TeamServer]:
    """Run a daemon with the planted fault in place of that of a home."""
    home.stop()
    with home.begin_words([sys.executable, "-c", FORGETFUL]) as process:
        wait_until((home.data / "daemon.json").exists, "it serves")
        yield TeamServer(home)
        process.terminate()
        process.wait(SECONDS)


class TestTeams:
    """Two teams in one database, under a role without BYPASSRLS."""

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls) -> Iterator[PostgresServer]:
        database = start_server()
        yield database
        database.remove()

    @pytest.fixture(scope="class")
    @classmethod
    def homes(cls, database: PostgresServer) -> Iterator[dict[str, Home]]:
        with Home() as red, Home() as blue:
            homes = {"red": red, "blue": blue}
            for team, home in homes.items():
                home.configure(f'{CONFIG}[storage]\nurl = "{database.url}"\ntenant = "{team}"\n')
            yield homes

    @pytest.fixture(scope="class")
    @classmethod
    def callers(cls, homes: dict[str, Home]) -> dict[str, Caller]:
        return {
            team: TeamServer(home).create(team, "--role", "admin") for team, home in homes.items()
        }

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, homes: dict[str, Home], callers: dict[str, Caller]) -> World:
        world = World(random.Random(11))
        for _ in range(3):
            for team, caller in callers.items():
                record(world, caller, "shop", (team,))
                record_private(world, caller)
        for home in homes.values():
            for job in ("segments", "hourly-rollup"):
                home.run("memory-daemon", "scheduler", "run", job)
        return world

    @pytest.mark.parametrize("seed", SEEDS)
    def test_nothing_crosses(self, world: World, callers: dict[str, Caller], seed: int) -> None:
        world.chance.seed(seed)
        assert fuzz(world, list(callers.values()), STEPS) is None

    def test_streams_do_not_cross(self, world: World, callers: dict[str, Caller]) -> None:
        def write() -> None:
            record(world, callers["blue"], "shop", ("blue",))

        assert world.find_leak("red", watch(callers["red"], write), "") is None

    def test_a_key_of_one_team_is_unknown_to_the_other(self, callers: dict[str, Caller]) -> None:
        stranger = Caller(
            "red", callers["red"].secret, callers["blue"].http_port, callers["blue"].grpc_port
        )
        stranger.get("/api/v1/events/")
        assert stranger.status == 401
        assert stranger.search("x").startswith("UNAUTHENTICATED")

    def test_a_daemon_that_forgets_the_tenant_shows_nothing(
        self, world: World, homes: dict[str, Home], callers: dict[str, Caller]
    ) -> None:
        with run_forgetful(homes["red"]) as server:
            faulty = server.caller("red", callers["red"].secret)
            world.chance.seed(3)
            assert fuzz(world, [faulty], STEPS) is None

    def test_with_a_policy_that_shows_all_it_is_found(
        self,
        world: World,
        homes: dict[str, Home],
        callers: dict[str, Caller],
        database: PostgresServer,
    ) -> None:
        with closing(psycopg.connect(database.superuser_url, autocommit=True)) as connection:
            connection.execute(LEAK)
            try:
                with run_forgetful(homes["red"]) as server:
                    faulty = server.caller("red", callers["red"].secret)
                    world.chance.seed(3)
                    assert fuzz(world, [faulty], STEPS) is not None
            finally:
                connection.execute("DROP POLICY leak ON agent_memory.kv")
