"""Memories: their names, limits and statuses, and how copies merge.

A memory is identified by the digest of its text. So the same words captured twice, or in two
clones, are one memory. Copies of it differ only in what may change: status, tags and relations, and
in who captured it where.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, NewType

from agent_memory.features.log.model.events import (
    MAX_EVENT_ID_CHARS,
    MAX_SESSION_ID_CHARS,
    check_millis,
)
from agent_memory.features.memories.model.name_changes import NameChange, NameSet
from agent_memory.kernel import access, spelling
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ORG, PROJECT, USER, Digest, Domain, MemoryKey, Millis

NAMESPACES = (
    "decisions",
    "learnings",
    "blockers",
    "progress",
    "reviews",
    "patterns",
    "retrospective",
    "inception",
    "elicitation",
    "research",
)
MAX_SUMMARY_CHARS = 100
MAX_CONTENT_BYTES = 100 << 10
MAX_SPEC_CHARS = 200
MAX_TAGS = 50
MAX_TAG_CHARS = 64
MAX_RELATED = 100
MAX_NAME_CHARS = 300  # of a reference to another memory
MAX_ORIGIN_CHARS = 200  # of the name of a person, an agent or an interface
NAME_LIMITS = {  # fields of one line that name who captured it, from what, and what replaced it
    "superseded_by": MAX_NAME_CHARS,
    "event_id": MAX_EVENT_ID_CHARS,
    "session_id": MAX_SESSION_ID_CHARS,
    "author": MAX_ORIGIN_CHARS,
    "agent": MAX_ORIGIN_CHARS,
    "interface": MAX_ORIGIN_CHARS,
}
HEX_CHARS = 12  # of the digest, in an id
AUTO_CAPTURED = "auto-captured"  # the tag of memories that were captured without asking
OFTEN = 20  # further uses do not change a tier
_DAY_MS = 86_400_000

MemoryId = NewType("MemoryId", str)
Home = NewType("Home", str)

SCHEME = "subcog://"

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_REFERENCE = re.compile(
    r"(?P<namespace>[a-z]+):(?P<hex>[0-9A-Za-z._-]{1,64}):(?P<index>[0-9]{1,4})"
)
_URN = re.compile(
    r"subcog://(?P<domain>[^/]+)/(?P<namespace>[a-z]+)/(?P<hex>[0-9a-f]{4,64}):(?P<index>[0-9]{1,4})"
)
_URN_END = re.compile(r"(?P<hex>[0-9A-Fa-f]{4,64}):(?P<index>[0-9]{1,4})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?")


class MemoryStatus(StrEnum):
    PENDING = "pending"  # noted automatically: it awaits the user's review, and is in no note
    ACTIVE = "active"
    RESOLVED = "resolved"
    ARCHIVED = "archived"
    TOMBSTONE = "tombstone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A memory. `index` distinguishes memories whose digests begin alike; it is nearly always 0. A
    tombstone has no text: it only records that a memory was forgotten."""

    digest: Digest
    namespace: str
    domain: Domain
    summary: str
    content: str = ""
    created_ms: Millis
    updated_ms: Millis
    spec: str = ""
    tags: frozenset[str] = frozenset()
    relates_to: tuple[str, ...] = ()
    status: MemoryStatus = MemoryStatus.ACTIVE
    commit: str = ""  # the commit checked out at capture
    superseded_by: str = ""
    event_id: str = ""  # the event that it was captured from
    session_id: str = ""
    index: int = 0
    author: str = ""  # the git identity at capture: a name, or a name and an address
    agent: str = ""  # that captured it, or whose session it was captured from
    interface: str = ""  # by which it was captured
    tag_changes: tuple[NameChange, ...] = ()
    relation_changes: tuple[NameChange, ...] = ()

    def __post_init__(self) -> None:
        check_namespace(self.namespace)
        check_domain(self.domain)
        if not _DIGEST.fullmatch(self.digest):
            raise InvalidInput("digest must have 64 hexadecimal digits")
        check_millis("timestamp", self.created_ms)
        check_millis("updated_at", self.updated_ms)
        if not _COMMIT.fullmatch(self.commit):
            raise InvalidInput("commit must be empty or have 40 hexadecimal digits")
        for name, limit in (
            (self.event_id, MAX_EVENT_ID_CHARS),
            (self.session_id, MAX_SESSION_ID_CHARS),
        ):
            if len(name) > limit or not name.isprintable():
                raise InvalidInput(
                    "event_id or session_id is too long or has unprintable characters"
                )
        if self.status is MemoryStatus.TOMBSTONE:
            return
        check_content(self.summary, self.content, self.spec)
        check_tags(self.tags)
        check_related(self.relates_to)
        check_origin(self.author, self.agent, self.interface)
        check_tags(change.name for change in self.tag_changes)
        check_related(change.name for change in self.relation_changes)
        for change in (*self.tag_changes, *self.relation_changes):
            check_millis("the time of a change", change.at_ms)
        check_related(filter(None, (self.superseded_by,)))
        if self.digest != compute_digest(self.namespace, self.summary, self.content, self.spec):
            raise InvalidInput("digest does not match the text of the memory")

    @property
    def key(self) -> MemoryKey:
        return MemoryKey(self.domain, self.namespace, self.digest)

    @property
    def id(self) -> MemoryId:
        return MemoryId(f"{self.namespace}:{self.digest[:HEX_CHARS]}:{self.index}")

    @property
    def urn(self) -> str:
        return build_urn(self.domain, self.namespace, self.digest[:HEX_CHARS], self.index)

    @property
    def texts(self) -> tuple[str, ...]:
        """All text that someone wrote. It may hold a secret, and forgetting removes it."""
        written = (self.summary, self.content, self.spec, *sorted(self.tags), *self.relates_to)
        removed = (change.name for change in (*self.tag_changes, *self.relation_changes))
        return (*written, self.event_id, self.session_id, self.author, self.agent, *removed)

    @property
    def tag_set(self) -> NameSet:
        return NameSet(self.tags, self.tag_changes)

    @property
    def relation_set(self) -> NameSet:
        return NameSet(frozenset(self.relates_to), self.relation_changes)

    @property
    def superseded(self) -> bool:
        return bool(self.superseded_by)

    @property
    def is_pending(self) -> bool:
        return self.status is MemoryStatus.PENDING


