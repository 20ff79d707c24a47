"""The title and the highlights of a session."""

import pytest

from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.highlights import Highlight
from agent_memory.features.toc.model.highlights import HighlightKind as Kind
from agent_memory.features.toc.model.journal_entries import (
    MAX_NOTES,
    choose_session_title,
    select_session_highlights,
)
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.toc import Bullet, TocNode
from agent_memory.kernel.ids import Millis

AT = Millis(1_770_000_000_000)


def segment(title: str, *bullets: Bullet, session: str = "s") -> TocNode:
    return TocNode(
        node_id=NodeId("toc:segment:x"),
        level=Level.SEGMENT,
        title=title,
        summary="",
        bullets=bullets,
        keywords=(),
        child_ids=(),
        start_ms=AT,
        end_ms=AT,
        session=session,
    )


def bullet(text: str, kind: Kind, weight: float = 1.0, *, reported: bool = False) -> Bullet:
    return Bullet(text=text, grip_ids=(), weight=weight, kind=kind, reported=reported)


def highlight(kind: Kind, text: str, at: int = 0, weight: float = 1.0) -> Highlight:
    return Highlight(text=text, grip_ids=(), weight=weight, kind=kind, at_ms=Millis(AT + at))


def select(*highlights: Highlight) -> list[str]:
    return [each.text for each in select_session_highlights(highlights)]


class TestTitle:
    def test_a_milestone_is_the_title(self) -> None:
        done = bullet("The lamp is lit", Kind.MILESTONE)
        assert choose_session_title([segment("Begin"), segment("End", done)]) == "The lamp is lit"

    def test_of_several_the_reported_and_then_the_heavier(self) -> None:
        light, heavy = (bullet(f"m{weight}", Kind.MILESTONE, weight) for weight in (1.0, 2.0))
        said = bullet("in the report", Kind.MILESTONE, 0.5, reported=True)
        assert choose_session_title([segment("", heavy, light)]) == "m2.0"
        assert choose_session_title([segment("", heavy, said)]) == "in the report"

    def test_else_the_first_title_with_a_topic(self) -> None:
        dated = segment(periods.segment_title(AT))
        assert choose_session_title([dated, segment("Lamps"), segment("Oil")]) == "Lamps"
        assert choose_session_title([dated]) == dated.title

    def test_a_subagent_does_not_name_its_session(self) -> None:
        helper = segment("Search", bullet("Found all", Kind.MILESTONE), session="s/helper")
        assert choose_session_title([helper, segment("Lamps")]) == "Lamps"
        assert choose_session_title([helper]) == "Found all"

    def test_no_segments_have_no_title(self) -> None:
        assert choose_session_title([]) == ""


class TestHighlights:
    def test_by_kind_and_then_by_time(self) -> None:
        assert select(
            highlight(Kind.OPEN, "open"),
            highlight(Kind.DONE, "second", 2),
            highlight(Kind.DONE, "first", 1),
            highlight(Kind.MILESTONE, "task", 3),
            highlight(Kind.DECIDED, "decided"),
        ) == ["task", "first", "second", "decided", "open"]

    def test_the_same_words_count_once(self) -> None:
        assert select(
            highlight(Kind.DONE, "All is lit."), highlight(Kind.DONE, "all is  lit", 1)
        ) == ["All is lit."]

    def test_only_the_last_measurement_counts(self) -> None:
        assert select(
            highlight(Kind.STATE, "49 tests pass", 1), highlight(Kind.STATE, "157 tests pass", 2)
        ) == ["157 tests pass"]

    def test_a_failure_counts_unless_something_is_finished_after_it(self) -> None:
        done = highlight(Kind.DONE, "done", 5)
        assert select(highlight(Kind.BROKEN, "mended", 4), done) == ["done"]
        assert select(highlight(Kind.BROKEN, "broken", 6), done) == ["done", "broken"]

    @pytest.mark.parametrize("kind", [Kind.NOTE, Kind.ASKED, Kind.PLANNED])
    def test_what_is_only_said_stands_in_for_nothing_better(self, kind: Kind) -> None:
        said = highlight(kind, "said")
        assert select(said) == ["said"]
        assert select(said, highlight(Kind.FOUND, "found")) == ["found"]

    def test_of_many_notes_the_heaviest_by_time(self) -> None:
        notes = [highlight(Kind.NOTE, f"n{at}", at, weight=10 - at) for at in range(9)]
        assert select(*notes[::-1]) == [f"n{at}" for at in range(MAX_NOTES)]
