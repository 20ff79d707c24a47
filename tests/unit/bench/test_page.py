"""The page of benchmarks: sections in their order, tables and plots of each, safe texts."""

import json
from pathlib import Path
from typing import Any

import markdown  # type: ignore[import-untyped]  # mkdocs brings it along
import pytest

from bench import page


def result(bench: str, **changes: Any) -> dict[str, Any]:
    return {
        "bench": bench,
        "quick": False,
        "commit": "abc1234567",
        "date": "2026-01-02",
        "machine": "2 cores (Some Processor)",
        "tables": [{"title": "5 rounds", "head": ["", "p99 ms"], "rows": [["Stop", "1.5"]]}],
        "plots": [],
        **changes,
    }


def test_sections_have_the_order_of_the_page_and_unknown_ones_come_last() -> None:
    text = page.render([result("another"), result("mcp"), result("ingest")])
    places = [text.index(head) for head in ("## Recording events", "## MCP", "## another")]
    assert places == sorted(places)


def test_a_page_names_machine_commit_and_date() -> None:
    text = page.render([result("hooks")])
    assert "2 cores (Some Processor)." in text
    assert "`python -m bench.hooks`, commit abc1234567, 2026-01-02." in text


def test_results_of_two_machines_name_both() -> None:
    text = page.render([result("hooks"), result("mcp", machine="64 cores")])
    assert "2 cores (Some Processor); 64 cores." in text


def test_a_quick_run_says_so() -> None:
    assert page.QUICK not in page.render([result("hooks")])
    text = page.render([result("hooks"), result("mcp", quick=True)])
    assert text.count(page.QUICK) == 1
    assert text.index("## Hooks") < text.index("## MCP") < text.index(page.QUICK)


def test_a_plot_is_shown_and_described() -> None:
    plot = {"name": "mcp-states", "title": "Calls: p99", "groups": []}
    text = page.render([result("mcp", plots=[plot])])
    assert "![Calls: p99](../images/bench-mcp-states.svg)" in text


def test_a_table_shows_the_cells_of_its_rows_without_rules() -> None:
    rows = [["hook_name", "a|b"], [], ["  of <it>", ">= 1.5 *ok* `c` [d]"]]
    shown = markdown.markdown(page.render_table(["", "p99_ms"], rows), extensions=["tables"])
    assert shown.count("<tr>") == 3
    for cell in ("p99_ms", "hook_name", "a|b", "of &lt;it&gt;", "&gt;= 1.5 *ok* `c` [d]"):
        assert f"{cell}</t" in shown.replace("&#124;", "|")


def test_a_folder_of_results_becomes_a_page_with_its_plots(tmp_path: Path) -> None:
    docs, found = tmp_path / "docs", tmp_path / "found"
    for folder in (docs / "reference", docs / "images", found):
        folder.mkdir(parents=True)
    for name in ("bench-old.svg", "recall.svg"):
        (docs / "images" / name).touch()
    plot = {"name": "mcp", "title": "Calls", "groups": [{"label": "call", "values": {"idle": 1.0}}]}
    (found / "mcp.json").write_text(json.dumps(result("mcp", plots=[plot])))
    page.write(found, docs)
    assert "## MCP" in (docs / "reference/benchmarks.md").read_text()
    assert {each.name for each in (docs / "images").iterdir()} == {"bench-mcp.svg", "recall.svg"}


def test_a_folder_without_results_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make bench"):
        page.write(tmp_path, tmp_path / "docs")
    assert not (tmp_path / "docs").exists()
