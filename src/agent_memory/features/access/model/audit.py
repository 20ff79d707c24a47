"""The audit log of a team: who did what when, and with which result, never what it said."""

from dataclasses import dataclass

from agent_memory.kernel.ids import MAX_MILLIS, Millis

_EARLIEST = Millis(0)
_LATEST = Millis(MAX_MILLIS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A request, or several alike. `status` is that of HTTP for every interface."""

    at_ms: Millis
    person: str
    key: str  # the name of the key, or the issuer of the token
    interface: str
    method: str
    target: str
    status: int
    count: int = 1
    number: int = 0  # its place in the log; 0 until it is stored

    @property
    def alike(self) -> tuple[object, ...]:
        """What must be the same for two entries to become one."""
        return self.person, self.key, self.interface, self.method, self.target, self.status


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries to show; an empty field matches everything."""

    person: str = ""
    key: str = ""
    method: str = ""
    target: str = ""  # a part of it
    refused: bool = False  # only what was refused or failed
    since: Millis = _EARLIEST
    until: Millis = _LATEST

    def __call__(self, entry: AuditEntry) -> bool:
        return (
            (not self.person or entry.person == self.person)
            and (not self.key or entry.key == self.key)
            and (not self.method or entry.method == self.method)
            and self.target in entry.target
            and (not self.refused or entry.status >= 400)
            and self.since <= entry.at_ms <= self.until
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Entries, newest first. `next` is the number before which the next page begins."""

    entries: tuple[AuditEntry, ...]
    next: int | None = None
