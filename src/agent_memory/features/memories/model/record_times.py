"""Times in records: ISO 8601 in UTC, to the millisecond."""

from datetime import UTC, datetime, timedelta

from agent_memory.kernel.ids import Millis

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def format_time(at: Millis) -> str:
    # Not through float seconds, which can be a millisecond off.
    then = (_EPOCH + at * _MILLISECOND).replace(tzinfo=None)
    return then.isoformat(timespec="milliseconds") + "Z"


def parse_time(text: str) -> Millis:
    """Parse a time in ISO 8601; without a zone it is UTC. Raises ValueError."""
    then = datetime.fromisoformat(text)
    return Millis(((then if then.tzinfo else then.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND)
