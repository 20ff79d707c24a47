"""People on a team server: keys, roles, projects and what is private, over every interface."""

import json
import re
import shutil
from collections.abc import Iterator

import pytest
from google.protobuf.message import Message
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from agent_memory.interfaces.http.refusals import POLICY_VIOLATION
from agent_memory.interfaces.permissions import list_http
from agent_memory.proto import checkpoints_pb2 as graphs
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import SECONDS, Home, wait_until
from tests.memory_commands import CONFIG as CONFIG_ERROR
from tests.memory_commands import assert_refused
from tests.team_server import CONFIG, Caller, TeamServer

FORBIDDEN, UNAUTHORIZED, CREATED = 403, 401, 201


# Closed to teams: each would show or change what belongs to others.
CLOSED = {
    ("GET", "/api/v1/memories/duplicates/"),
    ("POST", "/api/v1/memories/merges/"),
    ("GET", "/api/v1/memories/undo/"),
    ("POST", "/api/v1/memories/undo/"),
    ("PATCH", "/api/v1/lessons/{lesson_id}/"),  # a key belongs to a program
    ("POST", "/api/v1/lessons/{lesson_id}/accept/"),
    ("GET", "/api/v1/inbox/"),
    ("POST", "/api/v1/inbox/"),
    ("PUT", "/api/v1/projects/{name}/recording/"),
    ("GET", "/api/v1/recording/"),
    ("PATCH", "/api/v1/recording/"),
    ("POST", "/api/v1/recording/pause/"),
    ("POST", "/api/v1/recording/resume/"),
    ("GET", "/api/v1/hooks/"),
    ("POST", "/stream/sync"),
    *(
        ("POST", f"/api/v1/memories/{kind}/batch-delete/")
        for kind in ("facts", "episodes", "procedures", "users", "checkpoints")
    ),
    ("GET", "/.well-known/agent-memory"),  # needs no key
}


@pytest.fixture(scope="module")
def server() -> Iterator[TeamServer]:
    with Home() as home:
        home.configure(CONFIG)
        yield TeamServer(home)


@pytest.fixture(scope="module")
def ada(server: TeamServer) -> Caller:
    return server.create("ada", "--role", "writer", "--project", "shop")


@pytest.fixture(scope="module")
def bob(server: TeamServer) -> Caller:
    return server.create("bob", "--role", "writer", "--project", "web")


@pytest.fixture(scope="module")
def eve(server: TeamServer) -> Caller:
    return server.create("eve", "--role", "reader")


@pytest.fixture(scope="module")
def root(server: TeamServer) -> Caller:
    return server.create("root", "--role", "admin")


def record(caller: Caller, name: str, text: str, project: str, **metadata: str) -> str:
    body = {
        "session_id": f"s-{name}",
        "event_id": f"e-{name}",
        "text": text,
        "metadata": {"project": project, **metadata},
    }
    return caller.rest("POST", "/api/v1/events/", json=body)


def capture(caller: Caller, summary: str, domain: str) -> str:
    body = {"namespace": "decisions", "summary": summary, "domain": domain}
    return caller.rest("POST", "/api/v1/memories/", json=body)


def test_a_team_server_that_is_set_but_not_started_says_so() -> None:
    with Home() as home:
        home.serve()
        home.configure(CONFIG)
        answer = home.run("memory-daemon", "token", "create", "ada", "--person", "ada")
        assert_refused(answer, CONFIG_ERROR, "started without it: `memory-daemon restart`")
        words = ("capture", "decisions", "We have no organisation", "--domain", "org")
        assert home.run("memory", *words).code == CONFIG_ERROR
        body = {"namespace": "decisions", "summary": "We have none", "domain": "org"}
        with TeamServer(home).over_socket() as client:
            refused = client.post("/api/v1/memories/", json=body)
        assert refused.status_code in (409, 422)
        assert "organisation" in refused.text or "org" in refused.text


