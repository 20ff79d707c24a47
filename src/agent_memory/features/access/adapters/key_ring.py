"""Bearer keys on an ordered store, cached in memory because every request is checked against
them."""

import threading

import msgspec
import structlog

from agent_memory.features.access.adapters.revoked_keys import RevokedKeyFile
from agent_memory.kernel.access import AccessKey, Role
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Absent, Batch, Delete, Equals, Put
from agent_memory.platform.store.rows import commit, write

log = structlog.get_logger()


class _AccessKey(msgspec.Struct, array_like=True, frozen=True):
    digest: bytes
    created_ms: int
    person: str = ""
    role: str = ""
    projects: list[str] | None = None
    created_by: str = ""


_decode_access_key = msgspec.msgpack.Decoder(_AccessKey).decode


def encode_access_key(key: AccessKey) -> bytes:
    projects = None if key.projects is None else sorted(key.projects)
    person, by = key.person, key.created_by
    return codec.pack(_AccessKey(key.digest, key.created_ms, person, key.role, projects, by))


def decode_access_key(name: str, value: bytes) -> AccessKey:
    try:
        record = _decode_access_key(codec.body(value))
        return AccessKey(
            name=name,
            digest=record.digest,
            created_ms=Millis(record.created_ms),
            person=record.person,
            role=Role(record.role) if record.person else Role.ADMIN,
            projects=None if record.projects is None else frozenset(record.projects),
            created_by=record.created_by,
        )
    except (msgspec.MsgspecError, ValueError, InvalidInput) as exc:
        raise StorageFailed(f"the stored key {name!r} is damaged") from exc


_PREFIX = b"key:"
_MOST = 10_000


class StoredKeyRing:
    """The keys of a store. Use one per store: it reads the keys once and follows its own changes;
    call `refresh_soon` when others have changed them.

    What was revoked stays revoked, even if the store is restored from an older copy.
    """

    def __init__(self, store: OrderedStore, revoked: RevokedKeyFile) -> None:
        self._store = store
        self._revoked = revoked
        self._changing = threading.Lock()
        self._known: tuple[AccessKey, ...] | None = None  # replaced whole, so reads need no lock

    def add(self, key: AccessKey, /) -> bool:
        with self._changing:
            known = self._read()
            if len(known) >= _MOST:
                raise InvalidInput(
                    f"there are {_MOST:,} keys, which is the most: revoke some first"
                )
            place = _name_key(key.name)
            batch = Batch(
                (Put(families.ACCESS_KEYS, place, encode_access_key(key)),),
                (Absent(families.ACCESS_KEYS, place),),
            )
            if not commit(self._store, batch):
                return False
            self._known = (*known, key)
            return True

    def list_keys(self) -> tuple[AccessKey, ...]:
        if self._known is None:
            with self._changing:
                return self._read()
        return self._known

    def remove(self, name: str, /) -> bool:
        with self._changing:
            known = self._read()
            place = _name_key(name)
            stored = self._store.get(families.ACCESS_KEYS, place)
            if stored is None:
                return False
            # First: a crash in between leaves a key that is refused.
            self._revoked.add([decode_access_key(name, stored).digest])
            batch = Batch(
                (Delete(families.ACCESS_KEYS, place),),
                (Equals(families.ACCESS_KEYS, place, stored),),
            )
            if not commit(self._store, batch):
                return False
            self._known = tuple(key for key in known if key.name != name)
            return True

    def refresh_soon(self) -> None:
        """Read the keys again, on a thread of its own: requests are checked meanwhile."""
        threading.Thread(target=self._refresh, name="key-ring", daemon=True).start()

    def _refresh(self) -> None:
        with self._changing:
            try:
                before = {key.digest for key in self._known or ()}
                self._known = self._load()
                gone = before - {key.digest for key in self._known}
                if gone:  # revoked on another daemon
                    self._revoked.add(gone)
            except StorageFailed as exc:
                log.warning("keys.not_read", error=str(exc))
                self._known = None  # one may be revoked: the next request reads them

    def _read(self) -> tuple[AccessKey, ...]:
        if self._known is None:
            self._known = self._load()
        return self._known

    def _load(self) -> tuple[AccessKey, ...]:
        rows = self._store.scan(families.ACCESS_KEYS, _PREFIX, keys.end_of(_PREFIX), limit=_MOST)
        found = [decode_access_key(key[len(_PREFIX) :].decode(), value) for key, value in rows]
        revoked = self._revoked.list_digests()
        revived = [key.name for key in found if key.digest in revoked]
        if revived:
            log.warning("keys.revoked_again", names=revived)
            removals = (Delete(families.ACCESS_KEYS, _name_key(name)) for name in revived)
            write(self._store, *removals)
        return tuple(key for key in found if key.digest not in revoked)


def _name_key(name: str) -> bytes:
    # Any name may be asked for, also one that no key can have.
    return _PREFIX + name.encode(errors="surrogatepass")
