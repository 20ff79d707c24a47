"""Bullets and highlights as text: a word for their kind, and an id that `memory show` opens."""

from collections.abc import Sequence

from agent_memory.features.toc.model import short_ids
from agent_memory.features.toc.model.highlights import HighlightKind

ID_STYLE = "dim"
_STYLES = {
    HighlightKind.FINISHED: "bold green",
    HighlightKind.DONE: "green",
    HighlightKind.DECIDED: "magenta",
    HighlightKind.FOUND: "cyan",
    HighlightKind.BROKEN: "red",
    HighlightKind.OPEN: "yellow",
    HighlightKind.STATE: "blue",
}
WIDTH = max(len(kind.word) for kind in HighlightKind)


def mark_kind(kind: HighlightKind, text: str) -> str:
    """Return the word for a kind with a colon, to stand before a text.

    A note has none, nor has a text that begins with the word.
    """
    mark = f"{kind.word}: "
    return "" if kind is HighlightKind.NOTE or text.lower().startswith(mark) else mark


def parse_kind(name: str) -> HighlightKind:
    """Return the kind of this name; one that only a newer daemon knows is a note."""
    return HighlightKind.__members__.get(name.upper(), HighlightKind.NOTE)


def get_style(kind: HighlightKind) -> str:
    """Return the colour of a kind."""
    return _STYLES.get(kind, "dim")


def abbreviate_grip(grip_ids: Sequence[str]) -> str:
    """Return a short id of the grip to open; empty if there is none."""
    return short_ids.abbreviate(grip_ids[0]) if grip_ids else ""
