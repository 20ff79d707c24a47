"""The times that a query names on Monday 16 November 2026 at 10:00, and words that are no time."""

from datetime import UTC, datetime, timedelta
from time import process_time
from zoneinfo import ZoneInfo

import pytest

from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.text import time_expressions
from agent_memory.kernel.text.time_expressions import TimeWindow

Range = tuple[Millis, Millis]


def ms(written: str) -> Millis:
    return Millis(round(datetime.fromisoformat(written).replace(tzinfo=UTC).timestamp() * 1000))


NOW = ms("2026-11-16T10:00")


def days(first: str, last: str = "") -> Range:
    """Return whole days, both included."""
    return ms(first), Millis(ms(last or first) + 86_400_000 - 1)


def between(start: str, end: str) -> Range:
    return ms(start), ms(end)


def before(end: str) -> Range:
    return Millis(0), Millis(ms(end) - 1)


def since(start: str) -> Range:
    return ms(start), NOW


def yearly(first: str, last: str, years: range = range(2007, 2027)) -> list[Range]:
    return [days(f"{year}-{first}", f"{year}-{last}") for year in years]


def month_ends(month: int) -> list[Range]:
    after = [datetime(year, month + 1, 1, tzinfo=UTC) for year in range(2007, 2027)]
    lasts = [(each - timedelta(days=1)).strftime("%Y-%m-%d") for each in after]
    return [days(last[:8] + "01", last) for last in lasts]


