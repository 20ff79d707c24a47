"""Run a simulation by seeds: some, as many as time allows, or until one finds a planted fault."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Protocol

import pytest

MINUTES = float(os.environ.get("SIMULATION_MINUTES", "5"))
FIRST_NEW_SEED = int(os.environ.get("SIMULATION_SEED", "1000"))


class SimulationFailed(AssertionError):
    """A history has ended in a state that must not be."""


class SimulatedHistory(Protocol):
    @property
    def history(self) -> list[str]: ...

    @property
    def events(self) -> dict[str, int]:
        """How often what happened."""
        ...


def run_seeds(simulate: Callable[[int], SimulatedHistory], seeds: Iterable[int]) -> Counter[str]:
    """Return what happened, and how often. Fail with the seed of a history that ends badly."""
    met: Counter[str] = Counter()
    for seed in seeds:
        try:
            met.update(simulate(seed).events)
        except SimulationFailed as exc:
            raise AssertionError(f"seed {seed}: {exc}") from exc
    return met


def run_new_seeds(simulate: Callable[[int], SimulatedHistory]) -> None:
    """Run new seeds. SIMULATION_MINUTES says how long; with SIMULATION_SEED it starts elsewhere."""
    until = time.monotonic() + MINUTES * 60
    for seed in count(FIRST_NEW_SEED):
        run_seeds(simulate, [seed])
        if time.monotonic() > until:
            break


def assert_replays(simulate: Callable[[int], SimulatedHistory]) -> None:
    assert simulate(7).history == simulate(7).history
    assert simulate(7).history != simulate(8).history


def assert_found(simulate: Callable[[int], SimulatedHistory], seeds: range) -> None:
    """Fail unless one of the seeds finds the fault that was planted."""
    for seed in seeds:
        try:
            simulate(seed)
        except SimulationFailed:
            return
    pytest.fail(f"{len(seeds)} seeds have not found it")
