"""The settings an agent may read and change: none that affects security, storage, or the addresses
that data goes to."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from agent_memory import config, config_file
from agent_memory.interfaces.mcp.request_context import RequestContext
from agent_memory.kernel.errors import ConfigError, InvalidInput

# Security and storage; the addresses that the daemon listens on and sends memories, traces and
# queries to; and models, which have addresses and keys.
CLOSED = (
    "security", "storage", "grpc", "http", "telemetry", "memories", "summarizer", "embedder",
    "llama",
)  # fmt: skip


_VALUE_CHARS = 4_096


class ConfigureRequest(Struct, frozen=True, kw_only=True):
    key: Annotated[
        str,
        Meta(
            max_length=100,
            description="For example `hooks.enabled`. Empty lists all settings.",
        ),
    ] = ""
    value: Annotated[
        Annotated[str, Meta(max_length=_VALUE_CHARS)] | bool | int | float | list[Any] | None,
        Meta(
            description="The new value: `true`, `42`, `a,b`. Leave it out to read the setting.",
        ),
    ] = None


class SettingRow(Struct, frozen=True, kw_only=True):
    key: str
    value: Any
    source: str
    applies: Annotated[
        str, Meta(description="`live`, `personal`, or with the daemon's next `restart`.")
    ]
    description: str


class ConfigureResponse(Struct, frozen=True, kw_only=True):
    settings: list[SettingRow]
    changed: bool = False
    restart_needed: bool = False
    path: str | UnsetType = UNSET


def configure(request: RequestContext, tool_input: ConfigureRequest) -> dict[str, Any]:
    """Read settings, or write one to the user's configuration file."""
    key, value = tool_input.key, tool_input.value
    if value is None:
        answer = _read(request, key)
    elif key:
        answer = _write(request, key, _as_text(value))
    else:
        raise InvalidInput("key is missing: name the setting to change")
    shown: dict[str, Any] = msgspec.to_builtins(answer)
    return shown


def _as_text(value: object) -> str:
    """Write a value as a user would type it: models send numbers and lists as such."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    if len(text) > _VALUE_CHARS:
        raise InvalidInput(f"value has {len(text)} characters; the limit is {_VALUE_CHARS}")
    return text


def _read(request: RequestContext, key: str) -> ConfigureResponse:
    loaded = request.load_config()
    keys = (
        [_find_open_key(key)]
        if key
        else [known for known in config.KEYS.values() if not _is_closed(known.name)]
    )
    return ConfigureResponse(settings=[_build_row(loaded, known) for known in keys])


def _write(request: RequestContext, key: str, value: str) -> ConfigureResponse:
    known = _find_open_key(key)
    if known.applies == "personal":
        raise InvalidInput(
            f"{key} decides what is recorded, or lets data leave or enter this machine: only the"
            f" user may set it, with `memory config set {key} ...`"
        )
    try:
        parsed = config.parse(key, value)
    except ConfigError as exc:
        raise InvalidInput(str(exc)) from exc
    path = config.folders(request.caller.environ).config_file
    config_file.change(path, key, parsed)
    return ConfigureResponse(
        settings=[_build_row(request.load_config(), known)],
        changed=True,
        restart_needed=known.applies == "restart",
        path=str(path),
    )


def _find_open_key(key: str) -> config.Key:
    if _is_closed(key):
        raise InvalidInput(
            f"{key} is not open to agents: only the user may read and change the settings of"
            f" {', '.join(CLOSED)}, with `memory config`"
        )
    try:
        return config.find_key(key)
    except ConfigError as exc:
        raise InvalidInput(str(exc)) from exc


def _is_closed(name: str) -> bool:
    return name.partition(".")[0] in CLOSED


def _build_row(loaded: config.LoadedSettings, key: config.Key) -> SettingRow:
    return SettingRow(
        key=key.name,
        value=loaded.value(key.name),
        source=loaded.sources.get(key.name, "default"),
        applies=key.applies,
        description=key.doc,
    )
