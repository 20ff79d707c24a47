"""What access needs: keys, audit entries, the owners of sockets."""

from collections.abc import Sequence
from typing import Protocol

from agent_memory.features.access.model.audit import AuditEntry
from agent_memory.kernel.access import AccessKey, Address, SocketOwner
from agent_memory.kernel.ids import Millis


class KeyRing(Protocol):
    """The bearer keys, hashed."""

    def add(self, key: AccessKey, /) -> bool:
        """Add a key. Return False if the name is taken."""
        ...

    def list_keys(self) -> Sequence[AccessKey]:
        """Return the keys. Cached: cheap enough for every request, on any thread."""
        ...

    def remove(self, name: str, /) -> bool:
        """Remove a key. Return False if there is none of this name."""
        ...


class AuditStore(Protocol):
    """The entries of the audit log, in the order of their numbers."""

    def add(self, entries: Sequence[AuditEntry], /) -> None:
        """Add entries durably."""
        ...

    def list_before(self, number: int | None, /, *, limit: int) -> list[AuditEntry]:
        """Return the entries before a number, or the last, newest first."""
        ...

    def trim(self, *, keep: int, since: Millis) -> None:
        """Remove all but the newest `keep`, and those before a time."""
        ...


class SocketOwners(Protocol):
    """Who holds the other end of a TCP connection within this machine."""

    def find_owner(self, peer: Address, own: Address, /) -> SocketOwner | None:
        """Return who holds the open socket that connects `peer` to `own` now; None where that is
        unproven."""
        ...

    def close(self) -> None: ...
