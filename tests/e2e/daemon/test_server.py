"""The server as a process: where it listens, what it says of itself, how it ends."""

import json
import socket
import stat
import sys
from pathlib import Path
from queue import SimpleQueue

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from agent_memory.proto import memory_pb2 as pb
from tests.daemon_process import Daemon
from tests.memory_client import SERVICE, Client, assert_unavailable, cancel, message

LISTENING = "0A"  # and below: as /proc/net/tcp writes it
LOOPBACKS = {
    "0100007F",  # 127.0.0.1
    "0000000000000000FFFF00000100007F",  # the same, in an IPv6 socket
    "00000000000000000000000001000000",  # ::1
}
REFLECTION = [
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
]


def test_it_serves_ipv4_ipv6_and_a_unix_socket_alike(
    shared_daemon: Daemon, hour: int, name: str
) -> None:
    clients = [shared_daemon.client("127.0.0.1"), shared_daemon.unix_client()]
    if _has_ipv6_loopback():
        clients += [shared_daemon.client("[::1]"), shared_daemon.client("localhost")]
    for number, each in enumerate(clients):
        with each as client:
            assert client.ingest(message(f"{name}-{number}", hour)).created
    with shared_daemon.client() as client:
        assert len(client.all_events(hour, hour)) == len(clients)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_listens_on_loopback_only(shared_daemon: Daemon) -> None:
    sockets = [
        line.split()
        for path in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(path).read_text().splitlines()[1:]
    ]
    bound = {
        local.removesuffix(f":{shared_daemon.port:04X}")
        for _, local, _, state, *_ in sockets
        if local.endswith(f":{shared_daemon.port:04X}") and state == LISTENING
    }
    assert bound
    assert bound <= LOOPBACKS


@pytest.mark.parametrize("path", REFLECTION)
def test_reflection_lists_the_service(client: Client, path: str) -> None:
    services = _reflected_services(client, path)
    assert {SERVICE, "memory.CheckpointService", "grpc.health.v1.Health"} <= set(services)


@pytest.mark.parametrize("path", REFLECTION)
def test_reflection_serves_the_methods_of_the_service(client: Client, path: str) -> None:
    answer = _reflect(client, path, file_containing_symbol=SERVICE)

    files = [
        descriptor_pb2.FileDescriptorProto.FromString(raw)
        for raw in answer.file_descriptor_response.file_descriptor_proto
    ]
    (service,) = [s for f in files if f.package == "memory" for s in f.service]
    expected = descriptor_pb2.ServiceDescriptorProto()
    pb.DESCRIPTOR.services_by_name["MemoryService"].CopyToProto(expected)
    assert service == expected


@pytest.mark.parametrize("path", REFLECTION)
def test_every_service_that_reflection_lists_it_also_describes(client: Client, path: str) -> None:
    """`grpcurl describe` asks for each and gives up at the first that is missing."""
    for service in _reflected_services(client, path):
        answer = _reflect(client, path, file_containing_symbol=service)
        assert answer.file_descriptor_response.file_descriptor_proto, service


@pytest.mark.parametrize("service", ["", SERVICE])
def test_health_is_serving(client: Client, service: str) -> None:
    answer = client.unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest(service=service),
        health_pb2.HealthCheckResponse,
    )
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_second_daemon_on_the_same_folder_says_so_and_leaves_the_first_alone(
    shared_daemon: Daemon, client: Client, hour: int, name: str
) -> None:
    second = shared_daemon.run_to_its_end()

    assert second.returncode == 0
    assert "already running" in second.stderr
    assert str(shared_daemon.data_dir) in second.stderr
    assert "Traceback" not in second.stderr
    announced = json.loads((shared_daemon.data_dir / "daemon.json").read_text())
    assert announced["pid"] == shared_daemon.pid
    assert client.ingest(message(f"{name}-tcp", hour)).created
    with shared_daemon.unix_client() as local:
        assert local.ingest(message(f"{name}-unix", hour)).created