class TestKeys:
    def test_nothing_is_admitted_without_a_key(self, server: TeamServer) -> None:
        nobody = server.caller("nobody", "")
        assert "ask an admin of your team" in nobody.get("/api/v1/search/", query="x")
        assert nobody.status == UNAUTHORIZED
        assert nobody.search("x").startswith("UNAUTHENTICATED")  # though it is the same user
        nobody.get("/health")
        assert nobody.status == 200

    def test_a_key_without_a_person_is_refused(self, server: TeamServer) -> None:
        answer = server.home.run("memory-daemon", "token", "create", "program")
        assert answer.code != 0
        assert "--person" in answer.errors
        words = ("token", "create", "eva", "--person", "eva", "--project", "shop")
        built = server.home.run("memory-daemon", *words, "--format", "json").json()
        assert (built["person"], built["role"], built["projects"]) == ("eva", "reader", ["shop"])
        assert not (server.home.data / "key").exists()

    @pytest.mark.usefixtures("ada")
    def test_keys_are_listed_with_their_holder(self, server: TeamServer) -> None:
        listed = server.home.run("memory-daemon", "token", "list", "--format", "json").json()
        assert {"person": "ada", "role": "writer", "projects": ["shop"]}.items() <= next(
            key for key in listed if key["name"] == "ada"
        ).items()
        assert "ada, writer of shop" in server.home.run("memory-daemon", "token", "list").text

    def test_on_a_terminal_the_key_comes_with_what_it_may_do(self, server: TeamServer) -> None:
        words = ("token", "create", "zoe", "--person", "zoe")
        with server.home.on_terminal("memory-daemon", *words) as screen:
            screen.read_until("am_")
            assert screen.finish() == 0
        shown = " ".join(screen.text.split())
        assert "it cannot be shown again. It is zoe's, as reader, for all projects." in shown

    def test_a_revoked_key_ends(self, server: TeamServer) -> None:
        leaver = server.create("leaver")
        leaver.get("/api/v1/search/", query="x")
        assert leaver.status == 200
        server.home.run("memory-daemon", "token", "revoke", "leaver", "--yes")
        leaver.get("/api/v1/search/", query="x")
        assert leaver.status == UNAUTHORIZED
        assert leaver.search("x").startswith("UNAUTHENTICATED")

    def test_a_revoked_key_ends_where_it_is_in_use(self, server: TeamServer, root: Caller) -> None:
        leaver = server.create("leaver", "--role", "writer")
        with leaver.ingest_stream() as send:
            assert "leaves-1" in send("leaves-1")
            server.revoke("leaver")
            assert send("leaves-2").startswith("UNAUTHENTICATED: the key was revoked")
        leaver = server.create("leaver", "--role", "writer")
        socket = connect(f"ws://127.0.0.1:{server.http_port}/ws", additional_headers=leaver.headers)
        with socket:
            socket.send('{"operation": "ping"}')
            assert json.loads(socket.recv(SECONDS))["type"] == "pong"
            server.revoke("leaver")
            socket.send('{"operation": "recall", "query": "leaves"}')
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(SECONDS)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == POLICY_VIOLATION

        leaver = server.create("leaver", "--role", "writer")
        event = {"session_id": "s-leaves", "event_id": "leaves-3", "text": "x"}
        body = json.dumps(event | {"metadata": {"project": "shop"}}).encode()

        def send_slowly() -> Iterator[bytes]:
            yield body[:10]
            server.revoke("leaver")
            yield body[10:]

        refused = leaver.rest(
            "POST",
            "/api/v1/events/",
            content=send_slowly(),
            headers={"content-type": "application/json"},
        )
        assert (leaver.status, "was revoked" in refused) == (UNAUTHORIZED, True)
        stored = {event: root.get(f"/api/v1/events/leaves-{event}@leaver") for event in (1, 2, 3)}
        assert [number for number, answer in stored.items() if "session_id" in answer] == [1]

    def test_the_unix_socket_is_the_owners(self, server: TeamServer) -> None:
        with server.over_socket() as client:
            assert client.get("/api/v1/status/").status_code == 200

    def test_an_admin_manages_keys_over_rest(self, server: TeamServer, root: Caller) -> None:
        built = root.rest(
            "POST", "/api/v1/keys/", json={"name": "new", "person": "new", "projects": ["shop"]}
        )
        assert root.status == CREATED
        new = server.caller("new", json.loads(built)["token"])
        new.get("/api/v1/search/", query="x")
        assert new.status == 200
        assert '"new"' in root.get("/api/v1/keys/")
        root.rest("DELETE", "/api/v1/keys/new/")
        new.get("/api/v1/search/", query="x")
        assert new.status == UNAUTHORIZED

    def test_a_key_of_a_person_is_not_the_owners_on_a_daemon_of_ones_own(self) -> None:
        with Home() as home:
            home.configure(CONFIG)
            person = TeamServer(home).create("mole", "--role", "reader")
            home.run("memory-daemon", "stop")
            home.configure(CONFIG.replace("true", "false"))
            own = TeamServer(home)
            listed = home.run("memory-daemon", "token", "list")
            assert "REFUSED: it is for a team server" in listed.text
            (key,) = [
                each
                for each in home.run("memory-daemon", "token", "list", "--format", "json").json()
                if each["name"] == "mole"
            ]
            assert key["refused"] is True
            mole = own.caller("mole", person.secret)
            mole.get("/api/v1/search/", query="x")
            assert mole.status == UNAUTHORIZED
            assert mole.rpc(
                "GetSchedulerStatus",
                pb.GetSchedulerStatusRequest(),
                pb.GetSchedulerStatusResponse,
            ).startswith("UNAUTHENTICATED")


