"""What is wanted of a hook, by the settings of who works in its folder."""

import os
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path, PurePath
from typing import Protocol

from agent_memory import config
from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.kernel.errors import ConfigError

MAX_PATH_CHARS = 4_096  # of any file; each of its folders is looked at with all below it


class Section(Protocol):
    """The settings of one hook."""

    @property
    def enabled(self) -> bool: ...


def find_folder(told: HookCall, otherwise: str) -> str:
    """The folder that the agent names, if it is there."""
    for each in (told.folder, otherwise):
        if os.path.isdir(each):  # noqa: PTH112  whatever is sent, this one raises nothing
            return each
    return "/"


def load_settings(environ: Mapping[str, str], folder: str) -> config.Settings:
    """A broken file must not stop an agent: then what is left counts."""
    silent = {name: value for name, value in environ.items() if not name.startswith("MEMORY_")}
    files = (None, Path(os.devnull))  # the user's own, or none
    for given, file, project in product((environ, silent), files, (Path(folder), None)):
        try:
            return config.load(given, file=file, project_dir=project).settings
        except (ConfigError, OSError):
            continue
    return config.Settings()


def list_ignored(environ: Mapping[str, str], folder: str) -> tuple[str, ...]:
    """Say what of the settings is not used, and why."""
    try:
        return config.load(environ, project_dir=Path(folder)).ignored
    except (ConfigError, OSError) as exc:
        return (str(exc),)


def is_enabled(moment: HookKind, chosen: config.HooksSettings) -> bool:
    """Whether anything is to be recorded, and answered, at this moment."""
    sections: Mapping[HookKind, Section] = {
        HookKind.SESSION_START: chosen.session_start,
        HookKind.PROMPT: chosen.user_prompt,
        HookKind.TOOL: chosen.post_tool_use,
        HookKind.TOOL_FAILURE: chosen.post_tool_use,
        HookKind.COMPACTION: chosen.pre_compact,
        HookKind.ANSWER: chosen.stop,
        HookKind.STOP: chosen.stop,
        HookKind.SESSION_END: chosen.stop,
    }
    if moment in (HookKind.OTHER, HookKind.BEFORE_TOOL):
        return False
    section = sections.get(moment)
    return chosen.enabled and (section is None or section.enabled)


def is_triggered(told: HookCall, folder: str, chosen: config.HooksSettings) -> bool:
    """Whether memories about the file of a tool are wanted."""
    section, use = chosen.post_tool_use, told.use
    if use.names.isdisjoint(section.trigger_tools) or not 0 < len(use.file) <= MAX_PATH_CHARS:
        return False
    path = PurePath(use.file)
    with suppress(ValueError):
        path = path.relative_to(folder)
    names = {str(path), *("/".join(path.parts[n:]) for n in range(len(path.parts)))}
    return not any(
        fnmatchcase(name, pattern) for name in names for pattern in section.exclude_patterns
    )