ONE_TIME = [
    # days and weeks from today
    ("today", days("2026-11-16")),
    ("yesterday", days("2026-11-15")),
    ("yesterday's", days("2026-11-15")),
    ("the day before yesterday", days("2026-11-14")),
    ("yesterday evening", between("2026-11-15T17:00", "2026-11-15T23:59:59.999")),
    ("this morning", between("2026-11-16T05:00", "2026-11-16T11:59:59.999")),
    ("last night", between("2026-11-15T18:00", "2026-11-16T05:59:59.999")),
    ("last evening", between("2026-11-15T17:00", "2026-11-15T23:59:59.999")),
    ("yesterday in the evening", between("2026-11-15T17:00", "2026-11-15T23:59:59.999")),
    ("two days ago in the afternoon", between("2026-11-14T12:00", "2026-11-14T17:59:59.999")),
    ("on the evening of 11 Feb 2026", between("2026-02-11T17:00", "2026-02-11T23:59:59.999")),
    ("in the morning of Feb 12th, 2026", between("2026-02-12T05:00", "2026-02-12T11:59:59.999")),
    ("the afternoon of 2026-02-12", between("2026-02-12T12:00", "2026-02-12T17:59:59.999")),
    ("12 Feb 2026, in the morning", between("2026-02-12T05:00", "2026-02-12T11:59:59.999")),
    ("on Feb 12, 2026 at night", between("2026-02-12T18:00", "2026-02-13T05:59:59.999")),
    ("on Friday in the afternoon", between("2026-11-13T12:00", "2026-11-13T17:59:59.999")),
    ("on the evening of Friday", between("2026-11-13T17:00", "2026-11-13T23:59:59.999")),
    ("last weekend", days("2026-11-14", "2026-11-15")),
    ("over the weekend", days("2026-11-14", "2026-11-15")),
    ("since the weekend", since("2026-11-14")),
    ("last week", days("2026-11-09", "2026-11-15")),
    ("this week", days("2026-11-16", "2026-11-22")),
    ("last month", days("2026-10-01", "2026-10-31")),
    ("last quarter", days("2026-07-01", "2026-09-30")),
    ("last year", days("2025-01-01", "2025-12-31")),
    ("this year", days("2026-01-01", "2026-12-31")),
    ("two days ago", days("2026-11-14")),
    ("a week ago", days("2026-11-09", "2026-11-15")),
    ("three months ago", days("2026-08-01", "2026-08-31")),
    ("2 years ago", days("2024-01-01", "2024-12-31")),
    ("a few days ago", days("2026-11-11", "2026-11-14")),
    ("a couple of weeks ago", days("2026-10-26", "2026-11-08")),
    ("an hour ago", between("2026-11-16T08:30", "2026-11-16T09:30")),
    ("20 minutes ago", between("2026-11-16T09:36", "2026-11-16T09:44")),
    # up to now
    ("the last 2 hours", since("2026-11-16T08:00")),
    ("in the last 24h", since("2026-11-15T10:00")),
    ("last 7 days", since("2026-11-09T10:00")),
    ("past week", since("2026-11-09T10:00")),
    ("in the last week", since("2026-11-09T10:00")),
    ("past few days", since("2026-11-11T10:00")),
    ("over the last couple of days", since("2026-11-13T10:00")),
    # weekdays
    ("on Tuesday", days("2026-11-10")),
    ("on Monday", days("2026-11-16")),
    ("last Monday", days("2026-11-09")),
    ("on tues.", days("2026-11-10")),
    ("on Thurs", days("2026-11-12")),
    ("on Friday afternoon", between("2026-11-13T12:00", "2026-11-13T17:59:59.999")),
    ("on Thursday last week", days("2026-11-12")),
    # days with a year
    ("2026-05-03", days("2026-05-03")),
    ("2026-05-03T10:11:12Z", days("2026-05-03")),
    ("03.06.2026", days("2026-06-03")),
    ("3.6.2026", days("2026-06-03")),
    ("June 3rd, 2025", days("2025-06-03")),
    ("on the 3rd of June 2025", days("2025-06-03")),
    ("3-Jun-2025", days("2025-06-03")),
    ("Sun, 3 May 2026", days("2026-05-03")),
    ("ON 3 JUNE 2025", days("2025-06-03")),
    ("on 3 June last year", days("2025-06-03")),
    ("on 3 December 2027", days("2027-12-03")),
    # parts of years, and years
    ("May 2025", days("2025-05-01", "2025-05-31")),
    ("in Feb. 2024", days("2024-02-01", "2024-02-29")),
    ("Sept. 2024", days("2024-09-01", "2024-09-30")),
    ("in late May 2025", days("2025-05-01", "2025-05-31")),
    ("May '23", days("2023-05-01", "2023-05-31")),
    ("in May last year", days("2025-05-01", "2025-05-31")),
    ("in 2025-05", days("2025-05-01", "2025-05-31")),
    ("last May", days("2026-05-01", "2026-05-31")),
    ("last November", days("2025-11-01", "2025-11-30")),
    ("Q2 2025", days("2025-04-01", "2025-06-30")),
    ("2025-Q4", days("2025-10-01", "2025-12-31")),
    ("in summer 2024", days("2024-06-01", "2024-08-31")),
    ("last winter", days("2025-12-01", "2026-02-28")),
    ("in 2023", days("2023-01-01", "2023-12-31")),
    ("in early 2023", days("2023-01-01", "2023-12-31")),
    # from one to another
    ("between 3 and 10 May 2025", days("2025-05-03", "2025-05-10")),
    ("3-10 May 2025", days("2025-05-03", "2025-05-10")),
    ("May 3\u201310, 2025", days("2025-05-03", "2025-05-10")),
    ("between 3 May and 10 June 2025", days("2025-05-03", "2025-06-10")),
    ("from 3 May 2025 to 10 June 2026", days("2025-05-03", "2026-06-10")),
    ("2025-05-03 - 2025-05-10", days("2025-05-03", "2025-05-10")),
    ("between May and July 1990", days("1990-05-01", "1990-07-31")),
    ("from May 2025 to July", days("2025-05-01", "2025-07-31")),
    ("from Monday to Friday", days("2026-11-09", "2026-11-13")),
    ("from Tuesday until yesterday", days("2026-11-10", "2026-11-15")),
    ("from 2023 to 2025", days("2023-01-01", "2025-12-31")),
    ("between 2023 and 2025", days("2023-01-01", "2025-12-31")),
    ("from 3 May 2026 to now", since("2026-05-03")),
    # before and after
    ("since Monday", since("2026-11-16")),
    ("since may", since("2026-05-01")),
    ("since last week", since("2026-11-09")),
    ("since 2025", since("2025-01-01")),
    ("after 3 June 2025", since("2025-06-04")),
    ("after November", since("2025-12-01")),
    ("before 3 June", before("2026-06-03")),
    ("before 3 December", before("2025-12-03")),
    ("before 2020", before("2020-01-01")),
    ("until yesterday", before("2026-11-16")),
    ("by Friday", before("2026-11-14")),
    ("till the end of May", before("2026-06-01")),
]


