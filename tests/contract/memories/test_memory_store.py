"""The ports Memories, MemoryUses, NoteQueue, Projects, ChangeLog and Journal over every store."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.outbox import MemoryChanged
from agent_memory.features.memories.adapters.journal import StoredChangeLog, StoredJournal
from agent_memory.features.memories.adapters.memory_store import (
    MemoryOutlines,
    StoredMemories,
    StoredNoteQueue,
    StoredUses,
)
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.model import changes
from agent_memory.features.memories.model import memories as rules
from agent_memory.features.memories.model.changes import ChangeAction, ChangeEntry
from agent_memory.features.memories.model.consolidations import ConsolidationRun, Undo
from agent_memory.features.memories.model.memories import Home, Memory, MemoryOutline, MemoryStatus
from agent_memory.features.memories.model.projects import NOWHERE, Project, SyncState
from agent_memory.features.memories.model.tiers import MemoryUse, Tier
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import USER, Digest, Domain, MemoryKey, Millis
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Batch, Put
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.engines import RefusingEngine
from tests.contract.stores import TIMEOUT, OpenStore, commit, everything
from tests.contract.stores import memory as in_memory
from tests.memory_engine import MemoryEngine
from tests.memory_values import memory, records

HOME, OTHER = Home("/code/shop/.git"), Home("/code/shop: the other/.git")


def open_memories(store: OrderedStore, *wanted: Memory, home: Home | None = HOME) -> StoredMemories:
    found = StoredMemories(store)
    assert found.write([MemoryChange(None, each, home) for each in wanted]) == [True] * len(wanted)
    return found


class TestMemories:
    def test_what_was_written_is_read(self, store: OrderedStore) -> None:
        created = memory("Use PostgreSQL", "---\nbecause\r\n", tags=frozenset({"db"}))
        found = open_memories(store, created)
        assert found.get(created.key) == created
        assert found.find_by_digest(created.domain, created.namespace, created.digest[:4]) == [
            created
        ]
        assert found.find_by_digest(created.domain, created.namespace, created.digest) == [created]
        assert found.list_domain(created.domain, after=None, limit=10) == [created]
        assert found.list_domains() == [created.domain]

    def test_a_record_of_an_earlier_version_is_read_and_changed(self, store: OrderedStore) -> None:
        created = memory("Old", tags=frozenset({"b", "a"}), session_id="s")
        fields: list[object] = [
            "Old",
            "",
            created.created_ms,
            created.updated_ms,
            "",
            ["a", "b"],
            [],
        ]
        fields += ["active", "", "", "", "s"]
        value = bytes([codec.VERSION]) + msgspec.msgpack.encode(fields)
        commit(store, Batch((Put(families.MEMORIES, keys.memory(created.key), value),)))
        found = StoredMemories(store)
        assert found.get(created.key) == created
        changed = rules.update_fields(created, Millis(5), tags=frozenset({"a"}))
        assert found.write([MemoryChange(created, changed, None)]) == [True]
        assert found.get(created.key) == changed
        assert [change.name for change in changed.tag_changes] == ["b"]

    def test_what_is_not_there_is_not_found(self, store: OrderedStore) -> None:
        created = memory()
        found = open_memories(store, created)
        assert found.get(memory("another").key) is None
        assert found.get(created.key._replace(domain=USER)) is None
        assert found.find_by_digest(created.domain, "learnings", created.digest[:4]) == []
        assert found.find_by_digest(created.domain, "nonsense", created.digest[:4]) == []
        assert found.list_domain(USER, after=None, limit=10) == []

    def test_a_second_memory_of_the_same_key_is_refused(self, store: OrderedStore) -> None:
        created = memory()
        found = open_memories(store, created)
        assert found.write([MemoryChange(None, created, HOME)]) == [False]
        assert len(everything(store, families.OUTBOX)) == 1

    def test_a_change_of_what_is_no_longer_so_is_refused(self, store: OrderedStore) -> None:
        created = memory()
        found = open_memories(store, created)
        resolved = rules.change_status(
            created, MemoryStatus.RESOLVED, Millis(created.updated_ms + 1)
        )
        assert found.write([MemoryChange(created, resolved, HOME)]) == [True]
        archived = rules.change_status(
            created, MemoryStatus.ARCHIVED, Millis(created.updated_ms + 2)
        )
        assert found.write([MemoryChange(created, archived, HOME)]) == [False]
        assert found.get(created.key) == resolved

    def test_digests_that_begin_alike_are_numbered_in_their_order(
        self, store: OrderedStore
    ) -> None:
        start = "0123456789ab"
        alike = [
            rules.build_tombstone(replace_digest(start + tail * 52), Millis(5))
            for tail in ("0", "7", "f")
        ]
        found = open_memories(store, *alike)
        assert [
            each.index for each in found.find_by_digest(alike[0].domain, "decisions", start)
        ] == [
            0,
            1,
            2,
        ]
        assert [each.id for each in found.list_domain(alike[0].domain, after=None, limit=9)] == [
            f"decisions:{start}:{n}" for n in range(3)
        ]
        rest = found.list_domain(alike[0].domain, after=alike[0].key, limit=9)
        assert [each.index for each in rest] == [1, 2]
        assert found.get(alike[2].key) == replace(alike[2], index=2)

    def test_pages_go_through_a_domain_and_stop_at_its_end(self, store: OrderedStore) -> None:
        mine = [memory(f"number {n}") for n in range(7)]
        near = [
            memory(domain=Domain("project:shop2")),
            memory(domain=Domain("project:sho")),
            memory(domain=USER),
        ]
        found = open_memories(store, *mine, *near)
        read: list[Memory] = []
        last: MemoryKey | None = None
        while page := found.list_domain(mine[0].domain, after=last, limit=2):
            read += page
            last = page[-1].key
        assert sorted(each.summary for each in read) == [f"number {n}" for n in range(7)]
        assert set(found.list_domains()) == {each.domain for each in (*mine, *near)}
        assert len(found.list_domains()) == 4

    def test_every_change_is_in_the_outbox(self, store: OrderedStore) -> None:
        created = memory()
        found = open_memories(store, created)
        forgotten = rules.build_tombstone(created, Millis(created.updated_ms + 1))
        found.write([MemoryChange(created, forgotten, None)])
        entries = [entry for _, entry in StoredOutbox(store).read(0, limit=10)]
        assert entries == [MemoryChanged(key=created.key)] * 2

    @settings(max_examples=30)
    @given(st.lists(records(), max_size=8))
    def test_any_memory_is_read_as_it_was_written(self, created: list[Memory]) -> None:
        store = in_memory(Path())
        try:
            found, unique = StoredMemories(store), {each.key: each for each in created}
            found.write([MemoryChange(None, each, None) for each in unique.values()])
            for key, each in unique.items():
                assert found.get(key) == each
        finally:
            store.close()

    def test_a_damaged_record_is_told(self, store: OrderedStore) -> None:
        created = memory()
        found = open_memories(store, created)
        (row,) = everything(store, families.MEMORIES)
        value = row[1].replace(b"PostgreSQL", b"PostgreSQ!")
        commit(store, Batch((Put(families.MEMORIES, row[0], value),)))
        with pytest.raises(StorageFailed, match="damaged"):
            found.get(created.key)


def replace_digest(digest: str) -> Memory:
    """Give a memory a digest; that of a tombstone may be any."""
    return Memory(
        digest=Digest(digest),
        namespace="decisions",
        domain=Domain("project:shop"),
        summary="",
        created_ms=Millis(1),
        updated_ms=Millis(1),
        status=MemoryStatus.TOMBSTONE,
    )


class TestNoteQueue:
    def test_each_home_has_its_own_changes_in_order(self, store: OrderedStore) -> None:
        one, two, three = memory("one"), memory("two"), memory("three")
        open_memories(store, one, two)
        open_memories(store, three, home=OTHER)
        queue = StoredNoteQueue(store)
        assert sorted(queue.list_homes()) == sorted([HOME, OTHER])
        assert [key for _, key in queue.list_pending(HOME, limit=10)] == [one.key, two.key]
        assert [key for _, key in queue.list_pending(HOME, limit=1)] == [one.key]
        assert [key for _, key in queue.list_pending(OTHER, limit=10)] == [three.key]

    def test_what_is_done_is_gone_and_what_came_meanwhile_stays(self, store: OrderedStore) -> None:
        one, two = memory("one"), memory("two")
        open_memories(store, one)
        queue = StoredNoteQueue(store)
        taken = queue.list_pending(HOME, limit=10)
        open_memories(store, two)
        queue.mark_done([ticket for ticket, _ in taken])
        assert [key for _, key in queue.list_pending(HOME, limit=10)] == [two.key]
        queue.mark_done([ticket for ticket, _ in queue.list_pending(HOME, limit=10)])
        assert queue.list_homes() == []
        queue.mark_done([])

    @pytest.mark.parametrize("home", [None, NOWHERE])
    def test_a_change_without_a_home_waits_for_no_note(
        self, store: OrderedStore, home: Home | None
    ) -> None:
        open_memories(store, memory(), home=home)
        assert StoredNoteQueue(store).list_homes() == []

    def test_what_awaits_review_waits_for_no_note_until_it_is_accepted(
        self, store: OrderedStore
    ) -> None:
        noted = replace(memory("one"), status=MemoryStatus.PENDING)
        discarded = replace(memory("two"), status=MemoryStatus.PENDING)
        found = open_memories(store, noted, discarded)
        queue = StoredNoteQueue(store)
        assert found.get(noted.key) == noted
        assert queue.list_homes() == []
        stone = rules.build_tombstone(discarded, Millis(5))
        assert found.write([MemoryChange(discarded, stone, HOME)]) == [True]
        assert queue.list_homes() == []
        accepted = rules.accept(noted, Millis(5))
        assert found.write([MemoryChange(noted, accepted, HOME)]) == [True]
        assert [key for _, key in queue.list_pending(HOME, limit=9)] == [noted.key]
        forgotten = rules.build_tombstone(accepted, Millis(6))
        assert found.write([MemoryChange(accepted, forgotten, HOME)]) == [True]
        assert len(queue.list_pending(HOME, limit=9)) == 2

    def test_it_survives_a_restart(self, open_durable: OpenStore, tmp_path: Path) -> None:
        store = open_durable(tmp_path / "db")
        open_memories(store, memory())
        store.close()
        again = open_durable(tmp_path / "db")
        try:
            assert [key for _, key in StoredNoteQueue(again).list_pending(HOME, limit=9)] == [
                memory().key
            ]
        finally:
            again.close()


class TestUses:
    def test_uses_are_counted_and_the_last_one_kept(self, store: OrderedStore) -> None:
        uses, key = StoredUses(store), memory().key
        assert uses.get_many([key]) == [MemoryUse()]
        uses.add([key], Millis(5))
        commit(store)
        uses.add([key], Millis(3))
        commit(store)
        assert uses.get_many([key, memory("x").key]) == [
            MemoryUse(count=2, last_ms=Millis(5)),
            MemoryUse(),
        ]

    def test_a_tier_is_settled_beside_the_count(self, store: OrderedStore) -> None:
        uses, key = StoredUses(store), memory().key
        uses.add([key], Millis(5))
        commit(store)
        uses.set_tiers({key: Tier.WARM})
        commit(store)
        assert uses.get_many([key]) == [MemoryUse(count=1, last_ms=Millis(5), tier=Tier.WARM)]
        uses.forget(key)
        assert uses.get_many([key]) == [MemoryUse()]


class TestOutlines:
    def test_they_follow_what_is_written(self, store: OrderedStore) -> None:
        outlines = MemoryOutlines(store)
        found, uses = StoredMemories(store, outlines), StoredUses(store, outlines)
        first, second, gone = memory("a"), memory("b"), memory("c")
        found.write([MemoryChange(None, each, HOME) for each in (first, gone)])
        uses.add([first.key], Millis(5))
        commit(store)
        assert counted(outlines) == Counter([outline(first, uses=1), outline(gone)])
        archived = replace(first, status=MemoryStatus.ARCHIVED, superseded_by=second.id)
        found.write([MemoryChange(None, second, HOME), MemoryChange(first, archived, HOME)])
        found.write([MemoryChange(gone, tombstone(gone), HOME)])
        found.write([MemoryChange(first, first, HOME)])  # refused: it has changed
        uses.add([second.key, first.key], Millis(6))
        expected = [outline(archived, uses=2), outline(second, uses=1), outline(tombstone(gone))]
        assert counted(outlines) == Counter(expected)
        commit(store)
        assert counted(MemoryOutlines(store)) == Counter(expected)
        uses.forget(second.key)
        assert outline(second) in counted(outlines)

    def test_the_newest_come_first_also_if_a_time_changes(self, store: OrderedStore) -> None:
        outlines = MemoryOutlines(store)
        found = StoredMemories(store, outlines)
        created = [memory(f"{at}", at=Millis(at)) for at in (300, 100, 400, 200)]
        found.write([MemoryChange(None, each, HOME) for each in created[:2]])
        assert outlines.find_newest(lambda _: True, limit=9) == [created[0].key, created[1].key]
        found.write([MemoryChange(None, each, HOME) for each in created[2:]])
        moved = replace(created[0], created_ms=Millis(50))
        found.write([MemoryChange(created[0], moved, HOME)])
        order = [each.key for each in (created[2], created[3], created[1], moved)]
        for each in (outlines, MemoryOutlines(store)):
            assert each.find_newest(lambda _: True, limit=9) == order
            assert each.find_newest(lambda found: found.created_ms < 300, limit=2) == order[1:3]

    def test_what_is_superseded_is_found_by_what_superseded_it(self, store: OrderedStore) -> None:
        outlines = MemoryOutlines(store)
        found = StoredMemories(store, outlines)
        new, old, gone = (memory(name) for name in ("new", "old", "gone"))
        found.write([MemoryChange(None, each, HOME) for each in (new, old, gone)])
        assert outlines.find_superseded(new.domain) == {}
        after = replace(old, superseded_by=new.id)
        forgotten = replace(tombstone(gone), superseded_by=new.id)
        found.write([MemoryChange(old, after, HOME), MemoryChange(gone, forgotten, HOME)])
        for each in (outlines, MemoryOutlines(store)):
            assert each.find_superseded(new.domain) == {new.id: [old.key]}
            assert each.find_superseded(Domain("project:other")) == {}

    def test_more_than_a_page_is_read(self, store: OrderedStore) -> None:
        open_memories(store, *(memory(f"{number}") for number in range(5_001)))
        assert counted(MemoryOutlines(store)).total() == 5_001


def counted(outlines: MemoryOutlines) -> Counter[MemoryOutline]:
    return outlines.count_groups()


def outline(memory: Memory, uses: int = 0) -> MemoryOutline:
    """The group of a memory."""
    return MemoryOutline(
        memory.key, memory.status, memory.superseded, memory.created_ms, uses
    ).group


def tombstone(memory: Memory) -> Memory:
    return replace(
        memory, status=MemoryStatus.TOMBSTONE, summary="", content="", spec="", tags=frozenset()
    )


class TestProjects:
    def test_a_project_is_known_by_its_id_and_each_home(self, store: OrderedStore) -> None:
        projects = StoredProjects(store)
        shop = Project(id="shop", origin="host/team/shop", homes=(HOME, OTHER))
        projects.save(shop)
        projects.save(Project(id="another", origin="", homes=()))
        assert (
            projects.get("shop")
            == projects.find_by_home(HOME)
            == projects.find_by_home(OTHER)
            == shop
        )
        assert projects.get("none") is projects.find_by_home(Home("/elsewhere")) is None
        assert [each.id for each in projects.list_all()] == ["another", "shop"]

    def test_paths_need_not_be_text(self, store: OrderedStore) -> None:
        odd = Home("/code/\udcff:%/.git")
        projects = StoredProjects(store)
        projects.save(Project(id="odd", origin="", homes=(odd,)))
        found = projects.find_by_home(odd)
        assert found is not None
        assert found.homes == (odd,)

    def test_what_was_seen_is_remembered_per_home(self, store: OrderedStore) -> None:
        projects = StoredProjects(store)
        assert projects.get_sync_state(HOME) == SyncState()
        projects.set_sync_state(HOME, SyncState(state="abc", at_ms=Millis(7)))
        assert projects.get_sync_state(HOME) == SyncState(state="abc", at_ms=Millis(7))
        assert projects.get_sync_state(OTHER) == SyncState()


class TestChangeLog:
    def entry(self, at: int, *changed: Memory) -> ChangeEntry:
        created = tuple(changes.build_change(each, each) for each in changed)
        return ChangeEntry(
            at_ms=Millis(at), action=ChangeAction.EDIT, changes=created, count=len(created)
        )

    def last(self, log: StoredChangeLog) -> ChangeEntry:
        found = log.get_last()
        assert found is not None
        return found

    def test_the_last_entry_is_read_and_after_it_the_one_before(self, store: OrderedStore) -> None:
        log = StoredChangeLog(store)
        assert log.get_last() is None
        new = changes.build_change(None, memory("new"))
        first = replace(self.entry(1, memory(tags=frozenset({"b", "a"}))), count=5)
        second = ChangeEntry(at_ms=Millis(2), action=ChangeAction.CAPTURE, changes=(new,), count=1)
        for each in (first, second):
            log.add(each)
        for each in (second, first):
            last = self.last(log)
            assert replace(last, number=0) == each
            log.remove(last)
        assert log.get_last() is None

    def test_it_does_not_grow_without_end_and_leaves_runs_alone(self, store: OrderedStore) -> None:
        log, journal = StoredChangeLog(store), StoredJournal(store)
        journal.add(ConsolidationRun(at_ms=Millis(1), changes=()))
        for n in range(120):
            log.add(self.entry(n, memory()))
        assert len(everything(store, families.JOURNAL)) <= 102
        assert self.last(log).at_ms == 119
        assert journal.get_last() is not None

    def test_what_was_forgotten_is_in_no_entry(self, store: OrderedStore) -> None:
        log = StoredChangeLog(store)
        log.add(self.entry(1, memory("old"), memory("new")))
        log.forget({memory("old").key})
        (left,) = self.last(log).changes
        assert left.key == memory("new").key
        assert b"old" not in b"".join(value for _, value in everything(store, families.JOURNAL))

    def test_an_earlier_change_gets_the_time_of_what_was_undone(self, store: OrderedStore) -> None:
        log, journal = StoredChangeLog(store), StoredJournal(store)
        created = memory()
        log.add(self.entry(1, created, memory("other")))
        undo = Undo(
            key=created.key,
            status=MemoryStatus.ACTIVE,
            superseded_by="",
            changed_ms=created.updated_ms,
            tags=frozenset({"a"}),
            before_ms=Millis(3),
        )
        run = ConsolidationRun(
            at_ms=Millis(1),
            changes=(undo,),
            tiers=((created.key, Tier.HOT),),
            reviewed=((USER, Millis(4)),),
        )
        journal.add(run)
        for each in (log, journal):
            each.retime(
                {(created.key, created.updated_ms): Millis(9), (created.key, Millis(1)): Millis(8)}
            )
        assert [change.changed_ms for change in self.last(log).changes] == [9, created.updated_ms]
        last = journal.get_last()
        assert last is not None
        assert replace(last, number=0) == replace(
            run, changes=(replace(undo, changed_ms=Millis(9)),)
        )


class TestJournal:
    def run(self, at: int, *created: Memory) -> ConsolidationRun:
        undo = Undo(
            key=memory().key,
            status=MemoryStatus.RESOLVED,
            superseded_by="decisions:0123456789ab:0",
            changed_ms=Millis(9),
        )
        return ConsolidationRun(
            at_ms=Millis(at), changes=(undo,), made=tuple(each.key for each in created)
        )

    def test_the_last_run_is_read_and_after_it_the_one_before(self, store: OrderedStore) -> None:
        journal = StoredJournal(store)
        assert journal.get_last() is None
        first, second = self.run(2), self.run(1, memory("new"))
        for each in (first, second):
            journal.add(each)
        for each in (second, first):
            last = journal.get_last()
            assert last is not None
            assert replace(last, number=0) == each
            journal.remove(last)
        assert journal.get_last() is None
        journal.add(first)
        assert journal.get_last() is not None

    def test_it_does_not_grow_without_end(self, store: OrderedStore) -> None:
        journal = StoredJournal(store)
        for n in range(30):
            journal.add(self.run(n))
        assert len(everything(store, families.JOURNAL)) <= 21
        last = journal.get_last()
        assert last is not None
        assert last.at_ms == 29

    def test_it_knows_when_each_domain_was_looked_at(self, store: OrderedStore) -> None:
        journal = StoredJournal(store)
        assert journal.get_review_times() == {}
        app = Domain("project:app")
        journal.set_review_time([USER, app], Millis(5))
        journal.set_review_time([], Millis(6))
        journal.set_review_time([app], Millis(7))
        assert journal.get_review_times() == {USER: 5, app: 7}
        assert journal.get_last() is None

    def test_what_was_forgotten_is_in_no_run(self, store: OrderedStore) -> None:
        journal = StoredJournal(store)
        for each in (self.run(1, memory("new")), self.run(2, memory("old"), memory("new"))):
            journal.add(each)
        journal.forget({memory().key, memory("new").key})
        last = journal.get_last()
        assert last is not None
        assert (last.changes, last.made) == ((), (memory("old").key,))
        journal.remove(last)
        last = journal.get_last()
        assert last is not None
        assert (last.at_ms, last.changes, last.made) == (1, (), ())


@given(records())
def test_the_key_of_a_memory_comes_back(created: Memory) -> None:
    assert keys.parse_memory(keys.memory(created.key)) == created.key


def test_a_use_that_could_not_be_counted_hinders_no_later_one() -> None:
    engine = RefusingEngine(MemoryEngine(), [StorageFailed("disk full")])
    healths: SimpleQueue[StoreHealth] = SimpleQueue()
    store = CommittedStore(engine, healths.put)
    try:
        uses = StoredUses(store)
        key = MemoryKey(Domain("user"), "decisions", Digest("0" * 64))
        uses.add([key], Millis(1))  # not written
        while not healths.get(timeout=TIMEOUT).writable:
            pass
        uses.add([key], Millis(2))
        uses.add([key], Millis(3))
        uses.set_tiers({key: Tier.HOT})
        assert uses.get_many([key]) == [MemoryUse(count=2, last_ms=Millis(3), tier=Tier.HOT)]
    finally:
        store.close()
