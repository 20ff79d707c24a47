"""MCP servers in TOML: a table for each. Comments, order and spacing of all else stay."""

import copy
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from agent_memory.features.hooks.adapters.agents.server_tables import free_name, match_server
from agent_memory.features.hooks.model.installations import EditedConfig, McpServer
from agent_memory.kernel.errors import ConfigError

SERVERS = "mcp_servers"
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)
_VALUE = r"""\[[^\]\n]*\]|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'"""
_CONTENT = re.compile(r"^[ \t]*[^\s#][^\n]*\n?", re.MULTILINE)


def read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"it is not valid TOML: {exc}") from exc
    except (RecursionError, ValueError) as exc:  # nested deeply, or a number of thousands of digits
        raise ConfigError(f"it cannot be read: {exc}") from exc


def find_servers(settings: dict[str, Any]) -> tuple[McpServer, ...]:
    servers = settings.get(SERVERS)
    if not isinstance(servers, dict):
        return ()
    own = (match_server(each) for each in servers.values())
    return tuple(each for each in own if each is not None)


def edit_config(text: str, wanted: McpServer | None) -> EditedConfig:
    before = read(text)
    after = copy.deepcopy(before)
    _reconcile(after, wanted)
    if after == before:
        return EditedConfig(text=text)
    # A draft is trusted only when it reads as it should: tables may be written in many ways.
    for draft in _drafts(text, before, after):
        if _reads_as(draft, after):
            return EditedConfig(text=draft, bare=not draft.strip())
    raise ConfigError(
        f"our entry in {SERVERS} cannot be changed without more; please do it by hand"
    )


def _reconcile(settings: dict[str, Any], wanted: McpServer | None) -> None:
    servers = settings.get(SERVERS, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"{SERVERS!r} is not a table")
    own = [name for name, entry in servers.items() if match_server(entry) is not None]
    kept = [] if wanted is None else own[:1]
    for name in own:
        if name not in kept:
            del servers[name]
    if wanted is not None:
        name = kept[0] if kept else free_name(list(servers))
        values = {"command": wanted.command, "args": list(wanted.args)}
        servers[name] = {**servers.get(name, {}), **values}
    if servers:
        settings[SERVERS] = servers
    elif own:
        del settings[SERVERS]


def _drafts(text: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """The nearest to what is there first. Tables are moved about by nothing but the last."""
    # Late: what edits TOML takes a twentieth of every start to load, and only this needs it.
    import tomlkit  # noqa: PLC0415
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    present, wanted = before.get(SERVERS, {}), after.get(SERVERS, {})
    values = {
        name: {key: tomlkit.item(value).as_string() for key, value in entry.items()}
        for name, entry in wanted.items()
        if present.get(name) != entry
    }
    for name, entry in values.items():
        if name not in present:
            yield _with_table(text, name, entry)
        else:
            yield from _with_values(text, name, entry)
    for name in present:
        if name not in wanted:
            for start, end in _tables(text, name):
                yield _join(text[:start], text[end:])
    try:
        document = tomlkit.parse(text)
        servers: Any = document[SERVERS]
        for name in present:
            if name not in wanted:
                del servers[name]
        if not wanted:
            del document[SERVERS]
        for name, entry in wanted.items():
            if name not in present:
                servers[name] = entry
                continue
            for key, value in entry.items():
                if present[name].get(key) != value:
                    servers[name][key] = value
        yield tomlkit.dumps(document)
    except (TOMLKitError, RecursionError):
        return


def _with_table(text: str, name: str, values: dict[str, str]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = (f"[{SERVERS}.{name}]", *(f"{key} = {value}" for key, value in values.items()))
    return text + newline * bool(text) + "".join(f"{line}{newline}" for line in lines)


def _with_values(text: str, name: str, values: dict[str, str]) -> Iterator[str]:
    for start, end in _tables(text, name):
        table = text[start:end]
        for key, value in values.items():
            table = re.sub(
                rf"^([ \t]*{re.escape(key)}[ \t]*=[ \t]*)(?:{_VALUE})",
                lambda found, value=value: found[1] + value,  # type: ignore[misc]  # of this round
                table,
                flags=re.MULTILINE,
            )
        yield text[:start] + table + text[end:]


def _tables(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where a table of this name may begin and end; it may also be a line of some text."""
    spelled = "|".join((re.escape(name), f'"{re.escape(name)}"', f"'{re.escape(name)}'"))
    header = rf"^[ \t]*\[[ \t]*{SERVERS}[ \t]*\.[ \t]*(?:{spelled})[ \t]*\]"
    for found in re.finditer(header, text, re.MULTILINE):
        following = _HEADER.search(text, found.end())
        limit = len(text) if following is None else following.start()
        # What is commented behind it may belong to what follows.
        end = found.end()
        for line in _CONTENT.finditer(text, found.start(), limit):
            end = line.end()
        yield found.start(), end


def _join(head: str, rest: str) -> str:
    """Without the one line break by which the table was set off."""
    if not rest:
        return head.removesuffix("\n").removesuffix("\r")
    if re.search(r"(\A|\n)\r?\n\Z", head):
        return head + re.sub(r"\A\r?\n", "", rest)
    return head + rest


def _reads_as(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except (ValueError, RecursionError):
        return False
