"""The documents of records, and the fields that filters use."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import SearchScope
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.toc import Bullet, Grip, GripId, TocNode
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis
from tests.recall_parts import make_event, parse_time

GRIP = GripId("grip:0000000000500:01KG7N3T00ABCDEFGHJKMNPQRS")
NODE = TocNode(
    node_id=NodeId("toc:segment:2026-06-10:x"),
    level=Level.SEGMENT,
    title="Choosing a store",
    summary="They compared stores.",
    bullets=(
        Bullet(text="SQLite was dropped.", grip_ids=(), weight=1.0),
        Bullet(text="RocksDB was chosen.", grip_ids=(GRIP,), weight=2.0),
    ),
    keywords=("rocksdb", "sqlite"),
    child_ids=(),
    start_ms=Millis(400),
    end_ms=Millis(900),
)


class TestEvents:
    def test_an_event_is_its_text_with_who_where_and_when(self) -> None:
        event = make_event(
            "We took RocksDB.",
            500,
            session="s",
            name="e1",
            role="assistant",
            project="alpha",
            agent="claude",
            speaker="Ada",
            file_path="src/a.py",
        )
        (found,) = documents.from_event(event)
        assert found.key == "event:e1"
        assert found.owner == documents.event_owner("e1")
        assert (found.text, found.at_ms, found.session) == ("We took RocksDB.", 500, "s")
        assert (found.project, found.agent, found.speaker) == ("alpha", "claude", "Ada")
        assert (found.role, found.file, found.tool) == ("assistant", "src/a.py", "")

    @pytest.mark.parametrize("text", ["", " ", "\n\t "])
    def test_an_event_without_text_has_no_document(self, text: str) -> None:
        assert documents.from_event(make_event(text)) == []

    def test_only_a_tool_result_has_a_tool(self) -> None:
        (result,) = documents.from_event(make_event("ok", role="tool", tool_name="Bash"))
        (message,) = documents.from_event(make_event("ok", role="user", tool_name="Bash"))
        assert (result.tool, message.tool) == ("Bash", "")


class TestSegmentsAndGrips:
    def test_a_segment_is_found_by_all_of_its_summary(self) -> None:
        found = documents.from_segment(NODE, "s")
        assert found.kind is DocumentKind.SEGMENT
        assert (found.id, found.at_ms, found.session) == (NODE.node_id, 400, "s")
        for part in ("Choosing a store", "They compared", "SQLite was", "RocksDB was", "sqlite"):
            assert part in found.text

    def test_a_grip_is_its_excerpt_under_the_bullet_that_rests_on_it(self) -> None:
        grip = Grip(
            grip_id=GRIP,
            excerpt="let us take RocksDB",
            event_id_start=EventId("e1"),
            event_id_end=EventId("e1"),
            at_ms=Millis(500),
            source="extractive",
            node_id=NODE.node_id,
        )
        found = documents.from_grip(grip, NODE, "s")
        assert found.key == f"grip:{GRIP}"
        assert (found.title, found.text) == ("RocksDB was chosen.", "let us take RocksDB")
        assert found.owner == documents.segment_owner(NODE.node_id)
        bare = documents.from_grip(grip, replace(NODE, bullets=()), "s")
        assert bare.title == ""

    def test_metadata_gives_project_and_agent(self) -> None:
        found = documents.from_segment(NODE, "s")
        placed = documents.apply_metadata(
            found, {"project": "alpha", "agent": "claude", "other": "x"}
        )
        assert (placed.project, placed.agent) == ("alpha", "claude")
        assert replace(placed, project="", agent="") == found


class TestAbout:
    def test_a_date_is_written_in_words(self) -> None:
        assert documents.format_date(parse_time("2023-05-08 23:59")) == "8 May 2023 Monday"

    @pytest.mark.parametrize("at", [0, MAX_MILLIS])
    def test_any_time_of_an_event_can_be_formatted(self, at: int) -> None:
        assert isinstance(documents.format_date(Millis(at)), str)

    def test_origin_has_tool_file_project_and_date_and_text_has_tags(self) -> None:
        document = Document(
            kind=DocumentKind.EVENT,
            id="x",
            owner=Owner("x"),
            at_ms=parse_time("2023-05-08"),
            text="text",
            tool="Bash",
            file="src/a.py",
            project="alpha",
            tags=frozenset({"two", "one"}),
        )
        assert documents.describe_origin(document) == "Bash src/a.py alpha 8 May 2023 Monday"
        assert documents.join_text(document) == "text\none two"


class TestNoise:
    @pytest.mark.parametrize(
        "output",
        [
            "",
            "ok",
            "Done.",
            "exit code 1",
            "0",
            "No files found",
            "{}",
            '{"stdout": "", "stderr": "", "interrupted": false, "isImage": false}',
            '{"stdout": "", "anything": null, "list": [], "map": {}, "exit_code": 0}',
            '{"stdout": "", "stderr": "", ',  # cut off
            "     1\u2192\n     2\u2192\n   300\u2192",
            "=====\n\u2713",
        ],
        ids=ascii,
    )
    def test_it_says_nothing(self, output: str) -> None:
        assert documents.is_noise(tool_result(output))
        assert documents.is_noise(tool_result(f"Bash: make all\n{output}"))

    @pytest.mark.parametrize(
        "output",
        [
            "1532",
            "ok, 14 tests passed",
            '{"stdout": "compiled", "stderr": ""}',
            '{"deployed": false}',
            '{"count": 4200}',
            "     1\u2192import os",
            "\u5b8c\u4e86",
            "ok\n" * 400,
        ],
        ids=ascii,
    )
    def test_it_says_something(self, output: str) -> None:
        assert not documents.is_noise(tool_result(output))
        assert not documents.is_noise(tool_result(f"Bash: make all\n{output}"))

    def test_a_long_call_says_something_without_output(self) -> None:
        call = 'Bash: git commit -m "Close the review only when every comment has been answered"'
        assert not documents.is_noise(tool_result(call))

    def test_what_a_person_says_is_never_noise(self) -> None:
        assert not documents.is_noise(replace(tool_result("ok"), tool="", role="user"))

    @given(st.text(max_size=1_200))
    def test_any_text_can_be_judged(self, text: str) -> None:
        assert documents.is_noise(tool_result(text)) in (True, False)


def tool_result(text: str) -> Document:
    return Document(
        kind=DocumentKind.EVENT,
        id="x",
        owner=Owner("x"),
        at_ms=Millis(0),
        text=text,
        role="tool",
        tool="Bash",
    )


class TestScope:
    DOCUMENT = Document(
        kind=DocumentKind.MEMORY,
        id="m",
        owner=Owner("memory:m"),
        at_ms=Millis(500),
        text="text",
        session="s",
        project="alpha",
        agent="claude",
        role="user",
        namespace="decisions",
        domain="project:alpha",
        spec="SPEC-1",
        status="active",
        tags=frozenset({"db", "perf"}),
    )

    @pytest.mark.parametrize(
        "scope",
        [
            SearchScope(),
            SearchScope(kinds=frozenset({DocumentKind.MEMORY, DocumentKind.EVENT})),
            SearchScope(project="alpha", session="s", agent="claude", role="user"),
            SearchScope(namespace="decisions", spec="SPEC-1"),
            SearchScope(domains=frozenset({"project:alpha"})),
            SearchScope(domains=frozenset({"project"})),
            SearchScope(statuses=frozenset({"active"})),
            SearchScope(tags=frozenset({"db"})),
            SearchScope(since=Millis(500), until=Millis(500)),
        ],
    )
    def test_a_matching_document_is_admitted(self, scope: SearchScope) -> None:
        assert scope.admits(self.DOCUMENT)

    @pytest.mark.parametrize(
        "scope",
        [
            SearchScope(kinds=frozenset({DocumentKind.EVENT})),
            SearchScope(project="alph"),
            SearchScope(session="S"),
            SearchScope(agent="codex"),
            SearchScope(role="assistant"),
            SearchScope(namespace="decision"),
            SearchScope(spec="SPEC-2"),
            SearchScope(domains=frozenset({"org"})),
            SearchScope(domains=frozenset({"project:beta", "user"})),
            SearchScope(statuses=frozenset({"archived"})),
            SearchScope(tags=frozenset({"db", "ui"})),
            SearchScope(since=Millis(501)),
            SearchScope(until=Millis(499)),
        ],
    )
    def test_a_document_that_does_not_match_is_not_admitted(self, scope: SearchScope) -> None:
        assert not scope.admits(self.DOCUMENT)

    @pytest.mark.parametrize("status", ["archived", "tombstone"])
    def test_hidden_statuses_are_found_only_on_request(self, status: str) -> None:
        hidden = replace(self.DOCUMENT, status=status)
        assert not SearchScope().admits(hidden)
        assert SearchScope(statuses=frozenset({status})).admits(hidden)
