"""The sources of `memory import --from`, and where they keep their files."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

# The folders of the settings of Visual Studio Code and its relatives, below a home.
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_CONFIG_FOLDERS = (".config", "Library/Application Support")
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
    match source:
        case ImportSource.CLAUDE_CODE:
            return [Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"]
        case ImportSource.CODEX:
            return [Path(environ.get("CODEX_HOME") or home / ".codex") / "sessions"]
        case ImportSource.GEMINI:
            return [Path(environ.get("GEMINI_CLI_HOME") or home) / ".gemini" / "tmp"]
        case ImportSource.OPENCODE:
            data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
            return [data / "opencode"]
        case ImportSource.CLINE:
            data = Path(environ.get("CLINE_DIR") or home / ".cline") / "data"
            own = Path(environ.get("CLINE_DATA_DIR") or data)
            return [own / "tasks", own / "sessions", *_list_editor_paths("cline", home)]
        case ImportSource.ROO:
            return _list_editor_paths("roo", home)
        case ImportSource.AIDER:
            return [folder]
        case _:
            return []


def _list_editor_paths(name: str, home: Path) -> list[Path]:
    places = [home / config / editor for config in _CONFIG_FOLDERS for editor in _EDITORS]
    places += [home / remote for remote in _REMOTE_EDITORS]
    return [place / "User" / "globalStorage" / _EXTENSIONS[name] / "tasks" for place in places]
