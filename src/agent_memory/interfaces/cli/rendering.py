"""Values as a person reads them."""

import re
from datetime import UTC, datetime

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def size(count: float) -> str:
    """45.2 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """2h 15m 30s."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m")]
    return " ".join([f"{count}{unit}" for count, unit in parts if count] + [f"{rest}s"])


def moment(at_ms: int) -> str:
    """2026-01-30 10:00:00, in UTC. Years beyond 9999 are shown as milliseconds."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def plain(text: str) -> str:
    """Without what a terminal would obey: recorded text is anyone's."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def excerpt(text: str, limit: int) -> str:
    """The beginning, on one line."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."
