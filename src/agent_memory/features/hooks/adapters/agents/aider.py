"""Aider: a file of rules that its settings name. It has neither hooks nor MCP."""

import json
import re
from pathlib import PurePath

import yaml

from agent_memory.features.hooks.adapters.agents import rule_files
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    DesiredConfig,
    EditedConfig,
    InstalledEntries,
    InstallScope,
    InstallTarget,
)
from agent_memory.kernel.errors import ConfigError

SETTINGS = ".aider.conf.yml"
CONVENTIONS = ".aider.agent-memory.md"  # Aider keeps files of this name out of commits
RULES = """\
## Memory of earlier sessions

The command `memory` keeps this project's decisions, findings and earlier sessions.

- Before a change whose reasons may be known, suggest the command `memory recall "QUESTION"`.
- When a decision is made or a cause is found, suggest `memory capture decisions "ONE SENTENCE"`.
  The kind can also be patterns, learnings or blockers.
- Do not capture secrets, or what the code already says.
"""
_KEY = re.compile(r"^read[ \t]*:[ \t]*(#.*)?\r?$", re.MULTILINE)
_ITEM = re.compile(r"\r?\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*([ \t]*)-[ \t][^\n]*")


class AiderInstaller(JsonInstaller):
    agent = Agent.AIDER
    title = "Aider"
    folder = ".aider"

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        folder = PurePath(target.root if target.scope is InstallScope.PROJECT else target.home)
        return (
            ConfigFile(path=str(folder / SETTINGS)),
            ConfigFile(path=str(folder / CONVENTIONS), rules=True),
        )

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        if file.rules:
            return rule_files.edit_rules(text, RULES if desired.hook else "")
        path = str(PurePath(file.path).parent / CONVENTIONS)
        named = path in _list_read(text)
        if named == bool(desired.hook):
            return EditedConfig(text=text)
        edited = _remove(text, path) if named else _add(text, path)
        return EditedConfig(text=edited, bare=not edited)

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        if file.rules:
            return InstalledEntries(rules=rule_files.has_rules(text))
        path = str(PurePath(file.path).parent / CONVENTIONS)
        return InstalledEntries(rules=path in _list_read(text))

    def get_advice(self, target: InstallTarget, /) -> str:
        start = "Start Aider again: it lists the file that it reads."
        if target.scope is InstallScope.PROJECT:
            return start
        return f"{start} A project whose {SETTINGS} has a `read` of its own needs --scope project."


def _list_read(text: str) -> list[object]:
    """Return the files that the settings name. Raises ConfigError if they cannot be read."""
    try:
        settings = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise ConfigError(f"it is not valid YAML: {exc}") from exc
    if settings is None:
        return []
    if not isinstance(settings, dict):
        raise ConfigError("it is YAML, but not a mapping")
    files = settings.get("read")
    return files if isinstance(files, list) else [] if files is None else [files]


def _add(text: str, path: str) -> str:
    """Add a line to the list of files. Take the edit only if it reads as it should."""
    newline = "\r\n" if "\r\n" in text else "\n"
    before = _list_read(text)
    if key := _KEY.search(text):
        end, indent = key.end() - text[: key.end()].endswith("\r"), "  "
        while item := _ITEM.match(text, end):
            end, indent = item.end() - item[0].endswith("\r"), item[1]
        edited = f"{text[:end]}{newline}{indent}{_build_item(path)}{text[end:]}"
    else:
        lines = f"read:{newline}  {_build_item(path)}"
        whole = not text or text.endswith("\n")
        edited = f"{text}{lines}{newline}" if whole else f"{text}{newline}{lines}"
    if not _reads(edited, [*before, path]):
        raise ConfigError(
            f"its `read` cannot be extended as it is written: write it as a list with one"
            f' "- FILE" in a line, or add {json.dumps(path)} to it yourself'
        )
    return edited


def _remove(text: str, path: str) -> str:
    """Remove our line, and the key if it has no other."""
    item = rf"\r?\n[ \t]*{re.escape(_build_item(path))}(?=\r?\n|\Z)"
    after = [file for file in _list_read(text) if file != path]
    drafts = [re.sub(item, "", text, count=1)]
    if not after:
        drafts.append(re.sub(rf"^read:{item}\r?\n|\r?\nread:{item}", "", text, count=1, flags=re.M))
    for draft in reversed(drafts):
        if draft != text and _reads(draft, after):
            return draft
    raise ConfigError(f"{json.dumps(path)} in its `read` is not in a line of its own: remove it")


def _build_item(path: str) -> str:
    return f"- {json.dumps(path, ensure_ascii=False)}"


def _reads(text: str, files: list[object]) -> bool:
    try:
        return _list_read(text) == files
    except ConfigError:
        return False
