"""Size limits of answers: cut values and rows to a budget, and mark what was cut."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_memory.features.recall.model.contexts import MARKER

TRUNCATED = "truncated"
_BYTES = 4  # per token; bytes, because a character of three bytes is nearly a token of its own
_MARK = re.compile(rf"<(?=\s*/?\s*{MARKER})", re.IGNORECASE)


def encode(value: Any) -> str:
    """Return JSON in which our marker is escaped, so that text from memory cannot end its block."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _MARK.sub("\\\\u003c", plain)


def size(value: Any) -> int:
    """Return the size as JSON, in bytes."""
    return len(encode(value).encode("utf-8", "replace"))


def count_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // _BYTES)


def tokens_to_bytes(limit: int) -> int:
    return limit * _BYTES


def cut(value: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Shorten the largest field, then the next, until the object fits `most` bytes."""
    shortened = dict(value)
    if size(shortened) <= most:
        return shortened
    shortened[TRUNCATED] = True
    while (over := size(shortened) - most) > 0:
        name = max(shortened, key=lambda field: _weight(shortened[field]))
        if not _weight(shortened[name]):
            break
        shortened[name] = _shorter(shortened[name], over)
    return shortened


def take_fitting(rows: Iterable[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return the first rows that fit. Each is cut to half of `most`, so that at least one fits."""
    taken: list[dict[str, Any]] = []
    left = most
    for row in rows:
        short = cut(row, most // 2)
        left -= size(short) + 1
        if left < 0:
            break
        taken.append(short)
    return taken


def cut_evenly(rows: Sequence[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return all rows, the long ones cut: a row may use what the rows before it have left."""
    shortened: list[dict[str, Any]] = []
    left = most
    for number, row in enumerate(rows):
        shortened.append(cut(row, left // (len(rows) - number)))
        left = max(0, left - size(shortened[-1]) - 1)
    return shortened


def _weight(value: Any) -> int:
    """Return the bytes that shortening the value could save."""
    return size(value) if isinstance(value, str | list | dict) and value else 0


def _shorter(value: Any, over: int) -> Any:
    if isinstance(value, str):
        data = value.encode("utf-8", "replace")
        return data[: max(0, len(data) - over)].decode(errors="ignore")
    if isinstance(value, list):
        return value[: len(value) // 2]
    shorter = cut(value, max(0, size(value) - over)) if any(map(_weight, value.values())) else {}
    if shorter and size(shorter) < size(value):
        return shorter
    return dict(list(value.items())[: len(value) // 2])