class TestRoles:
    def test_every_route_is_in_the_table_or_closed(self, eve: Caller) -> None:
        document = json.loads(eve.get("/openapi.json"))
        routes = {
            (method.upper(), path) for path, found in document["paths"].items() for method in found
        }
        known = {
            (method, path.replace(":path}", "}"))
            for method, path in list_http()
            if path not in ("/mcp", "/ws")
        }
        assert routes == known | CLOSED
        assert not known & CLOSED

    def test_a_reader_writes_nothing(self, eve: Caller) -> None:
        record(eve, "by-eve", "hello", "shop")
        assert eve.status == FORBIDDEN
        capture(eve, "A decision", "project:shop")
        assert eve.status == FORBIDDEN
        event = pb.Event(event_id="e", session_id="s", timestamp_ms=1, text="x")
        answer = eve.rpc("IngestEvent", pb.IngestEventRequest(event=event), pb.IngestEventResponse)
        assert answer.startswith("PERMISSION_DENIED")
        assert "needs the role writer" in eve.tool(
            "memory_capture", namespace="decisions", summary="A decision", domain="project:shop"
        )

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/api/v1/audit/"),
            ("GET", "/api/v1/keys/"),
            ("POST", "/api/v1/jobs/segments/run/"),
            ("GET", "/api/v1/settings/"),
            ("GET", "/metrics"),
            ("DELETE", "/api/v1/events/e-1"),
            ("GET", "/api/v1/memories/users/"),
        ],
    )
    def test_managing_needs_an_admin(
        self, ada: Caller, eve: Caller, method: str, path: str
    ) -> None:
        for caller in (ada, eve):
            assert "admin" in caller.rest(method, path)
            assert caller.status == FORBIDDEN

    @pytest.mark.parametrize(
        "path", ["/api/v1/inbox/", "/api/v1/memories/undo/", "/ui", "/", "/nothing", "/sse"]
    )
    def test_what_is_not_in_the_table_is_refused(self, root: Caller, path: str) -> None:
        assert "not served to teams" in root.get(path)
        assert root.status == FORBIDDEN

    def test_agents_cannot_be_run_over_grpc(self, root: Caller) -> None:
        answer = root.rpc(
            "kontekst.AgentService/Run", pb.GetTocRootRequest(), pb.GetTocRootResponse
        )
        assert answer.startswith(("PERMISSION_DENIED", "UNIMPLEMENTED"))