@pytest.mark.parametrize(("words", "expected"), ONE_TIME)
def test_one_time_is_one_window(words: str, expected: Range) -> None:
    found = time_expressions.find(f"what was decided {words} about the cache", NOW)
    assert [window.ranges for window in found] == [(expected,)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("in May", month_ends(5)),
        ("in may", month_ends(5)),
        ("January", month_ends(1)),
        ("in November", month_ends(11)),
        ("on 3 June", yearly("06-03", "06-03")),
        ("on the 3rd of June", yearly("06-03", "06-03")),
        ("on 24 December", yearly("12-24", "12-24", range(2006, 2026))),
        ("29 Feb", yearly("02-29", "02-29", range(2008, 2025, 4))),
        ("from 3 to 10 May", yearly("05-03", "05-10")),
        ("from May to July", yearly("05-01", "07-31")),
        ("in summer", yearly("06-01", "08-31")),
        ("03/06/2026", [days("2026-03-06"), days("2026-06-03")]),
        (
            "in winter 2024",
            [days("2023-12-01", "2024-02-29"), days("2024-12-01", "2025-02-28")],
        ),
    ],
)
def test_a_day_without_a_year_is_in_each_of_the_last_years(
    words: str, expected: list[Range]
) -> None:
    (window,) = time_expressions.find(f"the crash {words}?", NOW)
    assert window == TimeWindow(words=words, ranges=tuple(expected))


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "we may use the second one",
        "logging in may fail",
        "Python 3 may be too old",
        "this may be it",
        "they march on, to march or to fall",
        "fall back to the second mirror",
        "wait a second",
        "it runs on Sun hardware",
        "reduce it to SAT, based on SAT",
        "Sun and Oracle",
        "in the last resort",
        "at the last minute",
        "my last day at work, past day care",
        "version 1.2.3 or 10.4.2 or 2024.12.1",
        "32.1.2025 and 30.02.2025",
        "1999 items",
        "in 1999 items",
        "after 2000 ms, by 2000%",
        "port 2023",
        "a window of 2048",
        "in 1850 and in 3000",
        "on 3 June 1850, on 3 Jan. 1850, in Jun. 1850",
        "log-2026-05-03.txt and /var/2026-05-03/x",
        "gpt-4-2024-05-13",
        "datetime.today() or today()",
        "monday.com and in monday.com",
        "Black Friday, every Monday, on Mondays",
        "next Tuesday, next week, next January, tomorrow",
        "on the 2nd try, on the 3rd party, on the 40th",
        "good morning, every evening, at night, weekend mode",
        "Spring Boot in Spring",
        "quantised as Q4, the Q2 model",
        "the last 3 commits, two of 5 may fail",
        "a decade ago, days ago",
        "\u00e9today, today\u00e9",
        "augu\u017ft 2025",
        "after today",
        "from 10 to 3 May 2025",
        "between 5 June 2025 and 3 May 2025",
    ],
)
def test_an_innocent_sentence_names_no_time(sentence: str) -> None:
    assert time_expressions.find(sentence, NOW) == ()
    assert time_expressions.remove_windows(sentence, ()) == sentence


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what did we do on the 12th?", days("2026-11-12")),
        ("on the 12th we stopped", days("2026-11-12")),
        ("on the 31st", days("2026-10-31")),
        ("on the 12th in the evening", between("2026-11-12T17:00", "2026-11-12T23:59:59.999")),
    ],
)
def test_a_day_without_a_month_is_the_latest(query: str, expected: Range) -> None:
    (window,) = time_expressions.find(query, NOW)
    assert window.ranges == (expected,)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("before the release on 3 June", before("2026-06-03")),
        ("after the big crash in May", since("2026-06-01")),
        ("since the talk with Ann yesterday", since("2026-11-15")),
        ("before one two three four five on 3 June 2025", days("2025-06-03")),
        ("seen before, on 3 June 2025", days("2025-06-03")),
        ("after all on 3 June 2025", days("2025-06-03")),
    ],
)
def test_a_preposition_reaches_over_four_words(query: str, expected: Range) -> None:
    (window,) = time_expressions.find(query, NOW)
    assert window.ranges == (expected,)


def test_a_distant_preposition_stays_when_its_time_is_removed() -> None:
    query = "what broke before the release on 3 June?"
    found = time_expressions.find(query, NOW)
    assert [window.words for window in found] == ["on 3 June"]
    assert time_expressions.remove_windows(query, found) == "what broke before the release ?"


def test_several_times_are_several_windows() -> None:
    query = "compare yesterday and last week with May 2025"
    found = time_expressions.find(query, NOW)
    assert [window.words for window in found] == ["yesterday", "last week", "May 2025"]
    assert time_expressions.remove_windows(query, found) == "compare and with"


