"""Bullets and highlights as text: a word for their kind, and an id that `memory show` opens."""

from collections.abc import Sequence

from agent_memory.features.toc.model import short_ids
from agent_memory.features.toc.model.highlights import HighlightKind

ID_STYLE = "dim"
_WORDS = {
    HighlightKind.NOTE: ("note", "dim"),
    HighlightKind.ASKED: ("asked", "dim"),
    HighlightKind.PLANNED: ("planned", "dim"),
    HighlightKind.MILESTONE: ("finished", "bold green"),
    HighlightKind.DONE: ("done", "green"),
    HighlightKind.DECIDED: ("decided", "magenta"),
    HighlightKind.FOUND: ("found", "cyan"),
    HighlightKind.BROKEN: ("broken", "red"),
    HighlightKind.OPEN: ("open", "yellow"),
    HighlightKind.STATE: ("state", "blue"),
}
WIDTH = max(len(word) for word, _ in _WORDS.values())


def describe_kind(kind: HighlightKind) -> str:
    """Return a short word for a kind."""
    return _WORDS[kind][0]


def mark_kind(kind: HighlightKind) -> str:
    """Return the word with a colon, to stand before a text; a note has none."""
    return "" if kind is HighlightKind.NOTE else f"{describe_kind(kind)}: "


def get_style(kind: HighlightKind) -> str:
    """Return the colour of a kind."""
    return _WORDS[kind][1]


def abbreviate_grip(grip_ids: Sequence[str]) -> str:
    """Return a short id of the grip to open; empty if there is none."""
    return short_ids.abbreviate(grip_ids[0]) if grip_ids else ""
