"""Structs as messages and back."""

from typing import Any

import pytest

from agent_memory.features.checkpoints.model.graphs import PendingWrite
from agent_memory.features.checkpoints.operations import WritesToPut
from agent_memory.features.jobs.operations import Job, JobList
from agent_memory.interfaces.wire import protobuf
from agent_memory.proto import checkpoints_pb2, memory_pb2

JOB = Job(
    job_name="rollup",
    cron_expr="0 0 * * * *",
    last_run_ms=0,
    last_duration_ms=0,
    last_result="unspecified",
    last_error=None,
    next_run_ms=0,
    run_count=0,
    error_count=0,
    is_running=False,
    is_paused=False,
)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (JobList(scheduler_running=False, jobs=[JOB]), memory_pb2.GetSchedulerStatusResponse),
        (
            WritesToPut(
                writes=(PendingWrite(task_id="t", index=0, channel="c", type="", value=b""),)
            ),
            checkpoints_pb2.PutWritesRequest,
        ),
    ],
)
def test_what_is_zero_or_missing_inside_of_a_field_is_read_as_that(
    value: Any, message: Any
) -> None:
    assert protobuf.from_message(type(value), protobuf.to_message(message, value)) == value
