"""Leases: which daemons use a tenant, and which of them does the work that only one may do.

A lease is an ordinary row, which names its holder and has a number that grows with each taking. A
writer expects the row to be as it was when it took the lease, so that a holder that was paused
until somebody else took it, or removed it, writes nothing more. When it ends is in a row of its
own, because renewals change it, by the database's clock. Clocks only decide when a lease may be
taken, never whether a write counts.

Every daemon has a lease of its own, which says that it lives and how far it has read the outbox.
The work of the whole memory, such as the table of contents, needs the lease JOBS.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from agent_memory.kernel.errors import StorageLocked
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Batch, Delete, Equals, Put
from agent_memory.platform.store.database import TenantDatabase
from agent_memory.platform.store.rows import commit, expect

LEASE_MS = 30_000
RENEW_MS = 10_000
WANTED_MS = 5_000  # that a request for a lease counts
JOBS = b"jobs"  # the lease of the daemon that does the work of the whole memory
MIGRATION = b"migration"  # held while the whole memory is copied: no daemon may use it then
_DAEMONS = b"daemon:"
_ROW, _END, _REACHED, _WANTED = b"lease:", b"lease-end:", b"reached:", b"wanted:"
_MOST = 10_000  # daemons


class _LeaseRow(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    holder: str
    label: str  # of the holder, for people
    taken_ms: int = 0  # makes the row unique if an earlier one was removed


class _LeaseRequest(msgspec.Struct, frozen=True, array_like=True):
    holder: str  # who asks
    at_ms: int


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as it was taken."""

    name: bytes
    epoch: int
    value: bytes

    @property
    def expectation(self) -> Equals:
        """What every write expects."""
        return Equals(families.LEASES, _ROW + self.name, self.value)

    def extend(self, now_ms: Millis) -> Put:
        """Return the operation that renews the lease."""
        return _put_end(self.name, Millis(now_ms + LEASE_MS))


def name_daemon(holder: str) -> bytes:
    """Return the name of the lease of a daemon."""
    return _DAEMONS + holder.encode()


def put_reached(holder: str, number: int) -> Put:
    """Return the operation that says how far a daemon has read the outbox."""
    return Put(families.LEASES, _REACHED + name_daemon(holder), b"%d" % number)


def take_lease(database: TenantDatabase, name: bytes, *, holder: str, label: str) -> HeldLease:
    """Take a lease that is free, ended, or held under the same name as `holder`.

    Raises StorageLocked if another holder has it.
    """
    row_key, end_key = _ROW + name, _END + name
    transaction = database.begin([(families.LEASES, row_key), (families.LEASES, end_key)])
    try:
        now_ms = transaction.head.now_ms
        taken = _take(
            name,
            transaction.get(families.LEASES, row_key),
            transaction.get(families.LEASES, end_key),
            now_ms,
            _LeaseRow(0, holder, label, now_ms),
        )
        transaction.commit(
            [Put(families.LEASES, row_key, taken.value), taken.extend(now_ms)],
            transaction.head.outbox,
        )
        return taken
    finally:
        transaction.roll_back()


def release_lease(database: TenantDatabase, lease: HeldLease) -> None:
    """Let the next holder take the lease at once. Do nothing if it is taken already."""
    expected = lease.expectation
    transaction = database.begin([(expected.family, expected.key)])
    try:
        if transaction.get(expected.family, expected.key) == expected.value:
            transaction.commit([_put_end(lease.name, Millis(0))], transaction.head.outbox)
    finally:
        transaction.roll_back()


class StoreLease:
    """A lease that is taken, renewed and released by ordinary batches of a store.

    Call it from one thread at a time.
    """

    def __init__(
        self,
        store: OrderedStore,
        name: bytes,
        now: Callable[[], Millis],
        *,
        holder: str,
        label: str,
    ) -> None:
        """`now` returns the time of the database's clock."""
        self._store, self._now = store, now
        self._holder, self._label = holder, label
        self._name = name
        self._row, self._end, self._wanted = _ROW + name, _END + name, _WANTED + name

    def take(self, *, asking: bool = False) -> HeldLease | None:
        """Take the lease. Return None if another holder has it, was faster or, unless `asking`,
        asks for it."""
        places = [self._row, self._end, self._wanted]
        row, end, wanted = self._store.get_many(families.LEASES, places)
        now_ms = self._now()
        if not asking and wanted is not None and self._is_by_another(wanted, now_ms):
            return None
        try:
            taken = _take(
                self._name, row, end, now_ms, _LeaseRow(0, self._holder, self._label, now_ms)
            )
        except StorageLocked:
            return None
        batch = Batch(
            (
                Put(families.LEASES, self._row, taken.value),
                taken.extend(now_ms),
                Delete(families.LEASES, self._wanted),
            ),
            (expect(families.LEASES, self._row, row), expect(families.LEASES, self._end, end)),
        )
        return taken if commit(self._store, batch) else None

    def renew(self, lease: HeldLease) -> bool:
        """Renew the lease. Return False if it is lost."""
        return commit(self._store, Batch((lease.extend(self._now()),), (lease.expectation,)))

    def release(self, lease: HeldLease) -> None:
        """Let the next holder take the lease at once. Do nothing if it is lost."""
        commit(self._store, Batch((_put_end(self._name, Millis(0)),), (lease.expectation,)))

    def ask_for(self) -> None:
        """Ask the holder to release the lease when it can, and others not to take it. Repeat it:
        it counts for a few seconds."""
        request = codec.pack(_LeaseRequest(self._holder, self._now()))
        commit(self._store, Batch((Put(families.LEASES, self._wanted, request),)))

    def is_wanted(self) -> bool:
        """Tell whether another one asks for the lease."""
        wanted = self._store.get(families.LEASES, self._wanted)
        return wanted is not None and self._is_by_another(wanted, self._now())

    def _is_by_another(self, wanted: bytes, now_ms: Millis) -> bool:
        request = codec.unpack(wanted, _LeaseRequest)
        return request.holder != self._holder and now_ms - request.at_ms < WANTED_MS