class MemoryOutline(NamedTuple):
    """What counting and listing need of a memory. `uses` is how often it was recalled."""

    key: MemoryKey
    status: MemoryStatus
    superseded: bool
    created_ms: Millis
    uses: int
    superseded_by: str = ""

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def group(self) -> "MemoryOutline":
        """The outline that all memories share which differ only in their text and, within a day,
        in their time."""
        day = Millis(self.created_ms - self.created_ms % _DAY_MS)
        key = self.key._replace(digest=Digest(""))
        uses = min(self.uses, OFTEN)
        return self._replace(key=key, created_ms=day, uses=uses, superseded_by="")


@dataclass(frozen=True, slots=True)
class Reference:
    """The name by which a user refers to a memory: a URN, an id, or the beginning of its digest."""

    domain: Domain | None
    namespace: str | None
    hex: str
    index: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """All memories below a URI. Empty fields match anything; `project` and `org` match all
    theirs."""

    domain: str = ""
    namespace: str = ""
    hex: str = ""

    def holds(self, memory: Memory) -> bool:
        return (
            (not self.domain or self.domain in (memory.domain, get_family(memory.domain)))
            and (not self.namespace or memory.namespace == self.namespace)
            and memory.digest.startswith(self.hex)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A memory to be captured."""

    namespace: str
    summary: str
    content: str = ""
    spec: str = ""
    tags: frozenset[str] = frozenset()
    relates_to: tuple[str, ...] = ()
    created_ms: Millis | None = None  # None: now
    status: MemoryStatus = MemoryStatus.ACTIVE
    event_id: str = ""
    session_id: str = ""  # of the event; empty: looked up by event_id
    domain: str = ""  # as stated in an import file; empty: the target of the import
    agent: str = ""
    interface: str = ""
    # As stated in an import file: what became of the memory before.
    author: str | None = None  # None: that of the location
    commit: str | None = None  # None: that of the location
    updated_ms: Millis | None = None  # None: now
    superseded_by: str = ""
    tag_changes: tuple[NameChange, ...] = ()
    relation_changes: tuple[NameChange, ...] = ()

    def __post_init__(self) -> None:
        check_namespace(self.namespace)
        check_content(self.summary, self.content, self.spec)
        check_tags(self.tags)
        check_related(self.relates_to)
        check_related(filter(None, (self.superseded_by,)))
        check_origin(self.author or "", self.agent, self.interface)
        if self.created_ms is not None:
            check_millis("timestamp", self.created_ms)
        if self.updated_ms is not None:
            check_millis("updated_at", self.updated_ms)
        if self.status is MemoryStatus.TOMBSTONE:
            raise InvalidInput("tombstones cannot be captured: only forgetting a memory makes one")

    @property
    def digest(self) -> Digest:
        return compute_digest(self.namespace, self.summary, self.content, self.spec)


def compute_digest(namespace: str, summary: str, content: str, spec: str) -> Digest:
    """Hash each part with its length, so that text cannot move from one part to the next."""
    hasher = hashlib.sha256()
    for part in (namespace, summary, content, spec):
        data = part.encode("utf-8")
        hasher.update(b"%d:" % len(data))
        hasher.update(data)
    return Digest(hasher.hexdigest())


def to_draft(memory: Memory) -> Draft:
    """Return the draft that captures the same text again."""
    texts = ("namespace", "summary", "content", "spec", "tags", "relates_to")
    origin = ("event_id", "session_id", "agent", "interface")
    return Draft(**{name: getattr(memory, name) for name in (*texts, *origin)})


def check_namespace(name: str) -> str:
    if name not in NAMESPACES:
        nearest = spelling.suggest_nearest(name, NAMESPACES, cutoff=0.6)
        raise InvalidInput(
            f"namespace is {name[:80]!r}; it must be one of {', '.join(NAMESPACES)}{nearest}"
        )
    return name


def resolve_namespace(name: str) -> str:
    """Return the namespace that a typed word means: `decision` and `Decisions` are `decisions`.

    Raises InvalidInput.
    """
    return spelling.find_same(name, NAMESPACES) or check_namespace(name)


def check_domain(domain: str) -> Domain:
    family, _, name = domain.partition(":")
    if domain == USER or (family in (PROJECT, ORG, USER) and _NAME.fullmatch(name)):
        return Domain(domain)
    if family == USER and access.is_person(name):  # what is private to a person of a team
        return Domain(domain)
    raise InvalidInput(
        f"domain is {domain!r}; it must be user, project:NAME or org:NAME, with a name of letters,"
        " digits, dots, dashes and underscores"
    )


def check_content(summary: str, content: str, spec: str) -> None:
    if not summary.strip():
        raise InvalidInput("the summary is empty: say in one line what to remember")
    if len(summary) > MAX_SUMMARY_CHARS:
        raise InvalidInput(
            f"the summary has {len(summary)} characters; the limit is {MAX_SUMMARY_CHARS}:"
            " shorten it, and put the rest into the content"
        )
    if _CONTROL.search(summary) or summary != summary.strip():
        raise InvalidInput(
            "the summary must be one line without control characters or blanks at its ends"
        )
    size = len(_encode_text("content", content))
    if size > MAX_CONTENT_BYTES:
        raise InvalidInput(
            f"the content has {size:,} bytes; the limit is {MAX_CONTENT_BYTES:,}:"
            " keep what matters, or capture it in parts"
        )
    if len(spec) > MAX_SPEC_CHARS or _CONTROL.search(spec) or spec != spec.strip():
        raise InvalidInput(f"a spec is one line of at most {MAX_SPEC_CHARS} characters")
    _encode_text("summary", summary + spec)


def check_tags(tags: Iterable[str]) -> None:
    tags = frozenset(tags)
    if len(tags) > MAX_TAGS:
        raise InvalidInput(f"there are {len(tags)} tags; the limit is {MAX_TAGS}")
    for tag in tags:
        if not tag or len(tag) > MAX_TAG_CHARS or "," in tag or tag != tag.strip():
            raise InvalidInput(
                f"a tag has 1 to {MAX_TAG_CHARS} characters and no comma: {tag[:80]!r}"
            )
        if _CONTROL.search(_encode_text("tag", tag).decode()):
            raise InvalidInput("a tag has no control characters")


def check_related(related: Iterable[str]) -> None:
    related = tuple(related)
    if len(related) > MAX_RELATED:
        raise InvalidInput(f"relates_to has {len(related)} memories; the limit is {MAX_RELATED}")
    for name in related:
        if len(name) > MAX_NAME_CHARS or not (_REFERENCE.fullmatch(name) or _URN.fullmatch(name)):
            raise InvalidInput(
                f"relates_to has {name[:80]!r}; use an id such as decisions:abc1234:0"
            )


def check_origin(*names: str) -> None:
    for name in names:
        if len(name) > MAX_ORIGIN_CHARS or not name.isprintable() or name != name.strip():
            raise InvalidInput(
                "author, agent and interface have one line of at most"
                f" {MAX_ORIGIN_CHARS} characters: {name[:80]!r}"
            )


def _encode_text(what: str, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"the {what} is not valid UTF-8") from exc


def to_project_name(raw: str) -> str:
    """Return the valid domain name that is nearest to this text."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", raw).strip("._-")[:80].strip("._-")
    return name or "project"


