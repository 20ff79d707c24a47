"""The stored layout of nodes, grips, segments and the edition."""

from typing import Any

import msgspec
from msgspec.structs import asdict

from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.editions import EditionRecord, RebuildProgress
from agent_memory.features.toc.model.highlights import Highlight, HighlightKind, Work
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.toc import Bullet, Grip, GripId, TocNode
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.store import codec

_KINDS = {kind.value: kind for kind in HighlightKind}


class _StoredBullet(msgspec.Struct, array_like=True, frozen=True):
    text: str
    grip_ids: tuple[GripId, ...]
    weight: float
    kind: int = 0
    reported: bool = False
    corrects: bool = False


class _Highlight(msgspec.Struct, array_like=True, frozen=True):
    text: str
    grip_ids: tuple[str, ...]
    weight: float
    kind: int
    at_ms: Millis
    session: str
    project: str
    reported: bool
    corrects: bool = False


class _Work(msgspec.Struct, array_like=True, frozen=True):
    sessions: int = 0
    begun: int = 0
    prompts: int = 0
    commits: int = 0
    seconds: int = 0
    files: tuple[str, ...] = ()
    finished: int = 0
    decided: int = 0


class _Node(msgspec.Struct, array_like=True, frozen=True):
    """New fields come last, with a default: older versions read newer nodes, and we read theirs."""

    title: str
    summary: str
    bullets: list[_StoredBullet]
    keywords: tuple[str, ...]
    child_ids: tuple[NodeId, ...]
    start_ms: Millis
    end_ms: Millis
    version: int
    created_ms: Millis
    session: str = ""
    project: str = ""
    highlights: list[_Highlight] = []
    work: _Work = _Work()


class _Grip(msgspec.Struct, array_like=True, frozen=True):
    excerpt: str
    event_id_start: str
    event_id_end: str
    at_ms: int
    source: str
    node_id: str


class _Segment(msgspec.Struct, array_like=True, frozen=True):
    last_ms: int
    last_id: str
    tokens: int
    count: int
    ended: bool


class _Rebuild(msgspec.Struct, array_like=True, frozen=True):
    edition: int
    total: int
    reached: NodeId | None
    done: int
    written: int
    spent_ms: int


class _Edition(msgspec.Struct, array_like=True, frozen=True):
    edition: int
    rebuild: _Rebuild | None


class _Pointer(msgspec.Struct, array_like=True, frozen=True):
    version: int
    kept: bool


def encode_node(node: TocNode) -> bytes:
    return codec.pack(msgspec.convert(node, _Node, from_attributes=True))


def decode_node(node_id: NodeId, value: bytes) -> TocNode:
    record = codec.unpack(value, _Node)
    fields = asdict(record)
    fields["bullets"] = tuple([Bullet(**_read_fields(each)) for each in record.bullets])
    fields["highlights"] = tuple([Highlight(**_read_fields(each)) for each in record.highlights])
    fields["work"] = Work(**asdict(record.work))
    return TocNode(node_id=node_id, level=periods.parse_level(node_id), **fields)


def _read_fields(record: _StoredBullet | _Highlight) -> dict[str, Any]:
    """Return the fields of a record. A kind that only a newer version knows is a note to us."""
    fields = asdict(record)
    fields["kind"] = _KINDS.get(record.kind, HighlightKind.NOTE)
    return fields


def encode_grip(grip: Grip) -> bytes:
    return codec.pack(msgspec.convert(grip, _Grip, from_attributes=True))


def decode_grip(grip_id: str, value: bytes) -> Grip:
    record = codec.unpack(value, _Grip)
    return Grip(grip_id=GripId(grip_id), **asdict(record))


def encode_segment(segment: Segment) -> bytes:
    last = segment.last
    return codec.pack(
        _Segment(last.at_ms, last.event_id, segment.tokens, segment.count, segment.ended)
    )


def decode_segment(session_id: SessionId, first: Position, value: bytes) -> Segment:
    record = codec.unpack(value, _Segment)
    return Segment(
        session_id=session_id,
        first=first,
        last=Position(at_ms=Millis(record.last_ms), event_id=EventId(record.last_id)),
        tokens=record.tokens,
        count=record.count,
        ended=record.ended,
    )


def encode_edition(record: EditionRecord) -> bytes:
    return codec.pack(msgspec.convert(record, _Edition, from_attributes=True))


def decode_edition(value: bytes) -> EditionRecord:
    record = codec.unpack(value, _Edition)
    progress = None if record.rebuild is None else RebuildProgress(**asdict(record.rebuild))
    return EditionRecord(edition=record.edition, rebuild=progress)


def encode_pointer(version: int, kept: bool) -> bytes:
    return codec.pack(_Pointer(version, kept))


def decode_pointer(value: bytes) -> tuple[int, bool]:
    record = codec.unpack(value, _Pointer)
    return record.version, record.kept