class TestProjects:
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def records(cls, ada: Caller, bob: Caller) -> None:
        record(ada, "of-shop", "The checkout takes zebrafish tokens", "shop")
        assert ada.status == CREATED
        record(bob, "of-web", "The landing page shows quokka pictures", "web")
        assert bob.status == CREATED

    def test_each_sees_their_own(self, ada: Caller, bob: Caller, eve: Caller) -> None:
        assert "zebrafish" in ada.get("/api/v1/events/e-of-shop")
        for caller, seen, hidden in ((ada, "zebrafish", "quokka"), (bob, "quokka", "zebrafish")):
            for answer in (
                caller.get("/api/v1/events/"),
                caller.get("/api/v1/search/", query=f"{seen} {hidden}"),
                caller.search(f"{seen} {hidden}"),
                caller.tool("memory_recall", query=f"{seen} {hidden}"),
                caller.rest("POST", "/stream/recall", json={"query": f"{seen} {hidden}"}),
                caller.websocket({"operation": "recall", "query": f"{seen} {hidden}"}),
            ):
                assert seen in answer.replace(f"{seen} {hidden}", "")
                assert hidden not in answer.replace(f"{seen} {hidden}", "")
        assert "zebrafish" in eve.search("zebrafish")
        assert "quokka" in eve.search("quokka")

    def test_an_id_of_another_project_is_unknown(self, ada: Caller) -> None:
        for name in ("of-web", "of-web@bob"):
            unknown = ada.get(f"/api/v1/events/e-{name}").replace(name, "never")
            assert (ada.status, unknown) == (404, ada.get("/api/v1/events/e-never"))
            assert "quokka" not in ada.get(f"/api/v1/sessions/s-{name}/events/")
        assert "zebrafish" in ada.get("/api/v1/sessions/s-of-shop/events/")

    def test_nobody_writes_into_another_project(self, ada: Caller) -> None:
        for project in ("web", ""):
            record(ada, f"foreign{project}", "hello", project)
            assert ada.status == FORBIDDEN
        capture(ada, "A decision", "project:web")
        assert ada.status == FORBIDDEN
        fact = {"scope": "project:web", "key": "colour", "value": "red"}
        ada.rest("POST", "/api/v1/memories/facts/", json=fact)
        assert ada.status == FORBIDDEN
        ada.rest("POST", "/api/v1/memories/facts/", json=fact | {"scope": "project:shop"})
        assert ada.status == CREATED

    def test_events_have_the_name_of_who_recorded_them(self, ada: Caller) -> None:
        record(ada, "forged", "hello", "shop", person="bob")
        event = json.loads(ada.get("/api/v1/events/e-forged"))
        assert event["metadata"]["person"] == "ada"

    def test_nobody_writes_into_the_session_of_another(self, ada: Caller) -> None:
        event = {
            "event_id": "e-lent-name",
            "text": "The axolotl invoice is paid",
            "metadata": {"project": "shop"},
        }
        for session in ("s-of-web@bob", "s-never@bob"):  # whether it exists
            ada.rest("POST", "/api/v1/events/", json=event | {"session_id": session})
            assert ada.status == FORBIDDEN
        ada.rest("POST", "/api/v1/events/", json=event | {"session_id": "s-of-web"})
        assert ada.status == CREATED
        # A segment of it may have been cut already.
        asked = {"query": "axolotl invoice", "kinds": "event"}
        found = json.loads(ada.get("/api/v1/search/", **asked))["results"]
        assert [(hit["id"], hit["session_id"]) for hit in found] == [
            ("e-lent-name@ada", "s-of-web@ada")
        ]

    def test_an_id_that_another_has_taken_does_not_show(self, ada: Caller, bob: Caller) -> None:
        outcomes = []
        for name in ("taken", "free"):
            if name == "taken":
                record(bob, name, "The gibbon swings", "web")
            record(ada, name, "The tapir swims", "shop")
            first = ada.status
            record(ada, name, "The tapir swims", "shop")  # again, after a lost answer
            outcomes.append((first, ada.status))
            assert "tapir" in ada.get(f"/api/v1/events/e-{name}")
        assert outcomes == [(CREATED, 200), (CREATED, 200)]

    def test_a_thread_of_a_graph_is_its_persons(
        self, server: TeamServer, eve: Caller, root: Caller
    ) -> None:
        ann = server.create("ann", "--role", "writer")
        place = {"thread_id": "chat-1", "checkpoint_ns": "", "checkpoint_id": "c-1"}
        built = graphs.GraphCheckpoint(**place, metadata="{}", type="msgpack", blob=b"secret plans")

        def call(caller: Caller, method: str, request: Message, answer: type[Message]) -> str:
            return caller.rpc(f"memory.CheckpointService/{method}", request, answer)

        def read(caller: Caller) -> str:
            asked = graphs.GetCheckpointRequest(thread_id="chat-1")
            return call(caller, "GetCheckpoint", asked, graphs.GetCheckpointResponse)

        put = graphs.PutCheckpointRequest(checkpoint=built)
        assert call(ann, "PutCheckpoint", put, graphs.PutCheckpointResponse) == "{}"
        whole = read(ann)
        assert json.loads(whole)["snapshot"]["checkpoint"]["threadId"] == "chat-1"
        removal = graphs.DeleteThreadsRequest(thread_ids=["chat-1", "chat-1@ann"])
        for other in (eve, root):
            assert read(other) == "{}"
            assert "chat-1" not in other.get("/api/v1/memories/checkpoints/threads/")
        assert call(root, "DeleteThreads", removal, graphs.DeleteThreadsResponse) == "{}"
        assert read(ann) == whole
        assert "chat-1" in ann.get("/api/v1/memories/checkpoints/threads/")
        with server.over_socket() as operator:
            assert "chat-1@ann" in operator.get("/api/v1/memories/checkpoints/threads/").text

    def test_what_shows_all_projects_is_refused(self, ada: Caller, eve: Caller) -> None:
        for path in ("/api/v1/toc/", "/api/v1/toc/tree/", "/api/v1/sessions/"):
            assert "not for a key that is limited" in ada.get(path)
            assert ada.status == FORBIDDEN
            eve.get(path)
            assert eve.status == 200
        assert ada.rpc("GetTocRoot", pb.GetTocRootRequest(), pb.GetTocRootResponse).startswith(
            "PERMISSION_DENIED"
        )
        assert "limited" in ada.tool("memory_timeline")


