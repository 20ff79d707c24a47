"""What machines and a team's server send each other, and its form as JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import fields as list_fields
from typing import Any, NamedTuple, TypeVar

from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.name_changes import NameChange
from agent_memory.features.recall.ports import TeamRecord
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import (
    MAX_STATED_MILLIS,
    Digest,
    Domain,
    EventId,
    KnowledgeId,
    MemoryKey,
    Millis,
    SessionId,
)

MAX_RECORDS = 500  # of one batch
MAX_BATCH_BYTES = 2 << 20  # of the texts of one batch; a single event may have more
MAX_CHANGES = 500  # of one page
MAX_MACHINE_CHARS = 64
MAX_CLIENT_CHARS = 64
MACHINE = "machine"  # metadata of an event: which one of its person sent it

SharedRecord = Event | Memory | Fact | FactTombstone
LoweredRecord = Memory | Fact | FactTombstone
Fields = Mapping[str, Any]
R = TypeVar("R", Event, Memory, Fact, FactTombstone, "ForgottenEvent")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """Records that a machine sends. `forgotten` are ids of events on that machine.

    `machine` is its name for people, `client` the one that the server counts its receipts by.
    `projects` are the repositories that the names of projects stand for.
    """

    machine: str = ""
    client: str = ""
    events: tuple[Event, ...] = ()
    memories: tuple[Memory, ...] = ()
    facts: tuple[Fact, ...] = ()
    removed_facts: tuple[FactTombstone, ...] = ()
    forgotten: tuple[EventId, ...] = ()
    projects: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def build(cls, records: Sequence[SharedRecord]) -> "RecordBatch":
        return cls(
            events=tuple(each for each in records if isinstance(each, Event)),
            memories=tuple(each for each in records if isinstance(each, Memory)),
            facts=tuple(each for each in records if isinstance(each, Fact)),
            removed_facts=tuple(each for each in records if isinstance(each, FactTombstone)),
        )

    @property
    def records(self) -> tuple[SharedRecord, ...]:
        return *self.events, *self.memories, *self.facts, *self.removed_facts

    @property
    def asks_to_erase(self) -> bool:
        stones = (each.status is MemoryStatus.TOMBSTONE for each in self.memories)
        return bool(self.forgotten or self.removed_facts) or any(stones)


class RecordRefused(NamedTuple):
    """A record that the server did not take, and why."""

    kind: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOutcome:
    """What became of a batch. `known` were there already and have not changed. `lowered` are those
    whose times were later than the server's, with the times that they have there."""

    taken: int = 0
    known: int = 0
    refused: tuple[RecordRefused, ...] = ()
    receipt: int = 0
    lowered: tuple[LoweredRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenEvent:
    """An event of the caller that was forgotten, by its id on the caller's machines."""

    event_id: EventId


TeamChange = Memory | Fact | FactTombstone | ForgottenEvent
People = Mapping[MemoryKey | KnowledgeId, str]  # whom memories and facts come from


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePage:
    """Changes in order. Read on after `next`; `more` tells whether there are more now."""

    changes: tuple[TeamChange, ...]
    next: str
    people: People = field(default_factory=dict)
    more: bool = False
    receipt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProject:
    """What a server knows of a repository and a name. `name` is what the repository's project is
    called, if it has one; `taken_by` is another repository that has the name asked for."""

    name: str = ""
    taken_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginMethod:
    """How people log in to a server: with which issuer, and as which client of it."""

    issuer: str
    client_id: str
    audience: str


class KeyNotice(NamedTuple):
    """A key of the caller on the server. `created_by` is the person who made it; empty: the
    operator."""

    name: str
    rights: str
    created_ms: Millis
    created_by: str


class ErasureNotice(NamedTuple):
    """A record that is to be erased, who asked for it, and when it is due."""

    kind: str
    name: str
    asked_by: str
    asked_ms: Millis
    due_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamIdentity:
    """Who the caller is to the server, and the last receipt that it gave to this client.

    A server counts what it exchanges with each client. Once it was restored from an older copy,
    its count is behind that of the client, which then sends everything again.
    """

    person: str
    role: str = ""
    projects: tuple[str, ...] | None = None  # None: all
    version: str = ""
    receipt: int = 0
    keys: tuple[str, ...] = ()  # the names of the caller's keys
    erasures: int = 0  # records of the caller that wait to be erased

    @property
    def rights(self) -> str:
        """The role and the projects, in a form to compare and to show."""
        of = "" if self.projects is None else f" of {', '.join(self.projects) or 'no project'}"
        return self.role + of


def encode_batch(batch: RecordBatch) -> dict[str, Any]:
    named = {"projects": dict(batch.projects)} if batch.projects else {}
    return named | {
        "machine": batch.machine,
        "client": batch.client,
        "events": list(map(encode_event, batch.events)),
        "memories": list(map(encode_memory, batch.memories)),
        "facts": list(map(encode_fact, batch.facts)),
        "removed_facts": [asdict(tombstone) for tombstone in batch.removed_facts],
        "forgotten": list(batch.forgotten),
    }


def encode_event(event: Event) -> dict[str, Any]:
    fields = asdict(event)
    return {"timestamp_ms": fields.pop("at_ms"), **fields}


def decode_event(fields: Fields) -> Event:
    """Decode an event. Raises InvalidInput."""
    return _decode(Event, fields, at_ms=_number(fields, "timestamp_ms"))


def encode_memory(memory: Memory) -> dict[str, Any]:
    fields = asdict(memory)
    del fields["index"]  # each machine counts for itself
    fields["tags"] = sorted(memory.tags)
    fields["status"] = memory.status.value
    return fields


def decode_memory(fields: Fields) -> Memory:
    """Decode a memory. Raises InvalidInput."""
    return _decode(Memory, fields, index=0)


def encode_fact(fact: Fact) -> dict[str, Any]:
    fields = asdict(fact)
    del fields["access_count"]  # each machine counts for itself
    return fields


def decode_fact(fields: Fields) -> Fact:
    """Decode a fact. Raises InvalidInput."""
    return _decode(Fact, fields, access_count=0)


def decode_tombstone(fields: Fields) -> FactTombstone:
    """Decode a removed fact. Raises InvalidInput."""
    return _decode(FactTombstone, fields, at_ms=_number(fields, "at_ms"))


def encode_change(change: TeamChange, people: People) -> dict[str, Any]:
    match change:
        case Memory():
            person = people.get(change.key, "")
            return {"kind": "memory", "record": encode_memory(change), "person": person}
        case Fact():
            person = people.get(change.id, "")
            return {"kind": "fact", "record": encode_fact(change), "person": person}
        case FactTombstone():
            return {"kind": "removed_fact", "record": asdict(change)}
        case ForgottenEvent():
            return {"kind": "forgotten_event", "record": asdict(change)}


def decode_change(fields: Fields) -> TeamChange | None:
    """Decode a change; None if it is of a kind that only newer versions know. Raises
    InvalidInput."""
    record = fields.get("record")
    if not isinstance(record, Mapping):
        raise InvalidInput("a change has no record")
    match fields.get("kind"):
        case "memory":
            return decode_memory(record)
        case "fact":
            return decode_fact(record)
        case "removed_fact":
            return decode_tombstone(record)
        case "forgotten_event":
            return _decode(ForgottenEvent, record)
        case _:
            return None


def encode_opened(opened: TeamRecord) -> dict[str, Any]:
    record = opened.record
    match record:
        case Event():
            kind, encoded = "event", encode_event(record)
        case Memory():
            kind, encoded = "memory", encode_memory(record)
        case Fact():
            kind, encoded = "fact", encode_fact(record)
    return {
        "kind": kind,
        "record": encoded,
        "person": opened.person,
        "machine": opened.machine,
        "before": list(map(encode_event, opened.before)),
        "after": list(map(encode_event, opened.after)),
    }


def decode_opened(fields: Fields) -> TeamRecord:
    """Decode an opened record. Raises InvalidInput."""
    if fields.get("kind") == "event":
        record: TeamChange | Event | None = decode_event(_mapping(fields.get("record")))
    else:
        record = decode_change(fields)
    if not isinstance(record, Event | Memory | Fact):
        raise InvalidInput("the server opened a record of an unknown kind")
    return TeamRecord(
        record=record,
        person=_text(fields, "person"),
        machine=_text(fields, "machine"),
        before=tuple(map(decode_event, _mappings(fields.get("before")))),
        after=tuple(map(decode_event, _mappings(fields.get("after")))),
    )


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a text")
    return value


def _optional(fields: Fields, name: str) -> str | None:
    return None if fields.get(name) is None else _text(fields, name)


def _number(fields: Fields, name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"{name} must be a whole number")
    return value


def _share(fields: Fields, name: str) -> float:
    value = fields.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidInput(f"{name} must be a number")
    return float(value)


def _time(fields: Fields, name: str) -> Millis:
    number = _number(fields, name)
    if number < 0:
        raise InvalidInput(f"{name} must be a time in Unix milliseconds")
    return Millis(min(number, MAX_STATED_MILLIS))


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    value = fields.get(name)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise InvalidInput(f"{name} must be a list of texts")
    return tuple(value)


def _texts_by_name(fields: Fields, name: str) -> dict[str, str]:
    value = fields.get(name)
    if not isinstance(value, Mapping) or not all(
        isinstance(part, str) for pair in value.items() for part in pair
    ):
        raise InvalidInput(f"{name} must have texts only")
    return dict(value)


def _name_changes(fields: Fields, name: str) -> tuple[NameChange, ...]:
    changes = fields.get(name)
    if not isinstance(changes, list | tuple):
        raise InvalidInput(f"{name} must be a list")
    return tuple(_name_change(name, change) for change in changes)


def _name_change(field: str, change: object) -> NameChange:
    match change:
        case [str(name), int(at_ms)]:
            return NameChange(name, Millis(min(at_ms, MAX_STATED_MILLIS)))
        case _:
            raise InvalidInput(f"{field} must have pairs of a name and a time")


# How a field is read, by its type.
_READERS: Mapping[Any, Callable[[Fields, str], Any]] = {
    **dict.fromkeys((str, Digest, Domain, EventId, KnowledgeId, SessionId), _text),
    str | None: _optional,
    int: _number,
    float: _share,
    Millis: _time,
    EventRole: lambda fields, name: EventRole(_number(fields, name)),
    EventType: lambda fields, name: EventType(_number(fields, name)),
    MemoryStatus: lambda fields, name: MemoryStatus(_text(fields, name)),
    Mapping[str, str]: _texts_by_name,
    frozenset[str]: lambda fields, name: frozenset(_texts(fields, name)),
    tuple[str, ...]: _texts,
    tuple[NameChange, ...]: _name_changes,
}


def _decode(kind: type[R], fields: Fields, **given: Any) -> R:
    """Build a record from its fields. Those that are `given` are not read."""
    try:
        read = {
            field.name: _READERS[field.type](fields, field.name)
            for field in list_fields(kind)
            if field.name not in given
        }
        return kind(**read, **given)
    except ValueError as exc:
        raise InvalidInput(f"the record is not valid: {exc}") from exc


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput("a record must be an object")
    return value


def _mappings(value: object) -> Iterable[Mapping[str, Any]]:
    if not isinstance(value, list | tuple):
        raise InvalidInput("a list of records is missing")
    return map(_mapping, value)
