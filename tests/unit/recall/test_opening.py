"""Opening: what an id, the beginning of an id and a URI name, and what comes with it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path

import pytest

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import SearchScope
from agent_memory.features.knowledge.model.facts import Claim
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import SessionPosition
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.adapters.memory_store import (
    MemoryOutlines,
    StoredMemories,
    StoredUses,
)
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.model.memories import Draft
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.editing import MemoryDetails, MemoryEditor
from agent_memory.features.memories.services.project_resolver import OrgRepository, ProjectResolver
from agent_memory.features.recall.services.opening import (
    LISTED,
    Opened,
    OpenedEvent,
    OpenedFact,
    OpenedGrip,
    OpenedNode,
    OpenedSession,
    Opening,
)
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.services.contents import Contents
from agent_memory.features.toc.services.journal import WorkJournal
from agent_memory.kernel.errors import AmbiguousName, InvalidInput, NotFound
from agent_memory.kernel.ids import Domain, EventId
from tests.recall_parts import (
    HOUR,
    MINUTE,
    NOW,
    RecallHarness,
    make_dialogue,
    make_event,
    open_recall,
)

ODD = "a/b c%41:ü\N{GRINNING FACE}?#"
HOSTILE = [
    "\x00\x00\x00\x00",
    "evt:\n\r\x1b[2J",
    "\udc80\udcff\udc80\udcff",
    "../../../etc/passwd",
    "%" * 400,
    "\N{GRINNING FACE}" * 5_000,
    "toc:day:2026-13-45",
    "toc:segment:",
    "grip:grip:grip",
    "memory://",
    "memory://events",
    "memory://events/",
    "memory://events/%",
    "memory://events/%ff%fe%ff%fe",
    "memory://events/%00%00%00%00",
    "memory://zoo/lion",
    "memory:///events/talk",
    " ",
    "    ",
    "*" * 8,
]


@dataclass(frozen=True, slots=True)
class Parts:
    recall: RecallHarness
    opening: Opening
    editor: MemoryEditor
    here: MemoryLocation

    def open(self, name: str, around: int = 3) -> MemoryDetails | Opened:
        return self.opening.open(name, self.here, around=around)

    def capture(self, summary: str) -> str:
        draft = Draft(namespace="decisions", summary=summary)
        return self.editor.capture.capture(draft, self.here).memory.id


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with open_recall(tmp_path) as recall:
        store, repositories = recall.store, GitRepositories(tmp_path / "git")
        editor = MemoryEditor(
            memories=StoredMemories(store),
            outlines=MemoryOutlines(store),
            uses=StoredUses(store),
            resolver=ProjectResolver(
                repositories=repositories,
                projects=StoredProjects(store),
                shared=OrgRepository(),
                secrets=PassThrough(),
            ),
            capture=Capture(
                memories=StoredMemories(store),
                log=recall.log,
                secrets=PassThrough(),
                clock=recall.clock,
                on_capture=lambda: None,
            ),
            clock=recall.clock,
            on_change=lambda: None,
        )
        yield Parts(
            recall=recall,
            opening=Opening(
                log=recall.log,
                finder=recall.log,
                toc=recall.toc,
                contents=Contents(recall.log, recall.toc),
                journal=WorkJournal(recall.log, recall.log, recall.toc, recall.clock, UTC),
                knowledge=recall.knowledge,
                facts=recall.facts,
                editor=editor,
            ),
            editor=editor,
            here=MemoryLocation(
                domain=Domain("project:app"),
                home=repositories.get_private_home("projects/app.git"),
            ),
        )


def open_event(parts: Parts, name: str, around: int = 3) -> OpenedEvent:
    opened = parts.open(name, around)
    assert isinstance(opened, OpenedEvent)
    return opened


class TestEvents:
    def test_one_comes_with_the_turns_around_it(self, parts: Parts) -> None:
        talk = make_dialogue(*(f"line {n}" for n in range(9)))
        parts.recall.keep(*talk, make_event("elsewhere", talk[4].at_ms, session="other"))
        for around in (0, 1, 3, 50):
            opened = open_event(parts, talk[4].event_id, around)
            assert opened.event == talk[4]
            assert list(opened.before) == talk[max(0, 4 - around) : 4]
            assert list(opened.after) == talk[5 : 5 + around]

    @pytest.mark.parametrize(
        "name", [ODD, "01KG7N3T00ABCDEFGHJKMNPQRS", " blank ", "%2F", "💡" * 128]
    )
    def test_any_id_is_opened_by_itself_and_by_its_uri(self, parts: Parts, name: str) -> None:
        parts.recall.keep(make_event("said", name=name))
        uri = open_event(parts, name).uri
        assert uri.isascii()
        assert not set(uri) & set(" ?#'\"\\$")
        assert open_event(parts, uri).event.event_id == name
        assert open_event(parts, f" {uri}\n").event.event_id == name
        assert isinstance(parts.opening.open_uri(uri), OpenedEvent)

    def test_four_characters_of_an_id_are_enough(self, parts: Parts) -> None:
        parts.recall.keep(make_event("one", name="abzd-one"), make_event("two", name="xyz-two"))
        for prefix in ("abzd", "abzd-on", "memory://events/abzd"):
            assert open_event(parts, prefix).event.text == "one"
        with pytest.raises(InvalidInput, match="4 characters"):
            parts.open("abz")
        with pytest.raises(NotFound):
            parts.opening.open_uri("memory://events/abzd")  # a resource is named whole

    def test_a_whole_id_comes_before_beginnings(self, parts: Parts) -> None:
        parts.recall.keep(*(make_event(name, name=name) for name in ("note", "note-1", "note-2")))
        assert open_event(parts, "note").event.text == "note"

    def test_a_forgotten_one_is_not_found(self, parts: Parts) -> None:
        gone, stored = make_event("gone", name="turn-1"), make_event("kept", name="turn-2")
        parts.recall.keep(gone, stored)
        StoredEventLog(parts.recall.store).remove([SessionPosition(gone.session_id, gone.position)])
        assert open_event(parts, "turn").event == stored
        with pytest.raises(NotFound):
            parts.open("turn-1")


class TestSeveral:
    def test_they_are_listed_with_kind_date_and_words(self, parts: Parts) -> None:
        parts.recall.keep(
            make_event("The sluice\nopens \x1b[31mwide", name="both", session="shared"),
            make_event("another one", name="shared"),
        )
        with pytest.raises(AmbiguousName) as raised:
            parts.open("shared")  # an event and a session
        _, session, event = str(raised.value).splitlines()
        assert session.split() == [
            *("session", "2026-06-10", "memory://sessions/shared"),
            *("The", "sluice", "opens", "\N{REPLACEMENT CHARACTER}[31mwide"),
        ]
        assert event.split() == ["event", "2026-06-10", "memory://events/shared", "another", "one"]
        assert isinstance(parts.open("memory://sessions/shared"), OpenedSession)

    def test_ten_are_listed_at_most(self, parts: Parts) -> None:
        parts.recall.keep(*(make_event("x", NOW - n, name=f"many-{n:03}") for n in range(30)))
        with pytest.raises(AmbiguousName) as raised:
            parts.open("many")
        head, *rows, more = str(raised.value).splitlines()
        assert "'many'" in head
        assert [row.split()[2] for row in rows] == [
            f"memory://events/many-{n:03}" for n in range(LISTED)
        ]
        assert more == "  and more"


class TestMemories:
    def test_a_memory_comes_first(self, parts: Parts) -> None:
        name = parts.capture("Use PostgreSQL")
        digits = name.split(":")[1]
        parts.recall.keep(make_event("x", name=digits), make_event("y", session=f"{digits[:4]}-y"))
        for each in (name, digits, digits[:4]):
            opened = parts.open(each)
            assert isinstance(opened, MemoryDetails)
            assert opened.memory.id == name
        assert open_event(parts, f"memory://events/{digits}").event.text == "x"

    def test_the_beginning_of_a_hash_may_also_begin_another_id(self, parts: Parts) -> None:
        parts.capture("Use PostgreSQL")
        parts.recall.keep(make_event("x", session="0a1b2c3d-0000-4000-8000-000000000000", name="x"))
        assert isinstance(parts.open("0a1b2c3d"), OpenedSession)

    @pytest.mark.parametrize(
        ("name", "error"),
        [
            ("decisions:000000000000:0", NotFound),
            ("subcog://user/decisions/000000000000:0", NotFound),
            ("subcog://user/decisions", InvalidInput),
            ("decision:000000000000:0", NotFound),
            ("dcsn:000000000000:0", InvalidInput),
        ],
    )
    def test_a_full_name_of_none_is_told_as_before(
        self, parts: Parts, name: str, error: type[Exception]
    ) -> None:
        with pytest.raises(error) as before:
            parts.editor.show(name, parts.here)
        with pytest.raises(error) as now:
            parts.open(name)
        assert str(now.value) == str(before.value)


class TestOthers:
    def test_a_segment_and_a_grip(self, parts: Parts) -> None:
        talk = make_dialogue(
            "We decided to keep one reference pair per probe.",
            "Done: each probe keeps its own pair.",
            begin=NOW - HOUR,
        )
        parts.recall.take_in(*talk)
        (hit,) = parts.recall.ask(
            "reference pair", SearchScope(kinds=frozenset({DocumentKind.SEGMENT}))
        ).hits
        assert hit.uri == f"memory://toc/{hit.node_id}"
        for name in (hit.uri, hit.node_id, hit.node_id[:-20], "toc:segment:2026-06-10"):
            opened = parts.open(name)
            assert isinstance(opened, OpenedNode)
            assert opened.uri == hit.uri
        (node,) = parts.recall.toc.get_nodes([NodeId(hit.node_id)])
        assert node is not None
        grip_id = min(node.grip_ids())
        for name in (f"memory://grips/{grip_id}", grip_id, grip_id[:-20]):
            grip = parts.open(name, 1)
            assert isinstance(grip, OpenedGrip)
            assert grip.grip.grip_id == grip_id
            assert len(grip.expansion.excerpt) == 1

    def test_a_session(self, parts: Parts) -> None:
        talk = [
            make_event("", NOW - HOUR, role="system", session=ODD),
            *make_dialogue("How?", "So.", "And then?", "Thus.", begin=NOW - HOUR + 1, session=ODD),
        ]
        talk.append(make_event("ls", NOW, role="tool", session=ODD, project="app", agent="ag"))
        parts.recall.take_in(
            *(replace(each, event_id=EventId(f"e{n}")) for n, each in enumerate(talk))
        )
        for name in (ODD, ODD[:4], documents.format_uri(documents.SESSIONS, ODD)):
            opened = parts.open(name)
            assert isinstance(opened, OpenedSession)
            assert (opened.session_id, opened.events) == (ODD, 6)
            assert (opened.start_ms, opened.end_ms) == (NOW - HOUR, NOW)
            assert (opened.project, opened.agent) == ("app", "ag")
            assert opened.prompt is not None
            assert opened.answer is not None
            assert (opened.prompt.text, opened.answer.text) == ("How?", "Thus.")
            assert [node.start_ms for node in opened.segments] == [NOW - HOUR, NOW]

    def test_a_subagents_session_is_another(self, parts: Parts) -> None:
        parts.recall.keep(
            make_event("a", NOW - MINUTE, session="main"), make_event("b", session="main/helper")
        )
        opened = parts.open("main")
        assert isinstance(opened, OpenedSession)
        assert opened.session_id == "main"

    def test_the_beginning_of_an_id_means_a_session_and_not_its_subagents(
        self, parts: Parts
    ) -> None:
        names = ["main-0001", *(f"main-0001/helper-{n}" for n in range(LISTED + 5))]
        parts.recall.keep(*(make_event("x", session=name, name=f"of {name}") for name in names))
        opened = parts.open("main-0")
        assert isinstance(opened, OpenedSession)
        assert opened.session_id == "main-0001"
        opened = parts.open("main-0001/helper-14")
        assert isinstance(opened, OpenedSession)
        assert opened.session_id == names[-1]

    def test_a_segment_and_a_grip_open_by_their_ulid(self, parts: Parts) -> None:
        parts.recall.take_in(
            *make_dialogue("Where is the lamp?", "The lamp hangs in the hall.", "Lit?", "Yes, lit.")
        )
        (node_id,) = parts.recall.toc.list_ids("toc:segment:", after=None, limit=9)
        grips = parts.recall.toc.list_grips("grip:", limit=9)
        assert grips
        for length in (12, 14, 26):
            opened = parts.open(node_id.rpartition(":")[2][:length])
            assert isinstance(opened, OpenedNode)
            assert opened.node.node_id == node_id
            for grip in grips:
                found = parts.open(grip.grip_id.rpartition(":")[2][:length])
                assert isinstance(found, OpenedGrip)
                assert found.grip == grip

    def test_a_fact_with_its_earlier_values(self, parts: Parts) -> None:
        facts = parts.recall.facts
        fact = facts.claim(Claim(key="editor", value="vim"))
        facts.claim(Claim(key="editor", value="helix"))
        for name in (fact.id, fact.id[:8], f"memory://facts/{fact.id}"):
            opened = parts.open(name)
            assert isinstance(opened, OpenedFact)
            assert opened.fact.value == "helix"
            assert [former.value for former in opened.history] == ["vim"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_name_nothing(parts: Parts, name: str) -> None:
    parts.recall.keep(make_event("x", name="talk"))
    with pytest.raises((NotFound, InvalidInput)) as raised:
        parts.open(name)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 500
    if name.startswith("memory://"):
        with pytest.raises(NotFound):
            parts.opening.open_uri(name)


def test_what_is_not_found_says_what_was_looked_for(parts: Parts) -> None:
    for name in ("lantern", "0000000000", "toc:year:1999", "memory://facts/lantern"):
        with pytest.raises(NotFound, match=rf"'{name}'.*`memory recall WORDS`"):
            parts.open(name)
