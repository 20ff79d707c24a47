"""Settings that an agent may read and change: those of `memory config`, but none that guards, moves
or sends anything."""

from typing import Any

from agent_memory import config
from agent_memory.interfaces import config_file
from agent_memory.interfaces.mcp.request_context import RequestContext
from agent_memory.kernel.errors import ConfigError, InvalidInput

# Of security and storage; addresses that are listened on, or that memories, traces and questions
# are sent to; and models, which have addresses and keys.
CLOSED = (
    *("security", "storage", "grpc", "http", "telemetry", "memories"),
    *("summarizer", "embedder", "llama"),
)


def read(visit: RequestContext, key: str) -> dict[str, Any]:
    loaded = visit.load_config()
    chosen = (
        [_find_open_key(key)]
        if key
        else [each for each in config.KEYS.values() if not _is_closed(each)]
    )
    return {
        "settings": [_setting_json(loaded, each) for each in chosen],
        "changed": False,
        "restart_needed": False,
    }


def write(visit: RequestContext, key: str, value: str) -> dict[str, Any]:
    """Into the user's own file."""
    known = _find_open_key(key)
    if known.applies == "personal":
        raise InvalidInput(
            f"{key} lets something leave this machine, or come in: only the user sets it, with"
            f" `memory config set {key} ...`"
        )
    try:
        parsed = config.parse(key, value)
    except ConfigError as exc:
        raise InvalidInput(str(exc)) from exc
    path = config.folders(visit.environ).config_file
    config_file.change(path, key, parsed)
    return {
        "settings": [_setting_json(visit.load_config(), known)],
        "changed": True,
        "restart_needed": known.applies == "restart",
        "path": str(path),
    }


def _find_open_key(key: str) -> config.Key:
    if key.partition(".")[0] in CLOSED:
        raise InvalidInput(
            f"{key} is not for agents: settings of {', '.join(CLOSED)} are read and changed by the"
            " user alone, with `memory config`"
        )
    try:
        return config.find_key(key)
    except ConfigError as exc:
        raise InvalidInput(str(exc)) from exc


def _is_closed(key: config.Key) -> bool:
    return key.name.partition(".")[0] in CLOSED


def _setting_json(loaded: config.LoadedSettings, key: config.Key) -> dict[str, Any]:
    return {
        "key": key.name,
        "value": loaded.value(key.name),
        "source": loaded.sources.get(key.name, "default"),
        "applies": key.applies,
        "description": key.doc,
    }
