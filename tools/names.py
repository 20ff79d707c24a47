"""Check the names of the source: verbs for functions, one meaning for a class, no retired words."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/agent_memory"
# Generated code, and the client: a library of its own, whose public names are those of the wire.
OUTSIDE = (SOURCE / "proto", SOURCE / "client")

EMPTY_WORDS = frozenset({"each", "found", "given", "told", "wanted", "whatever"})
# Private words of earlier versions, by the word that replaced them.
RETIRED = {
    "checkup": "doctor",
    "crew": "agent_catalog",
    "curation": "editing",
    "desk": "handlers",
    "diary": "run_recorder",
    "entrance": "lazy_server",
    "epitaph": "exit_reason",
    "errand": "long_running",
    "halt": "cancel",
    "lessor": "leasable_server",
    "manner": "sampling_options",
    "relay": "launcher",
    "shelf": "record_service",
    "stand": "extra_listener",
    "survey": "memory_stats",
    "surroundings": "run_environment",
    "vitals": "metrics",
    "warden": "supervisor",
    "workplace": "project_resolver",
}
VERBS_IN_ED = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "succeed"})
IRREGULAR_PARTICIPLES = frozenset((
    "begun", "bound", "broken", "brought", "built", "caught", "chosen", "dealt", "done",
    "drawn", "driven", "fallen", "felt", "forgotten", "frozen", "given", "gone", "grown",
    "heard", "held", "hidden", "kept", "known", "laid", "led", "left", "lost", "made", "meant",
    "met", "paid", "seen", "sent", "shown", "sought", "spent", "spoken", "stood", "taken",
    "taught", "thought", "thrown", "told", "torn", "understood", "worn", "written",
))  # fmt: skip
# Methods that a library calls by these names.
OF_LIBRARIES = frozenset({"lost_connection"})


@dataclass(frozen=True)
class Problem:
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.text}"


def is_participle(name: str) -> bool:
    word = name.strip("_").partition("_")[0]
    if word in IRREGULAR_PARTICIPLES:
        return True
    return len(word) > 3 and word.endswith("ed") and word not in VERBS_IN_ED


def split_words(name: str) -> list[str]:
    """Return the words of a name in any case: `HttpGate` and `http_gate` have the same two."""
    return re.findall(r"[a-z0-9]+", re.sub(r"([A-Z])", r"_\1", name).lower())


def find_retired(name: str) -> tuple[str, str] | None:
    for word in split_words(name):
        for retired in (word, word.removesuffix("s")):
            if retired in RETIRED:
                return word, RETIRED[retired]
    return None


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(each).endswith("property") for each in node.decorator_list)


def check_definition(path: Path, node: ast.AST) -> Iterator[Problem]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if is_participle(node.name) and not is_property(node) and node.name not in OF_LIBRARIES:
                yield Problem(path, node.lineno, f"{node.name}: name a function by a verb")
        case ast.ClassDef():
            pass
        case _:
            return
    if node.name.strip("_").lower() in EMPTY_WORDS:
        yield Problem(path, node.lineno, f"{node.name}: the name says nothing")
    if retired := find_retired(node.name):
        yield Problem(path, node.lineno, f"{node.name}: say {retired[1]} instead of {retired[0]}")


def check_module(path: Path) -> Iterator[Problem]:
    if retired := find_retired(path.stem):
        yield Problem(path, 1, f"{path.stem}: say {retired[1]} instead of {retired[0]}")


def main() -> int:
    problems: list[Problem] = []
    classes: defaultdict[str, list[tuple[Path, int]]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        if any(path.is_relative_to(folder) for folder in OUTSIDE):
            continue
        problems += check_module(path)
        for node in ast.walk(ast.parse(path.read_text())):
            problems += check_definition(path, node)
            if isinstance(node, ast.ClassDef):
                classes[node.name].append((path, node.lineno))
    for name, places in classes.items():
        for path, line in places[1:]:
            first = places[0][0].relative_to(ROOT)
            problems.append(Problem(path, line, f"{name}: a class of this name is in {first}"))
    for problem in problems:
        print(problem)  # noqa: T201
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
