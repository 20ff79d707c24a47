"""The background jobs through both clients, of a real daemon."""

import pytest

from agent_memory.client import Job, JobResult, MemoryClient, RpcError

JOB = "outbox-processor"


def test_every_job_is_told(client: MemoryClient) -> None:
    found = client.get_scheduler_status()
    assert found.scheduler_running
    others = {"segment-summarizer", "hourly-rollup", "contents-rebuild", "backlog-embedder"}
    others.add("team-sync")
    assert {job.job_name for job in found.jobs} == {JOB, *others}
    assert all(job.next_run_ms > 0 for job in found.jobs)


def test_a_job_that_is_run_has_run(client: MemoryClient) -> None:
    before = _job(client).run_count
    done = client.run_job(JOB)
    assert (done.job_name, done.last_result, done.last_error) == (JOB, JobResult.SUCCESS, None)
    assert done.run_count > before


def test_a_job_is_paused_until_it_is_resumed(client: MemoryClient) -> None:
    client.pause_job(JOB)
    assert _job(client).is_paused
    client.resume_job(JOB)
    assert not _job(client).is_paused


@pytest.mark.parametrize("call", ["pause_job", "resume_job", "run_job"])
def test_a_job_that_does_not_exist_is_an_error(client: MemoryClient, call: str) -> None:
    with pytest.raises(RpcError, match="Job not found: nope") as caught:
        getattr(client, call)("nope")
    assert caught.value.code == "NOT_FOUND"


def _job(client: MemoryClient) -> Job:
    return next(job for job in client.get_scheduler_status().jobs if job.job_name == JOB)