def test_only_these_windows_are_removed() -> None:
    query = "a yesterday b today c"
    _, second = time_expressions.find(query, NOW)
    assert time_expressions.remove_windows(query, [second]) == "a yesterday b c"


def test_a_word_like_a_removed_one_stays() -> None:
    query = "x/today y today"
    assert time_expressions.remove_windows(query, time_expressions.find(query, NOW)) == "x/today y"


def test_a_window_covers_both_its_ends() -> None:
    (window,) = time_expressions.find("on 3 June 2025", NOW)
    ((start, end),) = window.ranges
    assert window.covers(start)
    assert window.covers(end)
    assert not window.covers(Millis(start - 1))
    assert not window.covers(Millis(end + 1))


def test_only_the_beginning_of_a_query_is_looked_at() -> None:
    head = "x " * (time_expressions.MAX_LOOKED_AT // 2 - 3)
    assert time_expressions.find(f"{head}today", NOW)
    assert not time_expressions.find(f"{head}2026-05-13", NOW)  # cut off, it would be another day
    query = f"today {head} and today"
    rest = time_expressions.remove_windows(query, time_expressions.find(query, NOW))
    assert rest == f"{head} and today"


def test_the_first_and_last_moments_of_time_are_borne() -> None:
    assert time_expressions.find("yesterday, last week, before 1970", Millis(0)) == ()
    (window,) = time_expressions.find("today", Millis(MAX_MILLIS))
    assert window.ranges == ((ms("2286-11-20"), MAX_MILLIS),)


@pytest.mark.parametrize(
    "piece",
    ["3 ", "in ", "may ", "a few ", " ", "9", "between 3 and ", "before the ", "in the last 1 ",
     "May 3, ", "from 3 May to ", "sun, the ", "in 2000 sssss", "2026-01-01T00:00::", "a couple "],
)  # fmt: skip
def test_hostile_text_costs_little(piece: str) -> None:
    began = process_time()
    time_expressions.find(piece * 100_000, NOW)
    assert process_time() - began < 1  # at most about 20 ms when it was written


class TestZones:
    """Days of a zone, also those on which its clocks change."""

    @staticmethod
    def find(words: str, zone: str, now: str) -> tuple[str, str]:
        (window,) = time_expressions.find(words, ms(now), ZoneInfo(zone))
        start, end = window.ranges[-1]
        return tuple(  # type: ignore[return-value]
            datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M")
            for at in (start, end + 1)
        )

    @pytest.mark.parametrize(
        ("words", "zone", "now", "expected"),
        [
            ("today", "Europe/Berlin", "2026-07-01T23:30",
             ("2026-07-01T22:00", "2026-07-02T22:00")),
            ("today", "Europe/Berlin", "2026-01-01T23:30",
             ("2026-01-01T23:00", "2026-01-02T23:00")),
            ("yesterday", "Asia/Kolkata", "2026-07-01T20:00",
             ("2026-06-30T18:30", "2026-07-01T18:30")),
            ("today", "America/New_York", "2026-07-01T02:00",
             ("2026-06-30T04:00", "2026-07-01T04:00")),
            # the clocks go forward: 23 hours
            ("on 29 March 2026", "Europe/Berlin", "2026-07-01T00:00",
             ("2026-03-28T23:00", "2026-03-29T22:00")),
            ("on March 8, 2026", "America/New_York", "2026-07-01T00:00",
             ("2026-03-08T05:00", "2026-03-09T04:00")),
            # and back: 25 hours
            ("on 25 October 2026", "Europe/Berlin", "2026-11-16T00:00",
             ("2026-10-24T22:00", "2026-10-25T23:00")),
            ("yesterday", "America/New_York", "2026-11-02T12:00",
             ("2026-11-01T04:00", "2026-11-02T05:00")),
            ("yesterday morning", "Europe/Berlin", "2026-03-30T12:00",
             ("2026-03-29T03:00", "2026-03-29T10:00")),
            ("last night", "Europe/Berlin", "2026-03-29T12:00",
             ("2026-03-28T17:00", "2026-03-29T04:00")),
            ("last week", "Europe/Berlin", "2026-03-30T12:00",
             ("2026-03-22T23:00", "2026-03-29T22:00")),
            ("in March 2026", "America/New_York", "2026-07-01T00:00",
             ("2026-03-01T05:00", "2026-04-01T04:00")),
            ("last year", "Asia/Kolkata", "2026-07-01T00:00",
             ("2024-12-31T18:30", "2025-12-31T18:30")),
            # it is already the next day, week and year there
            ("this week", "Asia/Kolkata", "2026-11-15T19:00",
             ("2026-11-15T18:30", "2026-11-22T18:30")),
            ("this year", "Asia/Kolkata", "2025-12-31T19:00",
             ("2025-12-31T18:30", "2026-12-31T18:30")),
            # a length of time is the same everywhere
            ("the last 2 hours", "Europe/Berlin", "2026-03-29T02:00",
             ("2026-03-29T00:00", "2026-03-29T02:00")),
        ],
    )  # fmt: skip
    def test_a_day_begins_at_midnight_there(
        self, words: str, zone: str, now: str, expected: tuple[str, str]
    ) -> None:
        start, end = self.find(words, zone, now)
        assert (start, end) == expected

    def test_every_moment_of_a_year_is_in_exactly_one_day(self) -> None:
        zone = ZoneInfo("America/Sao_Paulo")  # its clocks went forward at midnight
        end = None
        for number in range(365):
            day = datetime(2018, 1, 1, tzinfo=UTC).date() + timedelta(days=number)
            ((start, last),) = time_expressions.find(f"on {day}", NOW, zone)[0].ranges
            assert end in (None, start - 1)
            end = last

    @pytest.mark.parametrize(
        ("written", "start"),
        [
            ("2026-07-01T10:00", "2026-07-01T08:00"),
            ("2026-01-01 10:00", "2026-01-01T09:00"),
            ("2026-07-01T10:00Z", "2026-07-01T10:00"),
            ("2026-07-01T10:00+05:30", "2026-07-01T04:30"),
            ("2026-07-01", "2026-06-30T22:00"),
        ],
    )
    def test_a_moment_without_an_offset_is_in_the_zone(self, written: str, start: str) -> None:
        zone = ZoneInfo("Europe/Berlin")
        assert time_expressions.parse_moments(written, NOW, zone)[0] == ms(start)


class TestTypedTimes:
    """What people give to an option: NOW is a Monday, 10:00 in UTC and 11:00 in Berlin."""

    @pytest.mark.parametrize(
        ("written", "start", "end"),
        [
            ("now", "2026-11-16T10:00:00", "2026-11-16T10:00:00"),
            ("2h", "2026-11-16T08:00:00", "2026-11-16T08:00:00"),
            ("90 min", "2026-11-16T08:30:00", "2026-11-16T08:30:00"),
            ("2 Weeks", "2026-11-02T10:00:00", "2026-11-02T10:00:00"),
            ("tomorrow", "2026-11-16T23:00:00", "2026-11-17T22:59:59.999"),
            ("10:30", "2026-11-16T09:30:00", "2026-11-16T09:30:59.999"),
            ("yesterday 10:30", "2026-11-15T09:30:00", "2026-11-15T09:30:59.999"),
            ("12 Feb at 9am", "2026-02-12T08:00:00", "2026-02-12T08:00:59.999"),
            ("monday, 12:05 am", "2026-11-15T23:05:00", "2026-11-15T23:05:59.999"),
            ("12 Feb", "2026-02-11T23:00:00", "2026-02-12T22:59:59.999"),
            (" 12  Feb. ", "2026-02-11T23:00:00", "2026-02-12T22:59:59.999"),
            ("2026", "2025-12-31T23:00:00", "2026-12-31T22:59:59.999"),
            ("20260701", "2026-06-30T22:00:00", "2026-07-01T21:59:59.999"),
            ("1738278000", "2025-01-30T23:00:00", "2025-01-30T23:00:00.999"),
            ("1738278000000", "2025-01-30T23:00:00", "2025-01-30T23:00:00"),
            ("0", "1970-01-01T00:00:00", "1970-01-01T00:00:00"),
        ],
    )
    def test_a_whole_text_is_a_time(self, written: str, start: str, end: str) -> None:
        zone = ZoneInfo("Europe/Berlin")
        assert time_expressions.parse_moments(written, NOW, zone) == (ms(start), ms(end))

    @pytest.mark.parametrize(
        "written",
        [
            *("", "12", "99", "-1", "1e5", "99999999999999", "9" * 5_000, "yesterday " * 100),
            *("12 Feb 25:00", "12 Feb 10:61", "13pm", "0am", "last week 10:00", "20261345"),
            *("foo yesterday", "yesterday and the day before", "2h later", "now or never"),
        ],
    )
    def test_what_is_none_or_only_partly_one_is_refused(self, written: str) -> None:
        with pytest.raises(InvalidInput, match="is not a time"):
            time_expressions.parse_moments(written, NOW)
