"""Power cuts, errors of the system and kills: what was acknowledged is there, whatever is else.

A few of each; `make soak FAULTS=1000`, or `python -m tests.faults.campaign`, tries as many as you
like and prints a table.
"""

import gc
import warnings
from collections.abc import Iterator

import pytest

from tests.command_runner import SECONDS
from tests.faults import mounting
from tests.faults.disk import Temper, temper_of
from tests.faults.injecting import INSTALL, STRACE, Fault
from tests.faults.ledger import Unacknowledged
from tests.faults.scene import Scene, staged

SEED = 20261117

needs_mount = pytest.mark.skipif(bool(mounting.obstacle()), reason=mounting.obstacle())
needs_strace = pytest.mark.skipif(STRACE is None, reason=INSTALL)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with staged() as created:
        yield created


def seed_of(temper: Temper) -> int:
    return next(seed for seed in range(1000) if temper_of(seed) is temper)


def test_a_daemon_that_is_gone_leaves_no_socket_open(scene: Scene) -> None:
    """Else a warning fails whichever test runs when it is collected."""
    scene.home.serve()
    with scene.callers() as callers:
        scene.kill()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", ResourceWarning)
            for call in (lambda: callers.claim("x", "y", "z"), lambda: callers.memory("list")):
                with pytest.raises(Unacknowledged):
                    call()
            gc.collect()
    assert [str(each.message) for each in seen] == []


@needs_mount
def test_after_a_power_cut_everything_acknowledged_is_there(scene: Scene) -> None:
    recording = scene.record(SEED, steps=12, bulk=10)
    assert scene.ledger.unacknowledged() == []
    length = len(recording.log)
    for number, temper in enumerate(Temper, start=1):
        position = length * number // len(Temper)
        scene.restore(recording.crash_image(position, seed_of(temper)))
        found = scene.examine(position)
        scene.kill()
        assert not found.faults, (temper, position)


@needs_strace
@pytest.mark.parametrize(
    "fault",
    [
        Fault("fdatasync", 3, "KILL"),
        Fault("fdatasync", 4, "EIO"),
        pytest.param(Fault("rename", 1, "EIO"), marks=pytest.mark.soak),
    ],
    ids=str,
)
def test_after_a_fault_at_a_call_everything_acknowledged_is_there(
    scene: Scene, fault: Fault
) -> None:
    assert scene.suffer(fault, SEED, steps=12, bulk=10, patience=SECONDS)
    found = scene.examine(1)
    assert not found.faults
