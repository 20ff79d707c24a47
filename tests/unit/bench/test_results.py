"""The options that every bench has, and the result that it writes."""

import argparse
import json
from pathlib import Path

import pytest

from bench import results
from bench.results import Group, Plot, Table

TABLE = Table("5 rounds", ("", "p99 ms"), [("Stop", "1.5"), (), ("Start", "2.5")])


def parse(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--events", type=int, default=1_000)
    return results.parse_options(parser, argv, rounds=5)


def test_a_quick_run_has_defaults_of_its_own() -> None:
    assert (parse().rounds, parse().events) == (200, 1_000)
    assert (parse("--quick").rounds, parse("--quick").events) == (5, 1_000)


def test_a_given_option_wins_over_a_quick_default() -> None:
    assert parse("--rounds", "7", "--quick").rounds == 7


def test_a_file_in_no_folder_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse("--json", str(tmp_path / "missing/hooks.json"))
    assert "there is no folder" in capsys.readouterr().err


def test_a_result_is_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hooks.json"
    plot = Plot("hooks", "Hooks", [Group("Stop", {"idle": 1.5}, goal=2.0)])
    results.report(parse("--json", str(file)), "hooks", [TABLE], [plot])
    assert "Start" in capsys.readouterr().out
    written = json.loads(file.read_text())
    assert written["tables"] == [
        {
            "title": "5 rounds",
            "head": ["", "p99 ms"],
            "rows": [["Stop", "1.5"], [], ["Start", "2.5"]],
        }
    ]
    assert [results.read_plot(each) for each in written["plots"]] == [plot]


def test_without_a_file_a_result_is_only_printed(capsys: pytest.CaptureFixture[str]) -> None:
    results.report(parse(), "hooks", [TABLE])
    assert capsys.readouterr().out.startswith("5 rounds\n")
