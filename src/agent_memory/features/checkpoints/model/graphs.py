"""Graph checkpoints: the states of an agent's graph, and what its steps wrote.

They belong to the program that wrote them, and are stored and returned byte for byte.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, NewType

from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, Millis

ThreadId = NewType("ThreadId", str)
CheckpointId = NewType("CheckpointId", str)
GraphRunId = NewType("GraphRunId", str)

MIB = 1 << 20
MAX_ID_CHARS = 256
MAX_NS_CHARS = 2048  # a subgraph's namespace includes all graphs above it
MAX_PATH_CHARS = 4096
MAX_TYPE_CHARS = 32
MAX_BLOB_BYTES = 15 * MIB  # with metadata, it fits into one message of 16 MiB
MAX_METADATA_BYTES = MIB // 2
MAX_WRITES = 1_000  # per call
MAX_FILTER_BYTES = 64 << 10
MAX_NAMED = 1_000  # threads, runs or checkpoints per call
MAX_PAGE = 500
_MAX_INDEX = (1 << 31) - 1
RUN_ID = "run_id"
_UUID_VERSION = 6
_TICKS_BEFORE_1970 = 0x01B21DD213814000  # since 1582, in steps of 100 ns
_TICKS_PER_MILLI = 10_000
_DELTAS = "counters_since_delta_snapshot"


class CheckpointKey(NamedTuple):
    """The key of a checkpoint. The ids of a thread's checkpoints ascend with time."""

    thread_id: ThreadId
    checkpoint_ns: str
    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo:
    """A checkpoint without its state."""

    place: CheckpointKey
    parent_checkpoint_id: CheckpointId | None
    metadata: str  # JSON, an object
    blob_size: int
    step: int | None = None
    source: str | None = None
    run_id: GraphRunId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """A thread of a graph: how many checkpoints it has, and the latest of them."""

    thread_id: ThreadId
    checkpoints: int
    latest: CheckpointInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCheckpoint:
    """A state of a graph, serialized by the program that runs it: `type` says how."""

    place: CheckpointKey
    parent_checkpoint_id: CheckpointId | None = None
    metadata: str = "{}"
    type: str
    blob: bytes

    def __post_init__(self) -> None:
        check_place(self.place)
        if self.parent_checkpoint_id is not None:
            check_id("parent_checkpoint_id", self.parent_checkpoint_id)
        check_id("type", self.type, MAX_TYPE_CHARS, empty=True)
        _check_size("the checkpoint", len(self.blob), MAX_BLOB_BYTES)
        _check_size("metadata", len(_encode_text("metadata", self.metadata)), MAX_METADATA_BYTES)

    @property
    def info(self) -> CheckpointInfo:
        """The checkpoint without its state. Raises InvalidInput for invalid metadata."""
        metadata = read_object("metadata", self.metadata)
        step, source, run_id = metadata.get("step"), metadata.get("source"), metadata.get(RUN_ID)
        return CheckpointInfo(
            place=self.place,
            parent_checkpoint_id=self.parent_checkpoint_id,
            metadata=self.metadata,
            blob_size=len(self.blob),
            step=step if type(step) is int and abs(step) <= _MAX_INDEX else None,
            source=source[:MAX_ID_CHARS] if isinstance(source, str) else None,
            run_id=GraphRunId(run_id) if isinstance(run_id, str) and _is_id(run_id) else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWrite:
    """A write of a task, in the step after a checkpoint, to a channel.

    `index` counts the writes of a task. Negative indexes are for values that may change (an error,
    an interrupt): there the last write counts, elsewhere the first.
    """

    task_id: str
    index: int
    channel: str
    type: str
    value: bytes
    task_path: str = ""

    def __post_init__(self) -> None:
        check_id("task_id", self.task_id)
        check_id("task_path", self.task_path, MAX_PATH_CHARS, empty=True)
        check_id("channel", self.channel, MAX_NS_CHARS)
        check_id("type", self.type, MAX_TYPE_CHARS, empty=True)
        if abs(self.index) > _MAX_INDEX:
            raise InvalidInput(f"index is {self.index}; it must fit in 32 bits")
        _check_size(f"the write to {self.channel!r}", len(self.value), MAX_BLOB_BYTES)

    @property
    def size(self) -> int:
        """An upper estimate in bytes."""
        names = len(self.task_id) + len(self.task_path) + len(self.channel) + len(self.type)
        return len(self.value) + 4 * names + 32


class WriteKey(NamedTuple):
    """The key of a write within its checkpoint."""

    task_id: str
    number: int  # its index


class WritesPage(NamedTuple):
    """Some writes of a checkpoint; `next` is the last of them if there are more."""

    writes: tuple[PendingWrite, ...] = ()
    next: WriteKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSnapshot:
    """A checkpoint with the writes after it, or the first page of them."""

    checkpoint: GraphCheckpoint
    pending: WritesPage

    @property
    def size(self) -> int:
        """An upper estimate in bytes."""
        own = len(self.checkpoint.blob) + len(self.checkpoint.metadata.encode())
        return own + sum(write.size for write in self.pending.writes)


class CheckpointScope(NamedTuple):
    """The checkpoints to list: of all threads, of a thread, or of one namespace of it."""

    thread_id: ThreadId | None = None
    checkpoint_ns: str | None = None


class Strategy(Enum):
    """What pruning leaves of a thread."""

    KEEP_LATEST = "keep_latest"
    DELETE = "delete"


def read_time(checkpoint_id: str) -> Millis | None:
    """Return the time in an id that LangGraph made (UUID version 6), or None."""
    try:
        parsed = uuid.UUID(checkpoint_id)
    except ValueError:
        return None
    if parsed.version != _UUID_VERSION:
        return None
    high, middle, low = parsed.int >> 96, parsed.int >> 80 & 0xFFFF, parsed.int >> 64 & 0xFFF
    ticks = (high << 28 | middle << 12 | low) - _TICKS_BEFORE_1970
    millis = ticks // _TICKS_PER_MILLI
    return Millis(millis) if 0 <= millis <= MAX_MILLIS else None


def check_place(place: CheckpointKey) -> None:
    check_id("thread_id", place.thread_id)
    check_namespace(place.checkpoint_ns)
    check_id("checkpoint_id", place.checkpoint_id)


def check_namespace(name: str) -> None:
    check_id("checkpoint_ns", name, MAX_NS_CHARS, empty=True)


def check_id(name: str, value: str, limit: int = MAX_ID_CHARS, *, empty: bool = False) -> None:
    if not value and not empty:
        raise InvalidInput(f"{name} is required")
    if len(value) > limit:
        raise InvalidInput(f"{name} has {len(value)} characters; the limit is {limit}")
    if not value.isprintable():
        raise InvalidInput(f"{name} has unprintable characters")


def _is_id(value: str) -> bool:
    return 0 < len(value) <= MAX_ID_CHARS and value.isprintable()


def check_ids(name: str, values: Sequence[str]) -> None:
    """Check the ids of one call."""
    if len(values) > MAX_NAMED:
        raise InvalidInput(f"{len(values)} {name} in one call; the limit is {MAX_NAMED}")
    for value in values:
        check_id(name, value)


def parse_strategy(name: str) -> Strategy:
    try:
        return Strategy(name)
    except ValueError as exc:
        known = ", ".join(strategy.value for strategy in Strategy)
        raise InvalidInput(f"strategy is {name!r}; it must be one of {known}") from exc


def read_filter(text: str) -> Mapping[str, Any]:
    """Parse the values that metadata must have. Raises InvalidInput."""
    if not text:
        return {}
    _check_size("filter", len(_encode_text("filter", text)), MAX_FILTER_BYTES)
    return read_object("filter", text)


def matches(info: CheckpointInfo, expected: Mapping[str, Any]) -> bool:
    """Return whether the metadata has all these values; None also matches a missing one."""
    if not expected:
        return True
    metadata = read_object("metadata", info.metadata)
    try:
        return all(metadata.get(key) == value for key, value in expected.items())
    except RecursionError as exc:
        raise InvalidInput("filter is nested too deeply") from exc


def find_superfluous(history: Iterable[CheckpointInfo]) -> list[CheckpointKey]:
    """List the checkpoints to remove so that each namespace keeps its latest.

    A channel may be stored as differences since a snapshot: the latest checkpoint then needs those
    before it, back to the snapshots of all such channels. The metadata counts the steps since.
    """
    spaces: dict[str, dict[CheckpointKey, _CheckpointLink]] = {}
    for info in history:
        step = _CheckpointLink(info.parent_checkpoint_id, _deltas(info))
        spaces.setdefault(info.place.checkpoint_ns, {})[info.place] = step
    superfluous: list[CheckpointKey] = []
    for space in spaces.values():
        needed = _find_needed(space)
        superfluous += [place for place in space if place not in needed]
    return superfluous


class _CheckpointLink(NamedTuple):
    parent: CheckpointId | None
    deltas: frozenset[str]


def _find_needed(space: Mapping[CheckpointKey, _CheckpointLink]) -> set[CheckpointKey]:
    place = max(space)
    needed, deltas = {place}, space[place].deltas
    while deltas and (parent := space[place].parent) is not None:
        place = place._replace(checkpoint_id=parent)
        if place in needed or place not in space:
            break
        needed.add(place)
        deltas &= space[place].deltas
    return needed


def _deltas(info: CheckpointInfo) -> frozenset[str]:
    """Return the channels of which this checkpoint holds only the difference."""
    if _DELTAS not in info.metadata:
        return frozenset()
    counters = read_object("metadata", info.metadata).get(_DELTAS)
    return frozenset(counters) if isinstance(counters, dict) else frozenset()


def read_object(name: str, text: str) -> Mapping[str, Any]:
    """Parse a JSON object. Raises InvalidInput."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"{name} is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} must be a JSON object")
    return value


def replace_texts(
    document: str, change: Callable[[str], str], change_id: Callable[[str], str]
) -> str:
    """Replace every string of a JSON object, names included; return invalid JSON unchanged."""
    try:
        original = read_object("metadata", document)
        changed = _replace_value(original, change)
        if isinstance(original.get(RUN_ID), str):  # runs are looked up by it
            changed[RUN_ID] = change_id(original[RUN_ID])
        return document if changed == original else json.dumps(changed, ensure_ascii=False)
    except (InvalidInput, RecursionError):
        return document


def _replace_value(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _replace_pair(name, item, change) for name, item in value.items()}
    return [_replace_value(item, change) for item in value] if isinstance(value, list) else value


def _replace_pair(name: str, value: Any, change: Callable[[str], str]) -> Any:
    """Replace a value together with its name, which may mark the value as a secret."""
    if not isinstance(value, str):
        return _replace_value(value, change)
    lead = f"{name}="
    both = change(lead + value)
    return both[len(lead) :] if both.startswith(lead) else change(value)


def _encode_text(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{name} is not valid Unicode: {exc.reason}") from exc


def _check_size(what: str, size: int, limit: int) -> None:
    if size > limit:
        shown = f"{limit >> 20} MiB" if limit >= MIB else f"{limit >> 10} KiB"
        raise InvalidInput(f"{what} has {size:,} bytes; the limit is {shown}")