def to_origin_name(raw: str) -> str:
    """Return the valid name of a person or an agent that is nearest to this text."""
    printable = "".join(char if char.isprintable() else " " for char in raw)
    return " ".join(printable.split())[:MAX_ORIGIN_CHARS].strip()


def parse_reference(text: str) -> Reference:
    """Parse the name of a memory. Raises InvalidInput."""
    name_or_urn = text.strip()
    if name_or_urn.lower().startswith("subcog:"):
        return parse_urn(name_or_urn)
    if match := _REFERENCE.fullmatch(name_or_urn):
        return Reference(
            None, resolve_namespace(match["namespace"]), match["hex"].lower(), int(match["index"])
        )
    if match := _URN_END.fullmatch(name_or_urn):
        return Reference(None, None, match["hex"].lower(), int(match["index"]))
    namespace, _, name = name_or_urn.rpartition(":")
    if re.fullmatch(r"[0-9A-Fa-f]{4,64}", name):
        return Reference(
            None, resolve_namespace(namespace) if namespace else None, name.lower(), None
        )
    raise InvalidInput(
        f"{text[:80]!r} is not the name of a memory: give its id (decisions:abc123def456:0), its"
        " URI, or the start of its hash (abc1: at least four characters)"
    )


def is_full_name(text: str) -> bool:
    """Return whether a text has the form of a whole id, or of a URI."""
    name = text.strip()
    id_end = name.partition(":")[2]
    return name.lower().startswith("subcog:") or _URN_END.fullmatch(id_end) is not None


