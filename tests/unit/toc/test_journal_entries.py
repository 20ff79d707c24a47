"""The title and the highlights of a session."""

import pytest

from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.highlights import Highlight
from agent_memory.features.toc.model.highlights import HighlightKind as Kind
from agent_memory.features.toc.model.journal_entries import (
    MAX_HIGHLIGHTS,
    choose_session_title,
    select_session_highlights,
    summarize_session,
)
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.kernel.ids import Millis

AT = Millis(1_770_000_000_000)


def segment(title: str, session: str = "s") -> TocNode:
    return TocNode(
        node_id=NodeId("toc:segment:x"),
        level=Level.SEGMENT,
        title=title,
        summary="",
        bullets=(),
        keywords=(),
        child_ids=(),
        start_ms=AT,
        end_ms=AT,
        session=session,
    )


def highlight(
    kind: Kind, text: str, at: int = 0, weight: float = 1.0, *, reported: bool = False
) -> Highlight:
    return Highlight(
        text=text,
        grip_ids=(f"grip:{at}",),
        weight=weight,
        kind=kind,
        at_ms=Millis(AT + at),
        session="s",
        reported=reported,
    )


def select(*highlights: Highlight) -> list[str]:
    return [each.text for each in select_session_highlights(summarize_session(highlights))]


class TestTitle:
    def test_a_milestone_is_the_title(self) -> None:
        story = summarize_session([highlight(Kind.FINISHED, "The lamp is lit.")])
        assert choose_session_title([segment("Begin"), segment("End")], story) == "The lamp is lit"

    def test_of_several_the_reported_and_then_the_later(self) -> None:
        early, late = (highlight(Kind.FINISHED, f"lamp {at} lit", at) for at in (1, 2))
        said = highlight(Kind.FINISHED, "as reported", 0, reported=True)
        assert choose_session_title([], summarize_session([late, early])) == "lamp 2 lit"
        assert choose_session_title([], summarize_session([late, said])) == "as reported"

    def test_else_what_was_asked_for_first(self) -> None:
        asked = [highlight(Kind.ASKED, "Asked: Light the lamps", 1), highlight(Kind.ASKED, "b", 2)]
        assert choose_session_title([segment("Oil")], summarize_session(asked)) == "Light the lamps"

    def test_else_the_first_title_with_a_topic(self) -> None:
        dated = segment(periods.segment_title(AT))
        assert choose_session_title([dated, segment("Lamps"), segment("Oil")], None) == "Lamps"
        assert choose_session_title([dated], None) == dated.title

    def test_a_subagent_does_not_name_its_session(self) -> None:
        helper = segment("Search", session="s/helper")
        assert choose_session_title([helper, segment("Lamps")], None) == "Lamps"
        assert choose_session_title([helper], None) == "Search"

    def test_no_segments_have_no_title(self) -> None:
        assert choose_session_title([], None) == ""


class TestHighlights:
    def test_by_kind_and_then_by_time(self) -> None:
        assert select(
            highlight(Kind.OPEN, "open window", 4),
            highlight(Kind.DONE, "second shelf", 2),
            highlight(Kind.DONE, "first lamp", 1),
            highlight(Kind.DECIDED, "decided oil"),
        ) == ["first lamp", "second shelf", "decided oil", "open window"]

    def test_the_title_is_not_repeated(self) -> None:
        assert select(highlight(Kind.FINISHED, "The lamp is lit", 3)) == []

    def test_the_same_words_count_once(self) -> None:
        said = (highlight(Kind.DONE, "All is lit."), highlight(Kind.DONE, "all is  lit", 1))
        assert len(select(*said)) == 1

    @pytest.mark.parametrize("kind", [Kind.NOTE, Kind.FOUND])
    def test_what_is_only_said_stands_in_for_nothing_better(self, kind: Kind) -> None:
        said = highlight(Kind.NOTE, "said")
        assert select(said, highlight(kind, "other words", 1))[-1] == "other words"
        assert ("said" in select(said, highlight(kind, "other words", 1))) is (kind is Kind.NOTE)

    def test_of_many_the_heaviest(self) -> None:
        words = [
            "ash",
            "bark",
            "cone",
            "dew",
            "elm",
            "fern",
            "gorse",
            "hazel",
            "ivy",
            "june",
            "kelp",
            "lime",
            "moss",
            "nut",
        ]
        notes = [highlight(Kind.NOTE, word, at, weight=20 - at) for at, word in enumerate(words)]
        assert select(*notes[::-1]) == words[:MAX_HIGHLIGHTS]

    def test_of_many_those_that_are_merely_done_are_left_out_first(self) -> None:
        done = [
            highlight(Kind.DONE, f"shelf{at} painted{at}", at, 3.0) for at in range(MAX_HIGHLIGHTS)
        ]
        shown = select(*done, highlight(Kind.OPEN, "the window sticks", 99, 0.5))
        assert len(shown) == MAX_HIGHLIGHTS
        assert "the window sticks" in shown

    def test_no_highlights(self) -> None:
        assert select() == []
