"""The stored layout of nodes, grips and segments."""

import msgspec

from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.toc import Bullet, Grip, GripId, TocNode
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.store import codec


class _Node(msgspec.Struct, array_like=True, frozen=True):
    title: str
    summary: str
    bullets: list[tuple[str, list[str], float]]
    keywords: list[str]
    child_ids: list[str]
    start_ms: int
    end_ms: int
    version: int
    created_ms: int


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


class _Pointer(msgspec.Struct, array_like=True, frozen=True):
    version: int
    kept: bool


def encode_node(node: TocNode) -> bytes:
    return codec.pack(
        _Node(
            node.title,
            node.summary,
            [(bullet.text, list(bullet.grip_ids), bullet.weight) for bullet in node.bullets],
            list(node.keywords),
            list(node.child_ids),
            node.start_ms,
            node.end_ms,
            node.version,
            node.created_ms,
        )
    )


def decode_node(node_id: NodeId, value: bytes) -> TocNode:
    record = codec.unpack(value, _Node)
    return TocNode(
        node_id=node_id,
        level=periods.parse_level(node_id),
        title=record.title,
        summary=record.summary,
        bullets=tuple(
            Bullet(text=text, grip_ids=tuple(GripId(grip) for grip in grips), weight=weight)
            for text, grips, weight in record.bullets
        ),
        keywords=tuple(record.keywords),
        child_ids=tuple(NodeId(child) for child in record.child_ids),
        start_ms=Millis(record.start_ms),
        end_ms=Millis(record.end_ms),
        version=record.version,
        created_ms=Millis(record.created_ms),
    )


def encode_grip(grip: Grip) -> bytes:
    return codec.pack(msgspec.convert(grip, _Grip, from_attributes=True))


def decode_grip(grip_id: str, value: bytes) -> Grip:
    record = codec.unpack(value, _Grip)
    return Grip(grip_id=GripId(grip_id), **msgspec.structs.asdict(record))


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


def encode_pointer(version: int, kept: bool) -> bytes:
    return codec.pack(_Pointer(version, kept))


def decode_pointer(value: bytes) -> tuple[int, bool]:
    record = codec.unpack(value, _Pointer)
    return record.version, record.kept
