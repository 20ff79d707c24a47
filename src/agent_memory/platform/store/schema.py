"""The schema version of a store: new stores get ours, older ones are migrated, newer refused."""

import secrets
from collections.abc import Callable, Mapping

from agent_memory.kernel.errors import StorageFailed, StorageTooNew
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families, migration_mark
from agent_memory.platform.store.batches import Absent, Batch, Equals, Put
from agent_memory.platform.store.rows import commit

VERSION = 1
_KEY = b"schema"
_IDENTITY = b"identity"
_TEAM = b"team"

Migration = Callable[[OrderedStore], None]
"""Migrates a store from the previous version. It must be safe to run again: a crash may come
between its last write and the record that it ran."""

MIGRATIONS: Mapping[int, Migration] = {}


def prepare(
    store: OrderedStore,
    *,
    version: int | None = None,
    migrations: Mapping[int, Migration] = MIGRATIONS,
    before: Callable[[int], None] = lambda _: None,
) -> None:
    """Bring the store to our schema, or raise StorageTooNew.

    `before` is called with the present schema before a migration; if it raises, nothing changes.
    """
    version = VERSION if version is None else version
    migration_mark.refuse_unfinished(store.get)
    is_new = store.get(families.META, _KEY) is None
    if is_new and _record(store, Absent(families.META, _KEY), version):
        return  # else another process was faster
    present = check(store, version)
    if present < version:
        before(present)
    for step in range(present + 1, version + 1):
        if step not in migrations:
            raise StorageFailed(f"there is no migration to schema {step}")
        migrations[step](store)
        if not _record(store, Equals(families.META, _KEY, b"%d" % (step - 1)), step):
            raise StorageFailed("the schema version changed while the store was being opened")


def check(store: OrderedStore, version: int = VERSION) -> int:
    """Return the schema of a store.

    Raises StorageTooNew if it is later than `version`, StorageFailed if the store is only partly
    filled.
    """
    migration_mark.refuse_unfinished(store.get)
    present, _ = read_header(store.get)
    if present > version:
        raise StorageTooNew(
            f"the store has schema {present}, but this version of Agent Memory supports {version}:"
            " upgrade it"
        )
    return present


def read_header(get: Callable[[str, bytes], bytes | None]) -> tuple[int, str]:
    """Read the schema and the identity of a store with its `get`.

    The identity may be empty in a store that was never used.
    """
    raw, name = get(families.META, _KEY), get(families.META, _IDENTITY)
    if raw is None:
        raise StorageFailed("the store has no schema version")
    return _number(raw), (name or b"").decode("ascii", "replace")


def note_team(store: OrderedStore) -> None:
    """Note in the store that a team uses it: what is in it is not for everyone who opens it."""
    if not is_of_team(store):
        store.submit([Batch((Put(families.META, _TEAM, b"1"),))]).result()


def is_of_team(store: OrderedStore) -> bool:
    return store.get(families.META, _TEAM) is not None


def _number(raw: bytes) -> int:
    if not raw.isdigit():
        raise StorageFailed("the schema version of the store is damaged")
    return int(raw)


def _record(store: OrderedStore, expected: Absent | Equals, version: int) -> bool:
    """Record a version. Return False if the expected one is not there."""
    batch = Batch((Put(families.META, _KEY, b"%d" % version),), (expected,))
    return commit(store, batch)


def ensure_identity(store: OrderedStore) -> str:
    """Return the unique name of this store, and create it if it has none.

    Files that are derived from a store, such as indexes, record its name.
    """
    identity = store.get(families.META, _IDENTITY)
    if identity is None:
        fresh = secrets.token_hex(16).encode()
        batch = Batch((Put(families.META, _IDENTITY, fresh),), (Absent(families.META, _IDENTITY),))
        store.submit([batch]).result()
        identity = store.get(families.META, _IDENTITY)
    if identity is None:
        raise StorageFailed("the identity of the store cannot be read")
    return identity.decode()
