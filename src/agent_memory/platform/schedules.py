"""Schedules: cron with seconds, in UTC."""

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis


def check_schedule(expression: str) -> None:
    """Raise InvalidInput unless the expression is cron with seconds and has a next time."""
    try:
        next(CronSim(expression, datetime.now(UTC)))
    except (CronSimError, StopIteration) as exc:
        raise InvalidInput(f"{expression!r} is no schedule: use cron as `0 0 3 * * *`") from exc


def count_due(expression: str, start: Millis, end: Millis, *, most: int = 10) -> int:
    """Count the times of a schedule after `start` and up to `end`, at most `most`."""
    count = 0
    for moment in CronSim(expression, datetime.fromtimestamp(start / 1000, UTC)):
        if moment.timestamp() * 1000 > end or count == most:
            break
        count += 1
    return count
