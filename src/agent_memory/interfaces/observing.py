"""Counts and durations of calls, by interface, operation and outcome."""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.kernel.tracing import Interface, Span, TraceContext
from agent_memory.platform.foreground import Foreground

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OK, FAILED, REFUSED = "ok", "failed", "refused"
MOST = 1_000  # operations with counters of their own: a caller may be able to invent names
OTHER = "other"


class StartedCall(NamedTuple):
    number: int  # in the foreground
    began: float


class ObservedCall(NamedTuple):
    interface: Interface
    name: str
    outcome: str


@dataclass(slots=True)
class OperationStats:
    count: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))


class Observer:
    """The counters, and a trace span for each call if an exporter is set. Background work gives way
    to the calls between `begin` and `end`."""

    def __init__(
        self,
        export_span: Callable[[Span], None] | None = None,
        foreground: Foreground | None = None,
    ) -> None:
        self._export_span = export_span
        self._foreground = foreground or Foreground()
        self._counting = threading.Lock()
        self._tallies: dict[ObservedCall, OperationStats] = {}

    def record(
        self,
        interface: Interface,
        name: str,
        outcome: str,
        seconds: float,
        trace: TraceContext | None = None,
    ) -> None:
        operation = ObservedCall(interface, name, outcome)
        with self._counting:
            tally = self._tallies.get(operation)
            if tally is None:
                if len(self._tallies) >= MOST:
                    operation = ObservedCall(interface, OTHER, outcome)
                tally = self._tallies.setdefault(operation, OperationStats())
            tally.count += 1
            tally.seconds += seconds
            tally.buckets[bisect_left(BUCKETS, seconds)] += 1
        if self._export_span is not None:
            ended = time.time_ns()
            self._export_span(
                Span(
                    interface=interface,
                    operation=name,
                    outcome=outcome,
                    started_ns=ended - int(seconds * 1e9),
                    ended_ns=ended,
                    trace=trace,
                )
            )

    def begin(self) -> "StartedCall":
        """Return the start of a call, for its `end`."""
        return StartedCall(self._foreground.begin(), time.perf_counter())

    def end(
        self,
        call: "StartedCall",
        interface: Interface,
        name: str,
        outcome: str,
        trace: TraceContext | None = None,
    ) -> float:
        """Record a call. Return the seconds that it took."""
        self._foreground.end(call.number)
        seconds = time.perf_counter() - call.began
        self.record(interface, name, outcome, seconds, trace)
        return seconds

    @contextmanager
    def observe(
        self, interface: Interface, name: str, trace: TraceContext | None = None
    ) -> Iterator[None]:
        """Record the block as one call. An error raised in it is its outcome."""
        call = self.begin()
        outcome = FAILED
        try:
            yield
            outcome = OK
        except AgentMemoryError as exc:
            outcome = type(exc).__name__
            raise
        finally:
            self.end(call, interface, name, outcome, trace)

    def snapshot(self) -> dict[ObservedCall, OperationStats]:
        with self._counting:
            return {
                operation: OperationStats(tally.count, tally.seconds, list(tally.buckets))
                for operation, tally in self._tallies.items()
            }
