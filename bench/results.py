"""The result of a bench: printed as tables, and written as JSON for the page in the docs."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import tables

ROOT = Path(__file__).parent.parent
MEASURED = ("src", "bench", "pyproject.toml")  # a change elsewhere changes no figure


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    head: tables.Row
    rows: Sequence[tables.Row]


@dataclass(frozen=True, slots=True)
class Group:
    """Bars that are compared with each other, and the value that they should reach."""

    label: str
    values: Mapping[str, float]  # by series
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    name: str  # of the file: bench-<name>.svg
    title: str
    groups: Sequence[Group]


def parse_options(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None = None, **quick: object
) -> argparse.Namespace:
    """Parse with the options of every bench. `quick` are the defaults of a quick run."""
    parser.add_argument("--quick", action="store_true", help="little of everything, as a check")
    parser.add_argument("--json", type=_absolute, metavar="FILE", help="write the result there too")
    if parser.parse_known_args(argv)[0].quick:
        parser.set_defaults(**quick)
    options = parser.parse_args(argv)
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    return options


def report(
    options: argparse.Namespace, name: str, shown: Sequence[Table], plots: Sequence[Plot] = ()
) -> None:
    """Print the tables. Write everything to the file of `--json`."""
    printed = (tables.render(each.title, each.head, each.rows) for each in shown)
    sys.stdout.write("\n".join(printed))
    if options.json is None:
        return
    result = {
        "bench": name,
        "quick": options.quick,
        "commit": read_commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": describe_machine(),
        "tables": [asdict(each) for each in shown],
        "plots": [asdict(each) for each in plots],
    }
    options.json.write_text(json.dumps(result, indent=1))


def read_plot(found: Mapping[str, Any]) -> Plot:
    return Plot(found["name"], found["title"], [Group(**group) for group in found["groups"]])


def read_commit() -> str:
    """Return the short commit, with a note if what is measured is not what it holds."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    return f"{commit} with changes" if _git("status", "--porcelain", "--", *MEASURED) else commit


def describe_machine() -> str:
    """Return cores, model, memory and Python: nothing that names the machine."""
    model = _read_field(Path("/proc/cpuinfo"), "model name") or platform.machine()
    kilobytes = _read_field(Path("/proc/meminfo"), "MemTotal").partition(" ")[0]
    memory = f", {int(kilobytes) / (1 << 20):.0f} GB of memory" if kilobytes else ""
    return f"{os.cpu_count()} cores ({model}){memory}, Python {platform.python_version()}"


def _absolute(text: str) -> Path:
    return Path(text).absolute()  # a bench may change the folder


def _read_field(file: Path, name: str) -> str:
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ("git", *arguments),  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
