"""How features are put together: each adds its services, and finds those of the features before it
by their types."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from agent_memory.kernel.jobs import JobScheduler, ScheduledJob
from agent_memory.kernel.signals import DaemonSignal, Signals

T = TypeVar("T")


class Composition:
    """The services that are built, by type, and what features contribute to others.

    `contributions` of a type are a list that grows as features are built. A service that keeps the
    list sees also what comes later.
    """

    def __init__(self) -> None:
        self.signals = Signals()
        self.is_busy: list[Callable[[], bool]] = []  # whether an upgrade must wait
        self.on_close: list[Callable[[], object]] = []  # called first when the daemon ends
        self.on_stop: list[Callable[[], object]] = []  # then, each in a thread of its own
        self._services: dict[Any, Any] = {}
        self._contributions: dict[Any, list[Any]] = defaultdict(list)

    def add(self, *services: object) -> None:
        """Add services by their own types."""
        for service in services:
            self._services[type(service)] = service

    def provide(self, kind: type[T], service: T) -> None:
        """Add the service that stands for a type, such as a port."""
        self._services[kind] = service

    def __getitem__(self, kind: type[T]) -> T:
        """Return the service of a type. Raises KeyError if no feature has built one."""
        return cast(T, self._services[kind])

    def find(self, kind: type[T]) -> T | None:
        return cast("T | None", self._services.get(kind))

    def contributions(self, kind: type[T]) -> list[T]:
        """Return the parts of a type that features have contributed, to read or to extend."""
        return self._contributions[kind]

    def schedule(self, job: ScheduledJob) -> None:
        """Add a background job, and let its signals wake it."""
        scheduler = self[JobScheduler]
        scheduler.put(job)
        self.signals.listen(
            partial(scheduler.wake, job.name),
            *job.woken_by,
            DaemonSignal.STARTED,
            DaemonSignal.STORE_MENDED,
        )

    def close(self) -> None:
        """End what must end before anything else does."""
        for close in self.on_close:
            close()
