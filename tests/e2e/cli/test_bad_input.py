"""Bad input: it is refused with a reason, stores nothing, and leaves the server working."""

from collections.abc import Iterator
from typing import cast

import grpc
import pytest

from agent_memory.proto import memory_pb2 as pb
from tests.daemon_process import Daemon
from tests.memory_client import Client, message

MIB = 1 << 20
KIB = 1 << 10
AT = 1_738_281_600_000

REFUSED_EVENTS = {
    "empty event_id": (message("", AT), ["event_id", "empty"]),
    "event_id of 129 characters": (message("x" * 129, AT), ["event_id", "129", "128"]),
    "event_id with a line break": (message("a\nb", AT), ["event_id", "printable"]),
    "event_id with a NUL": (message("a\0", AT), ["event_id", "printable"]),
    "event_id with an escape": (message("\x1b[2J", AT), ["event_id", "printable"]),
    "event_id with a C1 control": (message("a\x85", AT), ["event_id", "printable"]),
    "empty session_id": (message("bad", AT, session_id=""), ["session_id", "empty"]),
    "session_id of 257 characters": (
        message("bad", AT, session_id="x" * 257),
        ["session_id", "257", "256"],
    ),
    "session_id with a tab": (message("bad", AT, session_id="a\tb"), ["session_id", "printable"]),
    "session_id with a NUL": (message("bad", AT, session_id="\0"), ["session_id", "printable"]),
    "text of 1 MiB and a byte": (
        message("bad", AT, "x" * (MIB + 1)),
        ["text", "1,048,577", "1,048,576", "1 MiB"],
    ),
    "text of 1 MiB in two-byte characters and a byte": (
        message("bad", AT, "\u00e9" * (MIB // 2) + "x"),
        ["text", "1,048,577", "1,048,576", "1 MiB"],
    ),
    "text over 1 MiB in four-byte characters": (
        message("bad", AT, "\U0001f980" * (MIB // 4 + 1)),
        ["text", "1,048,580", "1,048,576", "1 MiB"],
    ),
    "257 metadata entries": (
        message("bad", AT, metadata={str(n): "" for n in range(257)}),
        ["metadata", "257", "256"],
    ),
    "metadata over 64 KiB in a value": (
        message("bad", AT, metadata={"key": "x" * (64 * KIB - 2)}),
        ["metadata", "65,537", "65,536", "64 KiB"],
    ),
    "metadata over 64 KiB in a key": (
        message("bad", AT, metadata={"x" * (64 * KIB + 1): ""}),
        ["metadata", "65,537", "65,536", "64 KiB"],
    ),
    "metadata over 64 KiB in two-byte characters": (
        message("bad", AT, metadata={"\u00e9" * 9: "\u00e9" * (32 * KIB)}),
        ["metadata", "65,554", "65,536", "64 KiB"],
    ),
    "negative time": (message("bad", -1), ["timestamp_ms", "-1", "13 digits"]),
    "the least time": (message("bad", -(2**63)), ["timestamp_ms", "13 digits"]),
    "time of 14 digits": (message("bad", 10**13), ["timestamp_ms", "10000000000000", "13 digits"]),
    "the greatest time": (message("bad", 2**63 - 1), ["timestamp_ms", "13 digits"]),
    "UNSPECIFIED event_type": (
        message("bad", AT, event_type=pb.EVENT_TYPE_UNSPECIFIED),
        ["event_type", "0", "USER_MESSAGE"],
    ),
    "unknown event_type": (
        message("bad", AT, event_type=cast("pb.EventType", 99)),
        ["event_type", "99", "USER_MESSAGE"],
    ),
    "negative event_type": (
        message("bad", AT, event_type=cast("pb.EventType", -1)),
        ["event_type", "-1", "USER_MESSAGE"],
    ),
    "unknown role": (
        message("bad", AT, role=cast("pb.EventRole", 5)),
        ["role", "5", "ASSISTANT"],
    ),
    "an event without anything": (pb.Event(), ["event_type"]),
}


def _field(number: int, value: bytes) -> bytes:
    """Encode a length-delimited protobuf field of fewer than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


_VALID = message("bad", AT, "").SerializeToString()
_BAD_UTF8 = b"\xff\xfe"
_LONE_SURROGATE = b"\xed\xa0\x80"

REFUSED_BYTES = {
    "no event": (b"", ["event is required"]),
    "event_id that is not UTF-8": (_field(1, _VALID + _field(1, _BAD_UTF8)), ["UTF-8"]),
    "session_id that is not UTF-8": (_field(1, _VALID + _field(2, _BAD_UTF8)), ["UTF-8"]),
    "text that is not UTF-8": (_field(1, _VALID + _field(6, _BAD_UTF8)), ["UTF-8"]),
    "text with a lone surrogate": (_field(1, _VALID + _field(6, _LONE_SURROGATE)), ["UTF-8"]),
    "metadata key that is not UTF-8": (
        _field(1, _VALID + _field(7, _field(1, _BAD_UTF8))),
        ["UTF-8"],
    ),
    "metadata value that is not UTF-8": (
        _field(1, _VALID + _field(7, _field(1, b"key") + _field(2, _BAD_UTF8))),
        ["UTF-8"],
    ),
    "a truncated message": (_field(1, _VALID)[:-3], ["memory.IngestEventRequest", "damaged"]),
    "bytes that are no message": (b"\x0b\xff\xff\xff", ["memory.IngestEventRequest", "damaged"]),
}


@pytest.fixture
def unharmed(shared_daemon: Daemon, client: Client, hour: int, name: str) -> Iterator[None]:
    """Check after the test that nothing was stored, and that the same process accepts an event."""
    pid, before = shared_daemon.pid, client.all_events()
    yield
    assert client.all_events() == before
    assert client.ingest(message(name, hour)).created
    assert shared_daemon.pid == pid


def _assert_refused(error: grpc.RpcError, words: list[str]) -> None:
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    for word in words:
        assert word in (error.details() or "")


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize(("event", "words"), REFUSED_EVENTS.values(), ids=REFUSED_EVENTS)
def test_an_invalid_event_is_refused_with_what_to_change(
    client: Client, event: pb.Event, words: list[str]
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        client.ingest(event)
    _assert_refused(refused.value, words)


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize(("event", "words"), REFUSED_EVENTS.values(), ids=REFUSED_EVENTS)
def test_an_invalid_event_of_a_stream_is_refused_in_its_outcome(
    client: Client, event: pb.Event, words: list[str]
) -> None:
    (outcome,) = client.ingest_all([event])

    assert not outcome.created
    assert outcome.event_id == event.event_id
    for word in words:
        assert word in outcome.error


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize(("request_", "words"), REFUSED_BYTES.values(), ids=REFUSED_BYTES)
def test_bytes_that_are_no_valid_request_are_refused(
    client: Client, request_: bytes, words: list[str]
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        client.raw("IngestEvent", request_)
    _assert_refused(refused.value, words)


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize(
    "method",
    [
        "IngestEvent",
        "GetEvents",
        "GetTocRoot",
        "GetNode",
        "BrowseToc",
        "ExpandGrip",
        "GetSchedulerStatus",
        "PauseJob",
        "ResumeJob",
        "RunJob",
    ],
)
def test_every_method_refuses_bytes_that_are_no_message(client: Client, method: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        client.raw(method, b"\xff\xff\xff\xff")
    _assert_refused(refused.value, [f"memory.{method}Request"])


@pytest.mark.usefixtures("unharmed")
def test_a_stream_refuses_bytes_that_are_no_message(client: Client) -> None:
    # Also what gRPC hands over when one method's stream is called as if it were unary.
    with pytest.raises(grpc.RpcError) as refused:
        client.raw("IngestEvents", b"\xff\xff\xff\xff")
    _assert_refused(refused.value, ["memory.IngestEventsRequest"])


@pytest.mark.usefixtures("unharmed")
def test_a_message_over_16_mib_is_refused(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        client.ingest(message("bad", AT, "x" * (16 * MIB)))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.usefixtures("unharmed")
def test_a_message_just_under_16_mib_is_told_the_limit_of_a_text(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        client.ingest(message("bad", AT, "x" * (16 * MIB - 100)))
    _assert_refused(refused.value, ["text", "1 MiB"])


def test_what_is_just_within_the_limits_is_stored_as_sent(
    client: Client, hour: int, name: str
) -> None:
    events = [
        message(f"{name}-1", hour, "x" * MIB),
        message(f"{name}-2", hour, "\u00e9" * (MIB // 2)),
        message(f"{name}-3", hour, "\U0001f980" * (MIB // 4)),
        message(f"{name}-4", hour, ""),
        message(f"{name}-5", hour, "control \0\x1b\r\n\t characters are for texts"),
        message(f"{name}-6", hour, metadata={str(n): "" for n in range(256)}),
        message(f"{name}-7", hour, metadata={"key": "x" * (64 * KIB - 3)}),
        message(f"{name}-8", hour, session_id="\U0001f980" * 256),
        message(f"{name}-9", hour, metadata={"": "of the empty key", "of the empty value": ""}),
    ]
    for event in events:
        assert client.ingest(event).created

    assert client.all_events(hour, hour) == events


def test_a_role_that_is_not_given_is_stored_as_user(client: Client, hour: int, name: str) -> None:
    client.ingest(message(name, hour, role=pb.EVENT_ROLE_UNSPECIFIED))

    assert client.all_events(hour, hour) == [message(name, hour, role=pb.EVENT_ROLE_USER)]


@pytest.mark.parametrize("role", pb.EventRole.values()[1:])
@pytest.mark.parametrize("kind", pb.EventType.values()[1:])
def test_every_type_and_role_is_stored_as_sent(
    client: Client, hour: int, name: str, kind: int, role: int
) -> None:
    event = message(name, hour, event_type=kind, role=role)
    client.ingest(event)

    assert client.all_events(hour, hour) == [event]
