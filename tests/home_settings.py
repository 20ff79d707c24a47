"""The settings of the homes of tests, in config.toml: variables choose neither homes nor settings.

Every process of a test gets its home by `--home`, and its settings here.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agent_memory import config
from agent_memory.launcher.command_client import PROGRAMS
from tests.chosen_store import choose_store

BASE: Mapping[str, object] = {"grpc.port": 0, "http.port": 0, "embedder.provider": "none"}
_MARK = "  # of the tests\n"


def prepare_home(environ: Mapping[str, str], settings: Mapping[str, object] = BASE) -> None:
    """Write settings and the chosen store into the config.toml of a home, unless it has them.

    Call it before each process: a test may have replaced or removed the file.
    """
    file = config.folders(environ).config_file
    with suppress(OSError, UnicodeDecodeError):  # a test may have made something else of it
        if file.is_file() or not file.exists():
            text = file.read_text() if file.exists() else ""
            added = add_settings(text, settings)
            if added != text:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(added)
            choose_store(environ)


def choose_home(environ: Mapping[str, str], env: Mapping[str, str] | None) -> tuple[str, str]:
    """Return the option for the home of a call: the HOME that `env` gives, which then has the same
    memory, or else that of `environ`."""
    home = (env or {}).get("HOME", environ["HOME"])
    memory = config.folders({"HOME": home}).data
    if home != environ["HOME"] and not memory.exists() and Path(home).is_dir():
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.symlink_to(config.folders(environ).data)
    return "--home", home


@contextmanager
def change_settings(environ: Mapping[str, str], settings: Mapping[str, object]) -> Iterator[None]:
    """Have other settings in the config.toml of a home for a while."""
    if not settings:
        yield
        return
    file = config.folders(environ).config_file
    before = file.read_text() if file.exists() else ""
    at_ns = file.stat().st_mtime_ns if file.exists() else 0
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(add_settings(before, settings))
    loaded = config.load({}, file=file)
    assert all(loaded.value(name) == _parse(name, value) for name, value in settings.items())
    try:
        yield
    finally:
        file.write_text(before)
        os.utime(file, ns=(at_ns, at_ns))  # or what is kept for these settings would be out of date


def add_settings(text: str, settings: Mapping[str, object]) -> str:
    """Have settings in a text of config.toml, unless a test has written them there itself. Leave a
    text that is not TOML."""
    for name, given in settings.items():
        value = _parse(name, given)
        section, _, last = name.rpartition(".")
        try:
            if _find(text, name) == value:
                continue
            text = _leave_out(text, name)
            if _find(text, name) is not None:
                continue
            table = _find(text, section)
            if not isinstance(table, dict | None):
                continue  # a fault that a test has made
            is_dotted = bool(table)
        except tomllib.TOMLDecodeError:
            return text
        line = f"{last} = {json.dumps(value)}{_MARK}"
        found = re.search(rf"^\[{re.escape(section)}\](?:.*\n(?!\[))*.*\n?", text, re.MULTILINE)
        if found is not None:  # at its end, so that the lines before keep their numbers
            end = "" if found[0].endswith("\n") else "\n"
            text = f"{text[: found.end()]}{end}{line}{text[found.end() :]}"
        elif is_dotted:
            text = f"{section}.{line}{text}"
        else:
            end = "" if not text or text.endswith("\n") else "\n"
            text += f"{end}[{section}]{_MARK}{line}"
    return text


def split_variables(given: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables and the settings among what a test gives: settings have a dot."""
    variables = {name: text for name, text in (given or {}).items() if "." not in name}
    return variables, {name: text for name, text in (given or {}).items() if "." in name}


def remove_settings(text: str) -> str:
    """Return the text of a config.toml without what `add_settings` has added."""
    stored, header = "", ""
    for line in text.splitlines(keepends=True):
        if line.endswith(_MARK):
            header = line.removesuffix(_MARK) + "\n" if line.startswith("[") else header
            continue
        stored += line if line.startswith("[") or not line.strip() else header + line
        header = "" if line.strip() else header
    return stored


def describe_functions() -> dict[str, str]:
    """Return variables with which `memory` and the others run in HOME when a bash calls them."""
    return {
        f"BASH_FUNC_{name}%%": f'() {{ command {name} --home "$HOME" "$@"\n}}' for name in PROGRAMS
    }


def _parse(name: str, value: object) -> object:
    return config.parse(name, value) if isinstance(value, str) else value


def _find(text: str, name: str) -> object:
    """Return the value of a setting, or the table of a section, in a text; None without it."""
    found: Any = tomllib.loads(text)
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _leave_out(text: str, name: str) -> str:
    """Return the text without what `add_settings` has added for this setting."""
    stored, section = "", ""
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            section = line[1:].partition("]")[0] + "."
        if not (line.endswith(_MARK) and section + line.partition("=")[0].strip() == name):
            stored += line
    return stored
