"""Files of memories in YAML, JSON, JSONL and markdown: reading and writing.

All functions are pure and run in the worker process: a file may be long, or built to be slow.
"""

import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import yaml

from agent_memory.features.memories.model import memories, memory_fields, name_changes, record_times
from agent_memory.features.memories.model.memories import (
    MAX_SUMMARY_CHARS,
    Draft,
    Memory,
    MemoryStatus,
)
from agent_memory.features.memories.model.name_changes import NameChange
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.spelling import find_same

FORMATS = ("yaml", "json", "jsonl", "markdown")
MAX_DEPTH = 20  # of YAML: libyaml's binding overflows the stack on endlessly nested lists
MAX_REPEATED = 1 << 20  # characters that aliases may expand to: nine lines can reach a billion

_SUFFIXES = {
    ".yml": "yaml",
    ".yaml": "yaml",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".md": "markdown",
    ".markdown": "markdown",
}
_FIRST_MILLIS = 100_000_000_000  # smaller numbers are seconds: as seconds, this is the year 5138
_DIGITS = re.compile(r"[0-9]{1,16}(?:\.[0-9]{1,9})?")
_NUMBER = re.compile(r"[0-9]{9,16}(?:\.[0-9]{1,9})?")  # fewer digits may be a date: 20260331
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")
_CORE_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "seq", "map")
)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_RULE = re.compile(rb"^---[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_FRONT_KEY = re.compile(rb"^[\"']?(?:summary|namespace|type)[\"']?[ \t]*:", re.MULTILINE)
_FIRST_KEY = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*[\"']?[A-Za-z_-]+[\"']?[ \t]*:")
_LENGTH_KEY = re.compile(rb"^length[ \t]*:", re.MULTILINE)
_YAML_START = re.compile(
    rb"(?:\s*(?:#[^\n]*\n)?)*+(?:-[ \t]+\{?)?[\"']?[a-z_]+[\"']?[ \t]*:(?:\s|\Z)"
)
_FLOW_START = re.compile(rb"[\s\[{]*[A-Za-z_]")
_FRONT_LINE = re.compile(r"(?:[A-Za-z_][\w -]*:(?:\s|\Z)|\s|-\s|#|\Z)")
_CODE = re.compile(r" {0,3}(`{3,}|~{3,})")
_OUR_ID = re.compile(rf"[a-z]+:(?P<hex>[0-9a-f]{{{memories.HEX_CHARS}}}):[0-9]{{1,4}}")
# Many readers end a line here, though JSON does not.
_JSON_ESCAPES = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that is not a valid memory: its place in the file, and the reason."""

    place: str
    reason: str


Item = Draft | RejectedRecord


def guess_format(name: str | None, head: bytes) -> str:
    """Guess the format by the name, else by the start. A longer `head` makes the guess surer."""
    for suffix, format_ in _SUFFIXES.items():
        if name and name.lower().endswith(suffix):
            return format_
    head = head.removeprefix(b"\xef\xbb\xbf")
    start = head.lstrip()
    if start[:1] in (b"{", b"["):
        return "yaml" if _FLOW_START.match(start) else _guess_json(start)
    if rule := _RULE.match(start):
        return _guess_ruled(start, rule.end())
    return "yaml" if _YAML_START.match(start) else "markdown"


def _guess_json(start: bytes) -> str:
    first, _, rest = start.partition(b"\n")
    if not first.startswith(b"{") or not rest.strip():
        return "json"
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return "json"
    return "jsonl"


def _guess_ruled(start: bytes, begin: int) -> str:
    """Tell front matter from a YAML stream, in which YAML follows the second `---` too."""
    second = _RULE.search(start, begin)
    if second is None:
        return "markdown" if not _FIRST_KEY.match(start, begin) else "yaml"
    if _LENGTH_KEY.search(start, begin, second.start()):
        return "markdown"
    third = _RULE.search(start, second.end())
    end = third.start() if third else len(start)
    if not _is_front(start, begin, second.start()):
        return "yaml" if _YAML_START.match(start, begin) else "markdown"
    return "yaml" if _is_front(start, second.end(), end) else "markdown"


def parse(data: bytes, format: str, namespace: str | None = None) -> list[Item]:  # noqa: A002
    """Parse a file into its records, in order. `namespace` applies to records without one.

    Raises InvalidInput for a file that cannot be read at all.
    """
    readers: dict[str, Callable[[bytes, str | None], list[Item]]] = {
        "yaml": _parse_yaml,
        "json": _parse_json,
        "jsonl": _parse_jsonl,
        "markdown": _parse_markdown,
    }
    if format not in readers:
        raise _unknown(format)
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as exc:
        place = _place(data[: exc.start].decode("utf-8"))
        raise InvalidInput(f"{place}: the file is not UTF-8; save it as UTF-8") from None
    return readers[format](data, namespace) if data.strip() else []


def _parse_yaml(data: bytes, namespace: str | None) -> list[Item]:
    documents = [value for value in _read_yaml(data.decode("utf-8")) if value is not None]
    if len(documents) == 1:
        return _items(_records(documents[0]), namespace)
    records: list[tuple[Any, bool]] = []
    for value in documents:
        # A document without records must not lose the others.
        records += _records(value) if isinstance(value, dict | list) else [(value, False)]
    return _items(records, namespace)


def _parse_json(data: bytes, namespace: str | None) -> list[Item]:
    return _items(_records(_read_json(data.decode("utf-8"))), namespace)


def _parse_jsonl(data: bytes, namespace: str | None) -> list[Item]:
    items: list[Item] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                record = _read_json(line.decode("utf-8"), one_line=True)
                items.append(_draft(record, namespace))
            except InvalidInput as exc:
                items.append(RejectedRecord(f"line {number}", str(exc)))
    return items


def _records(value: Any) -> list[tuple[Any, bool]]:
    """Return the records of a document, each with whether it is a search hit."""
    if isinstance(value, list):
        return [(record, False) for record in value]
    if not isinstance(value, dict):
        raise InvalidInput(
            f"line 1, column 1: the file holds {_kind(value)}; it must hold a list of records,"
            " {memories: [...]}, or one record"
        )
    for key in ("memories", "results"):
        if key in value and isinstance(value[key], list | None):
            return [(record, key == "results") for record in value[key] or ()]
    return [(value, False)]


def _items(records: Iterable[tuple[Any, bool]], namespace: str | None) -> list[Item]:
    items: list[Item] = []
    for number, (record, hit) in enumerate(records, 1):
        try:
            items.append(_hit(record, namespace) if hit else _draft(record, namespace))
        except InvalidInput as exc:
            items.append(RejectedRecord(f"record {number}", str(exc)))
    return items


def _draft(record: Any, namespace: str | None) -> Draft:
    if not isinstance(record, dict):
        raise InvalidInput(f"a record must have keys and values, and this is {_kind(record)}")
    status = _status(_text("status", record.get("status")).strip())
    content = _text("content", _either(record, "content", "body"))
    summary = _text("summary", record.get("summary")).strip() or _first_line(content)
    named = _text("namespace", _either(record, "namespace", "type")).strip() or namespace
    if not named:
        raise InvalidInput(
            "the namespace is missing: set it in the record, or for all with --namespace"
        )
    draft = Draft(
        namespace=find_same(named[:80], memories.NAMESPACES) or named[:80],
        summary=summary,
        content=content,
        spec=_text("spec", record.get("spec")).strip(),
        tags=frozenset(_texts("tags", record.get("tags"))),
        relates_to=tuple(_texts("relates_to", record.get("relates_to"))),
        created_ms=_parse_created(record),
        status=status,
        domain=_text("domain", record.get("domain")).strip()[:200],
        superseded_by=_text("superseded_by", record.get("superseded_by")).strip(),
    )
    name = record.get("id")
    is_export = isinstance(name, str) and _OUR_ID.fullmatch(name) and record.get("updated_at")
    return _add_history(draft, record) if is_export else draft


def _add_history(draft: Draft, record: dict[str, Any]) -> Draft:
    """Add what only an export says: a record of a person or another tool begins its history
    here."""

    def get(key: str) -> str:
        text = _text(key, record.get(key))
        return text if key.endswith("_id") else text.strip()  # an id may begin with a blank

    names: dict[str, Any] = {key: get(key) for key in ("commit", *memories.NAME_LIMITS)}
    return replace(
        draft,
        updated_ms=_parse_moment("updated_at", record["updated_at"]),
        tag_changes=_parse_changes("tag_changes", record),
        relation_changes=_parse_changes("relation_changes", record),
        **names,
    )


def _parse_changes(key: str, record: dict[str, Any]) -> tuple[NameChange, ...]:
    try:
        return name_changes.parse_changes(_texts(key, record.get(key)))
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{key} must list times and names, such as '2026-03-31T10:00:00.000Z api'"
        ) from None


def _hit(record: Any, namespace: str | None) -> Draft:
    """Parse a hit of `memory recall`. Without its content it would become another memory."""
    fields = record if isinstance(record, dict) else {}
    kind = fields.get("kind")
    if kind not in (None, "memory"):
        raise InvalidInput(f"this is a search hit of kind {_describe_value(kind)}, not a memory")
    if fields.get("truncated") not in (None, False, "false"):
        raise InvalidInput("the content is cut: create the file with `memory export`")
    draft = _draft(record, namespace)
    name = fields.get("id")
    id_ = _OUR_ID.fullmatch(name) if isinstance(name, str) else None
    if id_ and "content" not in fields:
        digest = memories.compute_digest(draft.namespace, draft.summary, draft.content, draft.spec)
        if not digest.startswith(id_["hex"]):
            raise InvalidInput("the content is missing: create the file with `memory export`")
    return draft


def _either(record: dict[str, Any], key: str, other: str) -> Any:
    value = record.get(key)
    return record.get(other) if value is None else value


def _text(name: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise InvalidInput(f"{name} must be text, and is {_kind(value)}")


def _texts(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [part for word in value.split(",") if (part := word.strip())]
    if not isinstance(value, list):
        raise InvalidInput(f"{name} must be a list, or text with commas, and is {_kind(value)}")
    return [
        str(item) if type(item) is int else _text(f"each of {name}", item).strip() for item in value
    ]


def _status(name: str) -> MemoryStatus:
    try:
        status = MemoryStatus(name or MemoryStatus.ACTIVE)
    except ValueError:
        raise InvalidInput(
            f"status is {_describe_value(name)}; it must be pending, active, resolved or archived"
        ) from None
    if status is MemoryStatus.TOMBSTONE:
        raise InvalidInput("tombstones of forgotten memories cannot be imported")
    return status


def _first_line(content: str) -> str:
    """Return the first line of the content, in place of a missing summary."""
    for line in content.splitlines():
        # Cut first: a line may have many megabytes.
        words = _CONTROL.sub(" ", line.strip()[: 10 * MAX_SUMMARY_CHARS].lstrip("#")).strip()
        if len(words) > MAX_SUMMARY_CHARS:
            at_word = words[: MAX_SUMMARY_CHARS + 1].rpartition(" ")[0].strip()
            return at_word or words[:MAX_SUMMARY_CHARS].strip()
        if words:
            return words
    return ""


def _parse_created(record: dict[str, Any]) -> Millis | None:
    exact = record.get("timestamp_ms")
    if exact is not None and exact != "":
        return _from_number("timestamp_ms", exact, seconds=False)
    value = record.get("timestamp")
    return None if value is None or value == "" else _parse_moment("timestamp", value)


def _parse_moment(name: str, value: Any) -> Millis:
    if not isinstance(value, str):
        return _from_number(name, value, seconds=True)
    if _NUMBER.fullmatch(value.strip()):
        return _from_number(name, value, seconds=True)
    # git writes a blank before the offset.
    written = re.sub(r"\s+(?=[+-]|Z$)", "", value.strip()) if len(value) < 60 else ""
    try:
        return record_times.parse_time(written)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{name} is {_describe_value(value)}; write it as 2026-03-31T10:00:00Z or in Unix"
            " milliseconds"
        ) from None


def _from_number(name: str, value: Any, *, seconds: bool) -> Millis:
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = float(value) if "." in value else int(value)
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise InvalidInput(
            f"{name} must be a date, or a number from 0 on, and is {_describe_value(value)}"
        )
    return Millis(round(value * 1000) if seconds and value < _FIRST_MILLIS else round(value))


def _kind(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
    return "a mapping"


def _describe_value(value: Any) -> str:
    return repr(value[:80]) if isinstance(value, str) else _kind(value)


def _read_json(text: str, *, one_line: bool = False) -> Any:
    start = "column 1" if one_line else "line 1, column 1"
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        place = f"column {exc.colno}" if one_line else f"line {exc.lineno}, column {exc.colno}"
        more = exc.msg == "Extra data" and not one_line
        hint = "; for one record a line, the format is jsonl" if more else ""
        raise InvalidInput(f"{place}: not valid JSON: {exc.msg}{hint}") from None
    except RecursionError:
        raise InvalidInput(f"{start}: values are nested too deeply") from None
    except ValueError:
        raise InvalidInput(f"{start}: a number has too many digits") from None


def _read_yaml(text: str, first_line: int = 1) -> list[Any]:
    """Parse YAML documents into texts, lists, mappings and None.

    Numbers, dates and booleans stay texts, as they were written.
    """
    try:
        return _Documents(text, first_line).read()
    except yaml.MarkedYAMLError as exc:
        raise InvalidInput(
            f"{_format_mark(exc.problem_mark, first_line)}: not valid YAML: {exc.problem}"
        ) from None
    except yaml.reader.ReaderError as exc:
        before = text.encode("utf-8")[: int(exc.position)].decode("utf-8", "ignore")
        place = _place(before, first_line)
        raise InvalidInput(f"{place}: not valid YAML: {exc.reason}") from None


class _Documents:
    """A reader of YAML events, which can limit nesting and aliases before they do harm.

    Aliased values are shared, not copied.
    """

    def __init__(self, text: str, first_line: int) -> None:
        self._events = yaml.parse(text, Loader=yaml.CSafeLoader)
        self._first_line = first_line
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._repeated = 0

    def read(self) -> list[Any]:
        documents = []
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                documents.append(self._value(next(self._events), 0)[0])
        return documents

    def _value(self, event: yaml.Event, depth: int) -> tuple[Any, int]:
        """Build a value, and count the characters it expands to."""
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(event)
        if not isinstance(event, yaml.NodeEvent):
            raise self._wrong(event, "a value is missing")
        tag = getattr(event, "tag", None)
        if tag not in (None, "!") and tag not in _CORE_TAGS:
            raise self._wrong(event, f"the tag {_describe_value(tag)} is not allowed here")
        if depth > MAX_DEPTH:
            raise self._wrong(event, "values are nested too deeply")
        if event.anchor:
            self._anchors.pop(event.anchor, None)  # a value may not contain itself
        if isinstance(event, yaml.ScalarEvent):
            plain = event.implicit[0] and event.value in _NULLS
            built: tuple[Any, int] = (None if plain else event.value, len(event.value) + 1)
        elif isinstance(event, yaml.SequenceStartEvent):
            built = self._list(depth)
        else:
            built = self._mapping(depth)
        if event.anchor:
            self._anchors[event.anchor] = built
        return built

    def _resolve_alias(self, event: yaml.AliasEvent) -> tuple[Any, int]:
        if event.anchor not in self._anchors:
            raise self._wrong(
                event, f"the alias {_describe_value(event.anchor)} has no anchor before it"
            )
        value, size = self._anchors[event.anchor]
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            raise self._wrong(event, "aliases repeat too much text")
        return value, size

    def _list(self, depth: int) -> tuple[list[Any], int]:
        built, total = [], 1
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            value, size = self._value(event, depth + 1)
            built.append(value)
            total += size
        return built, total

    def _mapping(self, depth: int) -> tuple[dict[str, Any], int]:
        built: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        total = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, key_size = self._value(event, depth + 1)
            value, size = self._value(next(self._events), depth + 1)
            total += key_size + size
            if key == "<<" and isinstance(value, dict):
                defaults |= value
            elif isinstance(key, str):
                built[key] = value
        return defaults | built, total

    def _wrong(self, event: yaml.Event, what: str) -> InvalidInput:
        return InvalidInput(f"{_format_mark(event.start_mark, self._first_line)}: {what}")


def _format_mark(mark: Any, first_line: int) -> str:
    line, column = (mark.line, mark.column) if mark else (0, 0)
    return f"line {line + first_line}, column {column + 1}"


def _place(before: str, first_line: int = 1) -> str:
    line, column = first_line + before.count("\n"), len(before) - before.rfind("\n")
    return f"line {line}, column {column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """Front matter in a markdown file. Offsets are in bytes, as `length` is."""

    start: int
    front: int
    front_end: int
    body: int
    text_before: int  # end of the last text before it
    line: int


def _parse_markdown(data: bytes, namespace: str | None) -> list[Item]:
    entries = _entries(data)
    if not entries:
        return _parse_headed(data.decode("utf-8"), namespace)
    items: list[Item] = []
    if any(
        line.strip() and not line.startswith(b"#") for line in data[: entries[0].start].split(b"\n")
    ):
        items.append(RejectedRecord("line 1", "this text before the first entry is in no entry"))
    starts = [entry.start for entry in entries]
    text_end = len(data.rstrip())
    place = 0
    while place < len(entries):
        entry = entries[place]
        after = place + 1
        try:
            front = _front(data, entry)
            length = front.pop("length", None)
            if length is None:
                end = starts[after] if after < len(entries) else len(data)
                # Blank lines around the body are not part of it.
                body = data[entry.body : end].strip(b"\r\n").rstrip()
            else:
                end = entry.body + _length(length)
                following = bisect_left(starts, end)
                last = following == len(entries)
                _check_end(data, end, text_end if last else entries[following].text_before)
                body, after = data[entry.body : end], following
            items.append(_draft(_with_body(front, body), namespace))
        except InvalidInput as exc:
            items.append(RejectedRecord(f"line {entry.line}", str(exc)))
        place = after
    return items


def _entries(data: bytes) -> list[_Entry]:
    """Find everything that could be an entry, even inside the body of another."""
    entries: list[_Entry] = []
    rules = list(_RULE.finditer(data))
    line = counted = 0
    for rule, closing in pairwise(rules):
        line += data.count(b"\n", counted, rule.start())
        counted = rule.start()
        if _is_front(data, rule.end(), closing.start()):
            before = rule.start()
            while before and data[before - 1 : before].isspace():
                before -= 1
            entry = _Entry(
                start=rule.start(),
                front=rule.end(),
                front_end=closing.start(),
                body=closing.end(),
                text_before=before,
                line=line + 1,
            )
            entries.append(entry)
    return entries


def _is_front(data: bytes, start: int, end: int) -> bool:
    """Return whether this is meant as front matter.

    Broken front matter counts too: otherwise it would become part of the body before it.
    """
    return bool(_FIRST_KEY.match(data, start, end) and _FRONT_KEY.search(data, start, end))


def _front(data: bytes, entry: _Entry) -> dict[str, Any]:
    text = data[entry.front : entry.front_end].decode("utf-8")
    documents = _read_yaml(text, entry.line + 1)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InvalidInput("front matter must have only keys and values")
    return documents[0]


def _length(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
        return int(value)
    raise InvalidInput(
        f"length is {_describe_value(value)}; it must be the number of bytes of the body"
    )


def _check_end(data: bytes, end: int, text_end: int) -> None:
    """Check `length`, which is wrong if someone changed the body by hand."""
    ends_here = end == len(data) or data[end : end + 1] in (b"\n", b"\r")
    if end > len(data) or end < text_end or not ends_here:
        raise InvalidInput(
            "the body does not end where `length` says: if you changed the body, remove `length`"
        )


def _with_body(front: dict[str, Any], body: bytes) -> dict[str, Any]:
    if not body:
        return front
    if _either(front, "content", "body"):
        raise InvalidInput("the content is both in the front matter and below it: remove one")
    try:
        return front | {"content": body.decode("utf-8")}
    except UnicodeDecodeError:
        raise InvalidInput("the body does not end where `length` says: remove `length`") from None


def _parse_headed(text: str, namespace: str | None) -> list[Item]:
    """Parse a file without front matter: a heading is a summary, the text below it its content."""
    lines = text.split("\n")
    headings = list(_headings(lines))
    deepest = max((level for _, level, _ in headings), default=0)
    if not deepest:
        raise InvalidInput(
            "line 1, column 1: there are no entries: start each with front matter between lines"
            " `---`, or with a heading `## `"
        )
    # Text in no section of the deepest level is a record too: nothing of the file is lost.
    begin = _skip_front(lines)
    sections = [(begin - 1, deepest, ""), *(each for each in headings if each[0] >= begin)]
    items: list[Item] = []
    ends = [number for number, _, _ in sections[1:]] + [len(lines)]
    for (number, level, title), end in zip(sections, ends, strict=True):
        body = "\n".join(lines[number + 1 : end]).strip("\r\n").rstrip()
        is_entry = level == deepest and number >= begin
        summary = title
        if len(title) > MAX_SUMMARY_CHARS:  # its beginning becomes the summary
            summary, body = "", f"{title}\n\n{body}".rstrip()
        if body or is_entry:
            try:
                items.append(_draft({"summary": summary, "content": body}, namespace))
            except InvalidInput as exc:
                items.append(RejectedRecord(f"line {max(number, begin) + 1}", str(exc)))
    return items


def _skip_front(lines: list[str]) -> int:
    """Return the number of lines of front matter, which is about the file and no record."""
    if lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return number + 1
        if not _FRONT_LINE.match(line):
            break
    return 0


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield line, level and title of the headings of levels 1 and 2, outside of code."""
    fence = ""
    for number, line in enumerate(lines):
        code = _CODE.match(line)
        if fence:
            closes = code and code[1].startswith(fence) and not line[code.end() :].strip()
            fence = "" if closes else fence
        elif code:
            fence = code[1]
        elif line.startswith(("# ", "#\t", "## ", "##\t")):
            level = 2 if line.startswith("##") else 1
            title = line[level:].strip()
            bare = title.rstrip("#")
            # `## Title ##` is closed; `## About C#` is not.
            yield number, level, bare.strip() if not bare or bare[-1:].isspace() else title


def dump(exported: Iterable[Memory], format: str) -> Iterator[str]:  # noqa: A002
    """Write a file of memories, piece by piece. `parse` reads it back."""
    writers: dict[str, Callable[[Iterable[Memory]], Iterator[str]]] = {
        "yaml": _dump_yaml,
        "json": _dump_json,
        "jsonl": _dump_jsonl,
        "markdown": _dump_markdown,
    }
    if format not in writers:
        raise _unknown(format)
    return writers[format](exported)


def _unknown(name: str) -> InvalidInput:
    return InvalidInput(
        f"format is {_describe_value(name)}; it must be one of {', '.join(FORMATS)}"
    )


def _record(memory: Memory) -> dict[str, Any]:
    record = memory_fields.to_fields(memory)
    del record["timestamp_ms"]
    return {key: value for key, value in record.items() if value or key == "content"}


def _dump_json(exported: Iterable[Memory]) -> Iterator[str]:
    before = '{"memories": ['
    for memory in exported:
        yield f"{before}\n{_json(memory)}"
        before = ","
    yield "\n]}\n" if before == "," else f"{before}]}}\n"


def _dump_jsonl(exported: Iterable[Memory]) -> Iterator[str]:
    for memory in exported:
        yield f"{_json(memory)}\n"


def _json(memory: Memory) -> str:
    return json.dumps(_record(memory), ensure_ascii=False).translate(_JSON_ESCAPES)


class _YamlBlock(str):
    """Text of several lines, written as a block; libyaml escapes text that has no block form."""

    __slots__ = ()


class _Dumper(yaml.CSafeDumper):
    pass


def _represent_block(dumper: Any, text: _YamlBlock) -> yaml.ScalarNode:
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")
    return node


_Dumper.add_representer(_YamlBlock, _represent_block)


def _dump_yaml(exported: Iterable[Memory]) -> Iterator[str]:
    before = "memories:\n"
    for memory in exported:
        record = _record(memory)
        if "\n" in memory.content:
            record["content"] = _YamlBlock(memory.content)
        # libyaml ends the document after a text with empty lines at its end; the list continues.
        yield before + _yaml([record]).removesuffix("...\n")
        before = ""
    if before:
        yield "memories: []\n"


def _dump_markdown(exported: Iterable[Memory]) -> Iterator[str]:
    for memory in exported:
        front = _record(memory)
        front["length"] = len(front.pop("content").encode("utf-8"))
        yield f"---\n{_yaml(front)}---\n{memory.content}\n"


def _yaml(value: Any) -> str:
    # Each value on one line: a `---` inside a value must not start a line.
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 30)
    return text
