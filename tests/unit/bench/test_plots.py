"""Bar charts: what they draw, where, and that any text is safe in them."""

from xml.etree import ElementTree as ET

import pytest

from bench import plots
from bench.results import Group, Plot

NAMESPACE = "{http://www.w3.org/2000/svg}"


def draw(*groups: Group, title: str = "Hooks") -> ET.Element:
    return ET.fromstring(plots.draw(Plot("hooks", title, groups)))  # noqa: S314


def bars(svg: ET.Element) -> list[tuple[str, float]]:
    """Class and length of each bar."""
    return [
        (rect.attrib["class"], float(rect.attrib["width"]))
        for rect in svg.iter(f"{NAMESPACE}rect")
        if rect.attrib["height"] == str(plots.BAR)
    ]


def texts(svg: ET.Element) -> list[str | None]:
    return [text.text for text in svg.iter(f"{NAMESPACE}text")]


def test_the_longest_bar_fills_the_scale_and_others_their_share() -> None:
    svg = draw(Group("Stop", {"idle": 10.0, "backlog": 40.0}))
    assert bars(svg) == [("s0", plots.SCALE / 4), ("s1", plots.SCALE)]


def test_a_series_has_one_color_in_all_groups() -> None:
    svg = draw(Group("one", {"idle": 1.0, "stream": 2.0}), Group("two", {"stream": 2.0}))
    assert [name for name, _ in bars(svg)] == ["s0", "s1", "s1"]
    assert texts(svg) == ["Hooks", "idle", "stream", "one", "1.00", "2.00", "two", "2.00"]


def test_a_goal_is_a_line_at_its_value() -> None:
    svg = draw(Group("Stop", {"idle": 10.0, "backlog": 40.0}, goal=20.0))
    _, line = svg.iter(f"{NAMESPACE}path")  # the first belongs to the legend
    left = plots.MARGIN + plots.LABEL
    assert line.attrib["d"].startswith(f"M{left + plots.SCALE / 2:.1f} ")
    assert "goal" in texts(svg)


def test_a_goal_beyond_all_bars_stays_within_the_scale() -> None:
    svg = draw(Group("Stop", {"idle": 10.0}, goal=20.0))
    assert bars(svg) == [("s0", plots.SCALE / 2)]


def test_names_are_escaped() -> None:
    svg = draw(Group("<a> & b", {"idle": 1.0}), title="p99 < 50 & more")
    assert "<a> & b" in texts(svg)
    assert texts(svg)[0] == "p99 < 50 & more"


def test_every_part_is_within_the_card() -> None:
    svg = draw(*(Group(str(number), {"idle": 1.0, "stream": 3.0}) for number in range(9)))
    height = float(svg.attrib["height"])
    assert all(
        float(rect.attrib["y"]) + float(rect.attrib["height"]) <= height
        for rect in svg.iter(f"{NAMESPACE}rect")
    )


def test_figures_of_zero_are_drawn() -> None:
    assert bars(draw(Group("none", {"idle": 0.0}))) == [("s0", 1.0)]


def test_a_dark_page_gets_its_own_colors() -> None:
    drawn = plots.draw(Plot("hooks", "Hooks", [Group("Stop", {"idle": 1.0})]))
    light, _, dark = drawn.partition("prefers-color-scheme: dark")
    assert plots.COLORS[0][0] in light
    assert plots.COLORS[0][1] in dark


def test_more_series_than_colors_are_refused() -> None:
    with pytest.raises(ValueError, match="5 series"):
        draw(Group("many", {str(number): 1.0 for number in range(5)}))
