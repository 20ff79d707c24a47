"""Recent failures: counted by name, the newest first, and never too many."""

import logging
from itertools import count

from agent_memory.daemon import logs
from agent_memory.features.monitoring.services.failures import MAX_NAMES, RecentFailures
from agent_memory.kernel.ids import Millis


class Ticking:
    """A clock that goes on by one with each look."""

    def __init__(self) -> None:
        self._times = count(1)

    def now(self) -> Millis:
        return Millis(next(self._times))


def test_failures_are_counted_by_name_the_newest_first() -> None:
    failures = RecentFailures(Ticking())
    for name in ("hook.refused", "notes.not_written", "hook.refused"):
        failures.add(name, "warning")
    newest, other = failures.list_newest()
    assert (newest.name, newest.count) == ("hook.refused", 2)
    assert (newest.first_ms, newest.last_ms) == (1, 3)
    assert other.name == "notes.not_written"


def test_the_one_that_was_seen_longest_ago_goes_first() -> None:
    failures = RecentFailures(Ticking())
    for number in range(MAX_NAMES + 1):
        failures.add(f"failure.{number}", "error")
    names = [each.name for each in failures.list_newest()]
    assert len(names) == MAX_NAMES
    assert "failure.0" not in names


def test_of_a_library_only_the_name_is_kept() -> None:
    failures = RecentFailures(Ticking())
    root, before = logging.getLogger(), list(logging.getLogger().handlers)
    logs.watch_failures(failures.add)
    try:
        logging.getLogger("some.library").error("could not read %s", "plain words")
        logging.getLogger("agent").warning({"event": "hook.refused", "error": "plain words"})
        logging.getLogger("agent").info({"event": "hook.synced"})
    finally:
        for handler in set(root.handlers) - set(before):
            root.removeHandler(handler)
    assert [(each.name, each.level) for each in failures.list_newest()] == [
        ("hook.refused", "warning"),
        ("some.library", "error"),
    ]
