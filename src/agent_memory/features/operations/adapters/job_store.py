"""The state of background jobs on an ordered store."""

import msgspec

from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.jobs import JobOutcome, JobState
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.batches import Batch, Put


class _JobRecord(msgspec.Struct, array_like=True, frozen=True):
    last_run_ms: int
    last_duration_ms: int
    last_result: int
    last_error: str | None
    run_count: int
    error_count: int
    paused: bool


_RESULTS = frozenset(JobOutcome)


class StoredJobs:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def load(self, name: str, /) -> JobState:
        value = self._store.get(families.CHECKPOINTS, _job_key(name))
        if value is None:
            return JobState()
        record = codec.unpack(value, _JobRecord)
        if record.last_result not in _RESULTS:
            raise StorageFailed(f"the stored state of the job {name!r} is damaged")
        return JobState(
            last_run_ms=Millis(record.last_run_ms),
            last_duration_ms=record.last_duration_ms,
            last_result=JobOutcome(record.last_result),
            last_error=record.last_error,
            run_count=record.run_count,
            error_count=record.error_count,
            paused=record.paused,
        )

    def save(self, name: str, state: JobState, /) -> None:
        record = _JobRecord(
            state.last_run_ms,
            state.last_duration_ms,
            state.last_result,
            state.last_error,
            state.run_count,
            state.error_count,
            state.paused,
        )
        batch = Batch((Put(families.CHECKPOINTS, _job_key(name), codec.pack(record)),))
        self._store.submit([batch]).result()


def _job_key(name: str) -> bytes:
    return b"checkpoint:job:" + name.encode()
