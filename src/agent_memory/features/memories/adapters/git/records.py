"""Records: memories as the text of a git note, and other text beside them.

A record is YAML front matter between two lines `---`, then the content and a line feed. Its length
in bytes is stated, so that content is never taken for a record, nor text that a person appends for
content. Text that is not a record is preserved byte for byte.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from agent_memory.features.memories.adapters.git import front_matter
from agent_memory.features.memories.model import memories, memory_fields, name_changes, record_times
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.name_changes import NameChange
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_STATED_MILLIS, PROJECT, Digest, Domain, Millis

MAX_FRONT_BYTES = 128 << 10
MAX_TEXT_BYTES = 64 << 20  # of a note that is read: about 250 times what we write

RULE = b"---\n"
_NOT_IN_FRONT = ("uri", "content", "timestamp_ms")  # the content follows the front matter
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_ID = re.compile(r"(?P<namespace>[a-z]+):(?P<hex>[0-9a-f]{12}):(?P<index>[0-9]{1,4})", re.ASCII)
_LENGTH = re.compile(r"[0-9]{1,6}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.ASCII)
_EARLIER = re.compile(rb"^---\ntype: ", re.MULTILINE)

NOT_OURS = "text that is not a memory"
EARLIER = "an entry in a legacy format: `memory migrate` imports it"
UNREADABLE = "a record whose front matter cannot be read"
CUT = "a record that is shorter than its stated length"
CHANGED = "a record whose text does not match its id"
TOO_LONG = f"a text longer than {MAX_TEXT_BYTES >> 20} MiB, which is not read"
ELSEWHERE = "a record of another domain or namespace"
WRONG = "a record with invalid values"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRecord:
    """A memory and its text in the note."""

    memory: Memory
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignText:
    """Text that is not a memory. `reason` is empty for blank lines."""

    data: bytes
    reason: str


Part = NoteRecord | ForeignText


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteContents:
    """The memories of a text, and the reasons for what is not one."""

    memories: tuple[Memory, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A summary of a text: its digests, the size of its records, and whether it has foreign text. A
    sealed text is too long to read and stays unchanged."""

    digests: tuple[Digest, ...]
    size: int
    foreign: bool
    sealed: bool = False

    @property
    def count(self) -> int:
        return len(self.digests)


EMPTY = Outline(digests=(), size=0, foreign=False)
SEALED = Outline(digests=(), size=0, foreign=True, sealed=True)


class _NoRecord(Exception):
    """No record begins here; the message says why."""


def build_record(memory: Memory) -> NoteRecord:
    return NoteRecord(memory=memory, data=render(memory))


def render(memory: Memory) -> bytes:
    body = memory.content.encode("utf-8")
    fields = memory_fields.to_fields(memory) | {"domain": format_domain(memory.domain)}
    if memory.status is MemoryStatus.TOMBSTONE:
        fields["digest"] = memory.digest
    front = {
        key: value
        for key, value in fields.items()
        if key not in _NOT_IN_FRONT and (value or key == "summary")
    }
    front["length"] = len(body)
    text = yaml.dump(
        front, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=1 << 20
    )
    return RULE + text.encode("utf-8") + RULE + body + b"\n"


def format_domain(domain: Domain) -> str:
    """Return the domain as every clone calls it: project names differ between clones."""
    return PROJECT if memories.get_family(domain) == PROJECT else domain


def parse(data: bytes, domain: Domain, namespace: str) -> list[Part]:
    """Return all parts of a text in order; joined, they are the text."""
    parts: list[Part] = []
    spare = 2 * len(data) + (1 << 20)  # bytes to hash in vain: a stated length may be false
    foreign_from, reason, start = 0, "", _find_rule(data, 0)
    while start >= 0:
        try:
            record, spent = _record_at(data, start, domain, namespace, spare)
        except _NoRecord as exc:
            reason = reason or str(exc)
            start = _find_rule(data, start + len(RULE))
            continue
        if record is None:
            spare -= spent
            reason = reason or CHANGED
            start = _find_rule(data, start + len(RULE))
            continue
        if foreign_from < start:
            parts.append(_foreign(data[foreign_from:start], reason))
        parts.append(record)
        foreign_from, reason = start + len(record.data), ""
        start = _find_rule(data, foreign_from)
    if foreign_from < len(data):
        parts.append(_foreign(data[foreign_from:], reason))
    return parts


def join(parts: Iterable[Part]) -> bytes:
    return b"".join(part.data for part in parts)


def parse_contents(texts: Sequence[bytes], domain: Domain, namespace: str) -> list[NoteContents]:
    return [_build_contents(parse(text, domain, namespace)) for text in texts]


def parse_outlines(texts: Sequence[bytes], domain: Domain, namespace: str) -> list[Outline]:
    return [build_outline(parse(text, domain, namespace)) for text in texts]


def build_outline(parts: Iterable[Part]) -> Outline:
    parts = list(parts)
    records = [part for part in parts if isinstance(part, NoteRecord)]
    return Outline(
        digests=tuple(record.memory.digest for record in records),
        size=sum(len(record.data) for record in records),
        foreign=len(records) < len(parts),
    )


def _build_contents(parts: Iterable[Part]) -> NoteContents:
    parts = list(parts)
    return NoteContents(
        memories=tuple(part.memory for part in parts if isinstance(part, NoteRecord)),
        reasons=tuple(
            part.reason for part in parts if isinstance(part, ForeignText) and part.reason
        ),
    )


