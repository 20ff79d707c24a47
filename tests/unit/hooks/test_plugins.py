"""Plugins: what agents need of them. `make check` compares the files with the code."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_memory.features.hooks.adapters.agents.claude_code import ClaudeCodeInstaller
from agent_memory.features.hooks.adapters.agents.codex import CodexInstaller
from agent_memory.features.hooks.adapters.agents.gemini import GeminiInstaller
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.model.installations import (
    ConfigFile,
    DesiredConfig,
    Launcher,
    is_our_command,
)
from agent_memory.features.hooks.model.transcripts import OWN_MARKERS, strip_injected
from agent_memory.interfaces.mcp.tools import TOOLS

ROOT = Path(__file__).parents[3]
PLUGINS = ROOT / "plugins"
INSTALLERS: dict[str, JsonInstaller] = {
    "claude-code": ClaudeCodeInstaller(),
    "codex": CodexInstaller(),
    "gemini": GeminiInstaller(),
}
plugins = pytest.mark.parametrize("name", INSTALLERS)


def load(path: str) -> Any:
    return json.loads((PLUGINS / path).read_text())


def list_commands(name: str) -> set[str]:
    hooks = load(f"{name}/hooks/hooks.json")["hooks"]
    return {
        handler["command"]
        for groups in hooks.values()
        for group in groups
        for handler in group["hooks"]
    }


@plugins
def test_hooks_are_those_that_are_installed(name: str) -> None:
    installer = INSTALLERS[name]
    desired = DesiredConfig(hook=Launcher().hook(installer.agent))
    installed = installer.edit_file(ConfigFile(path="hooks.json", hooks=True), "", desired)
    assert load(f"{name}/hooks/hooks.json")["hooks"] == json.loads(installed.text)["hooks"]


@plugins
def test_a_hook_without_the_program_vetoes_nothing(name: str, tmp_path: Path) -> None:
    (command,) = list_commands(name)
    assert is_our_command(command)
    ran = subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": str(tmp_path)},
        input="{}",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, json.loads(ran.stdout)) == (0, {})


def test_marketplaces_lead_to_plugins() -> None:
    claude = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text())
    codex = json.loads((ROOT / ".agents/plugins/marketplace.json").read_text())
    assert claude["name"] == codex["name"] == "agent-memory"
    (first,), (second,) = claude["plugins"], codex["plugins"]
    assert (ROOT / first["source"] / ".claude-plugin/plugin.json").exists()
    assert (ROOT / second["source"]["path"] / ".codex-plugin/plugin.json").exists()


@plugins
def test_texts_name_tools_that_exist(name: str) -> None:
    known = {*TOOLS, *OWN_MARKERS}
    for path in (PLUGINS / name).rglob("*"):
        if path.suffix in (".md", ".toml"):
            assert set(re.findall(r"\bmemory_\w+", path.read_text())) <= known


@plugins
def test_a_skill_has_the_name_of_its_folder(name: str) -> None:
    skills = list((PLUGINS / name / "skills").glob("*/SKILL.md"))
    assert skills
    for path in skills:
        head = yaml.safe_load(path.read_text().split("---")[1])
        assert head["name"] == path.parent.name
        assert head["description"]


def test_commands_take_arguments() -> None:
    for name in ("recall", "why"):
        assert "$ARGUMENTS" in (PLUGINS / f"claude-code/commands/{name}.md").read_text()
        command = tomllib.loads((PLUGINS / f"gemini/commands/memory/{name}.toml").read_text())
        prompt = command["prompt"].replace("{{args}}", "the lamp")
        assert strip_injected(prompt) == f"/memory:{name} the lamp"
        assert ": the lamp\n" in prompt
