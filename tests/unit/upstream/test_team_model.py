"""Names, scopes, merging and the wire of the exchange with a team's server."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import (
    TEAM,
    Hit,
    Passage,
    Query,
    RecallResult,
    SearchScope,
)
from agent_memory.features.knowledge.model.facts import Claim, Fact
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.memories.model.memories import MemoryStatus, check_domain
from agent_memory.features.recall.ports import TeamRecord
from agent_memory.features.upstream.model import hit_records, merging, names, records
from agent_memory.features.upstream.model.addresses import check_address
from agent_memory.features.upstream.model.merging import FactNote, FactTombstone
from agent_memory.features.upstream.model.records import RecordBatch
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.services.back_off import MOST_SECONDS, BackOff
from agent_memory.kernel import owners
from agent_memory.kernel.errors import ConfigError, InvalidInput
from agent_memory.kernel.ids import USER, EventId, KnowledgeId, Millis, SessionId
from tests.memory_values import memory

VALID_PEOPLE = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}", fullmatch=True)
people = st.text(min_size=1, max_size=80)
event_names = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=128)


def fact(value: str, at: int, **fields: object) -> Fact:
    claim = Claim(scope="project:shop", key="db", value=value)
    created: dict[str, object] = {"created_ms": Millis(1), "updated_ms": Millis(at), **fields}
    return Fact(
        id=claim.fact_id,
        scope="project:shop",
        key="db",
        value=value,
        valued_ms=Millis(at),
        **created,  # type: ignore[arg-type]  # fields of a Fact
    )


class TestNames:
    @given(event_names, people, event_names, people)
    def test_two_people_never_share_an_id(self, one: str, ada: str, other: str, bob: str) -> None:
        if ada != bob:
            assert names.qualify_event(one, ada) != names.qualify_event(other, bob)
            assert names.qualify_session(one, ada) != names.qualify_session(other, bob)

    @given(event_names, people)
    def test_an_id_fits_and_is_found_again(self, name: str, person: str) -> None:
        owned = names.qualify_event(name, person)
        assert len(owned) <= 128
        found, owner = names.split_event(owned)
        assert owner == owners.to_person(owners.to_owner(person))
        if len(owned) < 100:
            assert found == name

    def test_emails_cannot_be_confused(self) -> None:
        owned = names.qualify_event("x", "ada@b.example")
        assert owned != names.qualify_event("x@ada", "b.example")
        assert names.split_event(owned) == ("x", "ada@b.example")

    def test_subagents_stay_below_their_session(self) -> None:
        owned = names.qualify_session("main/agent-1", "ada")
        assert owned == "main@ada/agent-1"
        assert names.split_session(owned) == ("main/agent-1", "ada")
        assert names.split_session("plain") == ("plain", "")

    @given(VALID_PEOPLE, VALID_PEOPLE)
    def test_private_domains_are_valid_and_differ(self, one: str, other: str) -> None:
        domain = names.build_private_domain(one)
        assert check_domain(domain) == domain
        assert (domain == names.build_private_domain(other)) == (one == other)

    def test_each_person_has_a_private_domain_of_their_own(self) -> None:
        assert names.build_private_domain("ada@x") != names.build_private_domain("ada-x")
        with pytest.raises(InvalidInput):
            names.build_private_domain("ada/../bob")

    def test_own_memories_go_to_a_private_domain_and_back(self) -> None:
        own = memory(domain=USER)
        stored = names.to_server_memory(own, "ada")
        assert stored.domain == "user:ada"
        assert names.to_local_memory(stored, "ada") == own
        assert names.to_local_memory(stored, "bob") == stored
        assert names.to_server_memory(memory(), "ada") == memory()


class TestScopes:
    def test_nothing_leaves_by_default(self) -> None:
        scope = SharedScope.parse([])
        assert not scope
        assert not scope.admits_memory(memory())
        assert not scope.admits_domain(USER)

    def test_only_chosen_projects_and_no_other_family(self) -> None:
        scope = SharedScope.parse(["shop", "project:yard", USER])
        assert scope.admits_memory(memory())
        assert scope.admits_domain("project:yard")
        assert not scope.admits_domain("org:shop")
        assert not scope.admits_domain("user:ada")
        assert not scope.admits_scope(USER)
        assert not scope.admits_scope("global")
        assert scope.admits_fact(fact("a", 1))
        assert not scope.admits_memory(memory(status=MemoryStatus.PENDING))
        assert scope.limit_to(frozenset({"yard"})).names == {"yard", USER}


class TestFacts:
    def test_every_order_of_merges_gives_the_same(self) -> None:
        copies = [fact("a", 3), fact("b", 5), fact("c", 5), fact("b", 5, updated_ms=Millis(9))]
        results = set()
        for order in permutations(copies):
            merged = order[0]
            for copy in order[1:]:
                merged = merging.merge_facts(merged, copy)
            results.add((merged.value, merged.valued_ms))
        assert len(results) == 1

    def test_a_tombstone_outweighs_values_until_then(self) -> None:
        tombstone = FactNote("project:shop", Millis(20)).build_tombstone(
            KnowledgeId("f"), Millis(10)
        )
        assert tombstone.at_ms == 20  # the value came from a clock that is ahead
        assert tombstone.outweighs(fact("a", 20))
        assert not tombstone.outweighs(fact("a", 21))
        assert not replace(tombstone, scope="project:web").outweighs(fact("a", 20))

    def test_reads_are_counted_on_each_machine(self) -> None:
        merged = merging.merge_facts(fact("a", 1, access_count=4), fact("b", 2, access_count=9))
        assert (merged.value, merged.access_count) == ("b", 4)

    def test_the_id_follows_from_the_name(self) -> None:
        assert merging.derive_fact_id(fact("a", 1)) == fact("b", 2).id


class TestWire:
    def test_a_batch_comes_back_as_it_was(self) -> None:
        event = Event(
            event_id=EventId("e1"),
            session_id=SessionId("s"),
            at_ms=Millis(5),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text="words",
            metadata={"project": "shop"},
        )
        note = memory(tags=frozenset({"a"}), author="ada")
        tombstone = FactTombstone(id=KnowledgeId("f"), scope="project:shop", at_ms=Millis(3))
        batch = RecordBatch(
            events=(event,), memories=(note,), facts=(fact("a", 1),), removed_facts=(tombstone,)
        )
        sent = records.encode_batch(batch)
        assert RecordBatch.build(batch.records) == batch
        assert records.decode_event(sent["events"][0]) == event
        assert records.decode_memory(sent["memories"][0]) == note
        assert records.decode_fact(sent["facts"][0]) == fact("a", 1)
        assert records.decode_tombstone(sent["removed_facts"][0]) == tombstone
        opened = TeamRecord(record=event, person="ada", before=(event,))
        assert records.decode_opened(records.encode_opened(opened)) == opened

    @pytest.mark.parametrize(
        "change",
        [
            {"kind": "memory"},
            {"kind": "memory", "record": {"digest": 7}},
            {"kind": "fact", "record": {"id": "x", "confidence": True}},
            {"kind": "memory", "record": {**records.encode_memory(memory()), "status": "odd"}},
            {"kind": "memory", "record": {**records.encode_memory(memory()), "tags": "odd"}},
            {"kind": "memory", "record": {**records.encode_memory(memory()), "tag_changes": [1]}},
        ],
    )
    def test_a_record_that_is_not_valid_is_refused(self, change: dict[str, object]) -> None:
        with pytest.raises(InvalidInput):
            records.decode_change(change)

    def test_changes_of_newer_versions_are_skipped(self) -> None:
        assert records.decode_change({"kind": "poem", "record": {}}) is None

    def test_a_question_and_its_answer_come_back(self) -> None:
        scope = SearchScope(kinds=frozenset({DocumentKind.EVENT}), tags=frozenset({"db"}))
        query = Query(text="which database", scope=scope, limit=7)
        asked, shared = hit_records.decode_question(
            hit_records.encode_question(query, SharedScope(frozenset({"shop"})))
        )
        assert asked == query
        assert shared.names == frozenset({"shop"})
        document = Document(
            kind=DocumentKind.EVENT,
            id="e1@ada",
            owner=Owner(""),
            at_ms=Millis(3),
            text="PostgreSQL",
            session="s@ada",
            project="shop",
        )
        passage = Passage(text="PostgreSQL", start=0, marks=((0, 10),))
        hit = Hit(document=document, score=0.5, parts={"bm25": 0.5}, passage=passage, person="ada")
        result = RecallResult(hits=(hit,), total=1)
        decoded = hit_records.decode_result(hit_records.encode_result(result))
        assert decoded.hits == (replace(hit, origin=TEAM),)

    def test_an_odd_question_or_answer_is_refused(self) -> None:
        with pytest.raises(InvalidInput):
            hit_records.decode_question({"query": "x", "mode": "odd", "scope": {}})
        with pytest.raises(InvalidInput):
            hit_records.decode_result({"hits": [{"kind": "event"}], "total": 1})


class TestAddresses:
    @pytest.mark.parametrize(
        "url", ["https://memory.example", "http://localhost:8000", "http://[::1]:8000"]
    )
    def test_https_or_this_machine(self, url: str) -> None:
        assert check_address(f" {url}/ ") == url

    @pytest.mark.parametrize(
        "url",
        [
            "http://memory.example",
            "https://a:b@memory.example",
            "ftp://memory.example",
            "memory.example",
            "https://memory.example?x=1",
            "https://[",
            "https://memory exa mple",
            "https://memory.exämple",
            "http://localhost:8411/api/v1/",
        ],
    )
    def test_anything_else_is_refused_without_a_password_in_the_message(self, url: str) -> None:
        with pytest.raises(ConfigError) as failure:
            check_address(url)
        assert "a:b" not in str(failure.value)


def test_the_pause_doubles_up_to_five_minutes_with_jitter() -> None:
    now = 0.0
    back_off = BackOff(lambda: now, lambda: 1.0)
    pauses = []
    for _ in range(12):
        back_off.note_failure()
        pauses.append(back_off.seconds_left())
    assert pauses[:3] == [2.0, 4.0, 8.0]
    assert pauses[-1] == MOST_SECONDS
    back_off.reset()
    assert back_off.seconds_left() == 0.0
    early = BackOff(lambda: now, lambda: 0.0)
    early.note_failure()
    assert early.seconds_left() == 1.0
