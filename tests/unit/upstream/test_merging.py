"""Merging what comes from elsewhere into a store."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.upstream.model.erasures import AskedErasure
from agent_memory.kernel.ids import Millis
from tests.memory_values import memory
from tests.simulation.laptops import Machine, SimulatedClock, TeamParts

ASKED = AskedErasure("bob", Millis(1))


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine(SimulatedClock(), TeamParts())
    yield machine
    machine.store.close()


def test_nobody_elsewhere_forgets_what_awaits_review(machine: Machine) -> None:
    waiting = memory(status=MemoryStatus.PENDING)
    machine.store_memory(None, waiting)
    stone = memories.build_tombstone(waiting, Millis(waiting.updated_ms + 1))
    assert not machine.memory_merger.merge(stone, ASKED)
    machine.erasing.run(lambda: None)
    assert machine.memories.get(waiting.key) == waiting
    machine.store_memory(waiting, replace(waiting, status=MemoryStatus.ACTIVE))
    assert machine.memory_merger.merge(stone, ASKED)  # which is shared, once it was accepted
    machine.erasing.run(lambda: None)
    found = machine.memories.get(waiting.key)
    assert found is not None
    assert found.status is MemoryStatus.TOMBSTONE
