"""Times in any query: the windows are valid, and no other word is lost."""

from collections import Counter
from datetime import date, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.text import time_expressions

DAY_MS = 86_400_000
unhurried = settings(deadline=None)

moments = st.integers(0, MAX_MILLIS).map(Millis) | st.sampled_from((Millis(0), Millis(MAX_MILLIS)))
VOCABULARY = """
    before after since until till by in of on from during between and to through next last this
    past the a few couple several two 12 9999 3 3rd 31 10 29 1970 1999 2023 2048 2099 '23 2026-05-03
    2026-02-30 2025-05 03.06.2026 1.2.3 03/06/2026 31/12/1970 Q2 may May june Feb. Sept dec January
    monday Tue. Sun sat, summer winter spring fall today yesterday yesterday's tonight night morning
    evening day days week weeks month months quarter year years hour hours minutes ago now weekend
    early mid- - \u2013 , . ? of the crash release all then X \u0131n \u017fince
"""
words = st.sampled_from(VOCABULARY.split())
spoken = st.lists(words, max_size=12).map(" ".join)
queries = (
    spoken | st.text(max_size=60) | st.tuples(spoken, st.text(max_size=5), spoken).map("".join)
)


@settings(deadline=None, max_examples=5 * settings().max_examples)
@given(queries, moments)
def test_ranges_are_valid_ascending_and_apart(query: str, now: Millis) -> None:
    for window in time_expressions.find(query, now):
        assert window.ranges
        assert window.words in query
        assert all(0 <= start <= end <= MAX_MILLIS for start, end in window.ranges)
        assert all(end < start for (_, end), (start, _) in pairwise(window.ranges))


@unhurried
@given(queries, moments)
def test_a_window_covers_its_ranges_and_nothing_else(query: str, now: Millis) -> None:
    for window in time_expressions.find(query, now):
        for start, end in window.ranges:
            assert window.covers(start)
            assert window.covers(end)
        assert not window.covers(Millis(window.ranges[0][0] - 1))
        assert not window.covers(Millis(window.ranges[-1][1] + 1))


@unhurried
@given(queries, moments)
def test_the_same_query_has_the_same_windows(query: str, now: Millis) -> None:
    assert time_expressions.find(query, now) == time_expressions.find(query, now)


@unhurried
@given(queries, moments)
def test_the_windows_stand_in_their_order_in_the_query(query: str, now: Millis) -> None:
    at = 0
    for window in time_expressions.find(query, now):
        at = query.index(window.words, at) + len(window.words)


@unhurried
@given(queries, moments)
def test_only_windows_are_removed(query: str, now: Millis) -> None:
    found = time_expressions.find(query, now)
    rest = time_expressions.remove_windows(query, found)
    removed = Counter("".join(window.words for window in found))
    assert _letters(rest) + _letters(removed) == _letters(query)
    if not found:
        assert rest == query


def _letters(text: str | Counter[str]) -> Counter[str]:
    counted = Counter(text)
    return Counter({each: counted[each] for each in counted if not each.isspace()})


innocent = st.lists(st.sampled_from(["cache", "we", "decided", "may", "X", "v2"]), max_size=5)


@unhurried
@given(innocent, innocent, st.sampled_from(["2026-05-03", "yesterday", "in Q2 2025", "last week"]))
def test_the_other_words_stay_as_they_are(left: list[str], right: list[str], time: str) -> None:
    query = " ".join([*left, time, *right])
    found = time_expressions.find(query, Millis(1_800_000_000_000))
    assert time_expressions.remove_windows(query, found) == " ".join([*left, *right])


@unhurried
@given(
    st.dates(date(1970, 1, 1), date(2099, 12, 31)),
    st.sampled_from(
        ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d %B %Y", "%d %b %Y", "%d %b. %Y", "%B %d, %Y",
         "%b %d %Y", "%d-%b-%Y", "%A, %d %B %Y", "%a %d %b %Y", "%A, %B %d, %Y", "%dth of %B %Y",
         "%Y-%m-%dT12:30", "%Y-%m-%dT12:30:59.123Z"],
    ),
    st.sampled_from(["{}", "on {}", "what was said on {}?", "({})", "the notes of {}, please"]),
    st.sampled_from([str, str.lower, str.upper]),
    moments,
)  # fmt: skip
def test_a_written_date_is_found(day: date, form: str, frame: str, case: type, now: Millis) -> None:
    written = day.strftime(form)
    if "May." in written:
        return  # not an abbreviation
    (window,) = time_expressions.find(frame.format(case(written)), now)
    start = (day - date(1970, 1, 1)) // timedelta(days=1) * DAY_MS
    assert window.ranges == ((start, start + DAY_MS - 1),)
    assert case(written) in window.words


@unhurried
@given(st.dates(date(1970, 1, 1), date(2099, 12, 31)), moments)
def test_before_and_since_a_day_part_the_time_up_to_now(day: date, now: Millis) -> None:
    start = (day - date(1970, 1, 1)).days * DAY_MS
    before = time_expressions.find(f"before {day}", now)
    since = time_expressions.find(f"since {day}", now)
    assert [window.ranges for window in before] == ([((0, start - 1),)] if 0 < start <= now else [])
    assert [window.ranges for window in since] == ([((start, now),)] if start <= now else [])
