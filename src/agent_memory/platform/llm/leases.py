"""Leases of a model server: its address, and a promise that it runs meanwhile."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from agent_memory.kernel.cancellation import CancelToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease. `serial` differs for each start of the server: what was learned about a server is
    valid for one serial. `get_exit_reason` waits a moment and says how the server ended, if it did.
    """

    url: str
    key: str = field(repr=False)
    serial: int = 0
    get_exit_reason: Callable[[], str | None] = lambda: None


class LeasableServer(Protocol):
    """A model server that can be leased."""

    def lease(self, cancel: CancelToken, /) -> AbstractContextManager[Lease]:
        """Keep the server running during the context. Raises FeatureUnavailable, LlmFailed, and
        Cancelled."""
        ...
