"""Folders that agents share: the user's settings, and VS Code's."""

import sys
from pathlib import PurePath

from agent_memory.features.hooks.model.installations import InstallTarget


def get_config_home(target: InstallTarget) -> PurePath:
    return PurePath(target.read_override("XDG_CONFIG_HOME") or PurePath(target.home) / ".config")


def get_vscode_user(target: InstallTarget) -> PurePath:
    """Return the folder of VS Code's user settings, where extensions have their storage too."""
    if sys.platform == "darwin":
        return PurePath(target.home) / "Library/Application Support/Code/User"
    return get_config_home(target) / "Code/User"
