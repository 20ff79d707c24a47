"""Owned files: files that are ours from the first to the last byte, and run our hook command."""

import json
import re

from agent_memory.features.hooks.model.installations import EditedConfig, is_our_command
from agent_memory.kernel.errors import ConfigError

MARK = "Written by `memory install`"
_SCRIPT = f"#!/bin/sh\n# {MARK}; `memory uninstall` removes it.\n"
_CONSTANT = re.compile(r'^const COMMAND = ("(?:[^"\\\n]|\\.)*")$', re.MULTILINE)


def edit_owned(text: str, desired: str, *, executable: bool = False) -> EditedConfig:
    """Replace a file of ours by the desired text. Raises ConfigError for a file of another."""
    if text and MARK not in text:
        if not desired:
            return EditedConfig(text=text)
        raise ConfigError(
            "it is not a file of Agent Memory, which would replace it: rename it, or leave it and"
            " run `memory hook auto` in it yourself"
        )
    return EditedConfig(text=desired, bare=not desired, executable=executable)


def build_script(command: str) -> str:
    """Build a script that passes its input to a hook command."""
    return f"{_SCRIPT}{command}\n"


def find_script_command(text: str) -> tuple[str, ...]:
    command = text.removeprefix(_SCRIPT).removesuffix("\n")
    return (command,) if text.startswith(_SCRIPT) and is_our_command(command) else ()


def find_constant(text: str) -> tuple[str, ...]:
    """Return the hook command that a JavaScript file of ours runs."""
    found = _CONSTANT.search(text) if MARK in text else None
    command = "" if found is None else json.loads(found[1])
    return (command,) if is_our_command(command) else ()
