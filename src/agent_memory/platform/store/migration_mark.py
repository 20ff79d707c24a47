"""Marks of a store that is filled with the rows of another one.

While a migration is under way, a row of the store says how far it is. The row changes in the same
batch as the rows that it counts, so a migration that was killed goes on where it was. No daemon
starts on a store with this mark. Another row remembers a migration that has ended.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Delete, Put

UNDER_WAY = b"migration"
ENDED = b"migrated"

Get = Callable[[str, bytes], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationMark:
    """How far a migration is. `copied` are whole families; of `family`, the rows up to and
    including `after` are there. If `clearing`, rows of an earlier attempt may be in the others."""

    source: str  # the identity of the store that is copied
    location: str  # where that store is, for people
    outbox: int  # the last number of its outbox when the copying began
    copied: tuple[str, ...] = ()
    family: str = ""
    after: bytes = b""
    clearing: bool = False

    def encode(self) -> bytes:
        return json.dumps(asdict(self) | {"after": self.after.hex()}).encode()

    def put(self) -> Put:
        """Return the operation that stores the mark."""
        return Put(families.META, UNDER_WAY, self.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedMigration:
    """A migration that was verified."""

    source: str
    location: str
    at_ms: Millis

    def put(self) -> tuple[Delete, Put]:
        """Return the operations that replace the mark of a migration under way."""
        stored = json.dumps(asdict(self)).encode()
        return Delete(families.META, UNDER_WAY), Put(families.META, ENDED, stored)


def read_mark(get: Get) -> MigrationMark | None:
    """Return the mark of a migration under way into a store, or None."""
    stored = get(families.META, UNDER_WAY)
    if stored is None:
        return None
    try:
        fields = _decode(stored)
        return MigrationMark(
            source=str(fields["source"]),
            location=str(fields["location"]),
            outbox=int(fields["outbox"]),
            copied=tuple(map(str, fields["copied"])),
            family=str(fields["family"]),
            after=bytes.fromhex(fields["after"]),
            clearing=bool(fields["clearing"]),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise StorageFailed("the mark of a migration in the store is damaged") from exc


def read_ended(get: Get) -> EndedMigration | None:
    """Return the migration that filled a store, or None."""
    stored = get(families.META, ENDED)
    if stored is None:
        return None
    try:
        fields = _decode(stored)
        return EndedMigration(
            source=str(fields["source"]),
            location=str(fields["location"]),
            at_ms=Millis(int(fields["at_ms"])),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise StorageFailed("the mark of an earlier migration in the store is damaged") from exc


def refuse_unfinished(get: Get) -> None:
    """Raise StorageFailed if the store is only partly filled."""
    mark = read_mark(get)
    if mark is not None:
        raise StorageFailed(
            f"the migration from {mark.location} to this store is not finished: run the same"
            " `memory-daemon admin migrate` again to finish it, or go back to the old store, which"
            " is as it was"
        )


def _decode(stored: bytes) -> dict[str, Any]:
    fields = json.loads(stored)
    if not isinstance(fields, dict):
        raise TypeError("not an object")
    return fields
