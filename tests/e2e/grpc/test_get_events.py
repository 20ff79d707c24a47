"""Reading back by time, page by page."""

import base64
from typing import Any

import grpc
import pytest

from agent_memory.proto import memory_pb2 as pb
from tests.daemon_process import Daemon
from tests.memory_client import END_OF_TIME, Client, message

MIB = 1 << 20


def test_both_ends_of_the_range_are_inclusive(client: Client, hour: int, name: str) -> None:
    events = [message(f"{name}-{n}", hour + n) for n in range(5)]
    client.ingest_all(events)

    assert client.all_events(hour + 1, hour + 3) == events[1:4]
    assert client.all_events(hour + 2, hour + 2) == events[2:3]


def test_a_range_without_events_is_an_empty_last_page(client: Client, hour: int) -> None:
    assert client.get_events(hour, hour + 1) == pb.GetEventsResponse()


def test_the_first_and_the_last_moment_of_time_can_be_read(client: Client, name: str) -> None:
    first, last = message(f"{name}-first", 0), message(f"{name}-last", END_OF_TIME)
    client.ingest_all([first, last])

    assert first in client.all_events(0, 0)
    assert last in client.all_events(END_OF_TIME, END_OF_TIME)


def test_events_come_by_time_and_then_by_id(client: Client, hour: int, name: str) -> None:
    ids = ["b", "a", "a:", "ab", "a%", "a b", "B", "\u00e9", "\U0001f980", "z"]
    events = [message(f"{name}{each}", hour + late) for late in (1, 0) for each in ids[late::2]]
    for event in events:
        client.ingest(event)

    found = client.all_events(hour, hour + 1, limit=3)

    assert found == sorted(events, key=lambda e: (e.timestamp_ms, e.event_id.encode()))


def test_a_backfilled_event_is_found_at_its_own_time(client: Client, hour: int, name: str) -> None:
    late = message(f"{name}-now", hour + 1000)
    early = message(f"{name}-backfilled", hour)
    client.ingest(late)
    client.ingest(early)

    assert client.all_events(hour, hour) == [early]
    assert client.all_events(hour, hour + 1000) == [early, late]


@pytest.mark.parametrize(
    ("limit", "size"),
    [(0, 50), (1, 1), (999, 999), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)],
)
def test_a_page_has_50_events_unless_asked_for_other_and_1000_at_most(
    client: Client, hour: int, name: str, limit: int, size: int
) -> None:
    events = [message(f"{name}-{n:04}", hour, "") for n in range(1001)]
    client.ingest_all(events[:1000])
    client.ingest_all(events[1000:])

    page = client.get_events(hour, hour, limit=limit)

    assert list(page.events) == events[:size]
    assert page.has_more
    assert page.HasField("continuation_token")


def test_a_page_that_ends_with_the_range_says_that_it_is_the_last(
    client: Client, hour: int, name: str
) -> None:
    client.ingest_all([message(f"{name}-{n}", hour) for n in range(4)])

    page = client.get_events(hour, hour, limit=4)

    assert len(page.events) == 4
    assert not page.has_more
    assert not page.HasField("continuation_token")


