"""Documents: the units of search, made from events, segments, grips, memories and facts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import NewType
from urllib.parse import quote, unquote

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import RECALLED, is_description
from agent_memory.features.toc.model.periods import MONTHS, WEEKDAYS, NodeId
from agent_memory.features.toc.model.toc import Grip, TocNode
from agent_memory.kernel.access import Principal
from agent_memory.kernel.ids import KnowledgeId, MemoryKey, Millis

SCHEME = "memory://"
CONTENTS = f"{SCHEME}toc"  # prefix of the URI of a node
GRIPS = f"{SCHEME}grips"
EVENTS = f"{SCHEME}events"
FACTS = f"{SCHEME}facts"
SESSIONS = f"{SCHEME}sessions"
LESSONS = f"{SCHEME}lessons"
SEVERAL = "several"  # the domain of a segment or grip whose summary tells of several projects
DocumentKey = NewType("DocumentKey", str)
Owner = NewType("Owner", str)

_ROLES = {role: role.name.lower() for role in EventRole}
_NOISE_CHARS = 1_000  # a longer tool result has something to say
_CALL_WORDS = 12  # a longer call, such as a commit with its message, says something by itself
_EMPTY_FIELD = re.compile(r'"[^"\\\n]{1,80}"\s*:\s*(?:""|null|\[\s*\]|\{\s*\})')
_BARE_LINE_NUMBER = re.compile(r"^[ \t]*\d+(?:\t|[ \t]*[\u2192:|])[ \t]*$", re.MULTILINE)
_TOKEN = re.compile(r"[^\W\d_]+|\d{3,}")
_SAYS_NOTHING = re.compile(
    "ok|done|success|true|false|null|none|stdout|stderr|exit|code|exitcode|returncode|status"
    "|interrupted|isimage|nooutputexpected|no|output|matches|files|results|found",
    re.IGNORECASE,
)


class DocumentKind(StrEnum):
    EVENT = "event"
    SEGMENT = "segment"
    GRIP = "grip"
    MEMORY = "memory"
    FACT = "fact"


_AREAS = {
    DocumentKind.EVENT: EVENTS,
    DocumentKind.SEGMENT: CONTENTS,
    DocumentKind.GRIP: GRIPS,
    DocumentKind.FACT: FACTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A unit of search.

    `owner` is the record it comes from: an event or memory owns itself, a segment also owns its
    grips. The documents of an owner change together.
    """

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


def is_visible(document: Document, caller: Principal) -> bool:
    """Tell whether a caller may see a document: by its domain, or if it has none, its project."""
    if document.domain:
        return caller.sees_domain(document.domain)
    return caller.sees_project(document.project)


def build_key(kind: DocumentKind, name: str) -> DocumentKey:
    return DocumentKey(kind + ":" + name)  # formatting an enum takes four times as long


def build_uri(document: Document) -> str:
    """Return the URI to read the document by."""
    if document.kind is DocumentKind.MEMORY:
        return document.id
    return format_uri(_AREAS[document.kind], document.id)


def format_uri(area: str, name: str) -> str:
    """Return the URI of a record, by its area (such as EVENTS) and its id."""
    return f"{area}/{quote(name, safe=':')}"


def parse_uri(uri: str) -> tuple[str, str]:
    """Return the area and the id of a URI in our scheme. The area may be unknown."""
    area, _, name = uri.removeprefix(SCHEME).partition("/")
    return SCHEME + area, unquote(name)


def parse_document_uri(uri: str) -> tuple[DocumentKind | None, str]:
    """Return the kind and the id of the document with this URI. None: it is none of a document."""
    if not uri.startswith(SCHEME):
        return DocumentKind.MEMORY, uri
    area, name = parse_uri(uri)
    return next((kind for kind, own in _AREAS.items() if own == area), None), name


def event_owner(event_id: str) -> Owner:
    return Owner(f"event:{event_id}")


def segment_owner(node_id: NodeId) -> Owner:
    return Owner(f"segment:{node_id}")


def memory_owner(key: MemoryKey) -> Owner:
    return Owner("memory:" + "/".join(key))


def fact_owner(name: KnowledgeId) -> Owner:
    return Owner(f"fact:{name}")


def owner_of(kind: DocumentKind, name: str) -> Owner | None:
    """Return the owner of the document with this id, or None if only the record names it.

    A grip belongs to its segment, and the URN of a memory has only the beginning of its digest.
    """
    match kind:
        case DocumentKind.EVENT:
            return event_owner(name)
        case DocumentKind.SEGMENT:
            return segment_owner(NodeId(name))
        case DocumentKind.FACT:
            return fact_owner(KnowledgeId(name))
        case DocumentKind.GRIP | DocumentKind.MEMORY:
            return None


def from_event(event: Event) -> list[Document]:
    """Return the document of an event. An event without text has none, nor has a question to our
    own memory, a title or a summary of other events: it would be found instead of them."""
    about = event.metadata
    if not event.text.strip() or about.get(RECALLED) or is_description(event):
        return []
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
    """Build the document of a segment from its summary."""
    texts = (node.title, node.summary, *(bullet.text for bullet in node.bullets))
    return Document(
        kind=DocumentKind.SEGMENT,
        id=node.node_id,
        owner=segment_owner(node.node_id),
        at_ms=node.start_ms,
        title=node.title,
        text="\n".join(filter(None, (*texts, " ".join(node.keywords)))),
        session=session,
    )


def from_grip(grip: Grip, node: TocNode, session: str) -> Document:
    """Build the document of a grip, with its bullet as title."""
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
    """Return the document with project and agent from the metadata of one of its events."""
    return replace(document, project=about.get("project", ""), agent=about.get("agent", ""))


def is_noise(document: Document) -> bool:
    """Tell whether a document is a tool result that says nothing.

    Its output is empty, "ok", an exit code, JSON with empty fields or bare line numbers. A long
    call, and a number of three digits or more, count as something said.
    """
    if not document.tool or len(document.text) > _NOISE_CHARS:
        return False
    output = document.text
    if output.startswith(f"{document.tool}: "):
        call, _, output = output.partition("\n")
        if len(call.split()) > _CALL_WORDS:
            return False
    said = _EMPTY_FIELD.sub("", _BARE_LINE_NUMBER.sub("", output))
    return all(_SAYS_NOTHING.fullmatch(token) for token in _TOKEN.findall(said))


def join_text(document: Document) -> str:
    """Return the title, text and tags of a document as one text."""
    words = f"{document.title}\n{document.text}" if document.title else document.text
    return f"{words}\n{' '.join(sorted(document.tags))}" if document.tags else words


def describe_origin(document: Document) -> str:
    """Return the tool, file, project and date of a document in words."""
    return " ".join((document.tool, document.file, document.project, format_date(document.at_ms)))


def format_date(at_ms: Millis) -> str:
    """Return a date like "8 May 2023 Monday", or an empty string for years beyond 9999."""
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year} {WEEKDAYS[moment.weekday()]}"


def format_iso(at_ms: Millis) -> str:
    """Return a moment in ISO 8601, in UTC, or as milliseconds for years beyond 9999."""
    try:
        # Seconds as a float would be a millisecond off in the far future.
        at = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
        return at.isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
