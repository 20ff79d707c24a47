"""The port of the ledger."""

from collections.abc import Callable
from typing import Protocol

from agent_memory.features.injections.model.injections import LedgerEntry
from agent_memory.kernel.ids import Millis


class Ledger(Protocol):
    """What was injected, in the order of delivery. The other methods see at once what was added.
    Every method raises StorageFailed."""

    def add(self, entry: LedgerEntry, /) -> None:
        """Queue an entry without waiting. It is durable when the store is closed, if not before.

        Raises Overloaded if too much is waiting to be written.
        """
        ...

    def list_before(self, number: int | None, /, *, limit: int) -> list[LedgerEntry]:
        """Return the entries before a number, or the last ones, newest first."""
        ...

    def revise(self, change: Callable[[LedgerEntry], LedgerEntry | None], /) -> int:
        """Replace each entry by what `change` returns, or remove it for None; return how many
        changed."""
        ...

    def trim(self, *, keep: int, since: Millis) -> None:
        """Remove all but the last entries, and those that were added before a time."""
        ...
