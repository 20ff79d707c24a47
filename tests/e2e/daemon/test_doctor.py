"""`memory doctor`: what works is told, what does not is told with what to do."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_memory import __version__
from tests.command_runner import LAUNCHER, Home


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


def examined(home: Home, **variables: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and what was found by subject."""
    answer = home.run_forked("memory", "doctor", "--format", "json", env=variables)
    told = json.loads(answer.out)
    assert told["healthy"] == (answer.code == 0)
    found: dict[str, list[dict[str, Any]]] = {}
    for each in told["findings"]:
        found.setdefault(each["subject"], []).append(each)
    return answer.code, found


def healths(found: list[dict[str, Any]]) -> list[str]:
    return [each["health"] for each in found]


class TestAllIsWell:
    def test_with_a_hook_that_is_answered(self, home: Home) -> None:
        code, found = examined(home)
        assert code == 0
        assert healths(found["daemon"]) in (["fine"], ["warning"])  # slow is no failure
        assert f"Agent Memory {__version__} answers a hook" in found["daemon"][0]["said"]
        assert {"settings", "data", "git", "store", "spool"} <= found.keys()

    def test_in_words(self, home: Home) -> None:
        answer = home.run("memory", "doctor")
        assert answer.code == 0
        assert "\N{CHECK MARK} data " in answer.text
        assert "memory install AGENT" in answer.text
        assert "; texts in the search index: " in answer.text

    @pytest.mark.soak
    def test_without_a_daemon_one_is_started(self) -> None:
        with Home() as fresh:
            code, found = examined(fresh)
            assert code == 0
            assert "answers a hook" in found["daemon"][0]["said"]
            assert "Running" in fresh.run("memory-daemon", "status").text

    def test_nothing_is_recorded_by_it(self, home: Home) -> None:
        events = ("query", "events", "--from", "0", "--to", "9999999999999")
        before = home.run("memory-daemon", *events)
        examined(home)
        after = home.run("memory-daemon", *events)
        assert after.out == before.out


class TestSomethingIsWrong:
    def test_settings(self, home: Home) -> None:
        (home.work / "memory.toml").write_text("[hooks]\nenabeld = true\n")
        try:
            code, found = examined(home)
        finally:
            (home.work / "memory.toml").unlink()
        assert code == 1
        assert healths(found["settings"]) == ["problem"]
        assert "hooks.enabled" in found["settings"][0]["said"]
        assert found["settings"][0]["advice"]

    def test_hooks_are_switched_off(self, home: Home) -> None:
        code, found = examined(home, MEMORY_HOOKS__ENABLED="false")
        assert code == 0
        assert healths(found["settings"]) == ["warning", "fine"]
        assert found["settings"][0]["advice"] == "see hooks.enabled in MEMORY_HOOKS__ENABLED"

    def test_the_data_folder_is_open_to_others(self, home: Home) -> None:
        home.data.chmod(0o755)
        try:
            code, found = examined(home)
        finally:
            home.data.chmod(0o700)
        assert code == 1
        assert found["data"][0]["advice"].startswith("chmod 700 ")

    def test_the_spool_holds_what_cannot_be_read(self, home: Home) -> None:
        damaged = home.data / "spool/1-x.json.damaged"
        damaged.parent.mkdir(exist_ok=True)
        damaged.write_text("?")
        try:
            assert healths(examined(home)[1]["spool"]) == ["warning"]
        finally:
            damaged.unlink()

    @pytest.mark.soak
    def test_no_daemon_starts(self) -> None:
        with Home() as broken:
            broken.configure('[storage]\nurl = "postgres://elsewhere"\n')
            code, found = examined(broken)
            assert code == 1
            assert healths(found["daemon"]) == ["problem"]
            assert "daemon.log" in found["daemon"][0]["advice"]


class TestAgents:
    def test_is_there_and_does_not_call(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / ".claude/projects").mkdir(parents=True)
        code, found = examined(home, HOME=str(tmp_path))
        assert code == 0
        assert found["claude-code"][0]["advice"] == "memory install claude-code"

    def test_an_empty_folder_is_no_agent(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / ".claude").mkdir()
        code, found = examined(home, HOME=str(tmp_path))
        assert code == 0
        assert "claude-code" not in found

    def test_is_called_as_the_agent_calls_it(self, home: Home, tmp_path: Path) -> None:
        home.run("memory", "install", "claude-code", env={"HOME": str(tmp_path)})
        code, found = examined(home, HOME=str(tmp_path))
        assert code == 0
        assert "answers a hook" in found["claude-code"][0]["said"]

    def test_has_our_plugin(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / ".claude").mkdir()
        settings = {"enabledPlugins": {"memory@agent-memory": True}}
        (tmp_path / ".claude/settings.json").write_text(json.dumps(settings))
        code, found = examined(home, HOME=str(tmp_path), PATH="/usr/bin:/bin")
        assert code == 1
        assert "`memory`, which is not on PATH" in found["claude-code"][0]["said"]
        scripts = tmp_path / "bin"
        scripts.mkdir()
        words = f'"{sys.executable}" -I -S "{LAUNCHER}" memory --home "{tmp_path}"'
        (scripts / "memory").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (scripts / "memory").chmod(0o700)
        code, found = examined(home, HOME=str(tmp_path), PATH=f"{scripts}:/usr/bin:/bin")
        assert code == 0
        assert "answers a hook" in found["claude-code"][0]["said"]
        home.run("memory", "install", "claude-code", env={"HOME": str(tmp_path)})
        _, found = examined(home, HOME=str(tmp_path), PATH=f"{scripts}:/usr/bin:/bin")
        first = found["claude-code"][0]
        assert first["advice"] == "claude plugin uninstall memory@agent-memory"

    def test_calls_what_is_gone(self, home: Home, tmp_path: Path) -> None:
        home.run("memory", "install", "gemini", env={"HOME": str(tmp_path)})
        settings = tmp_path / ".gemini/settings.json"
        settings.write_text(settings.read_text().replace("-I -S /", "-I -S /gone/"))
        _, found = examined(home, HOME=str(tmp_path))
        (gemini,) = found["gemini"]
        assert gemini["health"] == "warning"
        assert gemini["advice"] == "memory install gemini --scope user"

    def test_a_program_of_the_repository_is_not_run(self, home: Home, tmp_path: Path) -> None:
        """A file that someone cloned may name any program as ours."""
        (home.work / ".git").mkdir()
        (home.work / ".claude").mkdir()
        script = home.work / "memory"
        script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho '{{}}'\n")
        script.chmod(0o755)
        hooks = {"Stop": [{"hooks": [{"type": "command", "command": "./memory hook auto"}]}]}
        (home.work / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))
        _, found = examined(home, HOME=str(tmp_path))
        assert "another installation" in found["claude-code"][0]["said"]
        assert not (tmp_path / "ran").exists()

    def test_has_a_file_that_cannot_be_read(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / ".cursor").mkdir()
        (tmp_path / ".cursor/hooks.json").write_text("{")
        code, found = examined(home, HOME=str(tmp_path))
        assert code == 1
        assert "hooks.json" in found["cursor"][0]["said"]
