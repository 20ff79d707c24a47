"""Ingest over the wire: once per id, durable when answered, bulk as well as one by one."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from queue import SimpleQueue

import grpc
import pytest
from google.protobuf import json_format

from agent_memory.proto import memory_pb2 as pb
from tests.daemon_process import Daemon
from tests.memory_client import Client, cancel, message

RIVALS = 32

# As the API reference prints them.
EXAMPLES = [
    r"""{
  "event": {
    "event_id": "01HXYZABC123DEF456GHI789",
    "session_id": "session-2026-01-30-001",
    "timestamp_ms": 1738281600000,
    "event_type": 2,
    "role": 1,
    "text": "What is Rust and why should I use it?"
  }
}""",
    r"""{
  "event": {
    "event_id": "01HXYZDEF456GHI789JKL012",
    "session_id": "session-2026-01-30-001",
    "timestamp_ms": 1738281601000,
    "event_type": 4,
    "role": 4,
    "text": "File contents: fn main() { println!(\"Hello\"); }",
    "metadata": {
      "tool_name": "Read",
      "file_path": "/src/main.rs"
    }
  }
}""",
    r"""{
  "event": {
    "event_id": "01HXYZABC123",
    "session_id": "session-1",
    "timestamp_ms": 1738281600000,
    "event_type": 2,
    "role": 1,
    "text": "Hello"
  }
}""",
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_api_reference_works_as_printed(client: Client, example: str) -> None:
    request = json_format.Parse(example, pb.IngestEventRequest())

    first, second = client.ingest(request.event), client.ingest(request.event)

    assert json_format.MessageToDict(first) == {"eventId": request.event.event_id, "created": True}
    assert json_format.MessageToDict(second) == {"eventId": request.event.event_id}
    at_ms = request.event.timestamp_ms
    assert request.event in client.all_events(at_ms, at_ms)


def test_of_many_concurrent_ingests_of_one_id_exactly_one_creates_it(
    shared_daemon: Daemon, client: Client, hour: int, name: str
) -> None:
    together = threading.Barrier(RIVALS)

    def ingest(number: int) -> tuple[str, bool]:
        event = message(name, hour + number, f"from {number}")
        with shared_daemon.client() if number % 2 else shared_daemon.unix_client() as rival:
            together.wait()
            return event.text, rival.ingest(event).created

    with ThreadPoolExecutor(RIVALS) as threads:
        answers = list(threads.map(ingest, range(RIVALS)))

    (winner,) = [text for text, created in answers if created]
    (stored,) = client.all_events(hour, hour + RIVALS)
    assert (stored.event_id, stored.text) == (name, winner)


def test_an_event_sent_again_is_not_created_again(client: Client, hour: int, name: str) -> None:
    event = message(name, hour, metadata={"tool_name": "Read"})

    answers = [client.ingest(event) for _ in range(3)]

    assert [answer.created for answer in answers] == [True, False, False]
    assert {answer.event_id for answer in answers} == {name}
    assert client.all_events(hour, hour) == [event]


@pytest.mark.parametrize(
    "change",
    [
        {"text": "other"},
        {"session_id": "other"},
        {"timestamp_ms": 1},
        {"metadata": {"other": "yes"}},
        {"event_type": pb.EVENT_TYPE_SESSION_END, "role": pb.EVENT_ROLE_SYSTEM},
    ],
    ids="+".join,
)
def test_an_id_sent_again_with_other_content_leaves_what_is_stored(
    client: Client, hour: int, name: str, change: dict[str, object]
) -> None:
    event = message(name, hour)
    other = json_format.ParseDict(json_format.MessageToDict(event), pb.Event())
    other.MergeFrom(json_format.ParseDict(change, pb.Event()))
    client.ingest(event)

    assert not client.ingest(other).created

    assert [e for e in client.all_events() if e.event_id == name] == [event]


def test_an_id_is_any_printable_text(client: Client, hour: int, name: str) -> None:
    longest = "\U0001f980" * 128
    ids = ["a", "a:", "a:b", "a%3Ab", " ", "\u00e9", f"evt:0000000000001:{name}", longest]
    events = [message(each, hour, session_id=each + each[:128]) for each in ids]

    assert [client.ingest(event).created for event in events] == [True] * len(events)

    stored = client.all_events(hour, hour)
    assert stored == sorted(events, key=lambda event: event.event_id.encode())


def test_an_event_answered_as_created_survives_a_kill_right_after(daemon: Daemon) -> None:
    event, bulk = message("one", 1), [message(f"bulk-{n}", 2) for n in range(3)]
    with daemon.client() as client:
        assert client.ingest(event).created
        daemon.kill()
    daemon.restart()
    with daemon.client() as client:
        assert client.all_events() == [event]
        assert all(outcome.created for outcome in client.ingest_all(bulk))
        daemon.kill()
    daemon.restart()
    with daemon.client() as client:
        assert client.all_events() == [event, *bulk]
        assert not client.ingest(event).created


def test_a_stream_answers_every_message_in_order_with_its_events_in_order(
    client: Client, hour: int, name: str
) -> None:
    batches = [[message(f"{name}-{m}-{n}", hour + m) for n in range(7)] for m in range(30)]

    # The iterator ends at once, so the client has half-closed long before the last answer.
    answers = list(client.stream(pb.IngestEventsRequest(events=batch) for batch in batches))

    assert [[outcome.event_id for outcome in answer.outcomes] for answer in answers] == [
        [event.event_id for event in batch] for batch in batches
    ]
    assert all(outcome.created for answer in answers for outcome in answer.outcomes)
    assert len(client.all_events(hour, hour + 30)) == 30 * 7


def test_a_stream_answers_a_message_before_the_next_is_sent(
    client: Client, hour: int, name: str
) -> None:
    requests: SimpleQueue[pb.IngestEventsRequest | None] = SimpleQueue()
    answers = iter(client.stream(request for request in iter(requests.get, None)))
    for number in range(3):
        event = message(f"{name}-{number}", hour)
        requests.put(pb.IngestEventsRequest(events=[event]))
        (outcome,) = next(answers).outcomes
        assert (outcome.event_id, outcome.created) == (event.event_id, True)
    requests.put(None)
    assert list(answers) == []


def test_in_a_stream_an_invalid_event_fails_alone(client: Client, hour: int, name: str) -> None:
    valid = [message(f"{name}-{n}", hour) for n in range(3)]
    no_session = message(f"{name}-no-session", hour, session_id="")
    no_id = message("", hour)

    outcomes = client.ingest_all([valid[0], no_session, valid[1], no_id, valid[2]])

    assert [(o.event_id, o.created, o.HasField("error")) for o in outcomes] == [
        (valid[0].event_id, True, False),
        (no_session.event_id, False, True),
        (valid[1].event_id, True, False),
        ("", False, True),
        (valid[2].event_id, True, False),
    ]
    assert "session_id" in outcomes[1].error
    assert "event_id" in outcomes[3].error
    assert client.all_events(hour, hour) == valid


def test_in_a_stream_a_message_of_invalid_events_only_is_answered(client: Client) -> None:
    outcomes = client.ingest_all([pb.Event(), pb.Event()])
    assert [outcome.HasField("error") for outcome in outcomes] == [True, True]


def test_in_a_message_the_first_of_equal_ids_is_stored(
    client: Client, hour: int, name: str
) -> None:
    events = [message(name, hour, "first"), message(name, hour, "second"), message(name, hour + 1)]

    outcomes = client.ingest_all(events)

    assert [outcome.created for outcome in outcomes] == [True, False, False]
    assert client.all_events(hour, hour + 1) == events[:1]


def test_a_message_holds_a_thousand_events_and_no_more(
    client: Client, hour: int, name: str
) -> None:
    events = [message(f"{name}-{n:04}", hour, "") for n in range(1001)]

    assert all(outcome.created for outcome in client.ingest_all(events[:1000]))
    with pytest.raises(grpc.RpcError) as refused:
        client.ingest_all([message(f"{name}-more-{n:04}", hour, "") for n in range(1001)])

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "1001" in (refused.value.details() or "")
    assert "1000" in (refused.value.details() or "")
    assert client.all_events(hour, hour) == events[:1000]


def test_before_a_message_that_is_refused_the_earlier_ones_are_answered(
    client: Client, hour: int, name: str
) -> None:
    good = [message(f"{name}-{n}", hour) for n in range(2)]
    requests = [
        pb.IngestEventsRequest(events=good[:1]),
        pb.IngestEventsRequest(events=good[1:]),
        pb.IngestEventsRequest(events=[message(f"{name}-many-{n}", hour) for n in range(1001)]),
    ]

    answers = iter(client.stream(requests))

    assert [next(answers).outcomes[0].created for _ in good] == [True, True]
    with pytest.raises(grpc.RpcError) as refused:
        next(answers)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert client.all_events(hour, hour) == good


def test_an_empty_message_gets_an_empty_answer(client: Client, hour: int, name: str) -> None:
    event = message(name, hour)
    requests = [
        pb.IngestEventsRequest(),
        pb.IngestEventsRequest(events=[event]),
        pb.IngestEventsRequest(),
    ]

    answers = list(client.stream(requests))

    assert [len(answer.outcomes) for answer in answers] == [0, 1, 0]


def test_an_empty_stream_ends_without_an_answer(client: Client) -> None:
    assert list(client.stream([])) == []


def test_a_client_that_cancels_amid_a_stream_loses_nothing_answered_and_harms_nobody(
    shared_daemon: Daemon, client: Client, hour: int, name: str
) -> None:
    def requests(prefix: str) -> Iterator[pb.IngestEventsRequest]:
        for number in count():
            yield pb.IngestEventsRequest(events=[message(f"{prefix}-{number}", hour)])

    answered: set[str] = set()
    for attempt in range(4):
        with shared_daemon.client() as leaving:
            call = leaving.stream(requests(f"{name}-{attempt}"))
            answers = iter(call)
            for _ in range(20):
                answered.add(next(answers).outcomes[0].event_id)
            if attempt % 2:
                cancel(call)  # else: the whole connection goes away

    assert client.ingest(message(f"{name}-after", hour)).created
    assert client.ingest_all([message(f"{name}-after", hour)])[0].created is False
    stored = [event.event_id for event in client.all_events(hour, hour)]
    assert answered <= set(stored)
    assert len(stored) == len(set(stored))


def test_clients_that_give_up_on_their_calls_leave_no_error_behind(daemon: Daemon) -> None:
    with daemon.client() as client:
        for attempt in range(10):
            calls = [client.ingest_soon(message(f"{attempt}-{n}", 1)) for n in range(40)]
            calls[0].result()
            for call in calls:
                cancel(call)
        assert client.ingest(message("after", 1)).created
        ids = [event.event_id for event in client.all_events()]
        assert len(ids) == len(set(ids))
    daemon.stop()
    assert "Traceback" not in daemon.log()