def find_slowest(store: OrderedStore, now_ms: Millis, *, own: str) -> int | None:
    """Return the entry of the outbox that every daemon has reached; None if there is no daemon.

    Daemons whose lease has ended are removed, so that one that stays away does not keep the outbox
    for good: it can write nothing more, and its next start finds the outbox incomplete. `own` is
    the holder that asks. It lives, even if it was asleep until its lease had ended.
    """
    left: list[int] = []
    for daemon in _list_daemons(store):
        is_gone = daemon.has_ended(now_ms) and daemon.holder != own
        if not (is_gone and _remove(store, daemon)):
            left.append(daemon.reached)
    return min(left, default=None)


def find_holder(store: OrderedStore, name: bytes, now_ms: Millis, *, besides: str) -> str | None:
    """Return the label of who holds a lease now, unless it is `besides`."""
    row, end = store.get_many(families.LEASES, [_ROW + name, _END + name])
    if row is None or end is None or codec.decode_millis(end) <= now_ms:
        return None
    lease = codec.unpack(row, _LeaseRow)
    return None if lease.holder == besides else lease.label


def fence_daemons(store: OrderedStore, now_ms: Millis, holder: str) -> str | None:
    """Remove the daemons whose lease has ended, and that of `holder`: if one of them was only
    paused, it can write nothing more. Return the label of a daemon that is left, or None."""
    for daemon in _list_daemons(store):
        is_gone = daemon.has_ended(now_ms) or daemon.holder == holder
        if not (is_gone and _remove(store, daemon)):
            return daemon.label
    return None


class _LeasedDaemon(NamedTuple):
    """The lease of a daemon as it is stored."""

    name: bytes
    row: bytes
    end: bytes | None
    reached: int

    @property
    def holder(self) -> str:
        return codec.unpack(self.row, _LeaseRow).holder

    @property
    def label(self) -> str:
        return codec.unpack(self.row, _LeaseRow).label

    def has_ended(self, now_ms: Millis) -> bool:
        return self.end is not None and codec.decode_millis(self.end) <= now_ms


def _list_daemons(store: OrderedStore) -> list[_LeasedDaemon]:
    prefix = _ROW + _DAEMONS
    rows = store.scan(families.LEASES, prefix, keys.end_of(prefix), limit=_MOST)
    names = [key[len(_ROW) :] for key, _ in rows]
    ends = store.get_many(families.LEASES, [_END + name for name in names])
    reached = store.get_many(families.LEASES, [_REACHED + name for name in names])
    return [
        _LeasedDaemon(name, row, end, int(number or 0))
        for name, (_, row), end, number in zip(names, rows, ends, reached, strict=True)
    ]


def _remove(store: OrderedStore, daemon: _LeasedDaemon) -> bool:
    """Remove a daemon, unless it has renewed its lease meanwhile."""
    places = (start + daemon.name for start in (_ROW, _END, _REACHED))
    expected = (
        expect(families.LEASES, _ROW + daemon.name, daemon.row),
        expect(families.LEASES, _END + daemon.name, daemon.end),
    )
    batch = Batch(tuple(Delete(families.LEASES, place) for place in places), expected)
    return commit(store, batch)


def _take(
    name: bytes, stored: bytes | None, end: bytes | None, now_ms: Millis, new: _LeaseRow
) -> HeldLease:
    epoch = 0
    if stored is not None:
        row = codec.unpack(stored, _LeaseRow)
        epoch = row.epoch
        left_ms = 0 if end is None else codec.decode_millis(end) - now_ms
        if row.holder != new.holder and left_ms > 0:
            raise StorageLocked(
                f"another daemon has it: {row.label}. Stop that daemon first; if it has"
                f" crashed, try again in {-(-left_ms // 1000)} s"
            )
    value = codec.pack(msgspec.structs.replace(new, epoch=epoch + 1))
    return HeldLease(name, epoch + 1, value)


def _put_end(name: bytes, end_ms: Millis) -> Put:
    return Put(families.LEASES, _END + name, codec.encode_millis(end_ms))