@pytest.mark.parametrize("limit", [1, 2, 7, 64, 65, 150])
def test_paging_through_equal_times_neither_repeats_nor_loses(
    client: Client, hour: int, name: str, limit: int
) -> None:
    events = [message(f"{name}-{n:03}", hour + n // 60, "") for n in range(150)]
    client.ingest_all(events)

    pages = list(client.pages(hour, hour + 2, limit=limit))

    assert [event for page in pages for event in page.events] == events
    assert {len(page.events) for page in pages[:-1]} <= {limit}
    assert pages[-1].events


def test_paging_goes_on_where_it_was_while_events_come_in(
    client: Client, hour: int, name: str
) -> None:
    events = [message(f"{name}-{n}", hour + n) for n in range(0, 10, 2)]
    client.ingest_all(events)
    page = client.get_events(hour, hour + 10, limit=2)
    before, after = message(f"{name}-before", hour + 1), message(f"{name}-after", hour + 7)
    client.ingest_all([before, after])

    rest = client.get_events(hour, hour + 10, token=page.continuation_token)

    assert list(page.events) == events[:2]
    assert list(rest.events) == [*events[2:4], after, events[4]]


def test_a_continuation_token_outlives_the_server(daemon: Daemon) -> None:
    events = [message(f"event-{n}", 1000) for n in range(4)]
    with daemon.client() as client:
        client.ingest_all(events)
        token = client.get_events(limit=2).continuation_token
    daemon.restart()
    with daemon.client() as client:
        assert list(client.get_events(token=token).events) == events[2:]


def test_pages_of_long_texts_stay_within_a_clients_default_limit(
    client: Client, hour: int, name: str
) -> None:
    events = [message(f"{name}-{n:02}", hour, chr(ord("a") + n) * MIB) for n in range(10)]
    for event in events:
        client.ingest(event)

    pages = list(client.pages(hour, hour))

    assert max(page.ByteSize() for page in pages) < 4 * MIB
    assert min(len(page.events) for page in pages) >= 1
    assert [event for page in pages for event in page.events] == events


def test_pages_of_long_ids_and_much_metadata_stay_within_a_clients_default_limit(
    client: Client, hour: int, name: str
) -> None:
    """The parts that take more room on the wire than in the store."""
    events = [
        message(
            f"{n:04}{name}".ljust(128, "\U0001f980"),
            hour,
            "x" * 2050,
            metadata={f"{key:02x}": "" for key in range(256)},
        )
        for n in range(1000)
    ]
    for first in range(0, 1000, 200):
        client.ingest_all(events[first : first + 200])

    pages = list(client.pages(hour, hour))

    assert max(page.ByteSize() for page in pages) < 4 * MIB
    assert [event for page in pages for event in page.events] == events


def _token(text: str | bytes) -> str:
    return base64.urlsafe_b64encode(text if isinstance(text, bytes) else text.encode()).decode()


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "negative limit": ({"limit": -1}, ["limit", "-1", "negative"]),
    "start after end": ({"start": 5, "end": 4}, ["from_timestamp_ms", "to_timestamp_ms", "5", "4"]),
    "negative start": ({"start": -1}, ["from_timestamp_ms", "-1", "13 digits"]),
    "the least start": ({"start": -(2**63)}, ["from_timestamp_ms", "13 digits"]),
    "start of 14 digits": ({"start": 10**13, "end": 10**13}, ["from_timestamp_ms", "13 digits"]),
    "negative end": ({"end": -1}, ["to_timestamp_ms", "-1", "13 digits"]),
    "end of 14 digits": ({"end": 10**13}, ["to_timestamp_ms", "10000000000000", "13 digits"]),
    "the greatest end": ({"end": 2**63 - 1}, ["to_timestamp_ms", "13 digits"]),
}
GARBAGE_TOKENS = {
    "a word": "garbage",
    "no base64": "?!*",
    "no ASCII": "\u00e9",
    "no colon": _token("no colon"),
    "no id": _token("5:"),
    "no time": _token(":name"),
    "a time that is no number": _token("soon:name"),
    "an id that is no UTF-8": _token(b"5:\xff\xfe"),
    "a negative time": _token("-5:name"),
    "a time of 14 digits": _token("10000000000000:name"),
    "a time of 5000 digits": _token("9" * 5000 + ":name"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_makes_no_sense_is_refused_with_what_to_change(
    client: Client, arguments: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        client.get_events(**arguments)

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    for word in words:
        assert word in (refused.value.details() or "")


@pytest.mark.parametrize("token", GARBAGE_TOKENS.values(), ids=GARBAGE_TOKENS)
def test_a_continuation_token_that_no_server_gave_is_refused_with_what_to_do(
    client: Client, token: str
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        client.get_events(token=token)

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "continuation_token" in (refused.value.details() or "")
    assert "start over" in (refused.value.details() or "")
