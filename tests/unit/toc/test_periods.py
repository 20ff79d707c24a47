"""Ids, titles, bounds and parents of periods."""

from datetime import UTC, date, datetime

import pytest

from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.periods import Level, Period
from agent_memory.kernel.ids import MAX_MILLIS, Millis

ULID = "01KG7N3T00ABCDEFGHJKMNPQRS"
SEGMENT = f"toc:segment:2026-01-30:{ULID}"


def at(text: str) -> Millis:
    return Millis(round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000))


def parsed(node_id: str) -> Period:
    found = periods.parse(node_id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("node_id", "title", "first", "last"),
    [
        ("toc:year:2026", "2026", "2026-01-01T00:00:00.000", "2026-12-31T23:59:59.999"),
        ("toc:year:2024", "2024", "2024-01-01T00:00:00.000", "2024-12-31T23:59:59.999"),
        ("toc:month:2026:01", "January 2026", "2026-01-01T00:00:00", "2026-01-31T23:59:59.999"),
        ("toc:month:2026:12", "December 2026", "2026-12-01T00:00:00", "2026-12-31T23:59:59.999"),
        ("toc:month:2024:02", "February 2024", "2024-02-01T00:00:00", "2024-02-29T23:59:59.999"),
        ("toc:week:2026:W05", "Week 5 of 2026", "2026-01-26T00:00:00", "2026-02-01T23:59:59.999"),
        ("toc:week:2026:W01", "Week 1 of 2026", "2025-12-29T00:00:00", "2026-01-04T23:59:59.999"),
        ("toc:week:2020:W53", "Week 53 of 2020", "2020-12-28T00:00:00", "2021-01-03T23:59:59.999"),
        (
            "toc:day:2026-01-30",
            "Friday, January 30, 2026",
            "2026-01-30T00:00:00",
            "2026-01-30T23:59:59.999",
        ),
        (
            "toc:day:2026-03-01",
            "Sunday, March 1, 2026",
            "2026-03-01T00:00:00",
            "2026-03-01T23:59:59.999",
        ),
    ],
)
def test_id_title_and_bounds(node_id: str, title: str, first: str, last: str) -> None:
    period = parsed(node_id)
    assert period.node_id == node_id
    assert period.title == title
    assert period.start_ms == at(first)
    assert period.end_ms == at(last)


@pytest.mark.parametrize(
    ("day", "chain"),
    [
        ("2025-12-29", ["toc:week:2026:W01", "toc:month:2026:01", "toc:year:2026"]),
        ("2026-01-30", ["toc:week:2026:W05", "toc:month:2026:01", "toc:year:2026"]),
        ("2026-02-01", ["toc:week:2026:W05", "toc:month:2026:01", "toc:year:2026"]),
        ("2021-01-03", ["toc:week:2020:W53", "toc:month:2020:12", "toc:year:2020"]),
        ("2024-12-31", ["toc:week:2025:W01", "toc:month:2025:01", "toc:year:2025"]),
        ("1970-01-01", ["toc:week:1970:W01", "toc:month:1970:01", "toc:year:1970"]),
    ],
)
def test_a_day_hangs_under_the_month_and_year_of_its_weeks_thursday(
    day: str, chain: list[str]
) -> None:
    found = periods.list_lineage(parsed(f"toc:day:{day}"))
    assert [each.node_id for each in found] == [f"toc:day:{day}", *chain]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("toc:month:2026-01", "toc:month:2026:01"),
        ("toc:week:2026-W05", "toc:week:2026:W05"),
        ("toc:month:2026:01", "toc:month:2026:01"),
        ("toc:week:2026:W05", "toc:week:2026:W05"),
        ("toc:year:2026", "toc:year:2026"),
        ("toc:day:2026-01-30", "toc:day:2026-01-30"),
        (SEGMENT, SEGMENT),
    ],
)
def test_both_spellings_are_read_and_one_is_stored(theirs: str, ours: str) -> None:
    assert periods.canonicalize(theirs) == ours
    assert periods.parse(theirs) == periods.parse(ours)


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "toc",
        "toc:",
        "2026",
        "toc:year:",
        "toc:year:26",
        "toc:year:0000",
        "toc:year:20260",
        " toc:year:2026",
        "toc:year:2026\n",
        "toc:year:2026:v000001",
        "toc:month:2026",
        "toc:month:2026:1",
        "toc:month:2026:00",
        "toc:month:2026:13",
        "toc:week:2026:05",
        "toc:week:2026:W00",
        "toc:week:2026:W54",
        "toc:week:2025:W53",
        "toc:day:2026-02-29",
        "toc:day:2026:01:30",
        "toc:day:20260130",
        "toc:segment:2026-01-30",
        "toc:segment:2026-01-30:short",
        f"toc:segment:2026-13-30:{ULID}",
        f"toc:segment:2026-01-30:{ULID.lower()}",
        f"toc:segment:2026-01-30:{'I' * 26}",
        f"{SEGMENT}:v000001",
        "TOC:YEAR:2026",
    ],
    ids=ascii,
)
def test_an_invalid_node_id_gives_none(garbage: str) -> None:
    assert periods.parse(garbage) is None
    assert periods.canonicalize(garbage) is None


def test_the_period_of_a_segment_is_its_day() -> None:
    assert parsed(SEGMENT) == Period(level=Level.DAY, first=date(2026, 1, 30))


@pytest.mark.parametrize(
    ("moment", "title"),
    [
        ("2026-01-30T14:30:59.999", "January 30, 2026 at 14:30"),
        ("2026-03-01T00:05:00", "March 1, 2026 at 00:05"),
    ],
)
def test_a_segment_without_a_topic_is_named_by_its_time(moment: str, title: str) -> None:
    assert periods.segment_title(at(moment)) == title


def test_a_segments_id_names_the_day_of_its_first_event() -> None:
    assert periods.segment_node_id(at("2026-01-30T23:59:59.999"), ULID) == SEGMENT


def test_the_first_and_the_last_moment_have_a_day() -> None:
    assert periods.find_day(Millis(0)).node_id == "toc:day:1970-01-01"
    assert periods.find_day(Millis(MAX_MILLIS)).node_id == "toc:day:2286-11-20"


def test_a_month_has_four_or_five_weeks_and_a_day_no_period_below() -> None:
    assert [week.node_id for week in parsed("toc:month:2026:01").children] == [
        f"toc:week:2026:W{number:02}" for number in range(1, 6)
    ]
    assert len(parsed("toc:month:2026:02").children) == 4
    assert parsed("toc:day:2026-01-30").children == []
