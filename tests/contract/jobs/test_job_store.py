"""The JobStore port, over every store."""

from pathlib import Path

import pytest

from agent_memory.features.jobs.adapters.job_store import StoredJobs
from agent_memory.features.jobs.ports import JobStore
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.jobs import JobOutcome, JobState
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.batches import Batch, Put
from tests.contract.stores import OpenStore, commit, everything

STATE = JobState(
    last_run_ms=Millis(1_769_783_400_000),
    last_duration_ms=1_234,
    last_result=JobOutcome.FAILED,
    last_error="WorkerFailed: es brännt 🔥",
    run_count=41,
    error_count=2,
    paused=True,
)


@pytest.fixture
def jobs(store: OrderedStore) -> JobStore:
    return StoredJobs(store)


def test_a_job_that_never_ran_has_the_state_of_one(jobs: JobStore) -> None:
    assert jobs.load("hourly-rollup") == JobState()


def test_a_state_comes_back_as_it_was(jobs: JobStore) -> None:
    jobs.save("hourly-rollup", STATE)
    assert jobs.load("hourly-rollup") == STATE
    jobs.save("hourly-rollup", JobState())
    assert jobs.load("hourly-rollup") == JobState()


@pytest.mark.parametrize("result", JobOutcome)
def test_every_result_comes_back(jobs: JobStore, result: JobOutcome) -> None:
    jobs.save("job", JobState(last_result=result))
    assert jobs.load("job").last_result is result


def test_jobs_are_apart(jobs: JobStore) -> None:
    jobs.save("a", STATE)
    assert jobs.load("a:b") == JobState()
    assert jobs.load("") == JobState()


def test_it_outlives_a_restart(open_durable: OpenStore, tmp_path: Path) -> None:
    first = open_durable(tmp_path)
    StoredJobs(first).save("job", STATE)
    first.close()
    second = open_durable(tmp_path)
    try:
        assert StoredJobs(second).load("job") == STATE
    finally:
        second.close()


@pytest.mark.parametrize(
    "value", [b"", b"\x02", b"\x01", b"\x01garbage", b"\x01\x91\x01"], ids=ascii
)
def test_a_damaged_state_is_a_storage_failure(
    jobs: JobStore, store: OrderedStore, value: bytes
) -> None:
    jobs.save("job", STATE)
    ((key, _),) = everything(store, families.PROGRESS)
    commit(store, Batch((Put(families.PROGRESS, key, value),)))
    with pytest.raises(StorageFailed):
        jobs.load("job")


def test_so_is_a_result_that_does_not_exist(jobs: JobStore, store: OrderedStore) -> None:
    jobs.save("job", JobState(last_result=JobOutcome.FAILED, last_error="e"))
    ((key, value),) = everything(store, families.PROGRESS)
    assert value.startswith(codec.EMPTY + b"\x97\x00\x00\x02")
    broken = value.replace(b"\x97\x00\x00\x02", b"\x97\x00\x00\x63")
    commit(store, Batch((Put(families.PROGRESS, key, broken),)))
    with pytest.raises(StorageFailed):
        jobs.load("job")
