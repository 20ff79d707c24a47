"""The stored layout of nodes, grips, segments and the edition."""

import msgspec

from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.editions import EditionRecord, RebuildProgress
from agent_memory.features.toc.model.highlights import Highlight, HighlightKind, Work
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.toc import Bullet, Grip, GripId, TocNode
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.store import codec


class _StoredBullet(msgspec.Struct, array_like=True, frozen=True):
    text: str
    grip_ids: list[str]
    weight: float
    kind: int = 0
    reported: bool = False
    corrects: bool = False


class _Highlight(msgspec.Struct, array_like=True, frozen=True):
    text: str
    grip_ids: list[str]
    weight: float
    kind: int
    at_ms: int
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
    files: list[str] = []
    finished: int = 0
    decided: int = 0


class _Node(msgspec.Struct, array_like=True, frozen=True):
    """New fields come last, with a default: older versions read newer nodes, and we read theirs."""

    title: str
    summary: str
    bullets: list[_StoredBullet]
    keywords: list[str]
    child_ids: list[str]
    start_ms: int
    end_ms: int
    version: int
    created_ms: int
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
    reached: str | None
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
    return codec.pack(
        _Node(
            node.title,
            node.summary,
            [
                msgspec.convert(bullet, _StoredBullet, from_attributes=True)
                for bullet in node.bullets
            ],
            list(node.keywords),
            list(node.child_ids),
            node.start_ms,
            node.end_ms,
            node.version,
            node.created_ms,
            node.session,
            node.project,
            [
                msgspec.convert(highlight, _Highlight, from_attributes=True)
                for highlight in node.highlights
            ],
            msgspec.convert(node.work, _Work, from_attributes=True),
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
            Bullet(
                text=bullet.text,
                grip_ids=tuple(GripId(grip) for grip in bullet.grip_ids),
                weight=bullet.weight,
                kind=_decode_kind(bullet.kind),
                reported=bullet.reported,
                corrects=bullet.corrects,
            )
            for bullet in record.bullets
        ),
        keywords=tuple(record.keywords),
        child_ids=tuple(NodeId(child) for child in record.child_ids),
        start_ms=Millis(record.start_ms),
        end_ms=Millis(record.end_ms),
        version=record.version,
        created_ms=Millis(record.created_ms),
        session=record.session,
        project=record.project,
        highlights=tuple(
            Highlight(
                text=highlight.text,
                grip_ids=tuple(highlight.grip_ids),
                weight=highlight.weight,
                kind=_decode_kind(highlight.kind),
                at_ms=Millis(highlight.at_ms),
                session=highlight.session,
                project=highlight.project,
                reported=highlight.reported,
                corrects=highlight.corrects,
            )
            for highlight in record.highlights
        ),
        work=Work(**{**msgspec.structs.asdict(record.work), "files": tuple(record.work.files)}),
    )


def _decode_kind(number: int) -> HighlightKind:
    """Return the kind; one that a newer version knows is a note to us."""
    try:
        return HighlightKind(number)
    except ValueError:
        return HighlightKind.NOTE


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


def encode_edition(record: EditionRecord) -> bytes:
    return codec.pack(msgspec.convert(record, _Edition, from_attributes=True))


def decode_edition(value: bytes) -> EditionRecord:
    record = codec.unpack(value, _Edition)
    progress = record.rebuild
    return EditionRecord(
        edition=record.edition,
        rebuild=None
        if progress is None
        else RebuildProgress(
            edition=progress.edition,
            total=progress.total,
            reached=None if progress.reached is None else NodeId(progress.reached),
            done=progress.done,
            written=progress.written,
            spent_ms=progress.spent_ms,
        ),
    )


def encode_pointer(version: int, kept: bool) -> bytes:
    return codec.pack(_Pointer(version, kept))


def decode_pointer(value: bytes) -> tuple[int, bool]:
    record = codec.unpack(value, _Pointer)
    return record.version, record.kept
