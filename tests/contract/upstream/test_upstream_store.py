"""The state of the exchange with a team's server, on every store."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.memories.model import memories
from agent_memory.features.upstream.adapters.upstream_store import (
    StoredErasures,
    StoredUpstream,
)
from agent_memory.features.upstream.model.erasures import AskedErasure, PendingErasure
from agent_memory.features.upstream.model.merging import FactNote, FactTombstone
from agent_memory.features.upstream.model.progress import (
    BackfillPhase,
    ProjectBackfill,
    SyncProgress,
)
from agent_memory.features.upstream.ports import ChangedRecord, Origin
from agent_memory.kernel.ids import EventId, KnowledgeId, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.batches import Batch, Put
from tests.contract.stores import STORES
from tests.memory_values import PROJECT, memory

FACT = KnowledgeId("fact-1")
NOTE = FactNote("project:shop", Millis(5))


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OrderedStore]:
    opened = STORES[request.param](tmp_path / "db")
    yield opened
    opened.close()


@pytest.fixture
def state(store: OrderedStore) -> StoredUpstream:
    return StoredUpstream(store)


def event(name: str, session: str = "s-1", project: str = "shop") -> Event:
    return Event(
        event_id=EventId(name),
        session_id=SessionId(session),
        at_ms=Millis(1),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        metadata={"project": project},
    )


def test_progress_and_backfills_stay_until_the_server_is_forgotten(state: StoredUpstream) -> None:
    assert state.load() == SyncProgress()
    progress = SyncProgress(url="https://hub", person="ada", cursor=7, pulled="3")
    state.save(progress)
    memories = ProjectBackfill(name="shop", phase=BackfillPhase.MEMORIES, after="x:y")
    state.save_backfill(memories)
    state.save_backfill(ProjectBackfill(name="a:b"))
    assert state.load() == progress
    names = [each.name for each in state.list_backfills()]
    assert sorted(names) == ["a:b", "shop"]
    state.remove_backfill("a:b")
    assert state.list_backfills() == [memories]
    state.reset()
    assert (state.load(), state.list_backfills()) == (SyncProgress(), [])


def test_only_what_was_sent_or_is_shared_is_forgotten_elsewhere(state: StoredUpstream) -> None:
    state.note_events([event("e0")])
    assert state.list_forgotten(limit=10) == []
    state.note_sent([SessionId("s-1")], ["project:yard"], {})
    state.note_events([event("e1"), event("e2", "s-2"), event("e3", "s-3", "yard")])
    shop = memory("In the shop").key
    state.note_memories([shop, shop._replace(domain="project:yard")])  # type: ignore[arg-type]
    items = state.list_forgotten(limit=10)
    assert [item.event_id for item in items] == ["e1", "e3", None]
    assert items[-1].memory == shop._replace(domain="project:yard")  # type: ignore[arg-type]
    assert state.get_last_forgotten() == items[-1].number
    state.drop_forgotten(items[:2])
    assert state.list_forgotten(limit=10) == items[2:]


def test_forgettings_of_events_that_were_sent_can_be_repeated(state: StoredUpstream) -> None:
    state.note_sent([SessionId("s-1")], [PROJECT], {})
    state.note_events([event("e1"), event("e2")])
    state.note_memories([memory(domain=PROJECT).key])
    state.drop_forgotten(state.list_forgotten(limit=10))
    state.repeat_forgotten()
    again = state.list_forgotten(limit=10)
    assert [item.event_id for item in again] == ["e1", "e2"]  # tombstones are sent with the past
    state.repeat_forgotten()
    assert state.list_forgotten(limit=10) == again


def test_receipts_are_counted_by_person_and_client(state: StoredUpstream) -> None:
    now = Millis(5)
    assert state.get_receipt("ada", "c1") == 0
    assert [state.advance_receipt("ada", "c1", now) for _ in range(2)] == [1, 2]
    assert state.advance_receipt("ada", "c2", now) == 1
    assert state.advance_receipt("ad", "a:c1", now) == 1
    assert state.get_receipt("ada", "c1") == 2
    assert state.get_receipt("bob", "c1") == 0


def test_the_client_that_was_away_longest_makes_room(state: StoredUpstream) -> None:
    for number in range(64):
        state.advance_receipt("ada", f"c{number}", Millis(100 + number))
    state.advance_receipt("ada", "c0", Millis(200))
    state.advance_receipt("ada", "new", Millis(201))
    assert state.get_receipt("ada", "c1") == 0
    assert state.get_receipt("ada", "c0") == 2
    assert [state.get_receipt("ada", name) for name in ("c2", "c63", "new")] == [1, 1, 1]


def test_what_was_taken_is_known_at_once_and_after_a_start(
    store: OrderedStore, state: StoredUpstream
) -> None:
    assert not state.has_taken()
    state.note_taken(Origin("ada", "laptop"), [], [memory("In the shop").key], {})
    assert state.has_taken()
    assert StoredUpstream(store).has_taken()


def test_a_server_sets_tombstones_for_what_it_has_taken(state: StoredUpstream) -> None:
    state.note_taken(Origin("ada", "laptop"), [SessionId("s-1")], [], {})
    state.note_events([event("e1"), event("e2", "s-2")])
    assert state.list_event_tombstones("", limit=10) == ["e1"]
    assert [record for _, record in state.read(0, limit=10)] == [ChangedRecord(event=EventId("e1"))]
    state.put_event_tombstones([EventId("e1")])
    assert len(state.read(0, limit=10)) == 1


def test_the_first_origin_of_a_record_stays(state: StoredUpstream) -> None:
    key = memory().key
    state.note_taken(Origin("ada", "laptop"), [], [key], {FACT: NOTE})
    state.note_taken(Origin("bob", "desk"), [], [key], {FACT: replace(NOTE, valued_ms=Millis(9))})
    assert state.get_memory_origins([key]) == [Origin("ada", "laptop")]
    assert state.get_fact_origins([FACT]) == [Origin("ada", "laptop")]
    assert state.find_taken_facts([FACT])[FACT].valued_ms == 9
    assert state.list_taken_facts("", limit=5) == [FACT]
    state.drop_taken_facts([FACT])
    assert state.find_taken_facts([FACT]) == {}


def test_each_record_is_listed_once_with_its_last_change(state: StoredUpstream) -> None:
    one, other = memory("one").key, memory("other").key
    records = [ChangedRecord(memory=one), ChangedRecord(memory=other)]
    assert state.append(records, before=None, cursor=2)
    assert not state.append(records, before=None, cursor=9)
    assert state.append([ChangedRecord(memory=one)], before=2, cursor=3)
    assert state.get_cursor() == 3
    listed = state.read(0, limit=10)
    assert [record.memory for _, record in listed] == [other, one]
    assert [record.memory for _, record in state.read(listed[0][0], limit=10)] == [one]
    assert state.get_last() == listed[-1][0]


def test_a_later_tombstone_replaces_an_earlier_one(state: StoredUpstream) -> None:
    tombstone = FactTombstone(id=FACT, scope="project:shop", at_ms=Millis(10))
    assert state.put_fact_tombstone(tombstone)
    assert not state.put_fact_tombstone(replace(tombstone, at_ms=Millis(9)))
    later = replace(tombstone, at_ms=Millis(11))
    assert state.put_fact_tombstone(later)
    assert state.get_fact_tombstones([FACT, KnowledgeId("none")]) == [(later,), ()]
    assert state.list_fact_tombstones("", limit=5) == [later]


def test_tombstones_that_claim_another_scope_stand_beside_each_other(
    state: StoredUpstream,
) -> None:
    claimed = FactTombstone(id=FACT, scope="project:web", at_ms=Millis(99))
    own = replace(claimed, scope="project:shop", at_ms=Millis(10))
    assert state.put_fact_tombstone(claimed)
    assert state.put_fact_tombstone(own)
    assert not state.put_fact_tombstone(own)
    assert state.get_fact_tombstones([FACT]) == [(own, claimed)]
    for number in range(200):
        state.put_fact_tombstone(replace(claimed, scope=f"project:p{number}"))
    assert len(state.get_fact_tombstones([FACT])[0]) == 100


def test_a_forgetting_counts_for_the_projects_of_those_who_asked(state: StoredUpstream) -> None:
    shop, web = event("e1"), event("e1", project="web")
    assert state.find_forgotten([shop, web]) == frozenset()
    state.note_forgotten([EventId("e1")], frozenset({"shop"}))
    assert state.find_forgotten([shop]) == {"e1"}
    assert state.find_forgotten([web]) == frozenset()
    state.note_forgotten([EventId("e1"), EventId("e1")], frozenset({"yard"}))
    assert state.find_forgotten([shop]) == {"e1"}
    state.note_forgotten([EventId("e1")], None)
    assert state.find_forgotten([web]) == {"e1"}
    state.note_forgotten([EventId("e1")], frozenset({"shop"}))
    assert state.find_forgotten([web]) == {"e1"}


def test_sent_facts_are_known_until_they_are_gone(state: StoredUpstream) -> None:
    state.note_sent([], [], {FACT: NOTE})
    state.note_sent([], [], {FACT: replace(NOTE, valued_ms=Millis(8))})
    assert state.find_sent_facts([FACT])[FACT].valued_ms == 8
    assert state.list_sent_facts("", limit=5) == [FACT]
    state.drop_facts([FACT])
    assert state.find_sent_facts([FACT]) == {}


def test_an_event_is_sent_if_its_session_and_its_project_were(state: StoredUpstream) -> None:
    state.note_sent([SessionId("s-1")], [], {})
    assert not state.is_sent(event("e1"))
    state.note_sent([], [PROJECT], {})
    assert state.is_sent(event("e1"))
    assert not state.is_sent(event("e2", project="diary"))  # of the same session
    assert not state.is_sent(event("e3", "s-3"))


def test_pending_erasures_stay_until_they_are_erased(store: OrderedStore) -> None:
    erasures = StoredErasures(store)
    at = Millis(1_700_000_000_009)
    asked = AskedErasure("bob", Millis(5))
    stone = memories.build_tombstone(memory(domain=PROJECT), at)
    fact = FactTombstone(id=KnowledgeId("a:b"), scope="project:shop", at_ms=at)
    pending = [
        PendingErasure(asked=asked, owner="ada", event=EventId("e1")),
        PendingErasure(asked=asked, owner="ada", fact=fact),
        PendingErasure(asked=asked, owner="", memory=stone),
    ]
    erasures.add(pending)
    later = AskedErasure("eve", Millis(9))
    erasures.add(
        [replace(pending[0], asked=later), PendingErasure(asked=later, event=EventId("z"))]
    )
    assert erasures.list_pending(limit=10, asked_until=Millis(5)) == pending
    assert len(erasures.list_pending(limit=10)) == 4
    assert len(erasures.list_pending(limit=2)) == 2
    of_ada = erasures.list_pending(limit=10, is_wanted=lambda each: each.owner == "ada")
    assert of_ada == pending[:2]
    assert erasures.list_pending(limit=10, asked_until=Millis(4)) == []
    assert [each.kind for each in pending] == ["event", "fact", "memory"]
    # A removal of a later value is another request, and waits anew.
    removal = PendingErasure(asked=later, fact=replace(fact, at_ms=Millis(at + 1)))
    erasures.add([removal, pending[1]])
    assert removal in erasures.list_pending(limit=10)
    assert erasures.has(EventId("e1"))
    assert erasures.has(fact)
    assert erasures.has(stone.key)
    assert not erasures.has(replace(fact, scope="project:web"))
    erasures.drop(erasures.list_pending(limit=10))
    assert erasures.list_pending(limit=10) == []


def test_what_an_earlier_version_noted_was_asked_long_ago(store: OrderedStore) -> None:
    row = Put(families.UPSTREAM, b"doomed:event:e1", codec.EMPTY)
    store.submit([Batch((row,))]).result()
    (pending,) = StoredErasures(store).list_pending(limit=10)
    assert (pending.event, pending.asked) == ("e1", AskedErasure("", Millis(0)))
    assert pending.owner is None
