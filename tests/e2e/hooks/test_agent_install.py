"""`memory install` and `memory uninstall`: through the real command, for the caller's own home."""

import json
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_memory import __version__
from agent_memory.features.hooks.model.installations import Agent
from tests.command_runner import LAUNCHER, Home
from tests.mcp_clients import INITIALIZE
from tests.memory_commands import CONFIG, INVALID, OK, USAGE, MemoryCommand, assert_refused

AGENTS = ("claude-code", "codex", "gemini", "cursor")
HOOKS = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/hooks.json",
}
SERVERS = {
    "claude-code": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
}
agents = pytest.mark.parametrize("agent", AGENTS)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


class Ada:
    """A user with her own home and one project; the daemon has another home."""

    def __init__(self, home: Home, base: Path) -> None:
        self.home, self.project = base / "ada", base / "app"
        self.home.mkdir()
        (self.project / ".git").mkdir(parents=True)
        self._memory = MemoryCommand(home, self.project)
        self.environ = {"HOME": str(self.home)}

    def __call__(self, *words: str) -> Any:
        return self._memory(*words, env=self.environ)

    def run_text(self, *words: str) -> str:
        answer = self(*words)
        assert (answer.code, answer.errors) == (OK, ""), answer
        text: str = answer.text
        return text

    def run_json(self, *words: str) -> Any:
        return json.loads(self.run_text(*words, "--format", "json"))

    def hooks(self, agent: str) -> Path:
        return self.home / HOOKS[agent]

    def command(self, agent: str) -> str:
        """Return the command of the first event."""
        events = json.loads(self.hooks(agent).read_text())["hooks"]
        entry = next(iter(events.values()))[0]
        found: str = (entry if agent == "cursor" else entry["hooks"][0])["command"]
        return found

    def server(self, agent: str) -> dict[str, Any]:
        """Return the entry of our MCP server, or an empty one."""
        path = self.home / SERVERS[agent]
        if not path.exists():
            return {}
        if path.suffix == ".toml":
            servers = tomllib.loads(path.read_text()).get("mcp_servers", {})
        else:
            servers = json.loads(path.read_text()).get("mcpServers", {})
        found: dict[str, Any] = servers.get("memory", {})
        return found


@pytest.fixture
def ada(home: Home, tmp_path: Path) -> Ada:
    return Ada(home, tmp_path)


