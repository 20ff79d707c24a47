"""Formatting for people: sizes, durations, counts, times, excerpts."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.interfaces.cli import rendering
from agent_memory.kernel.ids import MAX_MILLIS

END_OF_9999 = 253_402_300_799_999
unhurried = settings(deadline=None)
texts = st.text(st.sampled_from("ab. \t\n\r\0\x1b\x7f\x9b\u2028é日😀"))


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (1536, "1.5 KB"),
        (47_395_635, "45.2 MB"),
        (1 << 20, "1.0 MB"),
        (1 << 30, "1.0 GB"),
        (1 << 40, "1.0 TB"),
        (5000 << 40, "5000.0 TB"),
    ],
)
def test_a_size_has_one_decimal_and_a_unit(count: int, shown: str) -> None:
    assert rendering.size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.9, "0s"),
        (59.99, "59s"),
        (60, "1m 0s"),
        (3600, "1h 0s"),
        (8130, "2h 15m 30s"),
        (86_400, "1d 0s"),
        (90_061, "1d 1h 1m 1s"),
        (400 * 86_400, "400d 0s"),
    ],
)
def test_a_duration_names_the_units_it_has(seconds: float, shown: str) -> None:
    assert rendering.duration(seconds) == shown


@unhurried
@given(seconds=st.integers(0, 10**10))
def test_a_duration_says_how_many_seconds_it_was(seconds: int) -> None:
    units = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+)([dhms])", rendering.duration(seconds))
    assert sum(int(count) * units[unit] for count, unit in parts) == seconds


@pytest.mark.parametrize(
    ("at_ms", "shown"),
    [
        (0, "1970-01-01 00:00:00"),
        (999, "1970-01-01 00:00:00"),
        (1_769_767_200_000, "2026-01-30 10:00:00"),
        (MAX_MILLIS, "2286-11-20 17:46:39"),
        (END_OF_9999 + 1, "253402300800000 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
    ],
)
def test_a_moment_is_shown_in_utc_or_as_milliseconds_beyond_the_year_9999(
    at_ms: int, shown: str
) -> None:
    assert rendering.moment(at_ms) == shown


@unhurried
@given(at_ms=st.integers(0, MAX_MILLIS))
def test_any_moment_of_an_event_can_be_read_back_to_the_second(at_ms: int) -> None:
    shown = rendering.moment(at_ms)
    read = datetime.strptime(shown, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert read.timestamp() == at_ms // 1000


@unhurried
@given(at_ms=st.integers())
def test_no_number_is_too_strange_to_be_shown(at_ms: int) -> None:
    assert rendering.moment(at_ms)


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("", 10, ""),
        ("What is Rust?", 13, "What is Rust?"),
        ("What is Rust?", 12, "What is R..."),
        ("a\n\n b\tc ", 10, "a b c"),
        ("日本語の文章です", 6, "日本語..."),
    ],
)
def test_an_excerpt_is_the_beginning_on_one_line(text: str, limit: int, shown: str) -> None:
    assert rendering.excerpt(text, limit) == shown


@unhurried
@given(text=texts, limit=st.integers(4, 50))
def test_an_excerpt_is_never_longer_than_its_limit_nor_more_than_a_line(
    text: str, limit: int
) -> None:
    shown = rendering.excerpt(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1


@unhurried
@given(text=texts)
def test_an_excerpt_cannot_command_a_terminal(text: str) -> None:
    """Recorded text is anyone's: an escape sequence in it could retitle, hide or type."""
    shown = rendering.excerpt(text, 200)
    assert [letter for letter in shown if ord(letter) < 32 or 127 <= ord(letter) < 160] == []


def test_a_time_is_that_of_the_users_zone() -> None:
    at = 1_767_225_600_000  # the first moment of 2026
    before = rendering.zone.set(ZoneInfo("America/New_York"))
    try:
        assert rendering.moment(at) == "2025-12-31 19:00:00"
        assert rendering.format_zoned(at) == "2025-12-31 19:00:00 EST"
        assert rendering.clock_time(at) == "19:00"
    finally:
        rendering.zone.reset(before)
    assert rendering.format_zoned(at) == "2026-01-01 00:00:00 UTC"


MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = 1_794_950_000_000


@pytest.mark.parametrize(
    ("age_ms", "shown"),
    [
        (-HOUR, "in the future"),
        (-1, "just now"),
        (0, "just now"),
        (MINUTE - 1, "just now"),
        (MINUTE, "1 minute ago"),
        (59 * MINUTE, "59 minutes ago"),
        (HOUR, "1 hour ago"),
        (23 * HOUR, "23 hours ago"),
        (DAY, "1 day ago"),
        (13 * DAY, "13 days ago"),
        (14 * DAY, "2 weeks ago"),
        (31 * DAY, "1 month ago"),
        (364 * DAY, "11 months ago"),
        (366 * DAY, "1 year ago"),
        (4_000 * DAY, "10 years ago"),
    ],
)
def test_an_age_is_in_words(age_ms: int, shown: str) -> None:
    assert rendering.ago(NOW - age_ms, NOW) == shown


def test_a_line_of_a_list_has_an_age_on_a_terminal_and_a_day_in_a_pipe() -> None:
    at = 1_769_767_200_000
    assert rendering.format_day(at, at + 3 * DAY) == "2026-01-30"
    assert rendering.format_with_age(at) == "2026-01-30 10:00:00 UTC"
    before = rendering.screen.set(80)
    try:
        assert rendering.format_day(at, at + 3 * DAY) == "3 days ago"
        assert re.fullmatch(r"2026-01-30 10:00:00 UTC \(.+ ago\)", rendering.format_with_age(at))
    finally:
        rendering.screen.reset(before)


def test_a_span_has_the_zone_once_unless_it_changes() -> None:
    winter, summer = 1_769_767_200_000, 1_785_000_000_000
    assert rendering.format_span(winter, winter + 60_000) == (
        "2026-01-30 10:00:00 to 2026-01-30 10:01:00 UTC"
    )
    assert rendering.format_span(winter, winter) == "2026-01-30 10:00:00 UTC"
    before = rendering.zone.set(ZoneInfo("Europe/Berlin"))
    try:
        assert rendering.format_span(winter, summer) == (
            "2026-01-30 11:00:00 CET to 2026-07-25 19:20:00 CEST"
        )
    finally:
        rendering.zone.reset(before)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((0, "file"), "0 files"),
        ((1, "file"), "1 file"),
        ((1_200, "file"), "1,200 files"),
        ((1, "memory", "memories"), "1 memory"),
        ((2, "memory", "memories"), "2 memories"),
    ],
)
def test_a_count_has_the_right_noun(words: tuple[int, str], shown: str) -> None:
    assert rendering.count(*words) == shown
