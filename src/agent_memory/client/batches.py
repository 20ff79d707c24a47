"""Many events at once: how they are cut into messages, and what became of them.

A round is one stream of a few messages with a deadline of its own, so a backfill of any length is
held in memory a round at a time and never runs into a time limit as a whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from agent_memory.client import calls
from agent_memory.client.errors import EventsRefused, SerializationError
from agent_memory.client.values import Event
from agent_memory.proto import memory_pb2 as pb

MAX_EVENTS = 500  # of a message
MAX_BYTES = 2 << 20  # of a message; an event that is larger travels alone
MESSAGES_PER_ROUND = 8  # as many as the daemon reads ahead

# The daemon names an event that is too large for it, but a message of more than 16 MiB would end
# the stream, and with it the events around.
MAX_EVENT_BYTES = 8 << 20

Refusal = tuple[str, str]  # event id, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of a round."""

    created: int
    refused: tuple[Refusal, ...]


def split_rounds(events: Iterable[Event]) -> Iterator[calls.Stream[Outcomes]]:
    messages = _messages(events)
    while some := tuple(islice(messages, MESSAGES_PER_ROUND)):
        yield _round(some)


def sum_created(outcomes: Iterable[Outcomes]) -> int:
    """How many events are new."""
    created, refused = 0, list[Refusal]()
    for each in outcomes:
        created += each.created
        refused += each.refused
    if refused:
        raise EventsRefused(refused, created)
    return created


@dataclass(slots=True)
class _PackedMessage:
    request: pb.IngestEventsRequest = field(default_factory=pb.IngestEventsRequest)
    size: int = 0
    refused: list[Refusal] = field(default_factory=list)  # before they were sent

    def has_room(self, size: int) -> bool:
        count = len(self.request.events)
        return not count or (count < MAX_EVENTS and self.size + size <= MAX_BYTES)

    def add(self, event: pb.Event, size: int) -> None:
        self.request.events.append(event)
        self.size += size


def _messages(events: Iterable[Event]) -> Iterator[_PackedMessage]:
    message = _PackedMessage()
    for event in events:
        try:
            encoded, size = _encode(event)
        except SerializationError as exc:
            message.refused.append((event.event_id, str(exc)))
            continue
        if not message.has_room(size):
            yield message
            message = _PackedMessage()
        message.add(encoded, size)
    if message.request.events or message.refused:
        yield message


def _encode(event: Event) -> tuple[pb.Event, int]:
    encoded = calls.event_out(event)
    size = encoded.ByteSize()
    if size > MAX_EVENT_BYTES:
        raise SerializationError(f"this cannot be sent: it has {size:,} bytes")
    return encoded, size


def _round(messages: Sequence[_PackedMessage]) -> calls.Stream[Outcomes]:
    sent = sum(len(message.request.events) for message in messages)
    unsent = tuple(refusal for message in messages for refusal in message.refused)

    def parse(answers: Sequence[bytes]) -> Outcomes:
        outcomes = [
            outcome
            for raw in answers
            for outcome in calls.decode(pb.IngestEventsResponse, raw, lambda m: m.outcomes)
        ]
        if len(outcomes) != sent:
            raise SerializationError(
                f"the daemon answered for {len(outcomes)} of {sent} events; send them again:"
                " none is stored twice"
            )
        refused = tuple((each.event_id, each.error) for each in outcomes if each.HasField("error"))
        return Outcomes(created=sum(each.created for each in outcomes), refused=unsent + refused)

    return calls.Stream(
        path=calls.path("IngestEvents"),
        requests=tuple(
            message.request.SerializeToString() for message in messages if message.request.events
        ),
        parse=parse,
    )
