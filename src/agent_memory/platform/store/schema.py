"""The store's schema version: a new store gets ours, an older one is migrated, a newer refused."""

import secrets
from collections.abc import Callable, Mapping

from agent_memory.kernel.errors import StorageFailed, StorageTooNew
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Absent, Batch, Conflict, Equals, Put

VERSION = 1
_KEY = b"schema"
_IDENTITY = b"identity"

Migration = Callable[[OrderedStore], None]
"""Brings a store from the version before to its own. It must be safe to run again: a crash may
come between its last write and the record that it ran."""

MIGRATIONS: Mapping[int, Migration] = {}


def prepare(
    store: OrderedStore,
    *,
    version: int | None = None,
    migrations: Mapping[int, Migration] = MIGRATIONS,
    before: Callable[[int], None] = lambda _: None,
) -> None:
    """Make the store's schema ours, or raise StorageTooNew. Call `before` with the schema that is
    there before anything is migrated; where it raises, nothing is."""
    version = VERSION if version is None else version
    raw = store.get(families.META, _KEY)
    if raw is None:
        _record(store, Absent(families.META, _KEY), version)
        return
    found = _number(raw)
    if found > version:
        raise StorageTooNew(
            f"the store has schema {found}, this version of Agent Memory knows {version}: upgrade"
        )
    if found < version:
        before(found)
    for step in range(found + 1, version + 1):
        if step not in migrations:
            raise StorageFailed(f"no migration leads to schema {step}")
        migrations[step](store)
        _record(store, Equals(families.META, _KEY, b"%d" % (step - 1)), step)


def read_header(get: Callable[[str, bytes], bytes | None]) -> tuple[int, str]:
    """The schema and the identity that a store has, read with its `get`; the identity may be
    empty in one that was never used."""
    raw, name = get(families.META, _KEY), get(families.META, _IDENTITY)
    if raw is None:
        raise StorageFailed("the store has no schema version")
    return _number(raw), (name or b"").decode("ascii", "replace")


def _number(raw: bytes) -> int:
    if not raw.isdigit():
        raise StorageFailed("the schema version of the store is damaged")
    return int(raw)


def _record(store: OrderedStore, expected: Absent | Equals, version: int) -> None:
    batch = Batch((Put(families.META, _KEY, b"%d" % version),), (expected,))
    (outcome,) = store.submit([batch]).result()
    if isinstance(outcome, Conflict):
        raise StorageFailed("the schema version changed while the store was being opened")


def ensure_identity(store: OrderedStore) -> str:
    """A name that no other store has: what is derived from this one is known by it."""
    made = secrets.token_hex(16).encode()
    batch = Batch((Put(families.META, _IDENTITY, made),), (Absent(families.META, _IDENTITY),))
    store.submit([batch]).result()
    found = store.get(families.META, _IDENTITY)
    if found is None:
        raise StorageFailed("the name of the store cannot be read")
    return found.decode()
