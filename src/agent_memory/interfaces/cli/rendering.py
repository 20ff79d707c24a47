"""Format values for people."""

import re
from datetime import UTC, datetime

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


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
    """Format a time in UTC: 2026-01-30 10:00:00. Years beyond 9999 are shown in milliseconds."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
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
