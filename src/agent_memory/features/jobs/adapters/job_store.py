"""The state of background jobs on an ordered store."""

from dataclasses import asdict

import msgspec

from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.jobs import JobOutcome, JobState
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.batches import Put
from agent_memory.platform.store.rows import write


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
        value = self._store.get(families.PROGRESS, _job_key(name))
        if value is None:
            return JobState()
        record = codec.unpack(value, _JobRecord)
        if record.last_result not in _RESULTS:
            raise StorageFailed(f"the stored state of the job {name!r} is damaged")
        fields = msgspec.structs.asdict(record) | {"last_result": JobOutcome(record.last_result)}
        return JobState(**fields)

    def save(self, name: str, state: JobState, /) -> None:
        record = _JobRecord(**asdict(state))
        write(self._store, Put(families.PROGRESS, _job_key(name), codec.pack(record)))


def _job_key(name: str) -> bytes:
    return b"checkpoint:job:" + name.encode()
