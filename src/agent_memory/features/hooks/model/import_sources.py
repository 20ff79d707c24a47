"""The sources of `memory import --from`, and where they keep their files."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

# The folders of the settings of Visual Studio Code and its relatives.
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_APPLE = "Library/Application Support"  # in place of the folder for settings
_REMOTE_EDITORS = (".vscode-server/data", ".cursor-server/data")
_EXTENSIONS = {"cline": "saoudrizwan.claude-dev", "roo": "rooveterinaryinc.roo-cline"}


class ImportSource(StrEnum):
    """The agents and exports whose conversations can be imported."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    CLINE = "cline"
    ROO = "roo"
    AIDER = "aider"
    CHATGPT = "chatgpt"
    CLAUDE_AI = "claude-ai"
    OBSIDIAN = "obsidian"
    JSONL = "jsonl"


def list_default_paths(
    source: ImportSource, environ: Mapping[str, str], home: Path, folder: Path
) -> list[Path]:
    """Return where an agent keeps its sessions; none for an export, which may be anywhere.

    `folder` is that of the caller. The paths need not exist.
    """

    def get(variable: str, default: Path) -> Path:
        return folder / (environ.get(variable) or default)

    config = get("XDG_CONFIG_HOME", home / ".config")
    match source:
        case ImportSource.CLAUDE_CODE:
            return [get("CLAUDE_CONFIG_DIR", home / ".claude") / "projects"]
        case ImportSource.CODEX:
            return [get("CODEX_HOME", home / ".codex") / "sessions"]
        case ImportSource.GEMINI:
            return [get("GEMINI_CLI_HOME", home) / ".gemini" / "tmp"]
        case ImportSource.OPENCODE:
            return [get("XDG_DATA_HOME", home / ".local" / "share") / "opencode"]
        case ImportSource.CLINE:
            own = get("CLINE_DATA_DIR", get("CLINE_DIR", home / ".cline") / "data")
            return [own / "tasks", own / "sessions", *_list_editor_paths("cline", home, config)]
        case ImportSource.ROO:
            return _list_editor_paths("roo", home, config)
        case ImportSource.AIDER:
            return [folder]
        case _:
            return []


def _list_editor_paths(name: str, home: Path, config: Path) -> list[Path]:
    places = [settings / editor for settings in (config, home / _APPLE) for editor in _EDITORS]
    places += [home / remote for remote in _REMOTE_EDITORS]
    return [place / "User" / "globalStorage" / _EXTENSIONS[name] / "tasks" for place in places]
