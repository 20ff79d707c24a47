"""Generate the plugins of agents in plugins/, or check that the committed files are current.

The hooks come from the installers: a plugin has the events and times that `memory install` writes.
Their commands run `memory` from PATH, so that a plugin is the same on every machine.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_memory import __version__
from agent_memory.features.hooks.adapters.agents.claude_code import ClaudeCodeInstaller
from agent_memory.features.hooks.adapters.agents.codex import CodexInstaller
from agent_memory.features.hooks.adapters.agents.gemini import GeminiInstaller
from agent_memory.features.hooks.adapters.agents.hook_lists import HOOKS
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.adapters.agents.server_tables import NAMES
from agent_memory.features.hooks.model.installations import (
    MARKETPLACE,
    PLUGIN,
    Launcher,
)
from agent_memory.features.hooks.model.transcripts import COMMAND_MARKER
from agent_memory.features.memories.model.memories import MAX_SUMMARY_CHARS, NAMESPACES

ROOT = Path(__file__).parent.parent
FOLDER = "plugins"
ON_PATH = Launcher()
TITLE = "Agent Memory"
AUTHOR = {"name": TITLE}
DESCRIPTION = (
    "Records every session on your own machine and brings back what was said, decided and learned."
    " Needs the program `memory` on PATH."
)

TEXTS = Path(__file__).with_name("plugin_texts")  # each has its description in the first line
SKILL = "recall-and-capture"
COMMANDS = {"recall": "WORDS", "why": "QUESTION"}


def build_files() -> dict[str, str]:
    """Build every generated file, by its path in the repository."""
    return dict((*_build_claude_code(), *_build_codex(), *_build_gemini()))


def _build_claude_code() -> Iterator[tuple[str, str]]:
    installer, folder = ClaudeCodeInstaller(), f"{FOLDER}/claude-code"
    plugin = {"name": PLUGIN, "source": f"./{folder}", "description": DESCRIPTION}
    # At the root: a marketplace is a folder, or a repository, with this file in it.
    marketplace = {
        "name": MARKETPLACE,
        "description": DESCRIPTION,
        "owner": AUTHOR,
        "plugins": [plugin],
    }
    yield ".claude-plugin/marketplace.json", _render_json(marketplace)
    yield f"{folder}/.claude-plugin/plugin.json", _render_json(_build_manifest())
    yield f"{folder}/hooks/hooks.json", _render_json(_build_hooks(installer))
    yield f"{folder}/.mcp.json", _render_json(_build_servers(installer))
    yield f"{folder}/skills/{SKILL}/SKILL.md", _render_skill()
    for name, words in COMMANDS.items():
        description, body = _read_text(name, arguments="$ARGUMENTS")
        head = {"description": description, "argument-hint": words}
        yield f"{folder}/commands/{name}.md", _render_markdown(head, body)


def _build_codex() -> Iterator[tuple[str, str]]:
    installer, folder = CodexInstaller(), f"{FOLDER}/codex"
    plugin = {
        "name": PLUGIN,
        "source": {"source": "local", "path": f"./{folder}"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Productivity",
    }
    marketplace = {
        "name": MARKETPLACE,
        "interface": {"displayName": TITLE},
        "plugins": [plugin],
    }
    manifest = {
        **_build_manifest(),
        "skills": "./skills/",
        "hooks": "./hooks/hooks.json",
        "mcpServers": "./.mcp.json",
        "interface": {"displayName": TITLE, "shortDescription": DESCRIPTION},
    }
    yield ".agents/plugins/marketplace.json", _render_json(marketplace)
    yield f"{folder}/.codex-plugin/plugin.json", _render_json(manifest)
    yield f"{folder}/hooks/hooks.json", _render_json(_build_hooks(installer))
    yield f"{folder}/.mcp.json", _render_json(_build_servers(installer))
    yield f"{folder}/skills/{SKILL}/SKILL.md", _render_skill()
    for name, words in COMMANDS.items():
        # Codex has no commands in plugins: the user names the skill, as in "$memory:recall".
        description, body = _read_text(name, arguments=f"the {words} beside the name of this skill")
        head = {"name": name, "description": f"{description}; only if the user asks for this skill"}
        yield f"{folder}/skills/{name}/SKILL.md", _render_markdown(head, body)


def _build_gemini() -> Iterator[tuple[str, str]]:
    installer, folder = GeminiInstaller(), f"{FOLDER}/gemini"
    manifest = {**_build_manifest(), "name": MARKETPLACE, **_build_servers(installer)}
    yield f"{folder}/gemini-extension.json", _render_json(manifest)
    yield f"{folder}/hooks/hooks.json", _render_json(_build_hooks(installer))
    yield f"{folder}/skills/{SKILL}/SKILL.md", _render_skill()
    for name in COMMANDS:
        description, body = _read_text(name, arguments="{{args}}")
        # Hooks get the whole text as the prompt, and record what is outside of the marker.
        marked = f"<{COMMAND_MARKER}>\n{body}</{COMMAND_MARKER}>"
        prompt = f"/{PLUGIN}:{name} {{{{args}}}}\n\n{marked}\n"
        yield (
            f"{folder}/commands/{PLUGIN}/{name}.toml",
            f'description = {json.dumps(description)}\nprompt = """\n{prompt}"""\n',
        )


def _build_manifest() -> dict[str, Any]:
    return {
        "name": PLUGIN,
        "version": __version__,
        "description": DESCRIPTION,
        "author": AUTHOR,
    }


def _build_hooks(installer: JsonInstaller) -> dict[str, Any]:
    command = ON_PATH.hook(installer.agent)
    return {HOOKS: {event: [installer.build_entry(event, command)] for event in installer.events}}


def _build_servers(installer: JsonInstaller) -> dict[str, Any]:
    return {installer.table.key: {NAMES[0]: installer.build_server(ON_PATH.server())}}


def _render_skill() -> str:
    described = ("decisions", "learnings", "blockers")
    others = ", ".join(name for name in NAMESPACES if name not in described)
    chars = str(MAX_SUMMARY_CHARS)
    description, body = _read_text(SKILL, namespaces=others, summary_chars=chars)
    return _render_markdown({"name": SKILL, "description": description}, body)


def _read_text(name: str, **values: str) -> tuple[str, str]:
    """Return the description and the body of a text, with these values in place."""
    text = (TEXTS / f"{name}.md").read_text().format(**values)
    description, _, body = text.partition("\n\n")
    return description, body


def _render_markdown(head: dict[str, str], body: str) -> str:
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in head.items())
    return f"---\n{lines}---\n\n{body}"


def _render_json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def main() -> None:
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: tools/plugins.py [--check]")
    fresh = {ROOT / name: text for name, text in build_files().items()}
    old = {path for path in (ROOT / FOLDER).rglob("*") if path.is_file()} - fresh.keys()
    if not sys.argv[1:]:
        for path in old:
            path.unlink()
        for path, text in fresh.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return
    stale = [path for path, text in fresh.items() if not path.exists() or path.read_text() != text]
    if stale or old:
        names = ", ".join(str(path.relative_to(ROOT)) for path in (*stale, *old))
        sys.exit(f"not current: {names}; run tools/plugins.py and commit the result")


if __name__ == "__main__":
    main()
