"""Leases: the address of a model's server, for as long as it is asked something."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from agent_memory.kernel.cancellation import CancelToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`serial` tells one start of a server from the next: what was learnt of it holds as long.

    `ended` tells how the server ended meanwhile, if it did; it waits a moment to know.
    """

    url: str
    key: str = field(repr=False)
    serial: int = 0
    get_exit_reason: Callable[[], str | None] = lambda: None


class LeasableServer(Protocol):
    """Who has a model's server."""

    def lease(self, halt: CancelToken, /) -> AbstractContextManager[Lease]:
        """Meanwhile it runs. Raises FeatureUnavailable, LlmFailed, and Cancelled when halted."""
        ...
