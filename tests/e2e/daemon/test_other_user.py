"""Another user of the same machine: what they can reach of a daemon that is not theirs, and what
the owner can do without a key."""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent_memory.client import MemoryClient
from agent_memory.client.langgraph import AgentMemorySaver
from agent_memory.proto import checkpoints_pb2, memory_pb2
from tests.daemon_process import Daemon
from tests.memory_client import END_OF_TIME, message
from tests.other_users import NOBODY, SOMEBODY, OtherUser, Reply

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")

HOSTS = ("127.0.0.1", "[::1]")
METHODS = [
    f"/{service.full_name}/{method.name}"
    for file in (memory_pb2.DESCRIPTOR, checkpoints_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
]
INGEST = "/memory.MemoryService/IngestEvent"
EVENTS = "/memory.MemoryService/GetEvents"
PAUSE = "/memory.MemoryService/PauseJob"
PUT = "/memory.CheckpointService/PutCheckpoint"
STATUS = "/kontekst.DaemonService/GetStatus"
JOB = "segment-summarizer"
REQUESTS = {
    INGEST: memory_pb2.IngestEventRequest(event=message("planted", 1, text="planted")),
    EVENTS: memory_pb2.GetEventsRequest(from_timestamp_ms=0, to_timestamp_ms=END_OF_TIME),
    PAUSE: memory_pb2.PauseJobRequest(job_name=JOB),
    PUT: checkpoints_pb2.PutCheckpointRequest(
        checkpoint=checkpoints_pb2.GraphCheckpoint(
            thread_id="t", checkpoint_id="c", metadata="{}", type="msgpack", blob=b"\x80"
        )
    ),
}
WORDS = "the owner's words"


def request(method: str) -> bytes:
    found = REQUESTS.get(method)
    return b"" if found is None else found.SerializeToString()


@pytest.fixture(scope="module", params=[0, NOBODY], ids=["root's", "nobody's"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon of this user, with one event in it."""
    home = Path(tempfile.mkdtemp(dir="/tmp", prefix="amu-"))
    # Its jobs start Python anew, which may be where this user cannot go.
    settings = {"scheduler.enabled": "false"}
    try:
        with Daemon(home, uid=request.param, settings=settings) as running:
            with running.unix_client() as client:
                client.ingest(message("own", 1, text=WORDS))
            yield running
    finally:
        shutil.rmtree(home)


@pytest.fixture(scope="module")
def owner(daemon: Daemon) -> Iterator[OtherUser]:
    with OtherUser(daemon.data_dir.stat().st_uid) as person:
        yield person


@pytest.fixture(scope="module")
def stranger() -> Iterator[OtherUser]:
    with OtherUser(SOMEBODY) as person:
        yield person


def assert_refused(reply: Reply) -> None:
    assert reply.code == "UNAUTHENTICATED"
    assert reply.messages == ()
    assert WORDS not in reply.details


class TestAStranger:
    @pytest.mark.parametrize("host", HOSTS)
    def test_is_let_into_nothing_that_is_stored(
        self, daemon: Daemon, stranger: OtherUser, host: str
    ) -> None:
        for method in METHODS:
            assert_refused(stranger.call(f"{host}:{daemon.port}", method, request(method)))
        with daemon.unix_client() as client:
            assert [each.event_id for each in client.all_events(0, END_OF_TIME)] == ["own"]
        with MemoryClient.connect(f"unix:{daemon.socket}") as client:
            assert [
                job.job_name for job in client.get_scheduler_status().jobs if job.is_paused
            ] == []
        with AgentMemorySaver.connect(f"unix:{daemon.socket}") as saver:
            assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None

    def test_is_told_what_to_do(self, daemon: Daemon, stranger: OtherUser) -> None:
        reply = stranger.call(f"127.0.0.1:{daemon.port}", EVENTS)
        assert "authorization: Bearer KEY" in reply.details
        assert "memory-daemon token create NAME" in reply.details
        assert str(daemon.data_dir) not in reply.details

    @pytest.mark.parametrize("host", HOSTS)
    def test_comes_in_with_a_key(self, daemon: Daemon, stranger: OtherUser, host: str) -> None:
        key = (daemon.data_dir / "key").read_text().strip()
        target = f"{host}:{daemon.port}"
        reply = stranger.call(target, EVENTS, request(EVENTS), f"Bearer {key}")
        assert reply.code == "OK"
        assert WORDS.encode() in reply.messages[0]
        for wrong in (f"Bearer {key}x", "Bearer", key, ""):
            assert_refused(stranger.call(target, EVENTS, request(EVENTS), wrong))

    def test_may_ask_whether_it_is_there_and_how_it_is_called(
        self, daemon: Daemon, stranger: OtherUser
    ) -> None:
        target = f"127.0.0.1:{daemon.port}"
        assert stranger.call(target, "/grpc.health.v1.Health/Check").code == "OK"
        listed = stranger.call(
            target, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", b"\x3a\x00"
        )
        assert b"memory.MemoryService" in listed.messages[0]

    def test_finds_every_file_and_socket_closed(self, daemon: Daemon, stranger: OtherUser) -> None:
        found = json.loads((daemon.data_dir / "daemon.json").read_text())
        sockets = [Path(found[name]) for name in ("socket", "grpc_socket", "http_socket")]
        files = [path for path in daemon.data_dir.rglob("*") if not path.is_symlink()]
        assert len(files) > 10
        folders = [daemon.data_dir, sockets[0].parent]
        for path in [*sockets, *files]:
            assert stranger.find_refusal(path) == "PermissionError", path
        for folder in folders:
            assert stranger.find_refusal(folder) == "PermissionError", folder
            assert folder.stat().st_mode & 0o077 == 0
        for path in (*sockets, daemon.data_dir / "key", daemon.data_dir / "daemon.json"):
            assert path.stat().st_mode & 0o077 == 0, path  # by itself, too

    def test_needs_a_key_over_http_as_everyone_does(
        self, daemon: Daemon, stranger: OtherUser, owner: OtherUser
    ) -> None:
        port = json.loads((daemon.data_dir / "daemon.json").read_text())["http_port"]
        for path in ("/api/v1/status/", "/stream/events", "/mcp", "/metrics", "/ws"):
            assert stranger.get(port, path) == owner.get(port, path) == 401, path


class TestTheOwner:
    @pytest.mark.parametrize("host", [*HOSTS, "localhost"])
    def test_needs_no_key(self, daemon: Daemon, owner: OtherUser, host: str) -> None:
        reply = owner.call(f"{host}:{daemon.port}", EVENTS, request(EVENTS))
        assert reply.code == "OK"
        assert WORDS.encode() in reply.messages[0]

    def test_is_told_of_a_wrong_key(self, daemon: Daemon, owner: OtherUser) -> None:
        for wrong in ("Bearer am_wrong", "Bearer", ""):
            assert_refused(owner.call(f"127.0.0.1:{daemon.port}", EVENTS, b"", wrong))

    def test_needs_one_to_run_agents_and_to_end_the_daemon(
        self, daemon: Daemon, owner: OtherUser
    ) -> None:
        target = f"127.0.0.1:{daemon.port}"
        for method in (STATUS, "/kontekst.DaemonService/Shutdown", "/kontekst.AgentService/Run"):
            assert_refused(owner.call(target, method))
        key = (daemon.data_dir / "key").read_text().strip()
        assert owner.call(target, STATUS, key=f"Bearer {key}").code == "OK"


def test_root_is_no_exception(daemon: Daemon) -> None:
    """They can be anyone they like, and read any key."""
    owns = daemon.data_dir.stat().st_uid == 0
    with OtherUser(0) as root:
        reply = root.call(f"127.0.0.1:{daemon.port}", EVENTS, request(EVENTS))
    assert reply.code == ("OK" if owns else "UNAUTHENTICATED")


def test_a_port_that_changes_hands_takes_no_right_with_it(daemon: Daemon, owner: OtherUser) -> None:
    """The same client port, first the owner's and then another's, without a pause between."""
    first, port = owner.forward(daemon.port)
    assert owner.call(f"127.0.0.1:{first}", EVENTS, request(EVENTS)).code == "OK"
    owner.end_forwarding()
    with OtherUser(SOMEBODY) as other:
        second, same = other.forward(daemon.port, port)
        assert same == port
        assert_refused(other.call(f"127.0.0.1:{second}", EVENTS, request(EVENTS)))
        other.end_forwarding()


def test_a_call_whose_port_the_owner_gets_next_is_not_the_owners() -> None:
    """Calls are received, their connections reset, and connections of the owner's take their place
    before the calls are looked at: half of these were let in when only the open one was looked up.
    """
    with (
        tempfile.TemporaryDirectory(dir="/tmp", prefix="amu-") as home,
        Daemon(Path(home)) as running,
        OtherUser(SOMEBODY) as other,
        running.client() as client,
    ):
        for turn in range(3):
            planted = [message(f"planted-{turn}-{each}", 1) for each in range(100)]
            requests = [
                memory_pb2.IngestEventRequest(event=each).SerializeToString() for each in planted
            ]
            ports = other.begin_calls(running.port, INGEST, requests)
            client.get_events(0, 1)  # the calls have begun
            other.abandon_calls()
            with ExitStack() as taken:
                count = 0
                for port in ports:
                    connection = taken.enter_context(socket.socket())
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    try:
                        connection.bind(("127.0.0.1", port))
                    except OSError:
                        continue  # another program was faster
                    connection.connect(("127.0.0.1", running.port))
                    count += 1
                assert count > len(ports) / 2
                assert client.all_events(0, END_OF_TIME) == []
        assert client.all_events(0, END_OF_TIME) == []


def test_what_the_owner_forwards_is_the_owners(daemon: Daemon, owner: OtherUser) -> None:
    """As documented: a forwarder of the owner's lets in whoever can reach it."""
    port, _ = owner.forward(daemon.port)
    with OtherUser(SOMEBODY) as other:
        assert other.call(f"127.0.0.1:{port}", EVENTS, request(EVENTS)).code == "OK"
    owner.end_forwarding()


class TestRequireKeyFalse:
    @pytest.fixture
    def home(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="amu-"))
        yield folder
        shutil.rmtree(folder)

    def test_in_the_config_file_opens_the_store_and_nothing_that_runs(self, home: Path) -> None:
        file = home / ".config/agent-memory/config.toml"
        file.parent.mkdir(parents=True)
        file.write_text("[grpc]\nrequire_key = false\n")
        with Daemon(home) as open_daemon, OtherUser(SOMEBODY) as person:
            target = f"127.0.0.1:{open_daemon.port}"
            assert person.call(target, INGEST, request(INGEST)).code == "OK"
            assert_refused(person.call(target, STATUS))

    def test_in_the_environment_opens_nothing(self, home: Path) -> None:
        loosened = {"MEMORY_GRPC__REQUIRE_KEY": "false"}
        with Daemon(home, environ=loosened) as closed, OtherUser(SOMEBODY) as person:
            assert_refused(person.call(f"127.0.0.1:{closed.port}", INGEST, request(INGEST)))
