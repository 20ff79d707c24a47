"""Budgets: no answer is larger than an agent can take, and what was cut says so."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_memory.features.recall.model.contexts import MARKER

TRUNCATED = "truncated"
_BYTES = 4  # of a token, as elsewhere; by bytes, since a sign of three bytes is near a whole token


_MARK = re.compile(rf"<(?=\s*/?\s*{MARKER})", re.IGNORECASE)


def encode(told: Any) -> str:
    """JSON in which no marker of ours can begin or end: text from memory stays within its own."""
    plain = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return _MARK.sub("\\\\u003c", plain)


def size(told: Any) -> int:
    """In bytes of JSON."""
    return len(encode(told).encode("utf-8", "replace"))


def count_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // _BYTES)


def tokens_to_bytes(limit: int) -> int:
    """The bytes of so many tokens."""
    return limit * _BYTES


def cut(told: Mapping[str, Any], most: int) -> dict[str, Any]:
    """So many bytes of it at most: the largest of its values is shortened, then the next."""
    found = dict(told)
    if size(found) <= most:
        return found
    found[TRUNCATED] = True
    while (over := size(found) - most) > 0:
        name = max(found, key=lambda each: _weight(found[each]))
        if not _weight(found[name]):
            break
        found[name] = _shorter(found[name], over)
    return found


def take_fitting(rows: Iterable[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """The first of them, as many as fit; each is cut to half of it, so that one always does."""
    kept: list[dict[str, Any]] = []
    left = most
    for row in rows:
        short = cut(row, most // 2)
        left -= size(short) + 1
        if left < 0:
            break
        kept.append(short)
    return kept


def cut_evenly(rows: Sequence[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """All of them, the long ones cut: each may take what those before it have left."""
    kept: list[dict[str, Any]] = []
    left = most
    for number, row in enumerate(rows):
        kept.append(cut(row, left // (len(rows) - number)))
        left = max(0, left - size(kept[-1]) - 1)
    return kept


def _weight(value: Any) -> int:
    """What could be saved of it."""
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
