"""Format values for people."""

from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo

from agent_memory.interfaces.cli import layout
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.text.untrusted import REPLACEMENT, replace_hidden
from agent_memory.platform.clock import SystemClock

TO_REVIEW = "(to review)"  # the mark of a memory that awaits review

# The user's zone, for the command that runs in this thread. Passing it as an argument would put it
# into every function that renders something with a date in it.
zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)
# How the text is shown that this command renders: the columns of the terminal, 0 in a pipe.
screen: ContextVar[int] = ContextVar("screen", default=0)
is_colored: ContextVar[bool] = ContextVar("is_colored", default=False)

# Colours by their numbers.
GOOD, BAD, CAREFUL, REMOVED, ID, TIME, HEAD = "32", "1;31", "33", "31", "33", "36", "1"
_AGES = (
    (525_960, "year"),
    (43_830, "month"),
    (10_080, "week"),
    (1_440, "day"),
    (60, "hour"),
    (1, "minute"),
)


def paint(text: str, code: str) -> str:
    """Give a text a colour, where the user wants colours."""
    return layout.paint(text, code) if text and is_colored.get() else text


def is_on_screen() -> bool:
    """Tell whether the text is for a terminal: programs that read a pipe get full ids and times."""
    return screen.get() > 0


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


def ago(at_ms: int, now_ms: int | None = None) -> str:
    """Format roughly how long ago a time was: 3 days ago."""
    now = SystemClock().now() if now_ms is None else now_ms
    minutes = max(0, now - at_ms) // 60_000
    if at_ms > now + 60_000:
        return "in the future"
    for size, unit in _AGES:
        if minutes >= size * (1 if unit != "week" else 2):
            return f"{count(minutes // size, unit)} ago"
    return "just now"


def format_day(at_ms: int, now_ms: int | None = None) -> str:
    """Format a time for a line of a list: how long ago on a terminal, a day in a pipe."""
    return ago(at_ms, now_ms) if is_on_screen() else moment(at_ms)[:10]


def format_with_age(at_ms: int) -> str:
    """Format a time with its zone and, on a terminal, how long ago it was."""
    note = f" ({ago(at_ms)})" if is_on_screen() else ""
    return f"{format_zoned(at_ms)}{note}"


def format_span(start_ms: int, end_ms: int) -> str:
    """Format a time range, with the zone of its end."""
    start, end = moment(start_ms), format_zoned(end_ms)
    if format_zone(start_ms) != format_zone(end_ms):
        start = format_zoned(start_ms)
    return end if end.startswith(start) else f"{start} to {end}"


def _format_time(at_ms: int, form: str) -> str:
    """Format a time; years beyond 9999 are shown in milliseconds."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, zone.get()).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def count(number: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: 1 file, 1,200 files."""
    return format_count(number, noun, plural)


def plain(text: str) -> str:
    """Replace hidden characters: recorded text may come from anyone, and a terminal obeys them."""
    return replace_hidden(text.replace("\r", REPLACEMENT))


def excerpt(text: str, limit: int) -> str:
    """Return the beginning of a text, on one line."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def join_words(text: str) -> str:
    """Keep a text on one line of the terminal, where it fits."""
    return text.replace(" ", layout.NO_BREAK) if is_on_screen() else text


def arrange(text: str) -> str:
    """Fit a rendered text into the terminal and colour its ids and times; in a pipe, leave it."""
    fitted = layout.fit(text, screen.get()) if is_on_screen() else text
    return layout.colour(fitted) if is_colored.get() else fitted
