"""What cannot be sent or read, and the errors themselves."""

import copy
import pickle
from collections.abc import Callable

import pytest

from agent_memory.client import (
    ClientError,
    ConnectionFailed,
    EventsRefused,
    InvalidEndpoint,
    MemoryClient,
    RpcError,
    SerializationError,
)
from agent_memory.proto import memory_pb2 as pb
from tests.client.client_kinds import ClientKind
from tests.client.conftest import Maker
from tests.client.stand_in import serving

GARBAGE = b"\xff\xff"

METHODS: dict[str, Callable[[MemoryClient], object]] = {
    "GetEvents": lambda client: client.get_events(0, 1),
    "GetTocRoot": lambda client: client.get_toc_root(),
    "GetNode": lambda client: client.get_node("n"),
    "BrowseToc": lambda client: client.browse_toc("n"),
    "ExpandGrip": lambda client: client.expand_grip("g"),
}


@pytest.mark.parametrize("method", METHODS)
def test_an_answer_that_is_none_cannot_be_read(client_kind: ClientKind, method: str) -> None:
    with (
        serving({method: GARBAGE}) as server,
        client_kind.connect(server.endpoint) as client,
        pytest.raises(SerializationError, match=f"not a memory.{method}Response"),
    ):
        METHODS[method](client)


def test_an_answer_to_ingest_that_is_none_cannot_be_read(
    client_kind: ClientKind, event: Maker
) -> None:
    with (
        serving({"IngestEvent": GARBAGE}, {"IngestEvents": lambda _: GARBAGE}) as server,
        client_kind.connect(server.endpoint) as client,
    ):
        with pytest.raises(SerializationError, match=r"not a memory\.IngestEventResponse"):
            client.ingest(event())
        with pytest.raises(SerializationError, match=r"not a memory\.IngestEventsResponse"):
            client.ingest_batch([event()])


def test_a_type_of_tomorrow_cannot_be_read(client_kind: ClientKind) -> None:
    unknown = pb.GetEventsResponse.FromString(
        # One event with nothing but event_type = 99.
        bytes([0x0A, 0x02, 0x20, 99])
    )
    with (
        serving({"GetEvents": unknown.SerializeToString()}) as server,
        client_kind.connect(server.endpoint) as client,
        pytest.raises(SerializationError, match="99 is not a valid EventType"),
    ):
        client.get_events(0, 1)


def test_more_without_a_token_is_not_taken_for_the_end(client_kind: ClientKind) -> None:
    answer = pb.GetEventsResponse(has_more=True).SerializeToString()
    with (
        serving({"GetEvents": answer}) as server,
        client_kind.connect(server.endpoint) as client,
        pytest.raises(SerializationError, match="there is more"),
    ):
        list(client.iter_events(0, 1))


def test_events_without_an_answer_are_not_taken_for_stored(
    client_kind: ClientKind, event: Maker
) -> None:
    with (
        serving({}, {"IngestEvents": lambda _: b""}) as server,
        client_kind.connect(server.endpoint) as client,
        pytest.raises(SerializationError, match="answered for 0 of 2 events"),
    ):
        client.ingest_batch([event(), event()])


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "\ud800"},
        {"text": 7},
        {"session_id": None, "text": b"\xff"},
        {"metadata": {"a": 1}},
    ],
    ids=["surrogate", "number", "bytes", "metadata"],
)
def test_an_event_that_cannot_be_sent(
    client_kind: ClientKind, event: Maker, fields: dict[str, object]
) -> None:
    with (
        serving({"IngestEvent": b""}) as server,
        client_kind.connect(server.endpoint) as client,
        pytest.raises(SerializationError, match="cannot be sent"),
    ):
        client.ingest(event(**fields))


def test_arguments_that_cannot_be_sent(client_kind: ClientKind) -> None:
    with serving({}) as server, client_kind.connect(server.endpoint) as client:
        with pytest.raises(SerializationError, match="cannot be sent"):
            client.get_events(0, 1, limit=1 << 31)
        with pytest.raises(SerializationError, match="cannot be sent"):
            client.get_events(0, 1 << 63)
        with pytest.raises(SerializationError, match="cannot be sent"):
            list(client.iter_events(-(1 << 64), 0))
        with pytest.raises(SerializationError, match="cannot be sent"):
            client.get_node("\ud800")
        with pytest.raises(SerializationError, match="cannot be sent"):
            client.browse_toc("n", limit=1 << 31)
        with pytest.raises(SerializationError, match="cannot be sent"):
            client.expand_grip("g", events_before=1 << 31)


@pytest.mark.parametrize(
    "kind", [ConnectionFailed, RpcError, EventsRefused, SerializationError, InvalidEndpoint]
)
def test_every_error_is_a_client_error(kind: type[Exception]) -> None:
    assert issubclass(kind, ClientError)


@pytest.mark.parametrize(
    "error",
    [RpcError("NOT_FOUND", "no"), EventsRefused([("a", "why")], 3)],
    ids=["rpc", "refused"],
)
def test_errors_survive_copies_and_processes(error: RpcError) -> None:
    for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own bytes
        assert type(same) is type(error)
        assert str(same) == str(error)
        assert vars(same) == vars(error)
