"""Leases: who may write to a tenant now.

A lease is an ordinary row, which names its holder and has a number that grows with each taking. A
writer expects the row to be as it was when it took the lease, so that a holder that was paused
until somebody else took it writes nothing more. When it ends is in a row of its own, because
renewals change it, by the database's clock. Clocks only decide when a lease may be taken, never
whether a write counts.
"""

from dataclasses import dataclass

import msgspec

from agent_memory.kernel.errors import StorageLocked
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.batches import Equals, Put
from agent_memory.platform.store.database import TenantDatabase

LEASE_MS = 30_000
RENEW_MS = 10_000
DAEMON = b"daemon"  # the lease of the one daemon that may write


class _LeaseRow(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    holder: str
    label: str  # of the holder, for people


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as it was taken."""

    name: bytes
    epoch: int
    value: bytes

    @property
    def expectation(self) -> Equals:
        """What every write expects."""
        return Equals(families.LEASES, _lease_key(self.name), self.value)

    def extend(self, now_ms: Millis) -> Put:
        """Return the operation that renews the lease."""
        return _put_end(self.name, Millis(now_ms + LEASE_MS))


def take_lease(database: TenantDatabase, name: bytes, *, holder: str, label: str) -> HeldLease:
    """Take a lease that is free, ended, or held under the same name as `holder`.

    Raises StorageLocked if another holder has it.
    """
    row_key, end_key = _lease_key(name), _end_key(name)
    transaction = database.begin([(families.LEASES, row_key), (families.LEASES, end_key)])
    try:
        stored = transaction.get(families.LEASES, row_key)
        epoch = 0
        if stored is not None:
            row = codec.unpack(stored, _LeaseRow)
            epoch = row.epoch
            end = transaction.get(families.LEASES, end_key)
            left_ms = 0 if end is None else codec.decode_millis(end) - transaction.head.now_ms
            if row.holder != holder and left_ms > 0:
                raise StorageLocked(
                    f"another daemon uses it: {row.label}. Stop that daemon first; if it has"
                    f" crashed, try again in {-(-left_ms // 1000)} s"
                )
        value = codec.pack(_LeaseRow(epoch + 1, holder, label))
        lease = HeldLease(name, epoch + 1, value)
        transaction.commit(
            [Put(families.LEASES, row_key, value), lease.extend(transaction.head.now_ms)],
            transaction.head.outbox,
        )
        return lease
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


def _put_end(name: bytes, end_ms: Millis) -> Put:
    return Put(families.LEASES, _end_key(name), codec.encode_millis(end_ms))


def _lease_key(name: bytes) -> bytes:
    return b"lease:" + name


def _end_key(name: bytes) -> bytes:
    return b"lease-end:" + name
