"""Periods of the table of contents: year > month > week > day, in UTC, each with one parent.

A week is an ISO week; its parent is the month of its Thursday. Titles and bounds depend only on
the period, never on its content.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from typing import NewType

from agent_memory.kernel.ids import Millis

NodeId = NewType("NodeId", str)

_EPOCH = date(1970, 1, 1)
_DAY_MS = 86_400_000
# Written out, because the names of a locale may differ from the words of conversations.
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Level(IntEnum):
    """The numbers are stored and sent on the wire: never change them."""

    YEAR = 1
    MONTH = 2
    WEEK = 3
    DAY = 4
    SEGMENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A year, month, week or day, named by its first day."""

    level: Level
    first: date

    @property
    def node_id(self) -> NodeId:
        match self.level:
            case Level.YEAR:
                return NodeId(f"toc:year:{self.first.year:04}")
            case Level.MONTH:
                return NodeId(f"toc:month:{self.first.year:04}:{self.first.month:02}")
            case Level.WEEK:
                year, week, _ = self.first.isocalendar()
                return NodeId(f"toc:week:{year:04}:W{week:02}")
            case _:
                return NodeId(f"toc:day:{self.first.isoformat()}")

    @property
    def title(self) -> str:
        day = self.first
        match self.level:
            case Level.YEAR:
                return f"{day.year}"
            case Level.MONTH:
                return f"{MONTHS[day.month - 1]} {day.year}"
            case Level.WEEK:
                year, week, _ = day.isocalendar()
                return f"Week {week} of {year}"
            case _:
                weekday = WEEKDAYS[day.weekday()]
                return f"{weekday}, {MONTHS[day.month - 1]} {day.day}, {day.year}"

    @property
    def start_ms(self) -> Millis:
        return _midnight(self.first)

    @property
    def end_ms(self) -> Millis:
        """The last millisecond of the period."""
        match self.level:
            case Level.YEAR:
                after = date(self.first.year + 1, 1, 1)
            case Level.MONTH:
                after = (self.first + timedelta(days=31)).replace(day=1)
            case Level.WEEK:
                return Millis(self.start_ms + 7 * _DAY_MS - 1)
            case _:
                return Millis(self.start_ms + _DAY_MS - 1)
        return Millis(_midnight(after) - 1)

    @property
    def parent(self) -> "Period | None":
        match self.level:
            case Level.YEAR:
                return None
            case Level.MONTH:
                return Period(level=Level.YEAR, first=self.first.replace(month=1))
            case Level.WEEK:
                thursday = self.first + timedelta(days=3)
                return Period(level=Level.MONTH, first=thursday.replace(day=1))
            case _:
                monday = self.first - timedelta(days=self.first.weekday())
                return Period(level=Level.WEEK, first=monday)

    @property
    def children(self) -> "list[Period]":
        """All possible child periods, by time; a day has segments instead."""
        first = self.first
        match self.level:
            case Level.YEAR:
                months = (first.replace(month=number) for number in range(1, 13))
                return [Period(level=Level.MONTH, first=month) for month in months]
            case Level.MONTH:
                monday = first - timedelta(days=first.weekday())
                mondays = (monday + timedelta(weeks=number) for number in range(6))
                weeks = (Period(level=Level.WEEK, first=day) for day in mondays)
                return [week for week in weeks if week.parent == self]
            case Level.WEEK:
                days = (first + timedelta(days=number) for number in range(7))
                return [Period(level=Level.DAY, first=day) for day in days]
            case _:
                return []


def find_day(at_ms: Millis) -> Period:
    return Period(level=Level.DAY, first=_EPOCH + timedelta(days=at_ms // _DAY_MS))


def list_lineage(period: Period) -> list[Period]:
    """Return the period and all its ancestors, lowest first."""
    lineage = [period]
    while (parent := lineage[-1].parent) is not None:
        lineage.append(parent)
    return lineage


def segment_title(at_ms: Millis) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{MONTHS[at.month - 1]} {at.day}, {at.year} at {at:%H:%M}"


def segment_node_id(at_ms: Millis, ulid: str) -> NodeId:
    return NodeId(f"toc:segment:{find_day(at_ms).first.isoformat()}:{ulid}")


_YEAR = re.compile(r"toc:year:(\d{4})")
_MONTH = re.compile(r"toc:month:(\d{4})[:-](\d{2})")
_WEEK = re.compile(r"toc:week:(\d{4})[:-]W(\d{2})")
_DAY = re.compile(r"toc:day:(\d{4}-\d{2}-\d{2})")
_SEGMENT = re.compile(r"toc:segment:(\d{4}-\d{2}-\d{2}):[0-9A-HJKMNP-TV-Z]{26}")


def parse(node_id: str) -> Period | None:
    """Return the period of a node id in either spelling; a segment's period is its day.

    Return None if this is not a node id.
    """
    try:
        if match := _YEAR.fullmatch(node_id):
            return Period(level=Level.YEAR, first=date(int(match[1]), 1, 1))
        if match := _MONTH.fullmatch(node_id):
            return Period(level=Level.MONTH, first=date(int(match[1]), int(match[2]), 1))
        if match := _WEEK.fullmatch(node_id):
            first = date.fromisocalendar(int(match[1]), int(match[2]), 1)
            return Period(level=Level.WEEK, first=first)
        if match := _DAY.fullmatch(node_id) or _SEGMENT.fullmatch(node_id):
            return Period(level=Level.DAY, first=date.fromisoformat(match[1]))
    except ValueError:
        pass  # a month 13, a week 54
    return None


_LEVELS = {level.name.lower(): level for level in Level}


def parse_level(node_id: NodeId) -> Level:
    """Return the level of a node id."""
    return _LEVELS[node_id.split(":", 2)[1]]


def canonicalize(node_id: str) -> NodeId | None:
    """Return the spelling under which a node is stored, or None if this is not a node id."""
    period = parse(node_id)
    if period is None:
        return None
    return NodeId(node_id) if _SEGMENT.fullmatch(node_id) else period.node_id


def _midnight(day: date) -> Millis:
    return Millis((day - _EPOCH).days * _DAY_MS)
