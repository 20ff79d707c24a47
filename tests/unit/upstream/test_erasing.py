"""What waits to be erased: whose it is, without reading each record."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import PERSON
from agent_memory.features.memories.model import memories
from agent_memory.features.upstream.model.erasures import (
    MAX_COUNTED,
    AskedErasure,
    PendingErasure,
)
from agent_memory.features.upstream.model.records import RecordBatch
from agent_memory.features.upstream.services.receiving import Sender
from agent_memory.kernel.ids import Domain, EventId, Millis, SessionId
from tests.memory_values import memory
from tests.simulation.laptops import SimulatedClock, TeamHub, TeamParts

ADA, SHOP = Sender(person="ada"), Domain("project:shop")
ROOT = AskedErasure("root", Millis(5))


@pytest.fixture
def hub() -> Iterator[TeamHub]:
    hub = TeamHub(SimulatedClock(), TeamParts())
    yield hub
    hub.store.close()


def event(name: str, **metadata: str) -> Event:
    return Event(
        event_id=EventId(name),
        session_id=SessionId("s-1"),
        at_ms=Millis(1_700_000_000_000),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text="hello",
        metadata={"project": "shop", **metadata},
    )


def hide_records(hub: TeamHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a record was read")

    for reader in (hub.log, hub.memories):
        monkeypatch.setattr(reader, "get", refuse)


def test_what_waits_is_counted_by_its_row_and_the_count_ends(
    hub: TeamHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.erasures.add(
        PendingErasure(asked=ROOT, owner="ada", event=EventId(f"e-{number}"))
        for number in range(MAX_COUNTED + 200)
    )
    hub.erasures.add([PendingErasure(asked=ROOT, owner="bob", event=EventId("z"))])
    hide_records(hub, monkeypatch)
    people = ("ada", "bob", "eve", "root")
    assert [hub.erasing.count_of(each) for each in people] == [MAX_COUNTED, 1, 0, MAX_COUNTED]
    assert len(hub.erasing.list_of("ada")) == MAX_COUNTED + 200
    assert [each.name for each in hub.erasing.choose(["z", "e-1"], "bob")] == ["z"]


def test_of_what_an_earlier_version_noted_the_record_says_whose_it_is(hub: TeamHub) -> None:
    stored = event("e1", **{PERSON: "ada"})
    hub.ingest.submit([hub.ingest.clean(stored)]).result()
    hub.erasures.add([PendingErasure(asked=ROOT, event=EventId("e1"))])
    assert [hub.erasing.count_of(each) for each in ("ada", "bob")] == [1, 0]


def test_what_a_machine_asks_for_is_noted_with_its_owner_and_wakes_the_job_once(
    hub: TeamHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[bool] = []
    receiving = replace(hub.receiving, on_erasure_due=lambda: woken.append(True))
    shared = memory(domain=SHOP)
    live = RecordBatch(events=(event("e1"),), memories=(shared,))
    assert receiving.take(live, ADA).taken == 2
    stone = memories.build_tombstone(shared, Millis(shared.updated_ms + 1))
    receiving.take(RecordBatch(memories=(stone,), forgotten=(EventId("e1"),)), ADA)
    assert woken == [True]
    receiving.take(RecordBatch(events=(event("e2"),)), ADA)
    assert woken == [True]  # though something waits
    hide_records(hub, monkeypatch)
    assert hub.erasing.count_of("ada") == 2
    assert [each.owner for each in hub.erasures.list_pending(limit=5)] == ["ada", "ada"]
