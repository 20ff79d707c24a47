"""Format values for people."""

import re
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

TO_REVIEW = "(to review)"  # the mark of a memory that awaits review

# The user's zone, for the command that runs in this thread. Passing it as an argument would put it
# into every function that renders something with a date in it.
zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


def size(number: float) -> str:
    """Format a size in bytes: 45.2 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TB"


def duration(seconds: float) -> str:
    """Format a duration: 2h 15m 30s."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m")]
    return " ".join([f"{number}{unit}" for number, unit in parts if number] + [f"{rest}s"])


def moment(at_ms: int) -> str:
    """Format a time in the user's zone: 2026-01-30 10:00:00."""
    return _format_time(at_ms, "%Y-%m-%d %H:%M:%S")


def format_zoned(at_ms: int) -> str:
    """Format a time with the name of the user's zone: 2026-01-30 10:00:00 UTC."""
    return _format_time(at_ms, "%Y-%m-%d %H:%M:%S %Z")


def clock_time(at_ms: int) -> str:
    """Format a time of day in the user's zone: 10:00."""
    return _format_time(at_ms, "%H:%M")


def format_zone(at_ms: int) -> str:
    """Return the name of the user's zone at a time: CET, or CEST in summer."""
    return _format_time(at_ms, "%Z")


def age(at_ms: int, now_ms: int) -> str:
    """Format roughly how long ago a time was: 5 min, 3 h, 2 d, 9 mo."""
    minutes = max(0, now_ms - at_ms) // 60_000
    for unit, size in (("y", 525_960), ("mo", 43_830), ("d", 1_440), ("h", 60), ("min", 1)):
        if minutes >= size:
            return f"{minutes // size} {unit}"
    return "now"


def _format_time(at_ms: int, form: str) -> str:
    """Format a time; years beyond 9999 are shown in milliseconds."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, zone.get()).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def count(number: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: 1 file, 1,200 files."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def plain(text: str) -> str:
    """Replace control characters: recorded text may come from anyone, and a terminal obeys them."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def excerpt(text: str, limit: int) -> str:
    """Return the beginning of a text, on one line."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."