class TestPrivate:
    @pytest.fixture(scope="class")
    @classmethod
    def urn(cls, ada: Caller) -> str:
        built = json.loads(capture(ada, "I prefer narwhal mode in my editor", "user"))
        assert built["uri"].startswith("subcog://user:ada/")
        return str(built["uri"])

    def test_only_the_person_sees_it(
        self, server: TeamServer, ada: Caller, bob: Caller, eve: Caller, root: Caller, urn: str
    ) -> None:
        assert "narwhal" in ada.get("/api/v1/memories/", domain="user")
        assert "narwhal" in ada.tool("memory_recall", query="editor mode")
        for other in (bob, eve, root):
            for answer in (
                other.get("/api/v1/memories/"),
                other.get("/api/v1/memories/", domain="user:ada"),
                other.get("/api/v1/search/", query="editor mode"),
                other.search("editor mode"),
                other.tool("memory_recall", query="editor mode"),
                other.tool("memory_status"),
                other.resource(urn),
            ):
                assert "narwhal" not in answer
                assert "user:ada" not in answer.replace(urn, "")
        with server.over_socket() as owner:
            assert "narwhal" not in owner.get("/api/v1/memories/").text

    def test_nobody_else_changes_or_forgets_it(self, bob: Caller, root: Caller, urn: str) -> None:
        _, namespace, name = urn.removeprefix("subcog://").split("/")
        for other in (bob, root):
            place = f"/api/v1/memories/{namespace}/{name}/?domain=user:ada"
            other.rest("PATCH", place, json={"status": "archived"})
            assert other.status == 404
            other.rest("DELETE", f"{place}&confirm=true")
            assert other.status == 404
            capture(other, "I prefer whale mode", "user:ada")
            assert other.status == FORBIDDEN

    def test_its_person_forgets_it(self, server: TeamServer, ada: Caller, urn: str) -> None:
        _, namespace, name = urn.removeprefix("subcog://").split("/")
        place = f"/api/v1/memories/{namespace}/{name}/?domain=user:ada&confirm=true"
        answer = ada.rest("DELETE", place)
        assert ada.status == 200
        assert "waits_until_ms" in answer
        # It waits, so that a stolen key erases nothing; her agents are not given it meanwhile.
        assert "narwhal" not in ada.get("/api/v1/memories/", domain="user")
        assert "narwhal mode" not in ada.search("narwhal")
        assert urn in server.home.run("memory", "team", "waiting").text
        assert server.home.run("memory", "team", "erase", urn, "--yes").code == 0
        assert "narwhal" not in ada.get("/api/v1/memories/", domain="user")

    def test_what_waits_to_be_erased_is_in_no_answer(
        self, server: TeamServer, root: Caller
    ) -> None:
        built = json.loads(capture(root, "The pangolin gate needs two keys", "user"))
        record(root, "waits", "Who opens the pangolin gate at night?", "shop")
        listing = {"domain": "user", "limit": 1}

        def ask() -> list[str]:
            return [
                root.search("pangolin gate"),
                root.get("/api/v1/search/", query="pangolin gate"),
                root.tool("memory_recall", query="pangolin gate"),
                root.rest("POST", "/stream/recall", json={"query": "pangolin gate"}),
                root.get("/api/v1/memories/", **listing),
                root.resource("subcog://user:root/decisions"),
                root.resources(),
            ]

        def is_found(answer: str) -> bool:
            return "pangolin gate needs" in answer or "pangolin gate at" in answer

        assert list(map(is_found, ask())) == [True] * 7
        total = json.loads(root.get("/api/v1/memories/", **listing))["total"]
        _, namespace, name = built["uri"].removeprefix("subcog://").split("/")
        for place in (
            f"/api/v1/memories/{namespace}/{name}/?domain=user:root&confirm=true",
            "/api/v1/events/e-waits@root?confirm=true",
        ):
            assert "waits_until_ms" in root.rest("DELETE", place)
        assert [a for a in ask() if is_found(a)] == []
        assert json.loads(root.get("/api/v1/memories/", **listing))["total"] == total - 1
        names = built["uri"], "e-waits@root"
        waiting = server.home.run("memory", "team", "waiting").text
        assert all(name in waiting for name in names)
        with server.over_socket() as owner:  # who is to see what there is to keep
            found = owner.get("/api/v1/search/", params={"query": "pangolin gate"}).text
            assert is_found(found)
        assert server.home.run("memory", "team", "erase", *names, "--yes").code == 0

    def test_a_writer_forgets_only_their_own_of_a_project(
        self, server: TeamServer, ada: Caller, root: Caller
    ) -> None:
        built = json.loads(capture(ada, "Use axolotl caching in the shop", "project:shop"))
        _, namespace, name = built["uri"].removeprefix("subcog://").split("/")
        place = f"/api/v1/memories/{namespace}/{name}/?domain=project:shop&confirm=true"
        carol = server.create("carol", "--role", "writer", "--project", "shop")
        assert "captured by another" in carol.rest("DELETE", place)
        assert carol.status == FORBIDDEN
        answer = root.rest("DELETE", place)
        assert root.status == 200
        assert str(server.home.folder) not in answer