def test_a_port_that_is_taken_is_named_and_not_shared(daemon: Daemon) -> None:
    daemon.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = daemon.run_to_its_end(port)

    assert ended.returncode != 0
    assert str(port) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_it_writes_is_for_its_user_only(shared_daemon: Daemon, client: Client) -> None:
    client.ingest(message("private", 1))

    assert stat.S_IMODE(shared_daemon.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(shared_daemon.socket.parent.stat().st_mode) == 0o700
    assert shared_daemon.socket.is_socket()
    written = [shared_daemon.socket, *shared_daemon.data_dir.rglob("*")]
    open_to_others = [path for path in written if path.stat().st_mode & 0o077]
    assert open_to_others == []


def test_a_restart_keeps_everything(daemon: Daemon) -> None:
    events = [message(f"event-{n:03}", 1000 + n, metadata={"n": str(n)}) for n in range(120)]
    with daemon.client() as client:
        client.ingest_all(events)
    for _ in range(2):
        daemon.restart()
        with daemon.client() as client, daemon.unix_client() as local:
            assert client.all_events() == events
            assert not local.ingest(events[0]).created


def test_a_stop_takes_back_the_announcement(daemon: Daemon) -> None:
    daemon.stop()
    assert not (daemon.data_dir / "daemon.json").exists()


def test_asked_to_stop_it_goes_on_answering_the_calls_under_way(daemon: Daemon) -> None:
    requests: SimpleQueue[pb.IngestEventsRequest | None] = SimpleQueue()
    events = [message(f"event-{n}", 1000) for n in range(3)]
    with daemon.client() as client, daemon.client() as watcher:
        watch = watcher.server_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest(service=SERVICE),
            health_pb2.HealthCheckResponse,
        )
        states = iter(watch)
        assert next(states).status == health_pb2.HealthCheckResponse.SERVING
        answers = iter(client.stream(request for request in iter(requests.get, None)))
        requests.put(pb.IngestEventsRequest(events=events[:1]))
        assert next(answers).outcomes[0].created

        daemon.terminate()

        assert next(states).status == health_pb2.HealthCheckResponse.NOT_SERVING
        cancel(watch)
        for event in events[1:]:
            requests.put(pb.IngestEventsRequest(events=[event]))
            assert next(answers).outcomes[0].created
        requests.put(None)
        assert list(answers) == []
        daemon.wait_stopped()
    daemon.start()
    with daemon.client() as client:
        assert client.all_events() == events


@pytest.mark.soak
def test_asked_to_stop_under_load_it_answers_the_calls_that_reached_it(daemon: Daemon) -> None:
    """A call that came too late is UNAVAILABLE; CANCELLED would be an answer to nobody's wish."""
    with daemon.client() as client:
        assert client.ingest(message("first", 1)).created
        calls = [client.ingest_soon(message(f"event-{n:03}", 1000)) for n in range(300)]
        calls[0].result()

        daemon.terminate()

        answered = {"first"}
        for call in calls:
            try:
                answered.add(call.result().event_id)
            except grpc.RpcError as exc:
                assert_unavailable(exc)
        daemon.wait_stopped()
    daemon.start()
    with daemon.client() as client:
        assert answered <= {event.event_id for event in client.all_events()}


def test_a_client_that_never_ends_its_stream_does_not_keep_it_from_stopping(
    daemon: Daemon,
) -> None:
    requests: SimpleQueue[pb.IngestEventsRequest | None] = SimpleQueue()
    with daemon.client() as client:
        answers = iter(client.stream(request for request in iter(requests.get, None)))
        requests.put(pb.IngestEventsRequest(events=[message("event", 1)]))
        assert next(answers).outcomes[0].created

        daemon.stop()

        with pytest.raises(grpc.RpcError):
            next(answers)
        requests.put(None)


def _reflect(
    client: Client, path: str, *, file_containing_symbol: str | None = None
) -> reflection_pb2.ServerReflectionResponse:
    request = reflection_pb2.ServerReflectionRequest(
        file_containing_symbol=file_containing_symbol,
        list_services="" if file_containing_symbol is None else None,
    )
    answer: reflection_pb2.ServerReflectionResponse
    (answer,) = client.stream_of(path, [request], reflection_pb2.ServerReflectionResponse)
    return answer


def _reflected_services(client: Client, path: str) -> list[str]:
    return [service.name for service in _reflect(client, path).list_services_response.service]


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