def parse_urn(text: str) -> Reference:
    """Parse a URN, spelled `subcog://project:x/...` or `project%3Ax`. Raises InvalidInput."""
    match = _URN.fullmatch(text.replace("%3A", ":").replace("%3a", ":"))
    if not match:
        raise InvalidInput(
            f"{text[:120]!r} is not the URI of a memory; the form is"
            " subcog://project:my-app/decisions/abc123def456:0"
        )
    return Reference(
        check_domain(match["domain"]),
        check_namespace(match["namespace"]),
        match["hex"],
        int(match["index"]),
    )


def parse_area(text: str) -> Area:
    """Parse `all`, a namespace, a domain, or the URI of either or of a memory."""
    area = text.strip().replace("%3A", ":").replace("%3a", ":")
    if area == "all":
        return Area()
    if _URN.fullmatch(area):
        reference = parse_urn(area)
        return Area(
            domain=reference.domain or "", namespace=reference.namespace or "", hex=reference.hex
        )
    if area in NAMESPACES:
        return Area(namespace=area)
    domain, _, namespace = area.removeprefix(SCHEME).rstrip("/").partition("/")
    if domain not in (PROJECT, ORG):
        check_domain(domain)
    return Area(domain=domain, namespace=check_namespace(namespace) if namespace else "")


def build_urn(domain: Domain, namespace: str, name: str, index: int) -> str:
    return f"subcog://{domain}/{namespace}/{name}:{index}"


def get_family(domain: Domain) -> str:
    """Return `project`, `user` or `org`."""
    return domain.partition(":")[0]