class TestAudit:
    def test_it_says_who_did_what_and_never_what_it_said(
        self, server: TeamServer, ada: Caller, eve: Caller, root: Caller
    ) -> None:
        record(ada, "audited", "a wombat told me", "shop")
        eve.rest("POST", "/api/v1/jobs/segments/run/")
        root.get("/api/v1/jobs/")
        eve.rpc("PauseJob", pb.PauseJobRequest(job_name="segments"), pb.PauseJobResponse)
        eve.tool("memory_capture", namespace="decisions", summary="wombat", domain="user")
        capture(root, "a wombat told me", "project:shop")
        text = root.get("/api/v1/audit/", limit=200)
        assert "wombat" not in text
        assert ada.secret not in text
        entries = json.loads(text)["entries"]
        assert [entry["number"] for entry in entries] == sorted(
            (entry["number"] for entry in entries), reverse=True
        )

        def find(**wanted: object) -> bool:
            return any(wanted.items() <= entry.items() for entry in entries)

        assert find(person="eve", interface="http", target="/api/v1/jobs/segments/run/", status=403)
        assert find(person="root", interface="http", target="/api/v1/jobs/", status=200)
        assert find(person="eve", method="memory.MemoryService.PauseJob", status=403)
        assert find(person="eve", interface="mcp", method="memory_capture", status=403)
        created = [entry["target"] for entry in entries if entry["interface"] == "keys"]
        assert any(re.fullmatch(r"ada \(ada, writer.*\)", target) for target in created)
        assert "eve" in server.home.run("memory-daemon", "audit", "--refused").text

    def test_a_forgetting_from_a_machine_is_entered_with_its_record(
        self, ada: Caller, root: Caller
    ) -> None:
        ada.rest("POST", "/api/v1/upstream/records/", json={"forgotten": ["regretted-9"]})
        question = {"query": "anything", "projects": ["shop"]}
        ada.rest("POST", "/api/v1/upstream/search/", json=question)
        entries = json.loads(root.get("/api/v1/audit/", person="ada", limit=200))["entries"]
        forgotten = [entry for entry in entries if entry["method"] == "forget"]
        assert [entry["target"] for entry in forgotten] == ["event regretted-9"]
        assert not [entry for entry in entries if entry["target"].endswith("/search/")]

    def test_a_wrong_key_is_entered_with_its_address(
        self, server: TeamServer, root: Caller
    ) -> None:
        server.caller("nobody", "am_wrong").get("/api/v1/events/")
        wait_until(
            lambda: "/api/v1/events/ from 127.0.0.1" in root.get("/api/v1/audit/", refused=True),
            "it is entered",
        )

    def test_filters_and_pages(self, root: Caller, eve: Caller) -> None:
        for _ in range(2):
            eve.get("/api/v1/audit/")
        first = json.loads(root.get("/api/v1/audit/", person="eve", limit=1))
        assert [entry["person"] for entry in first["entries"]] == ["eve"]
        token = first["continuation_token"]
        second = json.loads(
            root.get("/api/v1/audit/", person="eve", limit=1, continuation_token=token)
        )
        assert second["entries"][0]["number"] < first["entries"][0]["number"]


