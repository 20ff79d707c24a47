"""Groups of batches as transactions of a database that other processes share.

Every group is one transaction. It locks the head row of its tenant, reads what its batches expect,
evaluates them in order and writes the result. The lock makes groups of all processes follow each
other, so the numbers that they take from the head row have no gaps and become visible in order.

If the answer to a COMMIT is lost, nobody knows whether the group was written. Each group therefore
writes a token, and the next attempt looks for it after it has locked the head row: the lost
transaction held that lock, so by then it has ended one way or the other.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.platform.store import change_marks, families, keys
from agent_memory.platform.store.batches import Batch, CommitOutcome, Put
from agent_memory.platform.store.change_marks import ChangeMarks
from agent_memory.platform.store.database import (
    DatabaseLost,
    LeaseLost,
    TenantDatabase,
    Transaction,
)
from agent_memory.platform.store.leases import RENEW_MS, HeldLease, put_reached
from agent_memory.platform.store.plans import Place, Plan, SequenceName, Write, list_reads

OUTBOX: SequenceName = families.OUTBOX, keys.OUTBOX_PREFIX


class _Doubt(NamedTuple):
    """A group whose COMMIT was not answered."""

    batches: Sequence[Batch]
    token: bytes
    outcomes: list[CommitOutcome]
    marked: list[str]


class GroupWriter:
    """Commits groups of batches, one at a time."""

    def __init__(
        self,
        database: TenantDatabase,
        *,
        writer: str,
        lease: HeldLease | None,
        new_token: Callable[[], bytes],
        marks: ChangeMarks | None = None,
    ) -> None:
        """Write under this name, which no other process may use at the same time.

        With a lease, every group expects it to be held still. With marks, groups mark what they
        change, and what others have changed since is noticed before.
        """
        self._database = database
        self._writer = writer
        self._lease = lease
        self._new_token = new_token
        self._marks = marks
        self._token_place: Place = families.LEASES, b"commit:" + writer.encode()
        self._renewed_ms = 0
        self._outbox = 0  # the last number that we know of
        self._doubt: _Doubt | None = None
        self.get_reached: Callable[[], int] = lambda: 0  # how far this process reads the outbox

    def commit(self, batches: Sequence[Batch]) -> list[CommitOutcome]:
        """Commit a group and return the outcomes of its batches.

        After DatabaseLost it is not known whether the group was written: call again with the same
        batches to find out, and to write them if they were not. Raises LeaseLost.
        """
        return self._commit(batches, renewing=False)

    def renew(self) -> None:
        """Renew the lease now. Raises LeaseLost."""
        self._commit((), renewing=True)

    def _commit(self, batches: Sequence[Batch], *, renewing: bool) -> list[CommitOutcome]:
        transaction = self._database.begin(self._list_places(batches))
        try:
            doubt, self._doubt = self._doubt, None
            if doubt is not None and self._is_written(doubt, batches, transaction):
                self._note_own(doubt, transaction.head.outbox)
                return doubt.outcomes
            self._check_outbox(transaction.head.outbox)
            plan = Plan(transaction, {OUTBOX: transaction.head.outbox})
            self._check_lease(plan)
            self._compare_marks(transaction)
            outcomes = [plan.add(batch) for batch in batches]
            operations = plan.operations(uncounted=frozenset((OUTBOX,)))
            marked = [] if self._marks is None else change_marks.list_marked(operations)
            operations += self._renew(transaction.head.now_ms, renewing=renewing)
            if operations or plan.sequences[OUTBOX] != transaction.head.outbox:
                doubt = _Doubt(batches, self._new_token(), outcomes, marked)
                self._finish(transaction, doubt, operations, plan)
            return outcomes
        finally:
            transaction.roll_back()

    def _finish(
        self, transaction: Transaction, doubt: _Doubt, operations: list[Write], plan: Plan
    ) -> None:
        self._doubt = doubt
        marks = [change_marks.put_mark(name, doubt.token) for name in doubt.marked]
        token = Put(*self._token_place, doubt.token)
        try:
            transaction.commit([*operations, *marks, token], plan.sequences[OUTBOX])
        except DatabaseLost:
            raise
        except StorageFailed:
            self._doubt = None  # the database says that nothing was written
            raise
        self._doubt = None
        self._note_own(doubt, plan.sequences[OUTBOX])

    def _note_own(self, doubt: _Doubt, outbox: int) -> None:
        self._outbox = outbox
        if self._marks is not None:
            self._marks.set_own(doubt.marked, doubt.token)

    def _check_outbox(self, outbox: int) -> None:
        """Refuse a database that was restored to an earlier state meanwhile: what this process
        keeps was made from the later one."""
        if outbox < self._outbox:
            raise LeaseLost("the database was set back to an earlier state")
        self._outbox = outbox

    def _compare_marks(self, transaction: Transaction) -> None:
        if self._marks is not None:
            places = {name: change_marks.get_place(name) for name in change_marks.MARKED}
            self._marks.compare({name: transaction.get(*at) for name, at in places.items()})

    def _is_written(
        self, doubt: _Doubt, batches: Sequence[Batch], transaction: Transaction
    ) -> bool:
        return doubt.batches is batches and transaction.get(*self._token_place) == doubt.token

    def _check_lease(self, plan: Plan) -> None:
        if self._lease is not None and not plan.holds(self._lease.expectation):
            raise LeaseLost("this daemon was away for too long, and counts as gone")

    def _renew(self, now_ms: Millis, *, renewing: bool) -> list[Write]:
        """Return the operations that renew the lease, if it is time."""
        if self._lease is None or not (renewing or now_ms - self._renewed_ms >= RENEW_MS):
            return []
        self._renewed_ms = now_ms
        return [self._lease.extend(now_ms), put_reached(self._writer, self.get_reached())]

    def _list_places(self, batches: Sequence[Batch]) -> list[Place]:
        own = [self._token_place]
        if self._lease is not None:
            own.append((self._lease.expectation.family, self._lease.expectation.key))
        if self._marks is not None:
            own += map(change_marks.get_place, change_marks.MARKED)
        return list(dict.fromkeys((*own, *list_reads(batches))))
