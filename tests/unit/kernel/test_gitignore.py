"""What a `.gitignore` leaves out: as git has it."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.kernel.text import gitignore
from agent_memory.kernel.text.gitignore import MAX_BYTES, MAX_RULES, IgnoreFile

GIT = shutil.which("git") or "git"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run([GIT, "init", "-q", str(folder)], check=True)
    return folder


def filled(repository: Path, rules: dict[str, str], paths: list[str]) -> list[str]:
    """The files that could be made, beside these `.gitignore`s, by their folders."""
    for each in repository.iterdir():
        if each.name != ".git":
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    for folder, text in rules.items():
        place = repository / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / gitignore.NAME).write_bytes(text.encode())
    created = []
    for path in paths:
        target = repository / path
        if target.exists() or any(each.is_file() for each in target.parents):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
        created.append(path)
    return created


def git_leaves_out(repository: Path, paths: list[str]) -> set[str]:
    told = subprocess.run(
        [GIT, "ls-files", "-coz", "--exclude-standard"],
        cwd=repository,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return set(paths) - set(told.split("\0"))


def we_leave_out(rules: dict[str, str], paths: list[str]) -> set[str]:
    return {path for path in paths if left_out(rules, path.split("/"))}


def left_out(rules: dict[str, str], parts: list[str]) -> bool:
    """Of a path whose folder is left out nothing is looked at any more, as in a walk."""
    stack: list[IgnoreFile] = []
    for depth in range(len(parts)):
        stack.append(IgnoreFile.parse(rules.get("/".join(parts[:depth]), "")))
        folder = depth + 1 < len(parts)
        if gitignore.is_ignored(stack, parts[: depth + 1], folder=folder):
            return True
    return False


@pytest.mark.parametrize(
    ("rules", "out", "stored"),
    [
        ("*.log", ["a.log", "d/b.log"], ["log", "a.log.txt"]),
        ("build", ["build", "d/build"], ["builds"]),
        ("build/", ["build/x", "d/build/y"], ["d/e/build"]),
        ("/top", ["top"], ["d/top"]),
        ("d/e", ["d/e/f"], ["x/d/e"]),
        ("a/*", ["a/b", "a/c/d"], ["b/a/e"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["a/c"]),
        ("a/**\n!a/keep", ["a/other", "a/b/keep"], ["a/keep"]),
        ("**/a/**", ["a/x", "b/a/y"], ["b/c"]),
        ("*\n!*.py", ["x"], ["y.py"]),
        ("x\n!x", [], ["x"]),
        ("!x\nx", ["x"], []),
        ("# words\n\n   \n\\#odd\n\\!bang", ["#odd", "!bang"], ["words", "# words"]),
        ("\\#*\\#\n.\\#*", ["#saved#", ".#lock"], ["#"]),
        ("a\\*b", ["a*b"], ["axb"]),
        ("blanks   \nlast\\ ", ["blanks", "last "], ["last"]),
        ("foo\\ bar", ["foo bar"], ["foo\\ bar"]),
        ("[ab].x\n[!ab].y\n[^ab].z", ["a.x", "c.y", "c.z"], ["c.x", "a.y", "a.z"]),
        ("one\r\ntwo\r\n", ["one", "two"], ["one\r"]),
        ("\ufefffirst\nsecond", ["first", "second"], ["third"]),
        ("a\x0cb", ["a\x0cb"], ["a", "b"]),
    ],
)
def test_rules_are_git_s(repository: Path, rules: str, out: list[str], stored: list[str]) -> None:
    paths = filled(repository, {"": rules}, [*out, *stored])
    assert paths == [*out, *stored]
    assert git_leaves_out(repository, paths) == set(out)
    assert we_leave_out({"": rules}, paths) == set(out)


PARTS = st.sampled_from(["a", "b", "build", "c.py", "d.txt", "#x"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
RULES = st.lists(
    st.builds(
        lambda negated, lead, path, end: f"{negated}{lead}{path}{end}",
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "/", "**/", "a/"]),
        st.sampled_from(["*.py", "build", "a/b", "?", "a/**/c.py", "*", "[ab]", "[^ab]", "\\#x"]),
        st.sampled_from(["", "/", "/**", "/*", " "]),
    ),
    max_size=5,
).map("\n".join)


@given(rules=st.fixed_dictionaries({"": RULES, "a": RULES}), paths=st.lists(PATHS, max_size=8))
def test_files_within_files_are_git_s_too(
    repository: Path, rules: dict[str, str], paths: list[str]
) -> None:
    created = filled(repository, rules, paths)
    assert we_leave_out(rules, created) == git_leaves_out(repository, created)


@given(st.text(), st.lists(st.text(min_size=1), min_size=1), st.booleans())
def test_no_text_does_anything_but_answer(text: str, parts: list[str], folder: bool) -> None:
    assert IgnoreFile.parse(text).verdict(parts, folder=folder) in (True, False, None)


def test_what_is_too_long_is_read_in_its_beginning() -> None:
    many = IgnoreFile.parse("\n".join(f"file{number}" for number in range(2 * MAX_RULES)))
    assert len(many.rules) == MAX_RULES
    assert many.verdict(["file0"], folder=False)
    assert many.verdict([f"file{MAX_RULES}"], folder=False) is None
    assert IgnoreFile.parse("#" * MAX_BYTES + "\nx").verdict(["x"], folder=False) is None


def test_nothing_is_said_of_what_no_rule_is_about() -> None:
    stack = [IgnoreFile.parse("*.log"), IgnoreFile()]
    assert stack[0].verdict(["a"], folder=False) is None
    assert not gitignore.is_ignored(stack, ["a", "b"], folder=False)
    assert gitignore.is_ignored(stack, ["a", "b.log"], folder=False)
    assert not gitignore.is_ignored([], ["a"], folder=True)


def test_an_inner_file_is_heard_before_an_outer_one() -> None:
    stack = [IgnoreFile.parse("*.log\n"), IgnoreFile.parse("!keep.log")]
    assert not gitignore.is_ignored(stack, ["a", "keep.log"], folder=False)
    assert gitignore.is_ignored(stack, ["a", "other.log"], folder=False)
