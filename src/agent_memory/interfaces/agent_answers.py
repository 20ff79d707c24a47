"""Answers that an agent reads: without hidden text and foreign markup, marked, and within a budget.

Text from memory was written by anyone. Nothing in it may look like the words of a system, a user or
a tool, or end the block that marks it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_memory.features.recall.model.contexts import MARKER, NOTICE
from agent_memory.kernel.text.untrusted import disarm

TRUNCATED = "truncated"
MOST_SHOWN = 50_000  # by a command, in characters or bytes
_ASK_FOR_LESS = "narrow it with --limit, --offset, --since or --detail"
_BYTES = 4  # per token; bytes, because a character of three bytes is nearly a token of its own


def disarm_all(value: Any) -> Any:
    """Return a value of JSON whose texts are harmless to an agent."""
    match value:
        case str():
            return disarm(value)
        case Mapping():
            return {disarm(str(name)): disarm_all(each) for name, each in value.items()}
        case list() | tuple():
            return [disarm_all(each) for each in value]
        case _:
            return value


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReader:
    """An agent that reads the output of a command. What shows memory is framed and bounded."""

    is_framed: bool
    warn: Callable[[str], None]

    def fit(self, value: Any, framed: str = "") -> Any:
        """Return a value of JSON for the agent, and warn if it is cut. A field that is `framed`
        stays as it is."""
        harmless = disarm_all(value)
        if framed:
            return harmless | {name: framed for name, each in value.items() if each == framed}
        if not self.is_framed or size(harmless) <= MOST_SHOWN:
            return harmless
        self.warn(f"note: an agent gets at most {MOST_SHOWN:,} bytes: {_ASK_FOR_LESS}\n")
        if isinstance(harmless, dict):
            return cut(harmless, MOST_SHOWN)
        return cut({"": harmless}, MOST_SHOWN)[""]

    def frame(self, text: str) -> str:
        """Mark a text as one from memory, cut at the end of a line."""
        harmless = disarm(text)
        if not self.is_framed:
            return harmless
        harmless = harmless.rstrip("\n")
        if len(harmless) > MOST_SHOWN:
            end = harmless.rfind("\n", MOST_SHOWN // 2, MOST_SHOWN)
            note = f"[cut after {MOST_SHOWN:,} of {len(harmless):,} characters: {_ASK_FOR_LESS}]"
            harmless = f"{harmless[: end if end > 0 else MOST_SHOWN]}\n{note}"
        return f"<{MARKER}>\n{NOTICE}\n{harmless}\n</{MARKER}>\n"


def encode(value: Any) -> str:
    """Return JSON without a `<`, which text from memory would need to end its block."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c")


def size(value: Any) -> int:
    """Return the size as JSON, in bytes."""
    return len(encode(value).encode("utf-8", "replace"))


def count_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // _BYTES)


def tokens_to_bytes(limit: int) -> int:
    return limit * _BYTES


def cut(value: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Make an object harmless, and shorten its largest field, then the next, until it fits `most`
    bytes."""
    shortened: dict[str, Any] = disarm_all(value)
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