def build_tombstone(memory: Memory, at: Millis) -> Memory:
    """Return the tombstone that stays after a memory is forgotten."""
    return Memory(
        digest=memory.digest,
        namespace=memory.namespace,
        domain=memory.domain,
        summary="",
        created_ms=memory.created_ms,
        updated_ms=max(at, memory.updated_ms),
        status=MemoryStatus.TOMBSTONE,
        commit=memory.commit,
        index=memory.index,
    )


def change_status(memory: Memory, status: MemoryStatus, at: Millis) -> Memory:
    """Return the memory with another status. Raises InvalidInput for a tombstone, and for a memory
    that awaits review."""
    if memory.status is status:
        return memory
    if memory.status is MemoryStatus.TOMBSTONE:
        raise InvalidInput(f"{memory.id} is {memory.status} and cannot become {status}")
    check_reviewed(memory)
    superseded_by = "" if status is MemoryStatus.ACTIVE else memory.superseded_by
    return update_fields(memory, at, status=status, superseded_by=superseded_by)


def check_reviewed(memory: Memory) -> None:
    """Raise InvalidInput for a memory that awaits review: only the user's review changes it."""
    if memory.is_pending:
        raise InvalidInput(
            f"{memory.id} awaits review: accept, edit or discard it with `memory review`"
        )


def accept(memory: Memory, at: Millis, **fields: object) -> Memory:
    """Return a reviewed memory as active. Raises InvalidInput if it does not await review."""
    if not memory.is_pending:
        raise InvalidInput(f"{memory.id} does not await review: it is {memory.status}")
    return update_fields(memory, at, status=MemoryStatus.ACTIVE, **fields)


def update_fields(memory: Memory, at: Millis, **fields: object) -> Memory:
    """Set fields and a later `updated_ms`: otherwise the change would lose against the old copy.
    Tags and relations that are left out are removed, in every clone."""
    later = Millis(max(at, memory.updated_ms + 1))
    changed: Memory = replace(memory, updated_ms=later, **fields)  # type: ignore[arg-type]
    if changed.tags != memory.tags:
        tags = memory.tag_set.change(changed.tags, later, limit=MAX_TAGS)
        changed = replace(changed, tag_changes=tags.changes)
    if changed.relates_to != memory.relates_to:
        related = memory.relation_set.change(changed.relates_to, later, limit=MAX_RELATED)
        changed = replace(changed, relation_changes=related.changes)
    return changed


def merge_copies(one: Memory, other: Memory) -> Memory:
    """Merge two copies of a memory. The result does not depend on the order or number of merges. A
    copy that awaits review counts less than any other: a colleague has accepted it."""
    if one.key != other.key:
        raise InvalidInput(f"{one.id} and {other.id} are different memories")
    if one == other:
        return one
    first = min(one, other, key=_earliest)
    last = max(one, other, key=_latest)
    if MemoryStatus.TOMBSTONE in (one.status, other.status):
        return replace(
            build_tombstone(first, last.updated_ms),
            updated_ms=last.updated_ms,
            index=min(one.index, other.index),
        )
    tags = one.tag_set.merge(other.tag_set, limit=MAX_TAGS)
    related = one.relation_set.merge(other.relation_set, limit=MAX_RELATED)
    return replace(
        last,
        created_ms=first.created_ms,
        commit=first.commit,
        event_id=first.event_id,
        session_id=first.session_id,
        author=first.author,
        agent=first.agent,
        interface=first.interface,
        tags=tags.names,
        tag_changes=tags.changes,
        relates_to=tuple(sorted(related.names)),
        relation_changes=related.changes,
        index=min(one.index, other.index),
    )


def _earliest(memory: Memory) -> tuple[object, ...]:
    """Order copies so that the first origin wins. Of one origin, prefer the copy that says who
    captured it: earlier versions did not."""
    who = (memory.author, memory.agent, memory.interface)
    where = (memory.commit, memory.event_id, memory.session_id)
    return memory.created_ms, *where, *((not name, name) for name in who)


def _latest(memory: Memory) -> tuple[object, ...]:
    """Order copies so that the last one wins; copies that tie are equal in all of these fields."""
    state = repr((memory.status.value, memory.superseded_by))
    return not memory.is_pending, memory.updated_ms, hashlib.sha256(state.encode()).digest()
