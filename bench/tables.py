"""One aligned table on a terminal: the first column to the left, the others to the right."""

from collections.abc import Sequence

Row = Sequence[str]


def render(title: str, head: Row, rows: Sequence[Row]) -> str:
    """Print a table. An empty row becomes a rule."""
    filled = [row for row in (head, *rows) if row]
    widths = [max(len(row[i]) for row in filled) for i in range(len(head))]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    lines = [title, rule, _line(head, widths), rule]
    lines += [_line(row, widths) if row else rule for row in rows]
    return "\n".join([*lines, rule, ""])


def _line(row: Row, widths: Sequence[int]) -> str:
    first, *others = (
        cell.rjust(width) if i else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()
