"""The port KnowledgeStore over every store."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.knowledge.model import facts, procedures, run_sessions, sessions, users
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.facts import Claim, Fact, Former
from agent_memory.features.knowledge.model.procedures import Chain, Procedure
from agent_memory.features.knowledge.model.run_sessions import Run, RunSession, SessionKnowledge
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.ports import KnowledgeChange, KnowledgeRecord
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.outbox import FactChanged
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import KnowledgeId, Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from tests.contract.stores import commit, everything, memory
from tests.conversation_samples import THUMBNAILS, build_session
from tests.run_samples import RESIZED, build_events

NOW = Millis(1_767_600_000_000)


def fact(key: str, value: str = "v", *, at: int = 0, **fields: str) -> Fact:
    return facts.apply_claim(None, Claim(key=key, value=value, **fields), Millis(NOW + at))[0]  # type: ignore[arg-type]


def session(name: str = "s") -> Session:
    found: Session | None = None
    for event in build_session(name, THUMBNAILS):
        found = sessions.add_event(found, event, "local:ann")
    assert found is not None
    return found


def ran() -> list[KnowledgeRecord]:
    known = run_sessions.add_events(
        SessionKnowledge(), build_events("s", "r1", RESIZED), "local:ann"
    )
    assert known.whole is not None
    return [known.runs["r1"], known.whole]


def one_of_each() -> list[KnowledgeRecord]:
    met = session()
    chain = Chain(
        id=procedures.derive_chain_id("a", ("x", "y")),
        agent_id="a",
        steps=("x", "y"),
        used=3,
        succeeded=2,
        created_ms=NOW,
    )
    procedure = procedures.derive_procedure(chain, None)
    assert procedure is not None
    claimed, former = facts.apply_claim(fact("k"), Claim(key="k", value="w"), NOW)
    assert former is not None
    episode = sessions.build_episode(met, None, NOW)
    assert episode is not None
    return [
        claimed,
        former,
        met,
        episode,
        *ran(),
        chain,
        procedure,
        replace(users.create_user("email:ann@example.org", NOW), display_name="Ann"),
    ]


def add(store: OrderedStore, *records: KnowledgeRecord) -> StoredKnowledge:
    knowledge = StoredKnowledge(store)
    assert knowledge.commit([KnowledgeChange(None, record) for record in records])
    return knowledge


def listed(knowledge: StoredKnowledge, **wanted: str | None) -> tuple[list[str], int]:
    found, total = knowledge.list_page(Fact, limit=100, offset=0, **wanted)
    return [each.key for each in found], total


class TestRecords:
    def test_what_was_written_of_each_kind_is_read(self, store: OrderedStore) -> None:
        records = one_of_each()
        knowledge = add(store, *records)
        for record in records:
            assert knowledge.get(type(record), [record.id, "unknown"]) == [record, None]
            assert knowledge.list_after(type(record), "", limit=9) == [record]
            assert knowledge.list_after(type(record), record.id, limit=9) == []

    def test_it_is_the_same_after_opening_again(self, store: OrderedStore) -> None:
        records = one_of_each()
        add(store, *records)
        again = StoredKnowledge(store)
        assert [again.get(type(record), [record.id]) for record in records] == [
            [record] for record in records
        ]

    def test_what_is_not_as_it_was_is_not_written_and_nothing_beside_it(
        self, store: OrderedStore
    ) -> None:
        old, other = fact("old"), fact("other")
        knowledge = add(store, old)
        stale = replace(old, value="never stored")
        changes = [KnowledgeChange(None, other), KnowledgeChange(stale, replace(old, value="new"))]
        assert not knowledge.commit(changes, cursor=7)
        assert not knowledge.commit([KnowledgeChange(None, old)])
        assert knowledge.get(Fact, [old.id, other.id]) == [old, None]
        assert knowledge.cursor() is None

    def test_a_removed_one_leaves_nothing(self, store: OrderedStore) -> None:
        records = one_of_each()
        knowledge = add(store, *records)
        assert knowledge.commit([KnowledgeChange(record, None) for record in records])
        assert everything(store, families.FACTS) == []
        assert everything(store, families.KNOWLEDGE) == []

    def test_a_damaged_one_is_told(self, store: OrderedStore) -> None:
        commit(store, Batch((Put(families.FACTS, b"fact:x", b"\x01\x93"),)))
        with pytest.raises(StorageFailed, match="fact is damaged"):
            StoredKnowledge(store).get(Fact, ["x"])

    def test_what_was_learned_and_is_damaged_is_as_if_it_were_not(
        self, store: OrderedStore
    ) -> None:
        met = users.create_user("local:ann", NOW)
        knowledge = add(store, met)
        key = b"user:" + met.id.encode()
        commit(store, Batch((Put(families.KNOWLEDGE, key, b"\x01\x93"),)))
        assert knowledge.get(User, [met.id]) == [None]
        assert knowledge.list_page(User, limit=9, offset=0)[0] == []
        assert knowledge.list_after(User, "", limit=9) == []
        assert knowledge.commit([KnowledgeChange(None, met)])
        assert knowledge.get(User, [met.id]) == [met]

    def test_one_of_an_earlier_version_can_be_changed_and_removed(
        self, store: OrderedStore
    ) -> None:
        """It was written without a field that has a default today."""
        met = users.create_user("local:ann", NOW)
        knowledge = add(store, met)
        key = b"user:" + met.id.encode()
        stored = store.get(families.KNOWLEDGE, key)
        assert stored is not None
        fields = msgspec.msgpack.decode(stored[1:])
        del fields["fixed"]
        older = stored[:1] + msgspec.msgpack.encode(fields)
        commit(store, Batch((Put(families.KNOWLEDGE, key, older),)))
        assert knowledge.get(User, [met.id]) == [met]
        seen = replace(met, total_conversations=3)
        assert knowledge.commit([KnowledgeChange(met, seen)])
        assert knowledge.commit([KnowledgeChange(seen, None)])

    def test_the_cursor_comes_with_the_change(self, store: OrderedStore) -> None:
        knowledge = StoredKnowledge(store)
        assert knowledge.commit([KnowledgeChange(None, fact("k"))], cursor=12)
        assert knowledge.cursor() == 12


class TestPages:
    def test_the_newest_first_and_how_many_there_are(self, store: OrderedStore) -> None:
        knowledge = add(store, *(fact(f"k{n}", at=n) for n in range(5)))
        assert listed(knowledge) == (["k4", "k3", "k2", "k1", "k0"], 5)
        found, total = knowledge.list_page(Fact, limit=2, offset=3)
        assert ([each.key for each in found], total) == (["k1", "k0"], 5)
        assert knowledge.list_page(Fact, limit=2, offset=9) == ([], 5)

    def test_by_any_of_what_they_are_filtered_by(self, store: OrderedStore) -> None:
        knowledge = add(
            store,
            fact("a", at=1, scope="x:y"),
            fact("b", at=2, scope="x"),
            fact("c", at=3, scope="x:y", fact_type="preference"),
        )
        assert listed(knowledge, scope="x:y") == (["c", "a"], 2)
        assert listed(knowledge, scope="x") == (["b"], 1)
        assert listed(knowledge, fact_type="fact") == (["b", "a"], 2)
        assert listed(knowledge, scope="x:y", fact_type="preference") == (["c"], 1)
        assert listed(knowledge, scope="") == ([], 0)

    def test_one_that_changes_what_it_is_filtered_by_moves(self, store: OrderedStore) -> None:
        old = fact("a")
        knowledge = add(store, old)
        assert listed(knowledge, fact_type="fact")[1] == 1
        assert knowledge.commit([KnowledgeChange(old, replace(old, fact_type="other"))])
        assert listed(knowledge, fact_type="fact") == ([], 0)
        assert listed(knowledge, fact_type="other") == (["a"], 1)

    @given(
        st.lists(
            st.tuples(st.sampled_from("pq"), st.sampled_from("uv"), st.integers(0, 3)), max_size=12
        ),
        st.sampled_from([None, "p", "q"]),
        st.sampled_from([None, "u", "v"]),
    )
    def test_pages_are_the_whole_cut_in_pieces(
        self, saved: list[tuple[str, str, int]], scope: str | None, kind: str | None
    ) -> None:
        store = memory(Path())
        created = [
            fact(f"k{n}", at=at, scope=where, fact_type=what)
            for n, (where, what, at) in enumerate(saved)
        ]
        knowledge = add(store, *created)
        wanted = sorted(
            (
                each
                for each in created
                if scope in (None, each.scope) and kind in (None, each.fact_type)
            ),
            key=lambda each: (each.created_ms, each.id),
            reverse=True,
        )
        found: list[Fact] = []
        for offset in range(0, 14, 3):
            page, total = knowledge.list_page(
                Fact, limit=3, offset=offset, scope=scope, fact_type=kind
            )
            assert total == len(wanted)
            found += page
        assert found == wanted


class TestOutbox:
    def test_other_words_are_told_and_a_mere_count_is_not(self, store: OrderedStore) -> None:
        first = fact("k")
        knowledge = add(store, first, users.create_user("local:ann", NOW))
        read = replace(first, access_count=1)
        surer = replace(read, confidence=0.9, times_confirmed=2, updated_ms=Millis(NOW + 9))
        other = replace(surer, value="other")
        for change in ((first, read), (read, surer), (surer, other), (other, None)):
            assert knowledge.commit([KnowledgeChange(*change)])
        entries = [entry for _, entry in StoredOutbox(store).read(0, limit=100)]
        assert entries == [FactChanged(id=first.id)] * 3


def test_kinds_of_records_do_not_meet(store: OrderedStore) -> None:
    met = session()
    episode = sessions.build_episode(met, None, NOW)
    assert episode is not None
    knowledge = add(store, met, episode)
    assert knowledge.get(Session, [met.id]) == [met]
    assert [type(each) for each in knowledge.get(Episode, [met.id])] == [Episode]
    for kind in (Fact, Former, Procedure, Chain, User, Run, RunSession):
        assert knowledge.get(kind, [KnowledgeId(met.id)]) == [None]
