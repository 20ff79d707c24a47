"""Where to cut the power: at the moments at which a missing sync does the most harm.

A moment taken blindly is rarely between an answer and the next sync. So most cuts are right behind
an acknowledgement, and first of all behind those that look hasty: the store's log, or a file that
was put in place, is not synced there, or a sync was refused just before.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from tests.faults.disk import (
    Change,
    Create,
    Recording,
    Refused,
    Rename,
    Resize,
    Sync,
    Temper,
    Write,
    temper_of,
)
from tests.faults.ledger import BEFORE, NEVER, Key, Version

_STORE_LOG = re.compile(r"\d{6}\.log")
_HARSH = (Temper.SYNCED, Temper.NAMES, Temper.JOURNAL)

Aim = tuple[int, int]  # a position in the log, and the seed of the power cut


def aim(
    recording: Recording, versions: Mapping[Key, Sequence[Version]], dice: random.Random
) -> Iterator[Aim]:
    """Yield positions and seeds without end, of each class in turn."""
    log = recording.log
    windows = _windows(versions, len(log))
    dirty = _Dirty(log)
    refused = [n for n, change in enumerate(log) if isinstance(change, Refused)]
    by_kind: dict[str, list[int]] = {}
    for kind, _, end in windows:
        by_kind.setdefault(kind, []).append(end)
    hasty = [end for _, start, end in windows if dirty.has_log(start, end)]
    unlucky = [end for _, start, end in windows if any(start <= n < end for n in refused)]
    placed = [end for _, start, end in windows if any(start <= n < end for n in dirty.placed)] or [
        n + 1 for n in dirty.placed
    ]
    kinds = sorted(by_kind)
    for number in cycle(range(6)):
        seed = dice.randrange(1 << 30)
        if number == 0 and hasty:
            yield dice.choice(hasty), _seed_of(dice, _HARSH)
        elif number == 1 and unlucky:
            yield dice.choice(unlucky), _seed_of(dice, _HARSH)
        elif number == 2 and placed:
            yield dice.choice(placed), _seed_of(dice, (Temper.NAMES, Temper.JOURNAL))
        elif number < 5 and kinds:
            yield dice.choice(by_kind[dice.choice(kinds)]), seed
        else:
            yield dice.randint(1, len(log)), seed


class _Dirty:
    """Which files have something that is not synced, at every position of a log."""

    def __init__(self, log: Sequence[Change]) -> None:
        self.placed: list[int] = []  # renames of files that were not synced
        self._logs: list[tuple[int, int]] = []  # from where to where a log of the store was not
        names: dict[tuple[int, str], int] = {}
        unsynced: dict[int, int] = {}  # since which position
        logs: set[int] = set()
        for position, change in enumerate(log):
            match change:
                case Create(folder, name, inode):
                    names[folder, name] = inode
                    if _STORE_LOG.fullmatch(name):
                        logs.add(inode)
                case Rename(folder, name, new_folder, new_name):
                    inode = names.pop((folder, name), 0)
                    names[new_folder, new_name] = inode
                    if inode in unsynced:
                        self.placed.append(position)
                case Write(inode) | Resize(inode):
                    unsynced.setdefault(inode, position)
                case Sync(inode):
                    since = unsynced.pop(inode, None)
                    if since is not None and inode in logs:
                        self._logs.append((since, position))
                case _:
                    pass
        self._logs += [(since, len(log)) for inode, since in unsynced.items() if inode in logs]

    def has_log(self, start: int, end: int) -> bool:
        """Return whether a log was written between these positions, and not synced by the end."""
        return any(start <= since < end <= until for since, until in self._logs)


def _windows(versions: Mapping[Key, Sequence[Version]], length: int) -> list[tuple[str, int, int]]:
    """Return the kind of every acknowledged request, and how long the log was at its start and at
    its answer: a moment is one more than that."""
    found = {
        (key[0].value, version.sent - 1, min(version.acknowledged - 1, length))
        for key, stored in versions.items()
        for version in stored
        if version.sent > BEFORE and version.acknowledged < NEVER
    }
    return sorted(found)


def _seed_of(dice: random.Random, tempers: Sequence[Temper]) -> int:
    while temper_of(seed := dice.randrange(1 << 30)) not in tempers:
        pass
    return seed
