"""Glob patterns for names and paths."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.kernel.text.globs import Glob


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
    assert Glob.parse(pattern).matches(path) is matches


@pytest.mark.parametrize("pattern", ["{a,b}" * 20, "x" * 2_000])
def test_a_pattern_that_is_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="more than"):
        Glob.parse(pattern)


def test_no_pattern_takes_for_ever() -> None:
    many = "*a" * 100 + "b"
    assert not Glob.parse(many).matches("a" * 250)
    assert not Glob.parse("**/a/" * 60 + "b").matches("/".join("a" * 200))


@given(st.text("ab*?[]{},/!^-\\."), st.text("ab/.", min_size=1))
def test_no_pattern_does_anything_but_fail_in_words(pattern: str, path: str) -> None:
    with suppress(ValueError):
        assert Glob.parse(pattern).matches(path) in (True, False)


@given(st.lists(st.sampled_from(["a", "b.py", "c"]), min_size=1, max_size=4).map("/".join))
def test_a_path_matches_itself_and_whatever_leaves_a_part_open(path: str) -> None:
    head, _, name = path.rpartition("/")
    for pattern in (path, f"./{path}", f"**/{name}", "**", f"{head}/*" if head else "*"):
        assert Glob.parse(pattern).matches(path)
