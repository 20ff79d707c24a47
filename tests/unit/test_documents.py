"""What of a record can be found, and by what it is filtered."""

from dataclasses import replace

import pytest

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document, Kind, Owner
from agent_memory.features.index.model.queries import Scope
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.toc import Bullet, Grip, GripId, TocNode
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis
from tests.recall_parts import moment, said

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
        event = said(
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
        (found,) = documents.of_event(event)
        assert found.key == "event:e1"
        assert found.owner == documents.event_owner("e1")
        assert (found.text, found.at_ms, found.session) == ("We took RocksDB.", 500, "s")
        assert (found.project, found.agent, found.speaker) == ("alpha", "claude", "Ada")
        assert (found.role, found.file, found.tool) == ("assistant", "src/a.py", "")

    @pytest.mark.parametrize("text", ["", " ", "\n\t "])
    def test_nothing_said_is_no_document(self, text: str) -> None:
        assert documents.of_event(said(text)) == []

    def test_the_tool_counts_only_for_what_a_tool_gave(self) -> None:
        (result,) = documents.of_event(said("ok", role="tool", tool_name="Bash"))
        (message,) = documents.of_event(said("ok", role="user", tool_name="Bash"))
        assert (result.tool, message.tool) == ("Bash", "")


class TestSegmentsAndGrips:
    def test_a_segment_is_found_by_all_that_its_summary_says(self) -> None:
        found = documents.of_segment(NODE, "s")
        assert found.kind is Kind.SEGMENT
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
        found = documents.of_grip(grip, NODE, "s")
        assert found.key == f"grip:{GRIP}"
        assert (found.title, found.text) == ("RocksDB was chosen.", "let us take RocksDB")
        assert found.owner == documents.segment_owner(NODE.node_id)
        bare = documents.of_grip(grip, replace(NODE, bullets=()), "s")
        assert bare.title == ""

    def test_placed_says_to_what_it_belongs(self) -> None:
        found = documents.of_segment(NODE, "s")
        placed = documents.placed(found, {"project": "alpha", "agent": "claude", "other": "x"})
        assert (placed.project, placed.agent) == ("alpha", "claude")
        assert replace(placed, project="", agent="") == found


class TestAbout:
    def test_a_date_is_told_in_words(self) -> None:
        assert documents.date_words(moment("2023-05-08 23:59")) == "8 May 2023 Monday"

    @pytest.mark.parametrize("at", [0, MAX_MILLIS])
    def test_any_time_that_an_event_can_have_can_be_told(self, at: int) -> None:
        assert isinstance(documents.date_words(Millis(at)), str)

    def test_tool_file_project_and_date_are_there_and_tags_are_said(self) -> None:
        document = Document(
            kind=Kind.EVENT,
            id="x",
            owner=Owner("x"),
            at_ms=moment("2023-05-08"),
            text="text",
            tool="Bash",
            file="src/a.py",
            project="alpha",
            tags=frozenset({"two", "one"}),
        )
        assert documents.about(document) == "Bash src/a.py alpha 8 May 2023 Monday"
        assert documents.said(document) == "text\none two"


class TestScope:
    DOCUMENT = Document(
        kind=Kind.MEMORY,
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
            Scope(),
            Scope(kinds=frozenset({Kind.MEMORY, Kind.EVENT})),
            Scope(project="alpha", session="s", agent="claude", role="user"),
            Scope(namespace="decisions", spec="SPEC-1"),
            Scope(domains=frozenset({"project:alpha"})),
            Scope(domains=frozenset({"project"})),
            Scope(statuses=frozenset({"active"})),
            Scope(tags=frozenset({"db"})),
            Scope(since=Millis(500), until=Millis(500)),
        ],
    )
    def test_what_holds_is_admitted(self, scope: Scope) -> None:
        assert scope.admits(self.DOCUMENT)

    @pytest.mark.parametrize(
        "scope",
        [
            Scope(kinds=frozenset({Kind.EVENT})),
            Scope(project="alph"),
            Scope(session="S"),
            Scope(agent="codex"),
            Scope(role="assistant"),
            Scope(namespace="decision"),
            Scope(spec="SPEC-2"),
            Scope(domains=frozenset({"org"})),
            Scope(domains=frozenset({"project:beta", "user"})),
            Scope(statuses=frozenset({"archived"})),
            Scope(tags=frozenset({"db", "ui"})),
            Scope(since=Millis(501)),
            Scope(until=Millis(499)),
        ],
    )
    def test_what_does_not_hold_is_not(self, scope: Scope) -> None:
        assert not scope.admits(self.DOCUMENT)

    @pytest.mark.parametrize("status", ["archived", "tombstone"])
    def test_hidden_statuses_are_found_only_when_asked_for(self, status: str) -> None:
        hidden = replace(self.DOCUMENT, status=status)
        assert not Scope().admits(hidden)
        assert Scope(statuses=frozenset({status})).admits(hidden)
