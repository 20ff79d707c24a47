"""Which program is run with which model, and what is said where none can be."""

import os
from pathlib import Path

import pytest

from agent_memory.kernel.errors import FeatureUnavailable
from agent_memory.platform.llm import gguf

ELSE = "or set llama.endpoint to a running server"


def executable(path: Path, mode: int = 0o700) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def stored(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def refused(folder: Path, name: str = "") -> str:
    with pytest.raises(FeatureUnavailable) as refused:
        gguf.find_model(folder, name)
    return str(refused.value)


class TestTheProgram:
    def test_it_is_the_one_on_path(self, tmp_path: Path) -> None:
        executable(tmp_path / "second/llama-server")
        first = executable(tmp_path / "first/llama-server")
        path = os.pathsep.join(str(tmp_path / each) for each in ("none", "first", "second"))
        assert gguf.find_program("", {"PATH": path}) == first
        assert gguf.find_program("  ", {"PATH": path}) == first

    def test_it_is_the_one_that_is_named(self, tmp_path: Path) -> None:
        executable(tmp_path / "bin/llama-server")
        other = executable(tmp_path / "bin/my-server")
        path = {"PATH": str(tmp_path / "bin")}
        assert gguf.find_program(str(other), {}) == other
        assert gguf.find_program(f" {other}\n", path) == other
        assert gguf.find_program("my-server", path) == other

    def test_it_may_be_below_the_home_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        meant = executable(tmp_path / "llama.cpp/llama-server")
        assert gguf.find_program("~/llama.cpp/llama-server", {}) == meant

    def test_it_is_told_by_its_whole_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is run in another folder."""
        monkeypatch.chdir(tmp_path)
        meant = executable(tmp_path / "bin/llama-server")
        assert gguf.find_program("bin/llama-server", {}) == meant
        assert gguf.find_program("", {"PATH": "bin"}) == meant

    @pytest.mark.parametrize("environ", [{"PATH": "/nonexistent"}, {"PATH": ""}])
    def test_none_on_path_is_told_with_what_to_do(self, environ: dict[str, str]) -> None:
        with pytest.raises(FeatureUnavailable) as refused:
            gguf.find_program("", environ)
        assert str(refused.value) == (
            "cannot run a model: no llama-server on PATH. Install llama-server of llama.cpp,"
            f" or set llama.server to its path; {ELSE}"
        )

    @pytest.mark.parametrize("kind", ["missing", "text", "folder", "unknown"])
    def test_what_is_no_program_is_told_with_what_to_do(self, tmp_path: Path, kind: str) -> None:
        meant = tmp_path / "llama-server"
        if kind == "text":
            executable(meant, 0o600)
        elif kind == "folder":
            meant.mkdir()
        server = "my-llama" if kind == "unknown" else str(meant)
        with pytest.raises(
            FeatureUnavailable, match=f"^cannot run a model: {server} is not a prog"
        ):
            gguf.find_program(server, {"PATH": str(tmp_path)})


class TestTheModel:
    def test_it_is_the_only_one(self, tmp_path: Path) -> None:
        stored(tmp_path, "readme.md", "deep/folder/Qwen3.GGUF", "gguf", "x.gguf.part")
        assert gguf.find_model(tmp_path, "") == tmp_path / "deep/folder/Qwen3.GGUF"

    @pytest.mark.parametrize(
        "name", ["a.gguf", "a", "sub/b.gguf", "sub/b", "b.gguf", "b", "sub/deep/c", "c"]
    )
    def test_it_is_named_by_its_path_or_its_file_with_or_without_its_ending(
        self, tmp_path: Path, name: str
    ) -> None:
        stored(tmp_path, "a.gguf", "sub/b.gguf", "sub/deep/c.gguf")
        found = gguf.find_model(tmp_path, name)
        assert found.is_file()
        assert found.stem == Path(name).stem

    def test_it_may_be_elsewhere(self, tmp_path: Path) -> None:
        stored(tmp_path, "here/a.gguf", "elsewhere/b.bin")
        meant = tmp_path / "elsewhere/b.bin"
        assert gguf.find_model(tmp_path / "here", str(meant)) == meant
        assert gguf.find_model(tmp_path / "nowhere", str(meant)) == meant

    def test_it_may_be_a_link(self, tmp_path: Path) -> None:
        stored(tmp_path, "blobs/1234")
        (tmp_path / "models").mkdir()
        link = tmp_path / "models/a.gguf"
        link.symlink_to(tmp_path / "blobs/1234")
        assert gguf.find_model(tmp_path / "models", "") == link

    def test_projectors_and_further_parts_are_no_models(self, tmp_path: Path) -> None:
        stored(tmp_path, *(f"big-{part:05}-of-00003.gguf" for part in (1, 2, 3)))
        stored(tmp_path, "mmproj-big.gguf", "sub/MMPROJ.gguf")
        assert gguf.find_model(tmp_path, "").name == "big-00001-of-00003.gguf"

    @pytest.mark.parametrize("name", ["", "a.gguf"])
    def test_a_folder_without_any_is_told(self, tmp_path: Path, name: str) -> None:
        stored(tmp_path, "a.txt", "too/deep/by/one.gguf")
        for folder in (tmp_path, tmp_path / "missing", tmp_path / "a.txt"):
            assert refused(folder, name) == (
                f"there is no model in {folder}: put a GGUF file there, or set llama.model_dir to"
                f" its folder; {ELSE}"
            )

    def test_of_several_one_must_be_chosen(self, tmp_path: Path) -> None:
        stored(tmp_path, "b.gguf", "a.gguf", "sub/c.gguf")
        assert refused(tmp_path) == (
            f"llama.model is not set, and {tmp_path} has a.gguf, b.gguf, sub/c.gguf: choose one"
            " with `memory config set llama.model NAME`"
        )

    def test_a_name_that_none_has_is_told_with_those_there_are(self, tmp_path: Path) -> None:
        stored(tmp_path, "b.gguf", "a.gguf")
        told = refused(tmp_path, "c")
        assert told.startswith(f"llama.model is c, and {tmp_path} has a.gguf, b.gguf: choose one")

    def test_a_name_that_several_have_is_told_with_their_paths(self, tmp_path: Path) -> None:
        stored(tmp_path, "x/b.gguf", "y/b.gguf", "a.gguf")
        assert f"and {tmp_path} has x/b.gguf, y/b.gguf: choose" in refused(tmp_path, "b")
        assert gguf.find_model(tmp_path, "y/b") == tmp_path / "y/b.gguf"

    def test_of_very_many_some_are_listed(self, tmp_path: Path) -> None:
        stored(tmp_path, *(f"m{number:03}.gguf" for number in range(gguf.MAX_LISTED + 1)))
        told = refused(tmp_path)
        assert f"m{gguf.MAX_LISTED - 1:03}.gguf, ...: choose" in told
        assert f"m{gguf.MAX_LISTED:03}" not in told
