"""The background jobs of a real daemon: their names, their times, how they are held and let go."""

import time
from collections.abc import Iterator

import pytest

from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Home, wait_until
from tests.daemon_process import Daemon
from tests.memory_client import Client
from tests.toc_conversations import (
    EMBEDDING,
    EVERYTHING,
    JOBS,
    MILL,
    MINUTE,
    NIGHT,
    ORCHARD,
    OUTBOX,
    REBUILD,
    ROLLUP,
    SECONDS,
    SEGMENTS,
    TEAM,
    Toc,
    make_event,
    millis,
)

CRONS = {
    ROLLUP: "0 0 * * * *",
    SEGMENTS: "0 */15 * * * *",
    OUTBOX: "0 * * * * *",
    REBUILD: "0 0 * * * *",
    EMBEDDING: "0 * * * * *",
    TEAM: "0 * * * * *",
}
PERIOD_MS = {
    ROLLUP: 3_600_000,
    SEGMENTS: 900_000,
    OUTBOX: 60_000,
    REBUILD: 3_600_000,
    EMBEDDING: 60_000,
    TEAM: 60_000,
}
JITTER_MS = 2_000


@pytest.fixture
def own(daemon: Daemon) -> Iterator[tuple[Client, Toc]]:
    with daemon.client() as client:
        yield client, Toc(client)


def test_the_jobs_have_their_names_and_crons(
    own: tuple[Client, Toc],
) -> None:
    _, toc = own
    asked = int(time.time() * 1000)
    found = toc.status()
    assert found.scheduler_running
    assert {job.job_name: job.cron_expr for job in found.jobs} == CRONS
    for job in found.jobs:
        assert asked < job.next_run_ms <= asked + PERIOD_MS[job.job_name] + JITTER_MS + 60_000
        assert job.next_run_ms % PERIOD_MS[job.job_name] <= JITTER_MS
        assert not job.is_paused
        assert not job.HasField("last_error")


@pytest.mark.parametrize("name", JOBS)
def test_a_job_runs_when_told_and_is_counted(own: tuple[Client, Toc], name: str) -> None:
    _, toc = own
    before = toc.job(name)
    began = int(time.time() * 1000)
    first, second = toc.run(name), toc.run(name)

    assert first.success
    assert not first.HasField("error")
    assert first.job.job_name == name
    assert first.job.last_result == pb.JOB_RESULT_STATUS_SUCCESS
    assert first.job.last_run_ms >= began
    assert before.run_count < first.job.run_count < second.job.run_count
    assert second.job.error_count == 0


@pytest.mark.parametrize("name", ["unknown", "", "Hourly-Rollup"])
def test_an_unknown_job_is_told_so(own: tuple[Client, Toc], name: str) -> None:
    _, toc = own
    for answer in (toc.pause(name), toc.resume(name), toc.run(name)):
        assert not answer.success
        nearest = "; did you mean 'hourly-rollup'?" if name == "Hourly-Rollup" else ""
        assert answer.error == f"Job not found: {name}{nearest}"


def test_pausing_and_resuming_show_in_the_status(own: tuple[Client, Toc]) -> None:
    _, toc = own
    for name in JOBS:
        for _ in range(2):  # a second time changes nothing
            answer = toc.pause(name)
            assert answer.success
            assert not answer.HasField("error")
            assert toc.job(name).is_paused
        assert toc.resume(name).success
        assert not toc.job(name).is_paused
        assert toc.resume(name).success


def test_what_comes_while_the_summarizer_is_paused_waits_until_it_is_resumed(
    own: tuple[Client, Toc],
) -> None:
    client, toc = own
    client.ingest_all(ORCHARD)
    toc.wait_for([ORCHARD])
    toc.settle()
    toc.pause(SEGMENTS)
    runs = toc.job(SEGMENTS).run_count

    client.ingest_all(MILL)
    for event in NIGHT:
        client.ingest(event)
    toc.run(ROLLUP)  # not the paused one: it has nothing to roll up

    assert toc.bounds() == [(ORCHARD[0].timestamp_ms, ORCHARD[-1].timestamp_ms)]
    assert toc.job(SEGMENTS).run_count == runs
    assert len(client.all_events()) == len([*ORCHARD, *MILL, *NIGHT])

    toc.resume(SEGMENTS)
    toc.wait_for([ORCHARD, MILL, NIGHT])


def test_while_the_rollup_is_paused_segments_wait_below_their_day(
    own: tuple[Client, Toc],
) -> None:
    client, toc = own
    toc.pause(ROLLUP)
    client.ingest_all(MILL)
    assert toc.run(SEGMENTS).success
    assert toc.list_years() == []

    toc.resume(ROLLUP)
    toc.wait_for([MILL])


def test_a_paused_job_runs_when_told_and_stays_paused(own: tuple[Client, Toc]) -> None:
    client, toc = own
    for name in (SEGMENTS, ROLLUP):
        toc.pause(name)
    client.ingest_all(MILL)
    toc.settle()

    assert toc.bounds() == [(MILL[0].timestamp_ms, MILL[-1].timestamp_ms)]
    for name in (SEGMENTS, ROLLUP):
        assert toc.job(name).is_paused