def _foreign(data: bytes, reason: str) -> ForeignText:
    if not data.strip():
        return ForeignText(data=data, reason="")
    if _EARLIER.search(data):
        return ForeignText(data=data, reason=EARLIER)
    return ForeignText(data=data, reason=reason or NOT_OURS)


def _find_rule(data: bytes, start: int) -> int:
    """Return where the next line `---` begins, or -1. Begin at a line or within a rule."""
    if data.startswith(RULE, start) and (start == 0 or data[start - 1 : start] == b"\n"):
        return start
    end_of_line = data.find(b"\n" + RULE, max(0, start - 1))
    return end_of_line if end_of_line < 0 else end_of_line + 1


def _record_at(
    data: bytes, start: int, domain: Domain, namespace: str, spare: int
) -> tuple[NoteRecord | None, int]:
    """Parse the record that begins here. Return None if its content does not match its id, with the
    number of bytes hashed in vain."""
    begin = start + len(RULE)
    end = data.find(b"\n" + RULE, begin - 1, begin + MAX_FRONT_BYTES)
    if end < begin:
        raise _NoRecord(NOT_OURS)
    front = _front(data[begin : end + 1])
    body_from = end + 1 + len(RULE)
    length = front.text("length")
    if not _LENGTH.fullmatch(length) or int(length) > memories.MAX_CONTENT_BYTES:
        raise _NoRecord(WRONG)
    body_to = body_from + int(length)
    if data[body_to : body_to + 1] != b"\n":
        raise _NoRecord(CUT)
    if int(length) > spare:
        raise _NoRecord(CHANGED)
    try:
        content = data[body_from:body_to].decode("utf-8")
        memory = _memory(front, content, domain, namespace)
    except UnicodeDecodeError:
        return None, int(length)
    except InvalidInput as exc:
        raise _NoRecord(WRONG) from exc
    if memory is None:
        return None, int(length)
    return NoteRecord(memory=memory, data=data[start : body_to + 1]), 0


class _Front(dict[str, object]):
    """Front matter: strings, and lists of strings."""

    def text(self, key: str, limit: int | None = None) -> str:
        value = self.get(key, "")
        if not isinstance(value, str) or (limit is not None and len(value) > limit):
            raise _NoRecord(UNREADABLE)
        if limit is not None and not value.isprintable():
            raise _NoRecord(WRONG)
        return value

    def texts(self, key: str) -> list[str]:
        value = self.get(key) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _NoRecord(UNREADABLE)
        return value

    def changes(self, key: str) -> tuple[NameChange, ...]:
        try:
            changes = name_changes.parse_changes(self.texts(key))
            return tuple(
                change._replace(at_ms=Millis(min(change.at_ms, MAX_STATED_MILLIS)))
                for change in changes
            )
        except ValueError as exc:
            raise _NoRecord(WRONG) from exc


def _front(data: bytes) -> _Front:
    if b"\nlength: " not in data or not (data.startswith(b"id: ") or b"\nid: " in data):
        raise _NoRecord(NOT_OURS)
    try:
        return _Front(front_matter.load(data.decode("utf-8")))
    except ValueError as exc:
        raise _NoRecord(UNREADABLE) from exc


def _memory(front: _Front, content: str, domain: Domain, namespace: str) -> Memory | None:
    """Build the memory; None if the text does not match its id. Raises InvalidInput."""
    name = _ID.fullmatch(front.text("id"))
    try:
        status = MemoryStatus(front.text("status"))
    except ValueError as exc:
        raise _NoRecord(WRONG) from exc
    if name is None:
        raise _NoRecord(WRONG)
    if front.text("namespace") != namespace or front.text("domain") != format_domain(domain):
        raise _NoRecord(ELSEWHERE)
    commit = front.text("commit")
    if (commit and not _COMMIT.fullmatch(commit)) or name["namespace"] != namespace:
        raise _NoRecord(WRONG)
    known: dict[str, Any] = {
        "namespace": namespace,
        "domain": domain,
        "created_ms": _millis(front.text("timestamp")),
        "updated_ms": _millis(front.text("updated_at")),
        "status": status,
        "commit": commit,
        "index": int(name["index"]),
    }
    if status is MemoryStatus.TOMBSTONE:
        digest = front.text("digest")
        if content or not _DIGEST.fullmatch(digest) or not digest.startswith(name["hex"]):
            raise _NoRecord(WRONG)
        return Memory(digest=Digest(digest), summary="", **known)
    summary, spec = front.text("summary"), front.text("spec")
    digest = memories.compute_digest(namespace, summary, content, spec)
    if not digest.startswith(name["hex"]):
        return None
    return Memory(
        digest=digest,
        summary=summary,
        content=content,
        spec=spec,
        tags=frozenset(front.texts("tags")),
        relates_to=tuple(front.texts("relates_to")),
        tag_changes=front.changes("tag_changes"),
        relation_changes=front.changes("relation_changes"),
        **known | {key: front.text(key, limit) for key, limit in memories.NAME_LIMITS.items()},
    )


def _millis(text: str) -> Millis:
    if not _TIME.fullmatch(text):
        raise _NoRecord(WRONG)
    try:
        return Millis(min(record_times.parse_time(text), MAX_STATED_MILLIS))
    except ValueError as exc:
        raise _NoRecord(WRONG) from exc
