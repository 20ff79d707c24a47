"""Time expressions in a query, in English. Weeks start on Monday.

Days, and whatever consists of days, are those of a time zone: the calendar is computed on the dates
of that zone, and each bound is converted by itself. So a day on which the clocks change has 23 or
25 hours. "The last 3 hours" and other lengths of time do not depend on the zone.

Words that may mean something else (a verb, a version, a number, a company) are not read as a time:
a missed expression costs a little in the ranking, a false one hides the right answers.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, Millis

MAX_LOOKED_AT = 1_000  # characters of a query
YEARS_BACK = 20  # a month or day without a year may mean any of the last 20
MAX_REACH = 4  # words between "before" and its date, as in "before the release on 3 June"

_YEAR_DIGITS, _DATE_DIGITS, _SECONDS_DIGITS, _MAX_DIGITS = 4, 8, 10, 30
_MAX_TIME_CHARS = 200
_YEARS = range(1970, 2100)
_HOURS_OF_HALF = 12
_LENGTH_AGO = re.compile(
    r"(?ai:(?P<count>\d{1,6}) ?(?P<unit>min|h|hr|d|w|m|minute|hour|day|week|month|year)s?)"
)
_SHORT_UNITS = {"m": "minute", "min": "minute", "h": "hour", "hr": "hour", "d": "day", "w": "week"}
_CLOCK = re.compile(
    r"(?ai:(?:(?P<day>.*?\S),? (?:at )?)?(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>am|pm)?)"
)
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?P<second>:\d\d(?P<fraction>\.\d{1,6})?)?"
    r"(?:Z|[+-]\d\d:\d\d)?"
)
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_MONTH_MS = 2_629_800_000  # a twelfth of 365.25 days
_LENGTHS = {
    "minute": 60_000, "hour": _HOUR_MS, "day": _DAY_MS, "week": 7 * _DAY_MS,
    "month": _MONTH_MS, "quarter": 3 * _MONTH_MS, "year": 12 * _MONTH_MS,
}  # fmt: skip
_ABBREVIATED = {"min": "minute", "h": "hour", "hr": "hour", "d": "day", "yr": "year"}
_MONTHS_IN = {"month": 1, "quarter": 3, "year": 12}
_PARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # first months
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBERS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
_COUNTS = {word: (count, count) for count, word in enumerate(_NUMBERS, 1)}  # at least, at most
_COUNTS |= {"a": (1, 1), "an": (1, 1), "couple": (2, 3), "few": (2, 5), "several": (3, 7)}

TimeRange = tuple[int, int]  # milliseconds, both ends included
TimeMatch = re.Match[str]


class Present(NamedTuple):
    """The moment at which a query is read, and the time zone of its days."""

    ms: int
    zone: tzinfo

    @property
    def day(self) -> date:
        return datetime.fromtimestamp(self.ms / 1000, self.zone).date()

    def to_ms(self, day: date, hour: int = 0) -> int:
        """Return the moment at which a clock in the zone shows this hour; 24 is the next day."""
        on = day + timedelta(days=hour // 24)
        return round(datetime.combine(on, time(hour % 24), self.zone).timestamp() * 1000)


Read = Callable[[TimeMatch, Present], list[TimeRange]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """A time expression of a query and the ranges of time it means."""

    words: str  # as written in the query
    ranges: tuple[tuple[Millis, Millis], ...]  # inclusive, ascending, not overlapping

    def covers(self, at_ms: Millis) -> bool:
        return any(start <= at_ms <= end for start, end in self.ranges)


def find(query: str, now: Millis, zone: tzinfo = UTC) -> tuple[TimeWindow, ...]:
    """Return the times that the query names, from left to right."""
    present = Present(now, zone)
    return tuple(
        TimeWindow(words=query[phrase.start : phrase.end], ranges=ranges)
        for phrase in _phrases(query)
        if (ranges := _tidy(_meaning(phrase, present)))
    )


def parse_moments(words: str, now: Millis, zone: tzinfo = UTC) -> tuple[Millis, Millis]:
    """Parse a date, a moment or words, and return the first and last millisecond it means.

    Without a year, the latest match is meant. A length such as 2h or 7 days means that long ago.
    The whole text must be a time. Raises InvalidInput.
    """
    text = " ".join(words.split())
    if len(text) > _MAX_TIME_CHARS:
        raise InvalidInput(f"{words[:80]!r}... is not a time: it is too long")
    present = Present(now, zone)
    if text.isascii() and text.isdecimal():
        return _parse_number(text, present)
    if match := _MOMENT.fullmatch(text):
        size = 1 if match["fraction"] else 1_000 if match["second"] else 60_000
        return _parse_iso(text, size, zone)
    if match := _LENGTH_AGO.fullmatch(text):
        unit = match["unit"].lower()
        length = _LENGTHS[_SHORT_UNITS.get(unit, unit)] * int(match["count"])
        return Millis(max(0, now - length)), Millis(max(0, now - length))
    if text.lower() == "now":
        return now, now
    if text.lower() == "tomorrow":
        return _clip(_days(present.day + timedelta(days=1), 1, present))
    if (match := _CLOCK.fullmatch(text)) and (parsed := _parse_clock(match, present)):
        return parsed
    partly = ""
    for query in (text, f"on {text}", f"in {text}"):
        for window in find(query, now, zone)[:1]:
            if not query.replace(window.words, "", 1).strip(" ,.;"):
                return window.ranges[-1]
            partly = partly or f" (only {window.words!r} of it is)"
    raise InvalidInput(
        f"{words!r} is not a time{partly}: write a date as 2026-03-31 or '12 Feb', a moment"
        " as 2026-03-31T10:00 or 'yesterday 10:00', words as in 'last week', or a length of time"
        " as in 2h, which means two hours ago"
    )


def _parse_number(text: str, now: Present) -> tuple[Millis, Millis]:
    """Parse a year, a date without dashes, or Unix seconds or milliseconds."""
    number = int(text[:_MAX_DIGITS])
    if len(text) == _YEAR_DIGITS and number in _YEARS:
        return _clip(_months(number * 12, 12, now))
    if len(text) == _DATE_DIGITS and number // 10_000 in _YEARS:
        for day in _dates(number // 10_000, number // 100 % 100, number % 100):
            return _clip(_days(day, 1, now))
    if len(text) == _SECONDS_DIGITS:
        return Millis(number * 1_000), Millis(number * 1_000 + 999)
    if number > MAX_MILLIS:
        raise InvalidInput(f"{text[:80]} is not a time: the last is {MAX_MILLIS} milliseconds")
    if number and len(text) < _SECONDS_DIGITS:  # more likely a day, a count or a slip of the hand
        raise InvalidInput(
            f"{text} is not a time: write a year as 2026, a date as 20260331, or a moment in Unix"
            " seconds or milliseconds"
        )
    return Millis(number), Millis(number)


def _parse_clock(match: TimeMatch, now: Present) -> tuple[Millis, Millis] | None:
    """Parse a time of day, today or on a day that is named before it."""
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if half := _get_group(match, "half"):
        if not 1 <= hour <= _HOURS_OF_HALF:
            return None
        hour = hour % _HOURS_OF_HALF + (_HOURS_OF_HALF if half == "pm" else 0)
    elif match["minute"] is None:
        return None
    day = now.day
    if match["day"]:
        first, last = parse_moments(match["day"], Millis(now.ms), now.zone)
        day, end = (Present(at, now.zone).day for at in (first, last))
        if day != end:
            return None
    try:
        at = datetime.combine(day, time(hour, minute), now.zone).timestamp()
    except ValueError:
        return None
    return _clip((round(at * 1000), round(at * 1000) + 59_999))


def _clip(span: TimeRange) -> tuple[Millis, Millis]:
    return Millis(max(0, span[0])), Millis(min(span[1], MAX_MILLIS))


def _parse_iso(moment: str, size: int, zone: tzinfo) -> tuple[Millis, Millis]:
    """Parse an ISO 8601 moment that lasts `size` milliseconds. `zone` applies without an offset."""
    try:
        at = datetime.fromisoformat(moment)
        start = (at if at.tzinfo else at.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        raise InvalidInput(f"{moment!r} is not a valid date and time") from None
    first = min(max(0, round(start * 1000)), MAX_MILLIS)
    return Millis(first), Millis(min(first + size - 1, MAX_MILLIS))


def remove_windows(query: str, windows: Sequence[TimeWindow]) -> str:
    """Return the query without the words of its windows."""
    left = [window.words for window in windows]
    rest, done = "", 0
    for phrase in _phrases(query):
        if (words := query[phrase.start : phrase.end]) in left:
            left.remove(words)
            rest, done = _join(rest, query[done : phrase.start]), phrase.end
    return _join(rest, query[done:]) if done else query


def _join(left: str, right: str) -> str:
    return f"{left.rstrip()} {right.lstrip()}".strip()


def _days(first: date, count: int, now: Present) -> TimeRange:
    return now.to_ms(first), now.to_ms(first + timedelta(days=count)) - 1


def _months(first: int, count: int, now: Present) -> TimeRange:
    """Return the range of whole months; `first` counts from January of the year 0."""
    start, after = (
        date(max(month // 12, 1), month % 12 + 1, 1) for month in (first, first + count)
    )
    return now.to_ms(start), now.to_ms(after) - 1


def _calendar(unit: str, now: Present, back: int) -> TimeRange:
    """Return the week, month, quarter or year that is `back` before the present one."""
    if unit == "week":
        return _days(now.day - timedelta(days=now.day.weekday() + 7 * back), 7, now)
    size = _MONTHS_IN[unit]
    return _months(((now.day.year * 12 + now.day.month - 1) // size - back) * size, size, now)


def _day_or_part(match: TimeMatch, day: date, now: Present, part: str = "") -> TimeRange:
    """Return a day, or the part of it that is named before it or after it."""
    part = part or _get_group(match, "part") or _get_group(match, "part_of")
    first, after = _PARTS[part] if part else (0, 24)
    return now.to_ms(day, first), now.to_ms(day, after) - 1


def _tidy(spans: Iterable[TimeRange]) -> tuple[tuple[Millis, Millis], ...]:
    """Clip the ranges to the times that events can have, sort them and merge overlaps."""
    tidied: list[tuple[Millis, Millis]] = []
    for start, end in sorted((max(start, 0), min(end, MAX_MILLIS)) for start, end in spans):
        if tidied and start <= tidied[-1][1]:
            tidied[-1] = tidied[-1][0], Millis(max(end, tidied[-1][1]))
        elif start <= end:
            tidied.append((Millis(start), Millis(end)))
    return tuple(tidied)


# --- the meaning of one expression ---


def _get_group(match: TimeMatch, group: str) -> str:
    return (match.groupdict().get(group) or "").lower()


def _month_number(match: TimeMatch) -> int:
    return int(_get_group(match, "number") or _MONTHS.index(_get_group(match, "month")[:3]) + 1)


def _yearly(
    match: TimeMatch, now: Present, spans_in: Callable[[int], Iterable[TimeRange]]
) -> list[TimeRange]:
    """Return the ranges in the year that is named, or in each of the last years."""
    this = now.day.year
    year, which = _get_group(match, "year"), _get_group(match, "which")
    if year.isdigit():
        return [*spans_in(int(year))]
    if year[1:].isdigit():  # '23
        return [*spans_in(int(year[1:]) + (2000 if year[1:] < "70" else 1900))]
    if year or which == "this":
        return [*spans_in(this - 1 if year.startswith("last") else this)]
    spans = {span for number in range(this - YEARS_BACK, this + 1) for span in spans_in(number)}
    begun = sorted(span for span in spans if span[0] <= now.ms)
    if which == "last":
        return [span for span in begun if span[1] < now.ms][-1:]
    return begun[-YEARS_BACK:]


def _dates(year: int, month: int, day: int) -> list[date]:
    try:
        return [date(year, month, day)]
    except ValueError:  # the 31st of June
        return []


def _on_day(match: TimeMatch, now: Present) -> list[TimeRange]:
    month, day = _month_number(match), int(match["day"])

    def spans_in(year: int) -> list[TimeRange]:
        on = _dates(year, month, day)
        if _get_group(match, "slash"):  # 03/06/2026 is either
            on += _dates(year, day, month)
        return [_day_or_part(match, each, now) for each in on]

    return _yearly(match, now, spans_in)


def _day_of_month(match: TimeMatch, now: Present) -> list[TimeRange]:
    """Return the latest day with this number: "on the 12th"."""
    month = now.day.year * 12 + now.day.month - 1
    for back in range(3):  # the 31st may be in none of two months
        for day in _dates((month - back) // 12, (month - back) % 12 + 1, int(match["day"])):
            if day <= now.day:
                return [_day_or_part(match, day, now)]
    return []


def _days_of_month(match: TimeMatch, now: Present) -> list[TimeRange]:
    def spans_in(year: int) -> list[TimeRange]:
        first, last = (_dates(year, _month_number(match), int(match[of])) for of in ("day", "last"))
        if not first or not last or first > last:
            return []
        return [(now.to_ms(first[0]), now.to_ms(last[0], 24) - 1)]

    return _yearly(match, now, spans_in)


def _part_of_year(match: TimeMatch, now: Present) -> list[TimeRange]:
    """Return a month, a quarter or a season."""
    if season := _get_group(match, "season"):
        first, count = _SEASONS[season], 3
    elif quarter := _get_group(match, "quarter"):
        first, count = 3 * int(quarter) - 2, 3
    else:
        first, count = _month_number(match), 1
    firsts = (0, 12) if season == "winter" else (first,)  # a winter belongs to two years
    return _yearly(
        match, now, lambda year: [_months(year * 12 + at - 1, count, now) for at in firsts]
    )


def _years(match: TimeMatch, now: Present) -> list[TimeRange]:
    first = int(match["year"])
    last = int(_get_group(match, "last") or first)
    begun = first <= now.day.year  # 2048 is a size: no event has a later year than now
    return [_months(first * 12, (last - first + 1) * 12, now)] if begun and first <= last else []


def _near_day(match: TimeMatch, now: Present) -> list[TimeRange]:
    """Return a day named by its weekday or relative to today, or a part of that day."""
    word, week = _get_group(match, "word"), _get_group(match, "week")
    back = {"yesterday": 1, "last night": 1, "last evening": 1, "the day before yesterday": 2}.get(
        word, 0
    )
    if weekday := _get_group(match, "weekday"):
        back = now.day.weekday() - _WEEKDAYS.index(weekday[:3])
        if week:
            back += 7 * (week == "last")
        else:
            back = back % 7 or 7 * (_get_group(match, "which") == "last")
    part = {"tonight": "night", "last night": "night", "last evening": "evening"}.get(word, "")
    return [_day_or_part(match, now.day - timedelta(days=back), now, part)]


def _weekend(match: TimeMatch, now: Present) -> list[TimeRange]:
    """Return the latest weekend that has begun, or the one of this week."""
    saturday = now.day - timedelta(days=(now.day.weekday() - 5) % 7)
    if _get_group(match, "which") == "last" and now.day.weekday() >= 5:
        saturday -= timedelta(days=7)
    return [_days(saturday, 2, now)]


def _amount(match: TimeMatch) -> tuple[str, int, int]:
    """Return the unit, the least number of units and the greatest."""
    unit, words = _get_group(match, "unit"), _get_group(match, "count").split()
    if words and words[0].isdigit():
        low = high = int(words[0])
    else:  # the last number word counts: "couple" in "a couple of"
        low, high = ([_COUNTS[word] for word in words if word in _COUNTS] or [(1, 1)])[-1]
    return _ABBREVIATED.get(unit, unit), low, high


def _ago(match: TimeMatch, now: Present) -> list[TimeRange]:
    unit, low, high = _amount(match)
    if unit in ("minute", "hour"):
        size = _LENGTHS[unit]
        slack = max(size // 2, high * size // 5)  # "20 minutes ago" is not exact to the minute
        return [(now.ms - high * size - slack, min(now.ms, now.ms - low * size + slack))]
    if unit == "day":
        first, last = (now.day - timedelta(days=count) for count in (high, low))
        return [(_day_or_part(match, first, now)[0], _day_or_part(match, last, now)[1])]
    return [(_calendar(unit, now, high)[0], _calendar(unit, now, low)[1])]


def _up_to_now(match: TimeMatch, now: Present) -> list[TimeRange]:
    unit, _, high = _amount(match)
    return [(now.ms - high * _LENGTHS[unit], now.ms)]


def _whole(match: TimeMatch, now: Present) -> list[TimeRange]:
    return [_calendar(_get_group(match, "unit"), now, int(_get_group(match, "which") == "last"))]


# --- the forms of expressions: a blank in a pattern matches one to three of any kind ---

_LEAD = (
    "(?P<lead>before|after|since|until|till|by|in|of|on|from|during|throughout|within|over|for|"
    r"between|and|to|through|next|[-\u2013]) (?:the )?"
)
_ANY_LEAD = f"(?:{_LEAD})?"
_LATE = "(?:(?:early|mid|late)(?: |-))?"
_YEAR_LEAD = (
    f"(?P<lead>in|of|since|before|after|during|throughout|until|till|by) (?:the )?(?:year )?{_LATE}"
)
# "logging in may fail", "Python 3 may be": without its capital, May must not look like the verb
_NO_VERB = (
    rf"(?=\s*(?:$|[.?!;:)\d]|['\u2019]\d|[,-]\s*\d|(?:and|to|of)\s(?:\d|{'|'.join(_MONTHS)})|"
    r"(?:last|this)\syear|(?:we|i|you|they|he|she|the|did|was|were|about)\b))"
)
_NAME = (
    r"(?P<month>jan(?:uary|\.)?|feb(?:ruary|\.)?|mar(?:ch|\.)?|apr(?:il|\.)?|"
    rf"(?-i:May|MAY)|may{_NO_VERB}|jun(?:e|\.)?|jul(?:y|\.)?|aug(?:ust|\.)?|"
    r"sep(?:tember|t\.?|\.)?|oct(?:ober|\.)?|nov(?:ember|\.)?|dec(?:ember|\.)?)"
)
_CLEAR_NAME = "(?P<month>january|february|july|september|october|november|december)"
_CLEAR_SEASON = "(?P<season>summer|autumn|winter)"  # "fall" is a verb, Spring a framework
_WEEKDAY = (  # Sun is a company and SAT a problem, but not before a date
    r"(?P<weekday>monday|mon\.?|tuesday|tues?\.?|wednesday|wed\.?|thursday|thu(?:rs?)?\.?|"
    r"friday|fri\.?|saturday|sunday)"
)
_BEFORE_DATE = rf"(?:(?:{_WEEKDAY}|sat\.?|sun\.?),? (?:the )?)?"
_Y = r"(?P<year>19[7-9]\d|20\d\d)"
_YEAR = r"(?P<year>19[7-9]\d|20\d\d|['\u2019]\d\d|(?:last|this) year)"
_LAST_Y = _Y.replace("year", "last")
_NO_YEAR = r"(?![.,]? \d{4}\b)"  # 3 June 1850 is not 3 June
_MAYBE_YEAR = rf"(?:,? (?:of )?{_YEAR}|{_NO_YEAR})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_ISO_DAY = rf"{_Y}(?P<sep>[-/])(?P<number>\d\d?)(?P=sep){_DAY}"
_NUMBERED = r"(?P<day>\d{1,2})(?:st|nd|rd|th)"
_NO_NOUN = r"(?=\s*(?:$|[.?!,;:)]|(?:we|i|you|did|was|were)\b))"  # not: on the 2nd try
_TO = r"(?: (?:to|until|till|through) (?:the )?|\s?[-\u2013]\s?)"
_LAST = r"(?P<last>\d{1,2})(?:st|nd|rd|th)?"
_PART = "(?:,? (?:in the |at )?(?P<part>morning|afternoon|evening|night))?"
_PART_OF = "(?:(?:the )?(?P<part_of>morning|afternoon|evening|night) (?:of|on) (?:the )?)?"
_COUNT = rf"(?P<count>\d{{1,4}}|(?:a )?few|(?:a )?couple(?: of)?|{'|'.join(_COUNTS)})\s{{0,3}}"
_UNITS = "(?P<unit>minute|min|hour|hr|h|day|d|week|month|quarter|year|yr)s?"
_NOT_OF = rf"(?! of\b| in {_NAME}| \d)"  # the last week of May, past week 3
_NO_AMOUNT = (  # in 2000 rows, after 2000 ms
    r"(?!\s?(?:%|px\b|hz\b|[kmg]i?b\b)| (?!(?:was|is|as|this|has|does)\b)[a-z]*[a-rt-z]s\b)"
)


class _Form(NamedTuple):
    """One way to write a time."""

    pattern: str  # compiled and cached by `re` at the first query: all take 30 ms
    read: Read
    alone: bool  # a time even without a preposition


def _form(body: str, read: Read, lead: str = _ANY_LEAD) -> _Form:
    written = f"{lead}(?P<body>{body})".replace(" ", r"\s{1,3}")
    # ASCII, else a long s or a dotless i would match; but any letter counts at the ends.
    pattern = rf"(?<![\w.,:/@#$&=+-])(?ai:{written})(?:['\u2019]s)?(?![\w/@=(-]|[.:,]\w)"
    return _Form(pattern, read, lead == _ANY_LEAD)


# fmt: off
_FORMS = (  # if two match the same words, the first wins
    _form(rf"{_PART_OF}{_ISO_DAY}(?:T\d\d:\d\d[\d:.]*Z?)?{_PART}", _on_day),
    _form(rf"{_DAY}\.(?P<number>\d\d?)\.{_Y}", _on_day),
    _form(rf"{_DAY}(?P<slash>/)(?P<number>\d\d?)/{_Y}", _on_day),
    _form(rf"{_DAY}-{_NAME}-{_Y}", _on_day),
    _form(rf"{_PART_OF}{_BEFORE_DATE}{_DAY}(?: of)? {_NAME}{_MAYBE_YEAR}{_PART}", _on_day),
    _form(rf"{_PART_OF}{_BEFORE_DATE}{_NAME} (?:the )?{_DAY}{_MAYBE_YEAR}{_PART}", _on_day),
    _form(rf"{_DAY}{_TO}{_LAST}(?: of)? {_NAME}{_MAYBE_YEAR}", _days_of_month, "(?:from |on )?"),
    _form(rf"{_NAME} {_DAY}{_TO}{_LAST}{_MAYBE_YEAR}", _days_of_month, "(?:from |on )?"),
    _form(rf"{_DAY} and {_LAST}(?: of)? {_NAME}{_MAYBE_YEAR}", _days_of_month, "between "),
    _form(rf"{_NAME} {_DAY} and {_LAST}{_MAYBE_YEAR}", _days_of_month, "between "),
    _form(rf"{_LATE}{_NAME},? (?:of )?{_YEAR}", _part_of_year),
    _form(rf"(?P<which>last|this(?! may)) {_NAME}{_NO_YEAR}", _part_of_year),
    _form(rf"{_LATE}{_CLEAR_NAME}{_NO_YEAR}", _part_of_year),
    _form(rf"{_LATE}{_NAME}{_NO_YEAR}", _part_of_year, _LEAD),
    _form(rf"{_Y}-(?P<number>0[1-9]|1[0-2])", _part_of_year, _LEAD),
    _form(rf"(?P<season>{'|'.join(_SEASONS)}),? (?:of )?{_YEAR}", _part_of_year),
    _form(rf"(?P<which>last|this) {_CLEAR_SEASON}", _part_of_year),
    _form(_CLEAR_SEASON, _part_of_year, _LEAD),
    _form(rf"q(?P<quarter>[1-4])(?:,? (?:of )?|/){_YEAR}", _part_of_year),
    _form(rf"{_Y}(?: |-)?q(?P<quarter>[1-4])", _part_of_year),
    _form(rf"{_Y}{_NO_AMOUNT}", _years, _YEAR_LEAD),
    _form(rf"{_Y} and {_LAST_Y}{_NO_AMOUNT}", _years, "between "),
    _form(rf"{_Y}{_TO}{_LAST_Y}{_NO_AMOUNT}", _years, "from "),
    _form(rf"(?P<word>today|yesterday|the day before yesterday){_PART}", _near_day),
    _form("(?P<word>tonight|last night|last evening)", _near_day),
    _form("this (?P<part>morning|afternoon|evening)", _near_day),
    _form("(?P<which>last|this(?: past)?) weekend", _weekend),
    _form("weekend", _weekend, "(?P<lead>at|on|over|during|since|before) (?:the )?"),
    _form(rf"{_WEEKDAY}{_PART} (?P<week>last|this) week", _near_day),
    _form(rf"(?P<which>last) {_WEEKDAY}{_PART}", _near_day),
    _form(rf"{_PART_OF}{_WEEKDAY}{_PART}", _near_day, _LEAD),
    _form(rf"{_NUMBERED}{_PART}{_NO_NOUN}", _day_of_month, "(?P<lead>on|since|before|after) the "),
    _form(rf"{_PART_OF}{_COUNT}{_UNITS} ago{_PART}", _ago),
    _form(rf"(?:(?:the|this|these) )?(?:last|past) {_COUNT}{_UNITS}{_NOT_OF}", _up_to_now),
    _form(rf"(?:the |this )?past (?P<unit>hour|week|month|year){_NOT_OF}", _up_to_now),
    _form(rf"the last (?P<unit>hour|week|month|quarter|year){_NOT_OF}", _up_to_now),
    _form(rf"(?P<which>last|this) (?P<unit>week|month|quarter|year){_NOT_OF}", _whole),
    _form("now", lambda _, now: [(now.ms, now.ms)], "(?P<lead>and|to) "),
)
# fmt: on


# --- expressions in a query ---

_DIRECTIONS = frozenset(("before", "after", "since", "until", "till", "by", "next"))
_REACHING = _DIRECTIONS - {"by", "next"}
_BACKWARD = frozenset(("all", "that", "then", "this"))  # after all, since then
_RANGE_LEADS = frozenset(("", "between", "from", "on", "in", "since"))
_RANGE_LINKS = frozenset(("to", "through", "until", "till", "-", "\u2013"))
_LINKS = _RANGE_LINKS - _DIRECTIONS | {"between", "and"}  # without meaning for a single time


class _TimePhrase(NamedTuple):
    """One time, or the two ends of a range."""

    start: int
    end: int
    direction: str
    times: tuple[tuple[Read, TimeMatch], ...]


def _hits(text: str) -> list[tuple[_Form, TimeMatch]]:
    """Return the matches of all forms; of overlapping ones the first, then the longest."""
    every = [(form, match) for form in _FORMS for match in re.finditer(form.pattern, text)]
    every.sort(key=lambda hit: (hit[1].start(), -hit[1].end()))
    hits: list[tuple[_Form, TimeMatch]] = []
    for form, match in every:
        if not hits or match.start() >= hits[-1][1].end():
            hits.append((form, match))
    return hits


def _phrases(query: str) -> list[_TimePhrase]:
    """Return the time phrases of a query.

    They do not depend on the present, so that `remove_windows` finds the same ones.
    """
    text = query[:MAX_LOOKED_AT]
    phrases: list[_TimePhrase] = []
    hits = iter(_hits(text))
    hit = next(hits, None)
    while hit is not None:
        (form, match), hit = hit, next(hits, None)
        start, end = match.span()
        if hit is not None and _is_range(match, hit[1]):
            times = ((form.read, match), (hit[0].read, hit[1]))
            phrases.append(_TimePhrase(start, hit[1].end(), "", times))
            hit = next(hits, None)
            continue
        lead = _get_group(match, "lead")
        if lead in _LINKS:
            start = match.start("body")
        if lead not in _DIRECTIONS:
            reach = text[phrases[-1].end if phrases else 0 : start]
            direction = _reaching(reach.split()[-MAX_REACH - 1 :])
        else:
            direction = lead
        if lead not in _LINKS or form.alone:
            phrases.append(_TimePhrase(start, end, direction, ((form.read, match),)))
    # The last phrase may be cut in two.
    return [phrase for phrase in phrases if not phrase.end == MAX_LOOKED_AT < len(query)]


def _is_range(first: TimeMatch, last: TimeMatch) -> bool:
    if first.string[first.end() : last.start()].strip():
        return False
    if _get_group(last, "lead") == "and":
        return _get_group(first, "lead") == "between"
    return _get_group(last, "lead") in _RANGE_LINKS and _get_group(first, "lead") in _RANGE_LEADS


def _reaching(words: Sequence[str]) -> str:
    """Return the preposition that applies across these words to the time after them, if any."""
    behind = ""
    for word in reversed(words):
        if not word[-1].isalnum():
            return ""  # a comma, the end of a sentence
        if word.lower() in _REACHING:
            return "" if behind in _BACKWARD else word.lower()
        behind = word.lower()
    return ""


def _meaning(phrase: _TimePhrase, now: Present) -> list[TimeRange]:
    (read, match), (read_last, match_last) = phrase.times[0], phrase.times[-1]
    spans = sorted(read_last(match_last, now))
    if len(phrase.times) == 1 or not spans:
        return _apply_direction(phrase.direction, spans, now.ms)
    # "from Monday to Friday", "between May and July 1990": the first time precedes the last.
    return _between(read(match, now), spans) or _between(
        read(match, now._replace(ms=spans[-1][1])), spans
    )


def _between(firsts: list[TimeRange], lasts: list[TimeRange]) -> list[TimeRange]:
    """Return the ranges from each first to the next last."""
    ends: dict[int, int] = {}
    for last, end in lasts:
        if starts := [start for start, _ in firsts if start <= last]:
            ends.setdefault(max(starts), end)
    return list(ends.items())


def _apply_direction(direction: str, spans: list[TimeRange], now: int) -> list[TimeRange]:
    """Return the time before, after, since or until the latest of the spans."""
    begun, over = ([span for span in spans if span[end] <= now][-1:] for end in (0, 1))
    match direction:
        case "":
            return spans
        case "before":
            return [(0, start - 1) for start, _ in begun]
        case "after":
            return [(end + 1, now) for _, end in over]
        case "since":
            return [(start, now) for start, _ in begun]
        case "next":
            return []
        case _:
            return [(0, end) for _, end in begun]
