"""How many events are cut into messages and rounds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.client import Event, EventRole, EventType
from agent_memory.client.batches import MAX_BYTES, MAX_EVENTS, MESSAGES_PER_ROUND, split_rounds
from agent_memory.proto import memory_pb2 as pb

KIB = 1 << 10
PLAIN = Event(
    event_id="x",
    session_id="session-001",
    timestamp=1_738_281_600_000,
    event_type=EventType.USER_MESSAGE,
    role=EventRole.USER,
)


def events(sizes: Sequence[int]) -> Iterator[Event]:
    return (
        replace(PLAIN, event_id=str(number), text="x" * size) for number, size in enumerate(sizes)
    )


def messages(sizes: Sequence[int]) -> list[list[pb.IngestEventsRequest]]:
    return [
        [pb.IngestEventsRequest.FromString(raw) for raw in each.requests]
        for each in split_rounds(events(sizes))
    ]


# Runs of one size, so that both bounds are met: many small events, few large ones.
runs = st.lists(
    st.tuples(st.integers(1, 600), st.sampled_from([0, 100, 5 * KIB]))
    | st.tuples(st.integers(1, 5), st.sampled_from([700 * KIB, 1024 * KIB, 3 * 1024 * KIB])),
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(runs)
def test_no_message_is_too_large_and_no_event_is_lost_or_moved(
    runs: list[tuple[int, int]],
) -> None:
    sizes = [size for count, size in runs for _ in range(count)]

    cut = messages(sizes)

    sent = [message for each in cut for message in each]
    assert all(1 <= len(message.events) <= MAX_EVENTS for message in sent)
    assert all(
        message.ByteSize() <= MAX_BYTES + 5 * MAX_EVENTS
        for message in sent
        if len(message.events) > 1
    )
    assert all(1 <= len(each) <= MESSAGES_PER_ROUND for each in cut)
    assert [event.event_id for message in sent for event in message.events] == [
        str(number) for number in range(len(sizes))
    ]


def test_messages_are_filled_before_the_next_begins() -> None:
    assert [len(m.events) for m in messages([0] * 1_001)[0]] == [500, 500, 1]
    assert [len(m.events) for m in messages([1000 * KIB] * 5)[0]] == [2, 2, 1]


def test_rounds_are_filled_before_the_next_begins() -> None:
    assert [len(each) for each in messages([0] * 4_001)] == [8, 1]


def test_an_iterable_is_read_a_round_at_a_time() -> None:
    taken: list[Event] = []

    def endless() -> Iterator[Event]:
        while True:
            taken.append(PLAIN)
            yield PLAIN

    next(split_rounds(endless()))

    assert len(taken) == MESSAGES_PER_ROUND * MAX_EVENTS + 1
