"""The program of `summarizer.command`: found on PATH, or refused with what to do about it."""

from pathlib import Path

import pytest

from agent_memory.kernel.errors import ConfigError, FeatureUnavailable
from agent_memory.platform.llm.programs import find_program
from tests.answering_programs import write_program


def test_a_name_is_looked_up_on_path(tmp_path: Path) -> None:
    program = write_program(tmp_path, "")
    environ = {"PATH": f"/nowhere:{tmp_path}"}
    assert find_program(["answer", "-p"], environ) == program


def test_a_path_is_used_as_it_is_and_a_tilde_is_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write_program(tmp_path, "")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (str(program), "~/answer"):
        assert find_program([name], {}) == program


@pytest.mark.parametrize("command", [[], [""], [" ", "-p"]])
def test_unset_it_shows_an_example(command: list[str]) -> None:
    with pytest.raises(ConfigError, match=r'memory config set summarizer\.command "claude -p'):
        find_program(command, {})


@pytest.mark.parametrize("name", ["./answer", "bin/answer", "../answer"])
def test_a_relative_path_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="an absolute path"):
        find_program([name], {})


def test_a_missing_one_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FeatureUnavailable, match=f"answer is not on PATH, which is {tmp_path}"):
        find_program(["answer"], {"PATH": str(tmp_path)})
    with pytest.raises(FeatureUnavailable, match="does not exist"):
        find_program([str(tmp_path / "answer")], {})
    write_program(tmp_path, "").chmod(0o644)
    with pytest.raises(FeatureUnavailable, match="is not executable"):
        find_program([str(tmp_path / "answer")], {})
