"""Memories: what was decided and learned. Their names, limits, statuses, and how copies merge.

A memory is known by the digest of what it says. So the same words captured twice, or in two clones,
are one memory, and copies of it differ only in what may change: its status and what it belongs to.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NewType

from agent_memory.features.log.model.events import (
    MAX_EVENT_ID_CHARS,
    MAX_SESSION_ID_CHARS,
    check_millis,
)
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
MAX_NAME_CHARS = 300  # of a memory that another one names
HEX_CHARS = 12  # of a digest, in an id

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
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?")


class MemoryStatus(StrEnum):
    ACTIVE = "active"
    RESOLVED = "resolved"
    ARCHIVED = "archived"
    TOMBSTONE = "tombstone"


TRANSITIONS: dict[MemoryStatus, frozenset[MemoryStatus]] = {
    MemoryStatus.ACTIVE: frozenset(
        {MemoryStatus.RESOLVED, MemoryStatus.ARCHIVED, MemoryStatus.TOMBSTONE}
    ),
    MemoryStatus.RESOLVED: frozenset(
        {MemoryStatus.ACTIVE, MemoryStatus.ARCHIVED, MemoryStatus.TOMBSTONE}
    ),
    MemoryStatus.ARCHIVED: frozenset(
        {MemoryStatus.ACTIVE, MemoryStatus.RESOLVED, MemoryStatus.TOMBSTONE}
    ),
    MemoryStatus.TOMBSTONE: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One memory. `index` tells it from others whose digests begin alike: nearly always 0. A
    tombstone says nothing, and only that there was one."""

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
    commit: str = ""  # the one it was captured at
    superseded_by: str = ""
    event_id: str = ""  # of the conversation it was captured in
    session_id: str = ""
    index: int = 0

    def __post_init__(self) -> None:
        check_namespace(self.namespace)
        check_domain(self.domain)
        if not _DIGEST.fullmatch(self.digest):
            raise InvalidInput("the digest of a memory is 64 hexadecimal digits")
        check_millis("timestamp", self.created_ms)
        check_millis("updated_at", self.updated_ms)
        if not _COMMIT.fullmatch(self.commit):
            raise InvalidInput("the commit of a memory is 40 hexadecimal digits, or none")
        for name, limit in (
            (self.event_id, MAX_EVENT_ID_CHARS),
            (self.session_id, MAX_SESSION_ID_CHARS),
        ):
            if len(name) > limit or not name.isprintable():
                raise InvalidInput("the event or session of a memory is no id of one")
        if self.status is MemoryStatus.TOMBSTONE:
            return
        check_content(self.summary, self.content, self.spec)
        check_tags(self.tags)
        check_related(self.relates_to)
        check_related(filter(None, (self.superseded_by,)))
        if self.digest != compute_digest(self.namespace, self.summary, self.content, self.spec):
            raise InvalidInput("the digest of a memory is not that of what it says")

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
        """All that someone wrote: what may hold a secret, and what is gone when it is forgotten."""
        written = (self.summary, self.content, self.spec, *sorted(self.tags), *self.relates_to)
        return (*written, self.event_id, self.session_id)

    @property
    def superseded(self) -> bool:
        return bool(self.superseded_by)


@dataclass(frozen=True, slots=True)
class Reference:
    """A memory as someone names it: by URN, by id, or by the beginning of its digest."""

    domain: Domain | None
    namespace: str | None
    hex: str
    index: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """All memories below a URI. What is empty is any; a domain may be all of `project` or `org`."""

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
    """What someone wants kept."""

    namespace: str
    summary: str
    content: str = ""
    spec: str = ""
    tags: frozenset[str] = frozenset()
    relates_to: tuple[str, ...] = ()
    created_ms: Millis | None = None  # None: now
    status: MemoryStatus = MemoryStatus.ACTIVE
    event_id: str = ""
    session_id: str = ""  # of the event, where it need not be here to tell
    domain: str = ""  # where a file says that it belongs; empty: wherever it is brought to

    def __post_init__(self) -> None:
        check_namespace(self.namespace)
        check_content(self.summary, self.content, self.spec)
        check_tags(self.tags)
        check_related(self.relates_to)
        if self.created_ms is not None:
            check_millis("timestamp", self.created_ms)
        if self.status is MemoryStatus.TOMBSTONE:
            raise InvalidInput("a tombstone is left by forgetting a memory, and cannot be captured")


def compute_digest(namespace: str, summary: str, content: str, spec: str) -> Digest:
    """Of each part with its length, so that nothing can move from one into the next."""
    whole = hashlib.sha256()
    for part in (namespace, summary, content, spec):
        data = part.encode("utf-8")
        whole.update(b"%d:" % len(data))
        whole.update(data)
    return Digest(whole.hexdigest())


def check_namespace(name: str) -> str:
    if name not in NAMESPACES:
        raise InvalidInput(f"namespace is {name!r}; it must be one of {', '.join(NAMESPACES)}")
    return name


def check_domain(domain: str) -> Domain:
    family, _, name = domain.partition(":")
    if domain == USER or (family in (PROJECT, ORG) and _NAME.fullmatch(name)):
        return Domain(domain)
    raise InvalidInput(
        f"domain is {domain!r}; it must be user, project:NAME or org:NAME, with a name of letters,"
        " digits, dots, dashes and underscores"
    )


