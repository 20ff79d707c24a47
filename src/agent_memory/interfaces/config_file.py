"""Changing keys of a config file, and nothing else in it."""

import re
import threading
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from agent_memory import config
from agent_memory.kernel.errors import ConfigError
from agent_memory.platform import durable

_changing = threading.Lock()  # the daemon is the only one who changes it


def change(path: Path, key: str, value: Any) -> None:
    """Set one key, as `change_all` does."""
    change_all(path, {key: value})


def change_all(path: Path, values: Mapping[str, Any]) -> None:
    """Set keys: all of them, in one write, or none. A file that is not there is made, readable by
    its owner only."""
    with _changing:
        _change(path, values)


def _change(path: Path, values: Mapping[str, Any]) -> None:
    try:
        text = config.read_text(path) if path.exists() else ""
        for key, value in values.items():
            text = _edit_text(path, text, key, value)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Follow a link: a config file kept among someone's dotfiles stays there.
        target = path.resolve()
        durable.write_atomic(target, text.encode())
    except RecursionError as exc:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply") from exc
    except ValueError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}") from exc
    except OSError as exc:
        raise ConfigError(f"cannot write {path}: {exc.strerror}") from exc


def _edit_text(path: Path, before: str, key: str, value: Any) -> str:
    wanted = tomllib.loads(before)
    _put(wanted, key, value)
    # Trusted only when it reads as it should: tomlkit misplaces a table among dotted keys.
    for text in _drafts(before, key, value):
        if _reads_as(text, wanted):
            return text
    raise ConfigError(f"{path}: {key} finds no place there; please set it by hand")


def _drafts(before: str, key: str, value: Any) -> Iterator[str]:
    """The key in its section, or else as a dotted key in front of all sections."""
    try:
        document = tomlkit.parse(before)
        _put(document, key, value)
        yield tomlkit.dumps(document)
    except TOMLKitError:
        pass
    # A line like a header may stand inside a text or a list; then what follows is no draft.
    starts = [match.start() for match in re.finditer(r"^[ \t]*\[", before, re.MULTILINE)]
    setting = f"{key} = {tomlkit.item(value).as_string()}\n"
    for start in (*starts, len(before)):
        head = before[:start]
        yield head + ("\n" if head and not head.endswith("\n") else "") + setting + before[start:]


def _put(table: Any, key: str, value: Any) -> None:
    *sections, name = key.split(".")
    for section in sections:
        if section not in table:
            table[section] = {} if type(table) is dict else tomlkit.table()
        table = table[section]
    table[name] = value


def _reads_as(text: str, wanted: dict[str, Any]) -> bool:
    try:
        text.encode()
        return tomllib.loads(text) == wanted
    except ValueError:
        return False
