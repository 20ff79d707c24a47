"""Lines of a list: an id that the next command takes, a time, and a text."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from agent_memory.interfaces.cli import layout, rendering

_LEAST_TEXT = 30  # columns; with less room a text has a line of its own
_INDENT = 4


@dataclass(frozen=True, slots=True)
class ListRow:
    name: str
    time: str
    text: str


def render_rows(rows: Sequence[ListRow]) -> str:
    """Render a list for a terminal. A text has as many lines as it needs."""
    names = max((cell_len(row.name) for row in rows), default=0)
    times = max((cell_len(row.time) for row in rows), default=0)
    head = names + times + 4
    columns = rendering.screen.get()
    apart = columns - head < _LEAST_TEXT
    width = max(layout.MIN_WIDTH, columns - (_INDENT if apart else head))
    lines = []
    for row in rows:
        name = rendering.paint(row.name, rendering.ID) + " " * (names - cell_len(row.name))
        time = rendering.paint(row.time, rendering.TIME) + " " * (times - cell_len(row.time))
        first, *others = layout.fold(row.text, width)
        if apart:
            lines.append(f"{name}  {time}".rstrip())
            others.insert(0, first)
        else:
            lines.append(f"{name}  {time}  {first}")
        margin = " " * (_INDENT if apart else head)
        lines += [f"{margin}{other}" for other in others]
    return "\n".join(lines)