def check_content(summary: str, content: str, spec: str) -> None:
    if not summary.strip():
        raise InvalidInput("the summary is empty: say in one line what is to be remembered")
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
        raise InvalidInput(f"it relates to {len(related)} memories; the limit is {MAX_RELATED}")
    for name in related:
        if len(name) > MAX_NAME_CHARS or not (_REFERENCE.fullmatch(name) or _URN.fullmatch(name)):
            raise InvalidInput(
                f"relates_to names {name[:80]!r}; a memory is named like decisions:abc1234:0"
            )


def _encode_text(what: str, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"the {what} is not valid UTF-8") from exc


def to_project_name(raw: str) -> str:
    """A name that a domain may have, as near to this one as can be."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", raw).strip("._-")[:80].strip("._-")
    return name or "project"


def parse_reference(text: str) -> Reference:
    """What this text names. Raises InvalidInput."""
    given = text.strip()
    if given.lower().startswith("subcog:"):
        return parse_urn(given)
    if found := _REFERENCE.fullmatch(given):
        return Reference(
            None, check_namespace(found["namespace"]), found["hex"].lower(), int(found["index"])
        )
    namespace, _, name = given.rpartition(":")
    if re.fullmatch(r"[0-9A-Fa-f]{4,64}", name):
        return Reference(
            None, check_namespace(namespace) if namespace else None, name.lower(), None
        )
    raise InvalidInput(
        f"{text[:80]!r} names no memory: give its id (decisions:abc123def456:0), its URI, or at"
        " least four digits of the id"
    )


def parse_urn(text: str) -> Reference:
    """The parts of a URN, in both spellings: `subcog://project:x/...` and `project%3Ax`. Raises
    InvalidInput."""
    found = _URN.fullmatch(text.replace("%3A", ":").replace("%3a", ":"))
    if not found:
        raise InvalidInput(
            f"{text[:120]!r} is no URI of a memory: it has the form"
            " subcog://project:my-app/decisions/abc123def456:0"
        )
    return Reference(
        check_domain(found["domain"]),
        check_namespace(found["namespace"]),
        found["hex"],
        int(found["index"]),
    )


def parse_area(text: str) -> Area:
    """The area that someone names: `all`, a namespace, a domain, or a URI of either, or of one
    memory. Raises InvalidInput."""
    given = text.strip().replace("%3A", ":").replace("%3a", ":")
    if given == "all":
        return Area()
    if _URN.fullmatch(given):
        found = parse_urn(given)
        return Area(domain=found.domain or "", namespace=found.namespace or "", hex=found.hex)
    if given in NAMESPACES:
        return Area(namespace=given)
    domain, _, namespace = given.removeprefix(SCHEME).rstrip("/").partition("/")
    if domain not in (PROJECT, ORG):
        check_domain(domain)
    return Area(domain=domain, namespace=check_namespace(namespace) if namespace else "")


def build_urn(domain: Domain, namespace: str, name: str, index: int) -> str:
    return f"subcog://{domain}/{namespace}/{name}:{index}"


def get_family(domain: Domain) -> str:
    """project, user or org."""
    return domain.partition(":")[0]


def build_tombstone(memory: Memory, at: Millis) -> Memory:
    """What stays of a memory that was forgotten."""
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
    """The memory in another status. Raises InvalidInput where there is no way to it."""
    if memory.status is status:
        return memory
    if status not in TRANSITIONS[memory.status]:
        raise InvalidInput(f"{memory.id} is {memory.status}, and cannot become {status}")
    superseded_by = "" if status is MemoryStatus.ACTIVE else memory.superseded_by
    return update_fields(memory, at, status=status, superseded_by=superseded_by)


def update_fields(memory: Memory, at: Millis, **fields: object) -> Memory:
    """With these fields, and later than before: else the change would lose against the old."""
    return replace(memory, updated_ms=max(at, memory.updated_ms + 1), **fields)  # type: ignore[arg-type]


def merge_copies(one: Memory, other: Memory) -> Memory:
    """Two copies of one memory as one. In whatever order and however often copies are merged, the
    result is the same."""
    if one.key != other.key:
        raise InvalidInput(f"{one.id} and {other.id} are two memories")
    first = min(one, other, key=_earliest)
    last = max(one, other, key=_latest)
    if MemoryStatus.TOMBSTONE in (one.status, other.status):
        return replace(build_tombstone(first, last.updated_ms), index=min(one.index, other.index))
    return replace(
        last,
        created_ms=first.created_ms,
        commit=first.commit,
        event_id=first.event_id,
        session_id=first.session_id,
        tags=_fewest(one.tags | other.tags),
        index=min(one.index, other.index),
    )


def _earliest(memory: Memory) -> tuple[object, ...]:
    return memory.created_ms, memory.commit, memory.event_id, memory.session_id


def _latest(memory: Memory) -> tuple[object, ...]:
    """What wins; what is not told apart here is the same in both."""
    what = repr((memory.status.value, memory.superseded_by, memory.relates_to))
    return memory.updated_ms, hashlib.sha256(what.encode()).digest()


def _fewest(tags: frozenset[str]) -> frozenset[str]:
    """As many as a memory may have; which ones does not depend on where they come from."""
    return tags if len(tags) <= MAX_TAGS else frozenset(sorted(tags)[:MAX_TAGS])