@agents
class TestEachAgent:
    def test_it_is_installed_and_taken_out_again(self, ada: Ada, agent: str) -> None:
        said = ada.run_text("install", agent)
        assert f"Created {ada.hooks(agent)}" in said
        assert "Start a new" in said
        assert "Nothing to change" in ada.run_text("install", agent)
        assert f"Removed {ada.hooks(agent)}" in ada.run_text("uninstall", agent)
        assert [path for path in ada.home.rglob("*") if path.is_file()] == []

    def test_what_it_runs_is_this_installation(self, ada: Ada, home: Home, agent: str) -> None:
        ada.run_text("install", agent)
        words = shlex.split(ada.command(agent))
        assert words == [
            *(sys.executable, "-I", "-S", str(LAUNCHER)),
            *("memory", "--home", str(ada.home), "hook", "auto", "--agent", agent),
            *("||", "echo", "{}"),
        ]
        answer = home.run_words([*words[:5], "--version"])
        assert (answer.code, answer.text) == (OK, f"memory {__version__}\n")

    def test_when_we_are_gone_the_agent_goes_on(self, ada: Ada, home: Home, agent: str) -> None:
        """Python exits with 2 if the script is gone, which is a veto to an agent."""
        ada.run_text("install", agent)
        gone = ada.command(agent).replace(str(LAUNCHER), "/gone/agent_memory/launch.py")
        answer = home.run_words(["sh", "-c", gone], given=b"{}")
        assert (answer.code, answer.text) == (OK, "{}\n")

    def test_a_rehearsal_shows_a_diff(self, ada: Ada, agent: str) -> None:
        ada.hooks(agent).parent.mkdir()
        ada.hooks(agent).write_text('{\n  "version": 1\n}\n')
        said = ada.run_text("install", agent, "--dry-run")
        assert said.startswith(f"--- {ada.hooks(agent)}\n+++ {ada.hooks(agent)}\n@@ ")
        assert '-  "version": 1\n+  "version": 1,\n+  "hooks": {\n' in said
        assert ada.hooks(agent).read_text() == '{\n  "version": 1\n}\n'

    def test_a_project_has_files_of_its_own(self, ada: Ada, agent: str) -> None:
        answer = ada("install", agent, "--project", "--no-mcp")
        assert (answer.code, answer.text.count("Created")) == (OK, 1)
        assert "keep these files out of commits" in answer.errors
        assert [path.name for path in ada.home.iterdir()] == [".local"]  # the memory is there
        files = [path.name for path in ada.project.rglob("*.json")]
        assert len(files) == 1
        assert (agent == "claude-code") == (files == ["settings.local.json"])

    def test_the_server_is_installed_and_does_what_its_entry_says(
        self, ada: Ada, home: Home, agent: str
    ) -> None:
        ada.run_text("install", agent, "--mcp")
        entry = ada.server(agent)
        initialize = json.dumps(INITIALIZE).encode() + b"\n"
        answer = home.run_words([entry["command"], *entry["args"]], given=initialize)
        assert (answer.code, answer.json()["result"]["serverInfo"]["name"]) == (OK, "memory")
        ada.run_text("install", agent, "--no-mcp")
        assert ada.server(agent) == {}


class TestOtherAgents:
    """What no agent of the above has: scripts, rules, settings with comments."""

    def test_a_script_of_cline_answers_with_the_context(self, ada: Ada, home: Home) -> None:
        ada.run_text("install", "cline")
        ada("capture", "decisions", "The lamp has a dimmer")
        given = {
            "hookName": "TaskStart",
            "taskId": "t1",
            "workspaceRoots": [str(ada.project)],
            "parent_agent_id": None,
        }
        script = ada.home / "Documents/Cline/Hooks/TaskStart"
        answer = home.run_words([str(script)], given=json.dumps(given).encode())
        assert answer.code == OK
        assert "The lamp has a dimmer" in answer.json()["contextModification"]

    def test_the_settings_of_zed_keep_their_comments(self, ada: Ada) -> None:
        ada.environ["XDG_CONFIG_HOME"] = str(ada.home / ".config")
        settings = ada.home / ".config/zed/settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text('// mine\n{\n  "theme": "One", // dark\n}\n')
        said = ada.run_text("install", "zed")
        assert f"Changed {settings}" in said
        assert "dark" in settings.read_text()
        assert "memory_recall" in (settings.parent / "AGENTS.md").read_text()
        ada.run_text("uninstall", "zed")
        assert settings.read_text() == '// mine\n{\n  "theme": "One", // dark\n}\n'
        assert [path.name for path in settings.parent.iterdir()] == ["settings.json"]

    def test_settings_of_aider_that_cannot_be_extended_are_left(self, ada: Ada) -> None:
        settings = ada.home / ".aider.conf.yml"
        settings.write_text("read: CONVENTIONS.md\n")
        assert_refused(ada("install", "aider"), CONFIG, str(settings), "as a list", "nothing was")
        assert {path.name for path in ada.home.iterdir()} == {settings.name, ".local"}


