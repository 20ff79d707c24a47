"""Periods partition time: every moment has one day, every day one week, month and year."""

from datetime import timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.periods import Level, Period
from agent_memory.kernel.ids import MAX_MILLIS, Millis

DAY_MS = 86_400_000
unhurried = settings(deadline=None)

moments = st.integers(0, MAX_MILLIS).map(Millis)
lineages = moments.map(periods.find_day).map(periods.list_lineage)
any_period = lineages.flatmap(st.sampled_from)


@unhurried
@given(moments)
def test_a_moment_lies_in_its_day(at_ms: Millis) -> None:
    day = periods.find_day(at_ms)
    assert day.level is Level.DAY
    assert day.start_ms <= at_ms <= day.end_ms
    assert day.end_ms - day.start_ms == DAY_MS - 1


@unhurried
@given(moments)
def test_days_leave_no_time_between_them(at_ms: Millis) -> None:
    day = periods.find_day(at_ms)
    following = periods.find_day(Millis(day.end_ms + 1))
    assert following.start_ms == day.end_ms + 1
    assert following.first == day.first + timedelta(days=1)


@unhurried
@given(lineages)
def test_every_day_has_one_chain_up_to_a_year(chain: list[Period]) -> None:
    assert [each.level for each in chain] == [Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR]
    for child, parent in pairwise(chain):
        assert child.parent == parent
        assert parent.children.count(child) == 1
    assert chain[-1].parent is None


@unhurried
@given(lineages)
def test_a_week_hangs_under_the_month_of_its_thursday(chain: list[Period]) -> None:
    _, week, month, year = chain
    thursday = week.first + timedelta(days=3)
    assert thursday.weekday() == 3
    noon = week.start_ms + 3 * DAY_MS + DAY_MS // 2
    assert month.start_ms <= noon <= month.end_ms
    assert year.start_ms <= noon <= year.end_ms
    assert (month.first.year, month.first.month) == (thursday.year, thursday.month)
    assert week.first.isocalendar()[0] == year.first.year


@unhurried
@given(any_period)
def test_children_are_in_order_and_know_their_parent(period: Period) -> None:
    children = period.children
    assert [child.parent for child in children] == [period] * len(children)
    starts = [child.start_ms for child in children]
    assert starts == sorted(set(starts))
    if period.level is Level.WEEK:
        assert starts[0] == period.start_ms
        assert children[-1].end_ms == period.end_ms
    if period.level in (Level.WEEK, Level.YEAR):
        assert all(earlier.end_ms + 1 == later.start_ms for earlier, later in pairwise(children))


@unhurried
@given(any_period)
def test_the_next_periods_children_follow_this_ones(period: Period) -> None:
    """No week and no day falls between two months or two years."""
    if period.level is Level.DAY:
        return
    following = next(
        each
        for each in periods.list_lineage(periods.find_day(Millis(period.end_ms + 8 * DAY_MS)))
        if each.level is period.level
    )
    if period.level is Level.WEEK:  # eight days later it may be the one after the next
        following = Period(level=Level.WEEK, first=period.first + timedelta(days=7))
    assert following.children[0].start_ms == period.children[-1].end_ms + 1


@unhurried
@given(any_period)
def test_parsing_gives_the_period_of_an_id(period: Period) -> None:
    assert periods.parse(period.node_id) == period
    assert periods.canonicalize(period.node_id) == period.node_id


@unhurried
@given(any_period)
def test_the_other_spelling_is_the_same_period(period: Period) -> None:
    start, colon, end = period.node_id.rpartition(":")
    other = f"{start}-{end}" if period.level in (Level.MONTH, Level.WEEK) else start + colon + end
    assert periods.canonicalize(other) == period.node_id


node_ids = st.one_of(
    any_period.map(lambda period: str(period.node_id)),
    st.text(max_size=40),
    st.from_regex(r"toc:(year|month|week|day|segment):[0-9:W-]{0,12}", fullmatch=True),
    st.from_regex(r"toc:segment:[0-9]{4}-[0-9]{2}-[0-9]{2}:[0-9A-HJKMNP-TV-Z]{26}", fullmatch=True),
)


@unhurried
@given(node_ids)
def test_the_canonical_spelling_is_stable(node_id: str) -> None:
    found = periods.canonicalize(node_id)
    assert (found is None) == (periods.parse(node_id) is None)
    if found is not None:
        assert periods.canonicalize(found) == found
        assert periods.parse(found) == periods.parse(node_id)


@unhurried
@given(any_period)
def test_titles_have_no_leading_zeros_and_name_their_year(period: Period) -> None:
    words = period.title.replace(",", "").split()
    assert not any(word.startswith("0") for word in words)
    year = period.first.isocalendar()[0] if period.level is Level.WEEK else period.first.year
    assert words[-1] == str(year)


@unhurried
@given(moments, st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26))
def test_a_segments_id_leads_to_its_day(at_ms: Millis, ulid: str) -> None:
    node_id = periods.segment_node_id(at_ms, ulid)
    assert periods.parse(node_id) == periods.find_day(at_ms)
    assert periods.canonicalize(node_id) == node_id
