"""Name changes: which tags and relations of a memory were removed, and when.

Copies of a memory unite their names. A name that was removed once has the time of its last change,
and the copy with the latest change says whether the name is there. Per name this is the maximum of
a total order, so merging does not depend on the order or number of merges.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from agent_memory.features.memories.model import record_times
from agent_memory.kernel.ids import Millis


class NameChange(NamedTuple):
    """The last time that a name was removed, or added again."""

    name: str
    at_ms: Millis


@dataclass(frozen=True, slots=True)
class NameSet:
    """Names, and the changes of those that were removed once, ordered by name."""

    names: frozenset[str]
    changes: tuple[NameChange, ...] = ()

    def merge(self, other: "NameSet", *, limit: int) -> "NameSet":
        """Merge the names of two copies. Over the limit, the first in the alphabet stay, removed
        ones included: no other choice would be the same in every order of merges."""
        ours, theirs = self.list_states(), other.list_states()
        states = {
            name: max(ours.get(name, (0, False)), theirs.get(name, (0, False)))
            for name in sorted(ours.keys() | theirs.keys())[:limit]
        }
        return NameSet(
            frozenset(name for name, (_, present) in states.items() if present),
            tuple(NameChange(name, Millis(at)) for name, (at, _) in states.items() if at),
        )

    def change(self, names: Iterable[str], at: Millis, *, limit: int) -> "NameSet":
        """Return these names instead, with the time for those that go, and for those that come
        back. Over the limit, the oldest removals are dropped: other clones may bring them back."""
        wanted, times = frozenset(names), dict(self.changes)
        for name in (self.names - wanted) | ((wanted - self.names) & times.keys()):
            times[name] = Millis(max(at, times.get(name, 0) + 1))
        room = max(0, limit - len(wanted))
        removed = sorted(times.keys() - wanted, key=lambda name: (times[name], name), reverse=True)
        kept = wanted.union(removed[:room])
        return NameSet(
            wanted, tuple(NameChange(name, times[name]) for name in sorted(times) if name in kept)
        )

    def list_states(self) -> dict[str, tuple[int, bool]]:
        """Return the time of each name's last change (0: none), and whether it is there."""
        states: dict[str, tuple[int, bool]] = dict.fromkeys(self.names, (0, True))
        return states | {name: (int(at), name in self.names) for name, at in self.changes}


def format_changes(changes: Iterable[NameChange]) -> list[str]:
    return [f"{record_times.format_time(change.at_ms)} {change.name}" for change in changes]


def parse_changes(lines: Iterable[str]) -> tuple[NameChange, ...]:
    """Parse changes, each a time, a blank and a name. Raises ValueError."""
    changes: dict[str, Millis] = {}
    for line in lines:
        time, _, name = line.partition(" ")
        changes[name] = max(record_times.parse_time(time), changes.get(name, Millis(0)))
    return tuple(NameChange(name, changes[name]) for name in sorted(changes))
