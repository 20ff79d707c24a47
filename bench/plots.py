"""Bar charts as SVG. A card with its own background, so that a page of any color can show it."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from bench.results import Group, Plot

WIDTH, MARGIN = 760, 20
TITLE, LEGEND = 34, 30  # heights
LABEL, FIGURE = 250, 60  # widths left and right of the bars
BAR, GAP, APART = 16, 3, 18  # height of a bar, below it, and below a group
SCALE = WIDTH - 2 * MARGIN - LABEL - FIGURE  # width of the longest bar
# Blue, orange, green and purple that also differ in lightness, for readers who see no colors.
COLORS = (("#3b6fd4", "#7fa6f5"), ("#d9822b", "#f0a95c"), ("#1f8a5f", "#56c596"),
          ("#7d4fb5", "#b794e0"))  # fmt: skip
FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="title">
<title id="title">{title}</title>
<style>
text {{ font: 13px system-ui, sans-serif; fill: #1d2430 }}
.title {{ font-weight: bold; font-size: 15px }}
.card {{ fill: #fbfcfe; stroke: #d5dbe5 }}
.goal {{ stroke: #1d2430; stroke-width: 2 }}
{light}
@media (prefers-color-scheme: dark) {{
text {{ fill: #dfe5ef }}
.card {{ fill: #12161e; stroke: #2b3342 }}
.goal {{ stroke: #dfe5ef }}
{dark}
}}
</style>
<rect class="card" x="0.5" y="0.5" width="{inner_width}" height="{inner_height}" rx="10"/>
<text class="title" x="{margin}" y="{title_at}">{title}</text>
{body}
</svg>
"""  # noqa: E501


def draw(plot: Plot) -> str:
    """Draw a bar for each value of each group, and a line where a group has a goal."""
    series = list(dict.fromkeys(name for group in plot.groups for name in group.values))
    if not 0 < len(series) <= len(COLORS):
        raise ValueError(f"{plot.name}: {len(series)} series, and colors for {len(COLORS)}")
    goals = [group.goal for group in plot.groups if group.goal is not None]
    longest = max([*(value for group in plot.groups for value in group.values.values()), *goals])
    body = list(_draw_legend(series, has_goal=bool(goals)))
    top = MARGIN + TITLE + LEGEND
    for group in plot.groups:
        body += _draw_group(group, series, top, SCALE / (longest or 1.0))
        top += len(group.values) * (BAR + GAP) + APART
    height = top - APART + MARGIN
    light, dark = (
        "\n".join(f".s{number} {{ fill: {pair[shade]} }}" for number, pair in enumerate(COLORS))
        for shade in (0, 1)
    )
    return FRAME.format(
        width=WIDTH, height=height, inner_width=WIDTH - 1, inner_height=height - 1, margin=MARGIN,
        title=escape(plot.title), title_at=MARGIN + 15, light=light, dark=dark,
        body="\n".join(body),
    )  # fmt: skip


def _draw_legend(series: list[str], *, has_goal: bool) -> Iterator[str]:
    left, top = MARGIN, MARGIN + TITLE - 6
    for number, name in enumerate(series):
        yield f'<rect class="s{number}" x="{left}" y="{top}" width="12" height="12" rx="2"/>'
        yield f'<text x="{left + 18}" y="{top + 11}">{escape(name)}</text>'
        left += 18 + 7 * len(name) + 24
    if has_goal:
        yield f'<path class="goal" d="M{left + 6} {top - 1}V{top + 13}"/>'
        yield f'<text x="{left + 18}" y="{top + 11}">goal</text>'


def _draw_group(group: Group, series: list[str], top: int, scale: float) -> Iterator[str]:
    left = MARGIN + LABEL
    bottom = top + len(group.values) * (BAR + GAP) - GAP
    middle = (top + bottom) / 2 + 4
    yield f'<text x="{left - 12}" y="{middle:g}" text-anchor="end">{escape(group.label)}</text>'
    for row, (name, value) in enumerate(group.values.items()):
        y, length = top + row * (BAR + GAP), max(1.0, value * scale)
        yield (
            f'<rect class="s{series.index(name)}" x="{left}" y="{y}" width="{length:.1f}"'
            f' height="{BAR}" rx="2"/>'
        )
        yield f'<text x="{left + length + 8:.1f}" y="{y + 13}">{format_value(value)}</text>'
    if group.goal is not None:
        yield f'<path class="goal" d="M{left + group.goal * scale:.1f} {top - 3}V{bottom + 3}"/>'


def format_value(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