class TestForms:
    def test_json_tells_each_file(self, ada: Ada) -> None:
        told = ada.run_json("install", "codex")
        path = str(ada.hooks("codex"))
        assert (told["agent"], told["scope"], told["dry_run"]) == ("codex", "user", False)
        first, second = told["files"]
        assert (first["path"], first["action"]) == (path, "created")
        assert first["diff"].startswith(f"--- /dev/null\n+++ {path}\n")
        assert second["action"] == "created"
        assert '"serve"' in second["diff"]
        assert "/hooks" in told["next"]
        assert (
            yaml.safe_load(ada.run_text("uninstall", "codex", "--format", "yaml"))["files"][0][
                "action"
            ]
            == "removed"
        )

    def test_without_an_agent_all_are_listed(self, ada: Ada) -> None:
        (ada.home / ".codex").mkdir()
        ada.run_text("install", "gemini")
        ada("install", "cursor", "--scope", "project")
        said = ada.run_text("install")
        assert "claude-code  Claude Code  (not found: no " in said
        assert "codex        Codex\n             user: not installed\n" in said
        assert "gemini       Gemini CLI\n             user: installed\n" in said
        assert "             project: installed\n" in said
        states = {each["agent"]: each for each in ada.run_json("install")}
        assert list(states) == [agent.value for agent in Agent]
        assert [states[agent]["present"] for agent in AGENTS] == [False, True, True, False]
        assert [each["standing"] for each in states["cursor"]["scopes"]] == ["absent", "installed"]

    def test_one_of_another_installation_is_told_and_repaired(self, ada: Ada) -> None:
        ada.run_text("install", "claude-code")
        settings = ada.hooks("claude-code")
        settings.write_text(
            settings.read_text().replace(str(LAUNCHER.parent), "/gone/agent_memory")
        )
        assert "run `memory install claude-code --scope user` to use this one" in ada.run_text(
            "install"
        )
        assert f"Changed {settings}" in ada.run_text("install", "claude-code")
        assert "/gone" not in settings.read_text()

    def test_moved_configuration_is_honoured(self, ada: Ada) -> None:
        ada.environ |= {"CLAUDE_CONFIG_DIR": str(ada.home / "c"), "CODEX_HOME": "../ada/x"}
        ada.environ["GEMINI_CLI_HOME"] = str(ada.home / "g")
        for agent in AGENTS[:3]:
            ada.run_text("install", agent)
        assert sorted(
            str(path.relative_to(ada.home)) for path in ada.home.rglob("*") if path.is_file()
        ) == [
            *("c/.claude.json", "c/settings.json", "g/.gemini/settings.json"),
            *("x/config.toml", "x/hooks.json"),
        ]

    def test_help_tells_of_the_server(self, ada: Ada) -> None:
        assert "install the MCP server" in " ".join(ada.run_text("install", "--help").split())


class TestRefusals:
    def test_an_unknown_agent(self, ada: Ada) -> None:
        assert_refused(ada("install", "clod"), USAGE, "claude-code", "codex", "gemini", "cursor")

    def test_none_to_uninstall(self, ada: Ada) -> None:
        assert_refused(ada("uninstall"), USAGE, "AGENT")

    def test_both_levels(self, ada: Ada) -> None:
        answer = ada("install", "codex", "--user", "--project")
        assert_refused(answer, USAGE, "choose one --scope")

    def test_json_with_comments_is_left_as_it_is(self, ada: Ada) -> None:
        text = '{\n  // mine\n  "a": 1\n}\n'
        ada.hooks("gemini").parent.mkdir()
        ada.hooks("gemini").write_text(text)
        answer = ada("install", "gemini")
        assert_refused(answer, CONFIG, str(ada.hooks("gemini")), "comment at line 2", "nothing was")
        assert ada.hooks("gemini").read_text() == text

    def test_a_folder_that_cannot_be_written(self, ada: Ada) -> None:
        (ada.home / ".cursor").write_text("")
        assert_refused(ada("install", "cursor"), CONFIG, f"cannot write {ada.hooks('cursor')}")

    def test_a_home_as_project(self, ada: Ada) -> None:
        ada.environ["HOME"] = str(ada.project)
        assert_refused(ada("install", "codex", "--project"), INVALID, "--scope user")
