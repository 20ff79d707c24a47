"""Fences: what a thread writes takes effect only while it holds a lease.

A job is fenced by the lease of jobs. If it is paused until another daemon has taken that lease,
none of its batches is written any more, and it ends with LeaseLost.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from agent_memory.platform.store.batches import Batch, CommitOutcome, Conflict, Equals
from agent_memory.platform.store.leases import HeldLease

_held: ContextVar[HeldLease | None] = ContextVar("held_lease", default=None)


@contextmanager
def fence_thread(lease: HeldLease) -> Iterator[None]:
    """Let everything that this thread writes inside the block expect the lease."""
    token = _held.set(lease)
    try:
        yield
    finally:
        _held.reset(token)


def find_fence() -> Equals | None:
    """Return what the batches of this thread expect, if it is fenced."""
    lease = _held.get()
    return None if lease is None else lease.expectation


def fence(batches: Sequence[Batch], expected: Equals) -> tuple[Batch, ...]:
    return tuple(Batch(each.operations, (expected, *each.expectations)) for each in batches)


def is_fenced_off(outcomes: Sequence[CommitOutcome], expected: Equals) -> bool:
    """Tell whether a batch was refused because the lease is lost."""
    return any(isinstance(each, Conflict) and each.failed == expected for each in outcomes)
