"""Search requests: what they parse, and that every interface offers every filter."""

from dataclasses import fields, replace
from typing import Any

import msgspec
import pytest

from agent_memory.client.values import SearchFilters, SearchHit
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import Hit, Passage, Query, RecallResult, SearchScope
from agent_memory.features.recall.model.search_filters import (
    DEFAULT_KINDS,
    MEMORIES,
    parse_kinds,
)
from agent_memory.features.recall.search_operations import (
    HitAnswer,
    SearchMessage,
    SearchPage,
    SearchRequest,
    search,
    search_records,
)
from agent_memory.interfaces.cli import recall
from agent_memory.interfaces.cli.commands import Command
from agent_memory.interfaces.http.rest import RestRequest
from agent_memory.interfaces.mcp.tools import RECALL
from agent_memory.interfaces.wire import protobuf, rpc
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis
from agent_memory.proto import memory_pb2 as pb

TOKEN = {"continuation_token": "offset"}
APART = {"detail", "reason"}  # they change the answer, not the search
FIELDS = {TOKEN.get(name, name) for name in SearchRequest.__struct_fields__} - APART
MILLISECONDS = {"from_timestamp_ms": "since", "to_timestamp_ms": "until"}
SCORE = {"min_score": "min_similarity"}


def moments(_words: str) -> tuple[Millis, Millis]:
    return Millis(10), Millis(20)


def offers(names: Any, renamed: dict[str, str]) -> set[str]:
    return {renamed.get(name, name) for name in names} - APART


class TestEveryInterfaceOffersEveryFilter:
    @pytest.mark.parametrize("command", [recall.recall, recall.search], ids=lambda c: c.name)
    def test_commands(self, command: Any) -> None:
        of_every_command = {option.name for option in Command("bare").params}
        names = {option.name for option in command.params}
        assert offers(names - of_every_command, {}) == FIELDS

    def test_rest(self) -> None:
        names = RestRequest(search).in_query
        assert offers(names, MILLISECONDS | SCORE | TOKEN) == FIELDS

    def test_mcp(self) -> None:
        properties = RECALL.to_tool().input_schema["properties"]
        assert offers(properties, TOKEN) == FIELDS

    def test_grpc(self) -> None:
        names = pb.SearchRequest.DESCRIPTOR.fields_by_name
        assert offers(names, MILLISECONDS | SCORE | TOKEN) == FIELDS

    def test_the_client(self) -> None:
        names = {"query", *SearchFilters.__annotations__}
        assert names == set(pb.SearchRequest.DESCRIPTOR.fields_by_name)


class TestAHitIsDescribedOnce:
    def test_protobuf_and_the_client_have_every_field_of_a_record(self) -> None:
        of_json = {"summary", "timestamp", "content", "key", "user", "show_all"}
        names = set(HitAnswer.__struct_fields__) - of_json
        assert set(pb.SearchHit.DESCRIPTOR.fields_by_name) == names
        assert {field.name for field in fields(SearchHit)} == names

    def test_a_page_arrives_whole_over_grpc(self) -> None:
        document = Document(
            kind=DocumentKind.EVENT,
            id="the-id",
            owner=Owner("o"),
            at_ms=Millis(5),
            text="x" * 30_000,
            session="s",
            role="user",
            speaker="Ada",
            tool="Bash",
            tags=frozenset({"b", "a"}),
        )
        passage = Passage(text="xx", start=3, marks=((0, 1), (1, 2)))
        hit = Hit(document=document, score=0.5, parts={"words": 0.25}, uri="u", passage=passage)
        page = SearchPage.from_result(RecallResult(hits=(hit,), total=7, next=1, warning="w"))
        packed = rpc.pack_answer(search_records, lambda: page).SerializeToString()
        unpacked = rpc.unpack_answer(search_records, SearchMessage(), packed)
        (sent,), (got,) = page.results, unpacked.results
        assert got == msgspec.structs.replace(sent, text="x" * 20_000, truncated=True)
        assert msgspec.structs.replace(unpacked, results=[]) == (
            msgspec.structs.replace(page, results=[])
        )


