"""Recording and reading back, through both clients."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from agent_memory.client import Event, EventRole, EventsRefused, EventType, MemoryClient, RpcError
from tests.client.conftest import Maker
from tests.daemon_process import Daemon

MIB = 1 << 20


def test_an_event_comes_back_as_it_was_sent(client: MemoryClient, hour: int) -> None:
    sent = Event(
        session_id="sitzung: zwölf",
        timestamp=datetime.fromtimestamp(hour / 1000 + 0.123456, UTC),
        event_type=EventType.TOOL_RESULT,
        role=EventRole.TOOL,
        text="fn main() {}\n🦀",
        metadata={"tool_name": "Read", "file_path": "/src/main.rs"},
    )

    assert client.ingest(sent) == (sent.event_id, True)

    found = client.get_events(hour, hour + 999)
    assert found.events == (sent,)
    assert not found.has_more
    assert found.continuation_token is None


@pytest.mark.parametrize("kind", EventType)
@pytest.mark.parametrize("role", EventRole)
def test_every_type_and_role_is_kept(
    client: MemoryClient, event: Maker, hour: int, kind: EventType, role: EventRole
) -> None:
    client.ingest(event(event_type=kind, role=role))

    (found,) = client.get_events(hour, hour).events
    assert (found.event_type, found.role) == (kind, role)


def test_the_same_id_again_is_not_created_and_the_first_stands(
    client: MemoryClient, event: Maker, hour: int
) -> None:
    first = event()
    client.ingest(first)

    assert client.ingest(replace(first, text="another")) == (first.event_id, False)
    assert client.get_events(hour, hour).events == (first,)


def test_pages_lead_from_one_to_the_next(client: MemoryClient, event: Maker, hour: int) -> None:
    sent = [event(after_ms=number) for number in range(5)]
    client.ingest_batch(sent)

    first = client.get_events(hour, hour + 4, limit=2)
    second = client.get_events(hour, hour + 4, 2, first.continuation_token)
    third = client.get_events(hour, hour + 4, 2, second.continuation_token)

    assert [page.has_more for page in (first, second, third)] == [True, True, False]
    assert [*first.events, *second.events, *third.events] == sent
    assert third.continuation_token is None


def test_a_page_has_50_events_unless_asked_for_other(
    client: MemoryClient, event: Maker, hour: int
) -> None:
    client.ingest_batch(event(after_ms=number) for number in range(60))

    assert len(client.get_events(hour, hour + 59).events) == 50


def test_all_events_of_a_time_come_one_after_the_other(
    client: MemoryClient, event: Maker, hour: int
) -> None:
    sent = [event(after_ms=number) for number in range(2_345)]
    client.ingest_batch(reversed(sent))

    assert list(client.iter_events(hour, hour + 2_343)) == sent[:2_344]


def test_pages_cut_short_by_long_texts_lose_nothing(
    client: MemoryClient, event: Maker, hour: int
) -> None:
    sent = [event(after_ms=number, text=str(number) * MIB) for number in range(6)]
    client.ingest_batch(sent)

    assert client.get_events(hour, hour + 5).has_more
    assert list(client.iter_events(hour, hour + 5)) == sent


def test_a_time_without_events_is_empty(client: MemoryClient, hour: int) -> None:
    assert client.get_events(hour, hour).events == ()
    assert list(client.iter_events(hour, hour)) == []


def test_a_batch_of_many_rounds_counts_what_is_new(
    client: MemoryClient, event: Maker, hour: int, name: str
) -> None:
    known = [event(f"{name}-{number:05}", after_ms=number) for number in range(0, 4_500, 3)]
    everything = [event(f"{name}-{number:05}", after_ms=number) for number in range(4_500)]

    assert client.ingest_batch(known) == 1_500
    assert client.ingest_batch(iter(everything)) == 3_000
    assert list(client.iter_events(hour, hour + 4_500)) == everything


def test_a_batch_of_nothing_creates_nothing(client: MemoryClient) -> None:
    assert client.ingest_batch([]) == 0


def test_refused_events_of_a_batch_are_named_after_the_rest_is_stored(
    client: MemoryClient, event: Maker, hour: int, name: str
) -> None:
    good = [event(after_ms=number) for number in range(1_200)]
    bad = {
        f"{name}-empty": event(f"{name}-empty", session_id=""),
        f"{name}-early": event(f"{name}-early", timestamp=-1),
        f"{name}-long": event(f"{name}-long", text="x" * (MIB + 1)),
        f"{name}-huge": event(f"{name}-huge", text="x" * (20 * MIB)),
        f"{name}-lone": event(f"{name}-lone", text="\ud800"),
    }
    mixed = [*good]
    for place, event_id in zip((0, 300, 600, 900, 1200), bad, strict=True):
        mixed.insert(place, bad[event_id])

    with pytest.raises(EventsRefused) as caught:
        client.ingest_batch(mixed)

    refused = caught.value
    reasons = dict(refused.refused)
    assert reasons.keys() == bad.keys()
    assert "session_id" in reasons[f"{name}-empty"]
    assert "timestamp_ms" in reasons[f"{name}-early"]
    assert "1,048,577 bytes" in reasons[f"{name}-long"]
    assert "cannot be sent" in reasons[f"{name}-huge"]
    assert "surrogates not allowed" in reasons[f"{name}-lone"]
    assert refused.created == 1_200
    assert refused.code == "INVALID_ARGUMENT"
    assert refused.details.startswith("5 refused: ")
    assert refused.details.endswith("; and 2 more")
    assert list(client.iter_events(hour, hour + 1_200)) == good


def test_a_batch_of_nothing_that_can_be_sent_is_refused(
    client: MemoryClient, event: Maker, name: str
) -> None:
    with pytest.raises(EventsRefused) as caught:
        client.ingest_batch([event(name, text="\ud800")])

    assert [event_id for event_id, _ in caught.value.refused] == [name]
    assert caught.value.created == 0


def test_an_iterable_that_fails_ends_the_batch_with_its_own_error(
    client: MemoryClient, event: Maker
) -> None:
    class Broken(Exception):
        pass

    def events() -> Iterator[Event]:
        yield event()
        raise Broken

    with pytest.raises(Broken):
        client.ingest_batch(events())


def test_what_the_daemon_refuses_is_an_rpc_error(client: MemoryClient, event: Maker) -> None:
    with pytest.raises(RpcError) as caught:
        client.ingest(event(session_id=""))

    assert caught.value.code == "INVALID_ARGUMENT"
    assert "session_id is required" in caught.value.details
    assert str(caught.value) == f"INVALID_ARGUMENT: {caught.value.details}"


def test_a_token_that_nobody_gave_is_refused(client: MemoryClient, hour: int) -> None:
    token = str(hour)

    with pytest.raises(RpcError, match="continuation_token") as caught:
        client.get_events(hour, hour, continuation_token=token)

    assert caught.value.code == "INVALID_ARGUMENT"


def test_both_clients_read_what_either_wrote(
    client: MemoryClient, event: Maker, hour: int, shared_daemon: Daemon
) -> None:
    sent = event()
    client.ingest(sent)

    with MemoryClient.connect(f"127.0.0.1:{shared_daemon.port}") as other:
        assert other.get_events(hour, hour).events == (sent,)


def test_new_ids_are_unique_and_sort_by_time(event: Maker) -> None:
    created = [event() for _ in range(1_000)]

    assert len({each.event_id for each in created}) == 1_000
    assert all(left.event_id[:10] <= right.event_id[:10] for left, right in pairwise(created))