def test_the_page_is_not_served(server: TeamServer) -> None:
    answer = server.home.run("memory", "ui", "--print")
    assert "team server has no page" in answer.errors


class TestAfterARestart:
    def test_what_waited_for_the_audit_log_is_there(
        self, ada: Caller, root: Caller, server: TeamServer
    ) -> None:
        record(ada, "late", "hello", "shop")
        server.home.run("memory-daemon", "stop")  # which stores what waits
        again = TeamServer(server.home)
        text = again.caller("root", root.secret).get("/api/v1/audit/", person="ada", limit=200)
        assert '"/api/v1/events/"' in text

    def test_it_is_not_served_to_one_person(self, server: TeamServer) -> None:
        """Everyone with a key would see what is private."""
        server.home.stop()
        server.home.configure("")
        answer = server.home.fail_to_serve()
        assert answer.code == CONFIG_ERROR
        assert "this memory is a team's" in answer.errors
        server.home.configure(CONFIG.replace("true", "false"))  # it is theirs alone now
        server.home.serve()


@pytest.mark.rocksdb("restores a copy of the store")
def test_a_restored_copy_of_the_store_revives_no_revoked_key() -> None:
    with Home() as home:
        home.configure(CONFIG)
        leaver = TeamServer(home).create("leaver")
        home.stop()
        copy = home.folder / "copy-of-the-store"
        shutil.copytree(home.data / "db", copy)
        server = TeamServer(home)
        server.revoke("leaver")
        home.stop()
        shutil.rmtree(home.data / "db")
        copy.rename(home.data / "db")
        again = TeamServer(home).caller("leaver", leaver.secret)
        assert "unknown or revoked" in again.get("/api/v1/search/", query="x")
        assert again.status == UNAUTHORIZED
        assert home.run("memory-daemon", "token", "list").text.strip() == "No keys."
        assert "keys.revoked_again" in home.log()
