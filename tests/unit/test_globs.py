"""Globs, and what git ignores."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.domain import ignoring
from agent_memory.domain.globs import Glob
from agent_memory.domain.ignoring import Ignored

GIT = shutil.which("git") or "git"


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/deep/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/very/deep/a.py", True),
        ("**/test_*", "tests/unit/test_a.py", True),
        ("./src/*", "src/a", True),
        ("*.{ts,tsx}", "web/a.tsx", True),
        ("{a,b}/{c,d}.py", "b/c.py", True),
        ("{a,b}/{c,d}.py", "c/c.py", False),
        ("[ab].py", "b.py", True),
        ("**", "any/thing", True),
        ("**/a/**/b", "a/x/a/y/b", True),
        ("**/a/**/b", "a/x/c", False),
    ],
)
def test_a_glob_matches_names_and_paths(pattern: str, path: str, matches: bool) -> None:
    assert Glob.of(pattern).matches(path) is matches


@pytest.mark.parametrize("pattern", ["{a,b}" * 20, "x" * 2_000])
def test_a_pattern_that_is_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="more than"):
        Glob.of(pattern)


def test_no_pattern_takes_for_ever() -> None:
    many = "*a" * 100 + "b"
    assert not Glob.of(many).matches("a" * 250)
    assert not Glob.of("**/a/" * 60 + "b").matches("/".join("a" * 200))


PARTS = st.sampled_from(["a", "b", "build", "c.py", "d.txt", "logs"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
RULES = st.lists(
    st.builds(
        lambda negated, lead, path, end: f"{negated}{lead}{path}{end}",
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "/", "**/"]),
        st.sampled_from(["*.py", "build", "a/b", "logs", "?", "a/**/c.py", "*", "[ab]", "d.*"]),
        st.sampled_from(["", "/"]),
    ),
    max_size=5,
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run([GIT, "init", "-q", str(folder)], check=True)
    return folder


@given(rules=RULES, paths=st.lists(PATHS, min_size=1, max_size=8, unique=True))
def test_what_is_left_out_is_what_git_leaves_out(
    repository: Path, rules: list[str], paths: list[str]
) -> None:
    for each in repository.iterdir():
        if each.name != ".git":
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    (repository / ".gitignore").write_text("\n".join(rules))
    files = []
    for path in paths:
        target = repository / path
        if any(each.is_file() for each in (target, *target.parents)) or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
        files.append(path)
    told = subprocess.run(
        [GIT, "ls-files", "-co", "--exclude-standard"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    stack = [Ignored.read("\n".join(rules))]
    ours = [path for path in files if not _left_out(stack, path)]
    assert sorted(ours) == sorted(each for each in told if each != ".gitignore")


def _left_out(stack: list[Ignored], path: str) -> bool:
    parts = path.split("/")
    return any(
        ignoring.left_out(stack, parts[:depth], folder=depth < len(parts))
        for depth in range(1, len(parts) + 1)
    )


def test_an_inner_file_is_heard_before_an_outer_one() -> None:
    stack = [Ignored.read("*.log\n# words\n\n"), Ignored.read("!keep.log")]
    assert not ignoring.left_out(stack, ["a", "keep.log"], folder=False)
    assert ignoring.left_out(stack, ["a", "other.log"], folder=False)
    assert Ignored.read("\\#odd").verdict(["#odd"], folder=False)
