"""Change keys of a config file, and keep its comments, order and layout.

A file with wrong values or unknown names can be changed too, and so can one that is not valid TOML
if the change replaces the broken line: `memory config set` is how users mend it.
"""

import contextlib
import fcntl
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
from agent_memory.config import BrokenConfigFile
from agent_memory.kernel import toml_lines
from agent_memory.kernel.errors import ConfigError
from agent_memory.platform import durable

_changing = threading.Lock()  # of the daemon's threads; a lock on the folder is for other processes


def change(path: Path, key: str, value: Any, *, mend: bool = False) -> tuple[int, ...]:
    """Set one key, as `change_all` does. With `mend`, comment out lines that are not valid TOML,
    and return their numbers."""
    mended: list[int] = []

    def edit(text: str) -> str:
        text = _make_valid(path, text, key, _as_toml(value), mend, mended)
        return _edit_text(path, text, key, value)

    _rewrite(path, edit)
    return tuple(mended)


def remove(path: Path, key: str, *, mend: bool = False) -> tuple[bool, tuple[int, ...]]:
    """Remove a key, or a section, of any name. Return whether the file had it, and the lines that
    `mend` commented out."""
    if not path.exists():
        return False, ()
    mended: list[int] = []
    removed = False

    def edit(text: str) -> str:
        nonlocal removed
        valid = _make_valid(path, text, key, "", mend, mended)
        after = _remove_text(path, valid, key)
        removed = after is not None or valid != text
        return valid if after is None else after

    _rewrite(path, edit)
    return removed, tuple(mended)


def change_all(path: Path, values: Mapping[str, Any]) -> None:
    """Set all keys in one write, or none. Create a missing file, readable by its owner only."""

    def edit(text: str) -> str:
        for key, value in values.items():
            text = _edit_text(path, text, key, value)
        return text

    _rewrite(path, edit)


def revise(path: Path, edit: Callable[[config.Settings], Mapping[str, Any]]) -> None:
    """Set the keys that `edit` returns for the settings of this file alone, as `change_all` does.
    No other change comes between reading and writing."""

    def revise_text(text: str) -> str:
        file = path if path.exists() else Path(os.devnull)
        for key, value in edit(config.load({}, file=file).settings).items():
            text = _edit_text(path, text, key, value)
        return text

    _rewrite(path, revise_text)


def _rewrite(path: Path, edit: Callable[[str], str]) -> None:
    try:
        # Follow a link: a config file among the user's dotfiles stays there.
        target = path.resolve()
        if not target.parent.exists():
            edit("")  # a change that fails creates no folder
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _changing, _lock_folder(target.parent):
            before = config.read_text(path) if path.exists() else ""
            after = edit(before)
            if after != before:
                durable.write_atomic(target, after.encode())
    except RecursionError as exc:
        raise BrokenConfigFile(f"{path} is not valid TOML: it is nested too deeply") from exc
    except ValueError as exc:
        raise BrokenConfigFile(f"{path} is not valid TOML: {exc}") from exc
    except OSError as exc:
        raise ConfigError(f"cannot write {path}: {exc.strerror}") from exc


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time change files of a folder. Locking the file itself would not do: a
    change replaces it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_valid(path: Path, text: str, key: str, line: str, mend: bool, mended: list[int]) -> str:
    """Return the text if it is valid TOML. If not, replace the line that sets the key by `line`
    and, with `mend`, comment out further lines, whose numbers are appended to `mended`."""
    if _find_error(text) is None:
        return text
    lines = text.split("\n")
    number = toml_lines.find_line(text, key)
    own = lines[number - 1]
    if own.split("=")[0].strip().split(".")[-1] == key.rpartition(".")[2]:
        name = own.split("=")[0].rstrip()
        lines[number - 1] = f"{name} = {line}" if line else ""
        replaced = "\n".join(lines)
        if _find_error(replaced) is None:
            return replaced
    while mend and (error := _find_error("\n".join(lines))) is not None:
        number, _ = toml_lines.parse_error("\n".join(lines), error)
        if lines[number - 1].lstrip().startswith("#") or not lines[number - 1].strip():
            break  # a list or string that never ends: the reported line is not the broken one
        lines[number - 1] = f"# {lines[number - 1]}"
        mended.append(number)
    error = _find_error("\n".join(lines))
    if error is not None:
        raise BrokenConfigFile(f"{path} is not valid TOML: {error}")
    return "\n".join(lines)


def _find_error(text: str) -> str | None:
    try:
        tomllib.loads(text)
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as exc:
        return str(exc)
    return None


def _edit_text(path: Path, before: str, key: str, value: Any) -> str:
    expected = tomllib.loads(before)
    _put(expected, key, value)
    # Check each draft: tomlkit misplaces a table among dotted keys.
    for text in _drafts(before, key, value):
        if _reads_as(text, expected):
            return text
    raise ConfigError(f"{path}: {key} cannot be added to the file as it is; set it by hand")


def _remove_text(path: Path, before: str, key: str) -> str | None:
    """Return the text without the key, or None if it has none."""
    expected = tomllib.loads(before)
    if not _drop(expected, key):
        return None
    with contextlib.suppress(TOMLKitError, ValueError, TypeError):
        document = tomlkit.parse(before)
        _drop(document, key)
        text = tomlkit.dumps(document)
        if _reads_as(text, expected):
            return text
    raise ConfigError(f"{path}: {key} cannot be removed from the file; remove it by hand")


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
    setting = f"{key} = {_as_toml(value)}\n"
    for start in (*starts, len(before)):
        head = before[:start]
        yield head + ("\n" if head and not head.endswith("\n") else "") + setting + before[start:]


def _as_toml(value: Any) -> str:
    return str(tomlkit.item(value).as_string())


def _put(table: Any, key: str, value: Any) -> None:
    *sections, name = key.split(".")
    for section in sections:
        if not isinstance(table.get(section), dict):  # missing, or a value where a section belongs
            table[section] = {} if type(table) is dict else tomlkit.table()
        table = table[section]
    table[name] = value


def _drop(table: Any, key: str) -> bool:
    """Remove a key, and the sections that are empty then: an empty one of an unknown name would
    still be an error. Return whether there was one."""
    name, _, rest = key.partition(".")
    if not rest:
        return table.pop(name, None) is not None
    section = table.get(name)
    if not isinstance(section, dict) or not _drop(section, rest):
        return False
    if not section:
        del table[name]
    return True


def _reads_as(text: str, expected: dict[str, Any]) -> bool:
    try:
        text.encode()
        return tomllib.loads(text) == expected
    except ValueError:
        return False
