"""Where a session is cut, and which events of the segment before are its context."""

import pytest

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.toc.model import segments
from agent_memory.features.toc.model.segments import Segment, SegmentRules
from agent_memory.kernel.ids import EventId, Millis, SessionId

MINUTE = 60_000
START = 1_769_783_400_000  # 2026-01-30 14:30
RULES = SegmentRules()


def event(
    minute: float,
    *,
    tokens: int = 1,
    kind: EventType = EventType.USER_MESSAGE,
    name: str | None = None,
    session: str = "s",
) -> Event:
    at_ms = START + round(minute * MINUTE)
    return Event(
        event_id=EventId(name or f"e{at_ms}"),
        session_id=SessionId(session),
        at_ms=Millis(at_ms),
        type=kind,
        role=EventRole.USER,
        text="abcd" * tokens,
    )


def cut(*events: Event, rules: SegmentRules = RULES) -> list[Segment]:
    return segments.cut(events, rules)


def sizes(*events: Event) -> list[int]:
    return [each.count for each in cut(*events)]


class TestTokens:
    @pytest.mark.parametrize(
        ("text", "tokens"),
        [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("a" * 8, 2), ("日本語のテ", 2)],
    )
    def test_four_characters_are_one_rounded_up(self, text: str, tokens: int) -> None:
        assert segments.estimate_tokens(text) == tokens

    def test_tool_results_count_as_cut_and_are_read_so(self) -> None:
        long = event(0, tokens=5_000, kind=EventType.TOOL_RESULT)
        assert len(segments.read_text(long, RULES)) == 2_000
        assert cut(long)[0].tokens == 500

    def test_messages_of_people_and_assistants_are_never_cut(self) -> None:
        for kind in (EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE):
            assert cut(event(0, tokens=5_000, kind=kind))[0].tokens == 5_000


class TestPauses:
    def test_a_pause_of_thirty_minutes_cuts(self) -> None:
        assert sizes(event(0), event(30)) == [1, 1]

    def test_one_of_a_millisecond_less_does_not(self) -> None:
        assert sizes(event(0), event(30 - 1 / MINUTE)) == [2]

    def test_it_counts_from_the_last_event_and_not_from_the_first(self) -> None:
        assert sizes(event(0), event(20), event(40), event(60)) == [4]

    def test_the_length_of_a_pause_is_a_setting(self) -> None:
        rules = SegmentRules(time_gap_ms=MINUTE)
        assert [each.count for each in cut(event(0), event(1), rules=rules)] == [1, 1]


class TestSize:
    def test_the_worked_example(self) -> None:
        """100 + 200 tokens, then 3,800 that no longer fit, then 150."""
        found = cut(
            event(0, tokens=100),
            event(1, tokens=200),
            event(2, tokens=3_800),
            event(3, tokens=150),
        )
        assert [(each.count, each.tokens) for each in found] == [(2, 300), (2, 3_950)]

    def test_the_limit_itself_still_fits(self) -> None:
        assert sizes(event(0, tokens=4_000), event(1, tokens=96), event(2)) == [2, 1]

    def test_an_event_over_the_limit_is_its_own_segment(self) -> None:
        assert sizes(event(0), event(1, tokens=4_097), event(2)) == [1, 1, 1]
        assert sizes(event(0, tokens=9_000), event(1, tokens=9_000)) == [1, 1]

    def test_empty_texts_take_no_room(self) -> None:
        assert sizes(event(0, tokens=4_096), event(1, tokens=0), event(2, tokens=0)) == [3]


class TestSessionEnd:
    def test_it_closes_the_segment_it_stands_in(self) -> None:
        found = cut(event(0), event(1, kind=EventType.SESSION_END), event(2))
        assert [(each.count, each.ended) for each in found] == [(2, True), (1, False)]

    def test_it_may_be_a_segment_alone(self) -> None:
        found = cut(event(0, kind=EventType.SESSION_END), event(0.5, kind=EventType.SESSION_END))
        assert [(each.count, each.ended) for each in found] == [(1, True), (1, True)]

    def test_the_end_of_a_turn_does_not_close(self) -> None:
        assert sizes(event(0), event(1, kind=EventType.ASSISTANT_STOP), event(2)) == [3]


class TestOverlap:
    def names(self, *before: Event) -> list[str]:
        return [each.event_id for each in segments.select_overlap(before, RULES)]

    def test_it_reaches_five_minutes_back_from_the_last_event(self) -> None:
        before = [event(0, name="a"), event(0.001, name="b"), event(3, name="c")]
        assert self.names(*before, event(5.001, name="d")) == ["b", "c", "d"]

    def test_it_has_at_most_five_hundred_tokens(self) -> None:
        before = [event(0, tokens=1, name="a"), event(1, tokens=300, name="b")]
        assert self.names(*before, event(2, tokens=200, name="c")) == ["b", "c"]

    def test_it_leaves_no_hole(self) -> None:
        """An event that does not fit ends the overlap: a shorter one before it is not taken."""
        before = [event(0, name="a"), event(1, tokens=400, name="b")]
        assert self.names(*before, event(2, tokens=101, name="c")) == ["c"]

    def test_a_last_event_too_long_for_it_leaves_it_empty(self) -> None:
        assert self.names(event(0, name="a"), event(1, tokens=501, name="b")) == []

    def test_tool_results_count_as_cut(self) -> None:
        long = event(0, tokens=5_000, kind=EventType.TOOL_RESULT, name="long")
        assert self.names(long) == ["long"]

    def test_the_first_segment_has_no_overlap(self) -> None:
        assert self.names() == []


class TestSegments:
    def test_a_segment_has_its_first_and_last_event(self) -> None:
        (found,) = cut(event(0, name="a"), event(1, name="b"), event(2, name="c"))
        assert (found.first.event_id, found.last.event_id) == ("a", "c")
        assert (found.first.at_ms, found.last.at_ms) == (START, START + 2 * MINUTE)
        assert found.session_id == "s"

    def test_no_events_give_no_segment(self) -> None:
        assert cut() == []

    def test_one_across_midnight_hangs_under_the_day_of_its_first_event(self) -> None:
        (found,) = cut(event(9 * 60 + 29), event(9 * 60 + 31))
        assert found.node_id.startswith("toc:segment:2026-01-30:")

    def test_two_are_in_the_same_run_if_no_pause_lies_between(self) -> None:
        first, second, third = cut(event(0, tokens=4_096), event(29, tokens=4_096), event(59))
        assert segments.is_same_run(first, second, RULES)
        assert not segments.is_same_run(second, third, RULES)
