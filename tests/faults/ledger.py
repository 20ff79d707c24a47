"""What was asked of a daemon and what it acknowledged: the expected state after a fault.

Every record is a register: its versions in the order in which they were sent, each with the moment
at which it was sent and, if an answer came, acknowledged. A moment is a position in the log of a
disk, or any other number that only grows. After a fault at a moment a record must have its last
version that was acknowledged by then, or a later one that was on its way; nothing else.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum

BEFORE = 0
NEVER = 1 << 60


class Kind(Enum):
    EVENT = "event"
    HOOK = "hook"
    MEMORY = "memory"
    FACT = "fact"
    CHECKPOINT = "checkpoint"
    BACKUP = "backup"


Key = tuple[Kind, str]
Value = str | None  # None where there is no such record


@dataclass(slots=True)
class Version:
    value: Value
    sent: int
    acknowledged: int = NEVER


class Unacknowledged(Exception):
    """A request that failed, or that nobody answered: it may have been carried out, or not."""


@dataclass(slots=True)
class Ledger:
    moment: Callable[[], int]
    _versions: dict[Key, list[Version]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def sending(self, values: Mapping[Key, Value]) -> Iterator[None]:
        """Around a request: acknowledged unless it raises Unacknowledged."""
        sent = self.moment()
        versions = [Version(value, sent) for value in values.values()]
        with self._lock:
            for key, version in zip(values, versions, strict=True):
                self._versions.setdefault(key, []).append(version)
        try:
            yield
        except Unacknowledged:
            return
        acknowledged = self.moment()
        for version in versions:
            version.acknowledged = acknowledged

    def acknowledged(self, moment: int = NEVER - 1) -> int:
        """How many writes were acknowledged by then."""
        return sum(
            version.acknowledged <= moment and version.sent > BEFORE
            for versions in self._versions.values()
            for version in versions
        )

    def copied(self) -> "Ledger":
        """The same until now, to go on from more than once."""
        return self.of(self.versions())

    def versions(self) -> dict[Key, list[Version]]:
        return {key: [replace(each) for each in stored] for key, stored in self._versions.items()}

    @classmethod
    def of(cls, versions: dict[Key, list[Version]]) -> "Ledger":
        return cls(moment=lambda: BEFORE + 1, _versions=versions)

    def unacknowledged(self) -> list[str]:
        return [
            f"{kind.value} {name}"
            for (kind, name), versions in self._versions.items()
            if any(version.acknowledged == NEVER for version in versions)
        ]

    def keys(self, kind: Kind) -> list[str]:
        return [name for each, name in self._versions if each is kind]

    def present(self, kind: Kind) -> dict[str, str]:
        """The acknowledged records of a kind, by the last word on each."""
        found = {}
        for (each, name), versions in self._versions.items():
            last = versions[-1]
            if each is kind and last.value is not None and last.acknowledged < NEVER:
                found[name] = last.value
        return found

    def faults(self, kind: Kind, found: Mapping[str, str], moment: int) -> list[str]:
        """What is wrong with the records that were found after a fault."""
        wrong = [
            f"{kind.value} {name} was never sent" for name in found if (kind, name) not in self
        ]
        for (each, name), versions in self._versions.items():
            if each is kind and found.get(name) not in (
                allowed := _allowed(kind, versions, moment)
            ):
                wrong.append(
                    f"{kind.value} {name} is {_short(found.get(name))},"
                    f" not {' or '.join(map(_short, allowed))}"
                )
        return wrong

    def settle(self, kind: Kind, found: Mapping[str, str]) -> None:
        """Go on from what was found: from now on that is what must be there."""
        for (each, name), versions in self._versions.items():
            if each is kind:
                value = found.get(name)
                others = [v.value for v in versions if v.value != value]
                versions[:] = [Version(value, BEFORE, BEFORE)]
                if kind is Kind.MEMORY:  # a remote may bring back what a power cut took
                    versions += [Version(other, BEFORE) for other in others]

    def __contains__(self, key: object) -> bool:
        return key in self._versions


def _allowed(kind: Kind, versions: list[Version], moment: int) -> list[Value]:
    last = max((n for n, each in enumerate(versions) if each.acknowledged <= moment), default=None)
    allowed: list[Value] = [None] if last is None else []
    return allowed + [
        version.value
        for version in versions[last or 0 :]
        if version.sent <= moment or kind is Kind.MEMORY  # a remote may have heard of it since
    ]


def _short(value: Value) -> str:
    return "absent" if value is None else repr(value[:60])