def test_pauses_and_counts_survive_a_restart(daemon: Daemon) -> None:
    with daemon.client() as client:
        toc = Toc(client)
        client.ingest_all(EVERYTHING)
        toc.settle()
        toc.run(OUTBOX)
        toc.pause(SEGMENTS)
        toc.pause(ROLLUP)
        # A run that was woken before the pause may still be at work.
        wait_until(
            lambda: not any(job.is_running for job in toc.status().jobs), "all rest", SECONDS
        )
        before = {job.job_name: job for job in toc.status().jobs}
    daemon.restart()
    with daemon.client() as client:
        toc = Toc(client)
        for name in (SEGMENTS, ROLLUP):
            found, was = toc.job(name), before[name]
            assert found.is_paused
            assert (found.run_count, found.error_count) == (was.run_count, was.error_count)
            assert found.last_run_ms == was.last_run_ms
            assert found.last_duration_ms == was.last_duration_ms
            assert found.last_result == was.last_result
        assert not toc.job(OUTBOX).is_paused
        assert toc.job(OUTBOX).run_count >= before[OUTBOX].run_count

        client.ingest_all([_again(event) for event in MILL])
        toc.run(ROLLUP)
        assert "toc:day:2026-02-06" not in [node.node_id for node in toc.walk()]
        toc.resume(ROLLUP)
        toc.resume(SEGMENTS)
        wait_until(
            lambda: "toc:day:2026-02-06" in [node.node_id for node in toc.walk()],
            "what waited is there",
            SECONDS,
        )


def test_a_pause_survives_a_kill(daemon: Daemon) -> None:
    with daemon.client() as client:
        toc = Toc(client)
        toc.pause(SEGMENTS)
        client.ingest_all(MILL)
        daemon.kill()
    daemon.start()
    with daemon.client() as client:
        toc = Toc(client)
        assert toc.job(SEGMENTS).is_paused
        toc.run(ROLLUP)
        assert toc.list_years() == []
        toc.resume(SEGMENTS)
        toc.wait_for([MILL])


def test_what_was_left_undone_is_caught_up_after_a_start(daemon: Daemon) -> None:
    """Without a new event, and without waiting for the next time of the cron."""
    with daemon.client() as client:
        Toc(client).pause(SEGMENTS)
        Toc(client).pause(ROLLUP)
        client.ingest_all(EVERYTHING)
        assert Toc(client).run(SEGMENTS).success
        client.ingest_all([_again(event) for event in MILL])
        Toc(client).resume(SEGMENTS)
        Toc(client).resume(ROLLUP)
        daemon.kill()
    daemon.start()
    with daemon.client() as client:
        toc = Toc(client)
        wait_until(
            lambda: (
                {"toc:day:2026-02-06", "toc:day:2024-07-03"}
                <= {node.node_id for node in toc.walk()}
            ),
            "both are there",
            SECONDS,
        )


@pytest.mark.soak
def test_a_stop_in_the_midst_of_a_job_is_no_failure_of_it(daemon: Daemon) -> None:
    many = [
        make_event(
            f"hall-{hall}", n, millis("2026-01-01") + n * 40 * MINUTE, "user", f"Pump {n} leaks."
        )
        for hall in range(5)
        for n in range(100)
    ]
    with daemon.client() as client:
        toc = Toc(client)
        client.ingest_all(many)
        wait_until(lambda: toc.job(SEGMENTS).is_running, "it is at work", SECONDS)
    daemon.restart()
    with daemon.client() as client:
        toc = Toc(client)
        assert [(job.error_count, job.last_error) for job in toc.status().jobs] == [(0, "")] * len(
            JOBS
        )
        toc.wait_for([event] for event in many)


def test_trimming_the_outbox_loses_nothing_that_waits(own: tuple[Client, Toc]) -> None:
    client, toc = own
    toc.pause(SEGMENTS)
    client.ingest_all(MILL)
    assert toc.run(OUTBOX).success
    toc.resume(SEGMENTS)
    toc.wait_for([MILL])
    assert toc.run(OUTBOX).success
    client.ingest_all(NIGHT)
    toc.wait_for([MILL, NIGHT])


def test_switched_off_nothing_runs_by_itself_but_does_when_told() -> None:
    with Home() as home:
        home.settings["scheduler.enabled"] = "false"
        home.serve()
        with Client(f"127.0.0.1:{home.status()['grpc_port']}") as client:
            toc = Toc(client)
            client.ingest_all(MILL)
            found = toc.status()
            assert not found.scheduler_running
            assert {job.job_name for job in found.jobs} == set(JOBS)
            assert toc.list_years() == []
            assert toc.resume(SEGMENTS).success  # which would wake it
            assert all(job.run_count == 0 for job in toc.status().jobs)

            toc.settle()
            assert toc.bounds() == [(MILL[0].timestamp_ms, MILL[-1].timestamp_ms)]
            assert not toc.status().scheduler_running
            assert toc.job(OUTBOX).run_count == 0


def _again(event: pb.Event) -> pb.Event:
    """The same a week later, in a session of its own."""
    later = pb.Event()
    later.CopyFrom(event)
    later.event_id = f"again-{event.event_id}"
    later.session_id = f"again-{event.session_id}"
    later.timestamp_ms += 7 * 24 * 3_600_000
    return later
