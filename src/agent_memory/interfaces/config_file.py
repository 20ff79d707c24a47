"""Change keys of a config file, and keep its comments, order and layout."""

import os
import re
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from agent_memory import config
from agent_memory.kernel.errors import ConfigError
from agent_memory.platform import durable

_changing = threading.Lock()  # one lock is enough: only the daemon changes the file


def change(path: Path, key: str, value: Any) -> None:
    """Set one key, as `change_all` does."""
    change_all(path, {key: value})


def change_all(path: Path, values: Mapping[str, Any]) -> None:
    """Set all keys in one write, or none. Create a missing file, readable by its owner only."""
    _rewrite(path, lambda: values)


def revise(path: Path, edit: Callable[[config.Settings], Mapping[str, Any]]) -> None:
    """Set the keys that `edit` returns for the settings of this file alone, as `change_all` does.
    No other change comes between reading and writing."""
    _rewrite(
        path,
        lambda: edit(config.load({}, file=path if path.exists() else Path(os.devnull)).settings),
    )


def _rewrite(path: Path, list_values: Callable[[], Mapping[str, Any]]) -> None:
    try:
        with _changing:
            text = config.read_text(path) if path.exists() else ""
            values = list_values()
            if not values:
                return
            for key, value in values.items():
                text = _edit_text(path, text, key, value)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Follow a link: a config file among the user's dotfiles stays there.
            durable.write_atomic(path.resolve(), text.encode())
    except RecursionError as exc:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply") from exc
    except ValueError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}") from exc
    except OSError as exc:
        raise ConfigError(f"cannot write {path}: {exc.strerror}") from exc


def _edit_text(path: Path, before: str, key: str, value: Any) -> str:
    expected = tomllib.loads(before)
    _put(expected, key, value)
    # Check each draft: tomlkit misplaces a table among dotted keys.
    for text in _drafts(before, key, value):
        if _reads_as(text, expected):
            return text
    raise ConfigError(f"{path}: {key} cannot be added to the file as it is; set it by hand")


def _drafts(before: str, key: str, value: Any) -> Iterator[str]:
    """Yield the text with the key in its section, then with a dotted key before each section."""
    try:
        document = tomlkit.parse(before)
        _put(document, key, value)
        yield tomlkit.dumps(document)
    except (TOMLKitError, ValueError):  # ValueError: a table inside an inline table
        pass
    # A line that looks like a header may be part of a string or a list; such a draft fails.
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


def _reads_as(text: str, expected: dict[str, Any]) -> bool:
    try:
        text.encode()
        return tomllib.loads(text) == expected
    except ValueError:
        return False