class TestQueries:
    @pytest.mark.parametrize("query", ["", "  ", "all", " ALL "])
    def test_a_listing_has_memories_unless_kinds_are_named(self, query: str) -> None:
        assert SearchRequest(query=query).to_query(moments) == Query(
            text=query, scope=SearchScope(kinds=MEMORIES)
        )
        named = SearchRequest(query=query, kinds=("event", "grip")).to_query(moments)
        assert named.scope.kinds == {DocumentKind.EVENT, DocumentKind.GRIP}

    def test_a_question_is_asked_of_all_but_grips(self) -> None:
        filters = {"project": "p", "session_id": "s", "since": 1, "include_archived": True}
        for chosen in ({}, {"domain": "all"}, filters):
            kinds = SearchRequest(query="why", **chosen).to_query(moments).scope.kinds
            assert kinds == {"memory", "fact", "event", "segment"}

    @pytest.mark.parametrize(
        "filters",
        [
            {"namespace": "decisions"},
            {"domain": "user"},
            {"tags": ["t"]},
            {"spec": "s"},
            {"statuses": ["active"]},
        ],
    )
    def test_a_filter_of_memories_asks_memories(self, filters: dict[str, Any]) -> None:
        query = SearchRequest(query="why", **filters).to_query(moments)
        assert query.scope.kinds == MEMORIES
        for kind in DEFAULT_KINDS - MEMORIES:
            other = Document(kind=kind, id="x", owner=Owner("x"), at_ms=Millis(1), text="why")
            assert not replace(query.scope, kinds=frozenset()).admits(other)

    @pytest.mark.parametrize(
        ("names", "kinds"),
        [
            (["events", "segments"], {DocumentKind.EVENT, DocumentKind.SEGMENT}),
            (["memories"], {DocumentKind.MEMORY}),
            (["event", "Segment"], {DocumentKind.EVENT, DocumentKind.SEGMENT}),
            (["memory, facts"], {DocumentKind.MEMORY, DocumentKind.FACT}),
            (["events", "all"], set(DocumentKind)),
            ([], set()),
        ],
    )
    def test_kinds_in_singular_and_plural(self, names: list[str], kinds: set[DocumentKind]) -> None:
        assert parse_kinds(names) == kinds

    @pytest.mark.parametrize(
        ("domain", "domains"),
        [
            ("", set()),
            ("all", set()),
            ("project", {"project"}),
            ("user, project:a", {"user", "project:a"}),
            ("user,all", set()),
        ],
    )
    def test_domains_stand_between_commas(self, domain: str, domains: set[str]) -> None:
        assert SearchRequest(domain=domain).to_query(moments).scope.domains == domains

    def test_domains_are_resolved_for_the_caller(self) -> None:
        query = SearchRequest(domain="project").to_query(moments, lambda name: f"{name}:mine")
        assert query.scope.domains == {"project:mine"}

    def test_times_are_words_or_milliseconds(self) -> None:
        words = SearchRequest(since="last week", until="last week").to_query(moments).scope
        assert (words.since, words.until) == (10, 20)
        numbers = SearchRequest(since=3, until=4).to_query(moments).scope
        assert (numbers.since, numbers.until) == (3, 4)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"kinds": ["evnets"]}, "kind is 'evnets'; it must be one of .*mean 'events'?"),
            ({"mode": "psychic"}, "mode is 'psychic'; it must be one of hybrid"),
            ({"role": "ghost"}, "role is 'ghost'; it must be one of user"),
            ({"namespace": "dreams"}, "namespace is 'dreams'"),
            ({"namespace": "decisons"}, "did you mean 'decisions'?"),
            ({"domain": "elsewhere"}, "domain is 'elsewhere'"),
            ({"statuses": ["lost"]}, "status is 'lost'; it must be one of pending"),
            ({"since": 5, "until": 4}, "before it begins"),
            ({"limit": -1}, "must not be negative"),
            ({"min_similarity": 2.0}, "from 0 to 1"),
        ],
    )
    def test_a_wrong_filter_is_named(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            SearchRequest(**wrong).to_query(moments)

    @pytest.mark.parametrize(("time", "moment"), [("1700000000000", 1_700_000_000_000), ("3", 3)])
    def test_a_number_is_milliseconds_over_rest_and_grpc(self, time: str, moment: int) -> None:
        scope = SearchMessage(since=time).to_query(moments).scope
        assert scope.since == moment
        assert SearchMessage(since="last week").to_query(moments).scope.since == 10

    def test_a_request_for_another_daemon_arrives_whole(self) -> None:
        request = SearchMessage(
            query="why",
            mode="bm25",
            limit=7,
            min_similarity=0.25,
            kinds=("fact", "memory"),
            project="p",
            session_id="s",
            agent="a",
            role="tool",
            namespace="decisions",
            domain="user,project:x",
            spec="c",
            statuses=("active",),
            include_archived=True,
            tags=("t", "u"),
            since=5,
            until=6,
            continuation_token=str(3),
        )
        sent = pb.SearchRequest.FromString(rpc.pack_request(search_records, request))
        assert protobuf.from_message(SearchMessage, sent) == request
