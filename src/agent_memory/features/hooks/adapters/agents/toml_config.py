"""MCP servers in TOML, one table each. Everything else keeps its comments, order and spacing."""

import copy
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from agent_memory.features.hooks.adapters.agents.server_tables import find_free_name, match_server
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
    own = map(match_server, servers.values())
    return tuple(server for server in own if server is not None)


def edit_config(text: str, desired: McpServer | None) -> EditedConfig:
    before = read(text)
    after = copy.deepcopy(before)
    _reconcile(after, desired)
    if after == before:
        return EditedConfig(text=text)
    # Take the first draft that parses to the desired settings: TOML has many spellings of a table.
    for draft in _build_drafts(text, before, after):
        if _parses_to(draft, after):
            return EditedConfig(text=draft, bare=not draft.strip())
    raise ConfigError(
        f"the entry in {SERVERS} cannot be edited in its present form: edit it by hand"
    )


def _reconcile(settings: dict[str, Any], desired: McpServer | None) -> None:
    servers = settings.get(SERVERS, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"{SERVERS!r} is not a table")
    own = [name for name, entry in servers.items() if match_server(entry) is not None]
    reused = [] if desired is None else own[:1]
    for name in own:
        if name not in reused:
            del servers[name]
    if desired is not None:
        name = reused[0] if reused else find_free_name(list(servers))
        values = {
            "command": desired.command,
            "args": list(desired.args),
        }
        servers[name] = {**servers.get(name, {}), **values}
    if servers:
        settings[SERVERS] = servers
    elif own:
        del settings[SERVERS]


def _build_drafts(text: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield edited texts, those with the smallest change first. Only the last moves tables."""
    # Imported late: loading tomlkit takes a twentieth of every start, and only this needs it.
    import tomlkit  # noqa: PLC0415
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    present, desired = before.get(SERVERS, {}), after.get(SERVERS, {})
    values = {
        name: {key: tomlkit.item(value).as_string() for key, value in entry.items()}
        for name, entry in desired.items()
        if present.get(name) != entry
    }
    for name, entry in values.items():
        if name not in present:
            yield _add_table(text, name, entry)
        else:
            yield from _replace_values(text, name, entry)
    for name in present:
        if name not in desired:
            for start, end in _find_tables(text, name):
                yield _join(text[:start], text[end:])
    try:
        document = tomlkit.parse(text)
        servers: Any = document[SERVERS]
        for name in present:
            if name not in desired:
                del servers[name]
        if not desired:
            del document[SERVERS]
        for name, entry in desired.items():
            if name not in present:
                servers[name] = entry
                continue
            for key, value in entry.items():
                if present[name].get(key) != value:
                    servers[name][key] = value
        yield tomlkit.dumps(document)
    except (TOMLKitError, RecursionError):
        return


def _add_table(text: str, name: str, values: dict[str, str]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = (f"[{SERVERS}.{name}]", *(f"{key} = {value}" for key, value in values.items()))
    return text + newline * bool(text) + "".join(f"{line}{newline}" for line in lines)


def _replace_values(text: str, name: str, values: dict[str, str]) -> Iterator[str]:
    for start, end in _find_tables(text, name):
        table = text[start:end]
        for key, value in values.items():
            table = re.sub(
                rf"^([ \t]*{re.escape(key)}[ \t]*=[ \t]*)(?:{_VALUE})",
                lambda match, value=value: match[1] + value,  # type: ignore[misc]  # of this round
                table,
                flags=re.MULTILINE,
            )
        yield text[:start] + table + text[end:]


def _find_tables(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield where a table of this name may start and end; a match may be inside a string."""
    spelled = "|".join((re.escape(name), f'"{re.escape(name)}"', f"'{re.escape(name)}'"))
    header = rf"^[ \t]*\[[ \t]*{SERVERS}[ \t]*\.[ \t]*(?:{spelled})[ \t]*\]"
    for table in re.finditer(header, text, re.MULTILINE):
        following = _HEADER.search(text, table.end())
        limit = len(text) if following is None else following.start()
        # A comment after the table may belong to the next one.
        end = table.end()
        for line in _CONTENT.finditer(text, table.start(), limit):
            end = line.end()
        yield table.start(), end


def _join(head: str, rest: str) -> str:
    """Join the text around a removed table, without the line break that set it off."""
    if not rest:
        return head.removesuffix("\n").removesuffix("\r")
    if re.search(r"(\A|\n)\r?\n\Z", head):
        return head + re.sub(r"\A\r?\n", "", rest)
    return head + rest


def _parses_to(text: str, desired: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == desired
    except (ValueError, RecursionError):
        return False
