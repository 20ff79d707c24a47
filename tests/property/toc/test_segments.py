"""Cutting is a pure function of a session's events."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.toc.model import segments
from agent_memory.features.toc.model.segments import Segment, SegmentRules
from agent_memory.kernel import ulids
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, SessionId

RULES = SegmentRules(
    time_gap_ms=60_000,
    max_tokens=40,
    overlap_ms=30_000,
    overlap_tokens=10,
    max_tool_result_chars=60,
)
CROCKFORD = frozenset("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
unhurried = settings(deadline=None)


def place(event: Event) -> tuple[int, bytes]:
    return event.at_ms, event.event_id.encode()


events = st.builds(
    Event,
    event_id=st.integers(0, 10_000).map(lambda number: EventId(f"e{number}")),
    session_id=st.just(SessionId("s")),
    at_ms=st.integers(0, 30).map(lambda step: Millis(1_769_783_400_000 + step * 15_000)),
    type=st.sampled_from([EventType.USER_MESSAGE, EventType.TOOL_RESULT, EventType.SESSION_END]),
    role=st.just(EventRole.USER),
    text=st.integers(0, 250).map("x".__mul__),
)
sessions = st.lists(events, max_size=30, unique_by=lambda event: event.event_id).map(
    lambda found: sorted(found, key=place)
)


def inside(segment: Segment, held: list[Event]) -> list[Event]:
    first = segment.first.at_ms, segment.first.event_id.encode()
    last = segment.last.at_ms, segment.last.event_id.encode()
    return [event for event in held if first <= place(event) <= last]


def tokens(event: Event) -> int:
    return segments.estimate_tokens(segments.read_text(event, RULES))


def runs(held: list[Event]) -> list[list[Event]]:
    found: list[list[Event]] = []
    for event in held:
        if found and event.at_ms - found[-1][-1].at_ms < RULES.time_gap_ms:
            found[-1].append(event)
        else:
            found.append([event])
    return found


@unhurried
@given(sessions)
def test_the_segments_hold_every_event_once_and_in_order(held: list[Event]) -> None:
    found = segments.cut(held, RULES)
    parts = [inside(each, held) for each in found]
    assert [event for part in parts for event in part] == held
    assert [len(part) for part in parts] == [each.count for each in found]
    assert [sum(map(tokens, part)) for part in parts] == [each.tokens for each in found]


@unhurried
@given(sessions)
def test_every_segment_obeys_the_rules_and_is_as_long_as_possible(held: list[Event]) -> None:
    found = segments.cut(held, RULES)
    for each in found:
        part = inside(each, held)
        assert each.count == 1 or each.tokens <= RULES.max_tokens
        assert all(b.at_ms - a.at_ms < RULES.time_gap_ms for a, b in pairwise(part))
        ends = [event.type is EventType.SESSION_END for event in part]
        assert not any(ends[:-1])
        assert each.ended == ends[-1]
    for before, after in pairwise(found):
        following = inside(after, held)[0]
        assert (
            before.ended
            or following.at_ms - before.last.at_ms >= RULES.time_gap_ms
            or before.tokens + tokens(following) > RULES.max_tokens
        )


@unhurried
@given(sessions)
def test_a_run_is_cut_the_same_whatever_lies_around_it(held: list[Event]) -> None:
    alone = [each for run in runs(held) for each in segments.cut(run, RULES)]
    assert alone == segments.cut(held, RULES)


@unhurried
@given(sessions)
def test_growing_one_by_one_is_cutting(held: list[Event]) -> None:
    found: dict[str, Segment] = {}
    last: Segment | None = None
    for event in held:
        last = segments.add_event(last, event, RULES)
        found[last.node_id] = last
    assert list(found.values()) == segments.cut(held, RULES)


@unhurried
@given(sessions)
def test_pauses_are_between_runs_and_nowhere_else(held: list[Event]) -> None:
    found = segments.cut(held, RULES)
    breaks = sum(not segments.is_same_run(a, b, RULES) for a, b in pairwise(found))
    assert breaks == max(0, len(runs(held)) - 1)


@unhurried
@given(sessions)
def test_the_overlap_is_the_end_of_the_segment_before(held: list[Event]) -> None:
    found = segments.select_overlap(held, RULES)
    assert found == held[len(held) - len(found) :]
    assert sum(map(tokens, found)) <= RULES.overlap_tokens
    if found:
        assert held[-1].at_ms - found[0].at_ms <= RULES.overlap_ms
    if len(found) < len(held):
        longer = held[len(held) - len(found) - 1 :]
        assert (
            sum(map(tokens, longer)) > RULES.overlap_tokens
            or held[-1].at_ms - longer[0].at_ms > RULES.overlap_ms
        )


@unhurried
@given(events, st.lists(events, max_size=5), st.lists(events, max_size=5))
def test_an_id_depends_on_session_and_first_event_only(
    first: Event, some: list[Event], others: list[Event]
) -> None:
    def grown(following: list[Event]) -> Segment:
        segment = segments.add_event(None, first, RULES)
        for event in following:
            larger = segments.add_event(segment, event, RULES)
            segment = larger if larger.first == segment.first else segment
        return segment

    assert grown(some).node_id == grown(others).node_id


names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
moments = st.integers(0, MAX_MILLIS).map(Millis)


@unhurried
@given(moments, st.lists(names, min_size=1, max_size=3))
def test_derived_ulids_are_ulids_and_repeat(at_ms: Millis, parts: list[str]) -> None:
    found = ulids.derive_ulid(at_ms, *parts)
    assert len(found) == 26
    assert set(found) <= CROCKFORD
    assert found == ulids.derive_ulid(at_ms, *parts)
    decoded = 0
    for letter in found[:10]:
        decoded = decoded * 32 + sorted(CROCKFORD).index(letter)
    assert decoded == at_ms


@unhurried
@given(moments, moments, names, names)
def test_derived_ulids_sort_by_time(a: Millis, b: Millis, one: str, two: str) -> None:
    if a < b:
        assert ulids.derive_ulid(a, one) < ulids.derive_ulid(b, two)


@unhurried
@given(moments, st.tuples(names, names), st.tuples(names, names))
def test_other_parts_give_another_ulid(
    at_ms: Millis, some: tuple[str, str], others: tuple[str, str]
) -> None:
    assert (ulids.derive_ulid(at_ms, *some) == ulids.derive_ulid(at_ms, *others)) == (
        some == others
    )
