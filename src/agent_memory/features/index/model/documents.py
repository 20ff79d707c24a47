"""Documents: what recall searches, whatever it is a part of."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import NewType

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.toc import Grip, TocNode
from agent_memory.kernel.ids import KnowledgeId, MemoryKey, Millis

CONTENTS = "memory://toc"  # before the id of a node, in its URI
GRIPS = "memory://grips"
DocumentKey = NewType("DocumentKey", str)
Owner = NewType("Owner", str)


# Written out: the names of a locale are not those of the words in a conversation.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ROLES = {role: role.name.lower() for role in EventRole}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class DocumentKind(StrEnum):
    EVENT = "event"
    SEGMENT = "segment"
    GRIP = "grip"
    MEMORY = "memory"
    FACT = "fact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One thing that can be found. `owner` is the record it comes from: an event or memory is its
    own, a segment owns its grips. The documents of an owner change together."""

    kind: DocumentKind
    id: str
    owner: Owner
    at_ms: Millis
    text: str
    title: str = ""
    session: str = ""
    project: str = ""
    agent: str = ""
    speaker: str = ""
    role: str = ""
    tool: str = ""
    file: str = ""
    namespace: str = ""
    domain: str = ""
    spec: str = ""
    status: str = ""
    tags: frozenset[str] = frozenset()
    relates_to: tuple[str, ...] = ()

    @property
    def key(self) -> DocumentKey:
        return build_key(self.kind, self.id)


def build_key(kind: DocumentKind, name: str) -> DocumentKey:
    return DocumentKey(kind + ":" + name)  # to format an enum takes four times as long


def build_uri(document: Document) -> str:
    """The URI by which it can be read; empty where it has none."""
    match document.kind:
        case DocumentKind.MEMORY:
            return document.id
        case DocumentKind.SEGMENT:
            return f"{CONTENTS}/{document.id}"
        case DocumentKind.GRIP:
            return f"{GRIPS}/{document.id}"
        case _:
            return ""


def event_owner(event_id: str) -> Owner:
    return Owner(f"event:{event_id}")


def segment_owner(node_id: NodeId) -> Owner:
    return Owner(f"segment:{node_id}")


def memory_owner(key: MemoryKey) -> Owner:
    return Owner("memory:" + "/".join(key))


def fact_owner(name: KnowledgeId) -> Owner:
    return Owner(f"fact:{name}")


def from_event(event: Event) -> list[Document]:
    """One, or none where nothing was said."""
    if not event.text.strip():
        return []
    about = event.metadata
    return [
        Document(
            kind=DocumentKind.EVENT,
            id=event.event_id,
            owner=event_owner(event.event_id),
            at_ms=event.at_ms,
            text=event.text,
            session=event.session_id,
            project=about.get("project", ""),
            agent=about.get("agent", ""),
            speaker=about.get("speaker", ""),
            role=_ROLES[event.role],
            tool=about.get("tool_name", "") if event.type is EventType.TOOL_RESULT else "",
            file=about.get("file_path", ""),
        )
    ]


def from_segment(node: TocNode, session: str) -> Document:
    """A segment as its summary tells it."""
    said = (node.title, node.summary, *(bullet.text for bullet in node.bullets))
    return Document(
        kind=DocumentKind.SEGMENT,
        id=node.node_id,
        owner=segment_owner(node.node_id),
        at_ms=node.start_ms,
        title=node.title,
        text="\n".join(filter(None, (*said, " ".join(node.keywords)))),
        session=session,
    )


def from_grip(grip: Grip, node: TocNode, session: str) -> Document:
    """A grip with the bullet that rests on it."""
    bullets = (bullet.text for bullet in node.bullets if grip.grip_id in bullet.grip_ids)
    return Document(
        kind=DocumentKind.GRIP,
        id=grip.grip_id,
        owner=segment_owner(node.node_id),
        at_ms=grip.at_ms,
        title=next(bullets, ""),
        text=grip.excerpt,
        session=session,
    )


def apply_metadata(document: Document, about: Mapping[str, str]) -> Document:
    """With what the metadata of one of its events says about where it belongs."""
    return replace(document, project=about.get("project", ""), agent=about.get("agent", ""))


def join_text(document: Document) -> str:
    """All its words: the title's, the text's, and the tags that it was given."""
    words = f"{document.title}\n{document.text}" if document.title else document.text
    return f"{words}\n{' '.join(sorted(document.tags))}" if document.tags else words


def describe_origin(document: Document) -> str:
    """When, where and with what, in words."""
    return " ".join(
        (
            document.tool,
            document.file,
            document.project,
            format_date(document.at_ms),
        )
    )


def format_date(at_ms: Millis) -> str:
    """8 May 2023 Monday; nothing for years that no calendar here knows."""
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year} {_DAYS[moment.weekday()]}"


def format_iso(at_ms: Millis) -> str:
    """A moment in UTC; years that no calendar here knows as milliseconds."""
    try:
        # Not by way of seconds as a float: far from now that is a millisecond off.
        at = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
        return at.isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
