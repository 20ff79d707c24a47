"""The queue in front of the committer: which submissions become one group."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_memory.platform.store import submissions
from agent_memory.platform.store.batches import Batch
from agent_memory.platform.store.submissions import CROWD, Submission, SubmissionQueue

TIMEOUT = 30.0
ENDLESS = 3600.0


@pytest.fixture
def committer() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[SubmissionQueue]:
    """A queue that gathers without end, and expects half of its first group: no one came since."""
    monkeypatch.setattr(submissions, "GATHER_PAUSE", ENDLESS)
    monkeypatch.setattr(submissions, "GATHER_SECONDS", ENDLESS)
    found = SubmissionQueue(lambda: None)
    put(found, 2 * CROWD)
    assert len(found.take_group() or ()) == 2 * CROWD
    assert found.take_group(timeout=0.0) == []
    yield found
    found.close()


def put(queue: SubmissionQueue, count: int) -> None:
    for _ in range(count):
        queue.put(Submission((Batch(()),)))


def test_a_complete_crowd_is_taken_at_once(
    queue: SubmissionQueue, committer: ThreadPoolExecutor
) -> None:
    put(queue, CROWD)
    assert len(committer.submit(queue.take_group).result(TIMEOUT) or ()) == CROWD


def test_the_last_of_a_crowd_ends_the_gathering(
    queue: SubmissionQueue, committer: ThreadPoolExecutor
) -> None:
    put(queue, CROWD - 1)
    taking = committer.submit(queue.take_group)
    put(queue, 1)
    assert len(taking.result(TIMEOUT) or ()) == CROWD


def test_closing_ends_the_gathering(queue: SubmissionQueue, committer: ThreadPoolExecutor) -> None:
    put(queue, 1)
    taking = committer.submit(queue.take_group)
    queue.close()
    assert len(taking.result(TIMEOUT) or ()) == 1


def test_a_crowd_that_does_not_come_is_not_awaited(
    queue: SubmissionQueue, committer: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "GATHER_PAUSE", 0.0)
    put(queue, 1)
    assert len(committer.submit(queue.take_group).result(TIMEOUT) or ()) == 1
