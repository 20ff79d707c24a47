"""The settings an agent may read and change: none that affects security, storage, or the addresses
that data goes to."""

from typing import Any

from agent_memory import config
from agent_memory.interfaces import config_file
from agent_memory.interfaces.mcp.request_context import RequestContext
from agent_memory.kernel.errors import ConfigError, InvalidInput

# Security and storage; the addresses that the daemon listens on and sends memories, traces and
# queries to; and models, which have addresses and keys.
CLOSED = (
    "security", "storage", "grpc", "http", "telemetry", "memories", "summarizer", "embedder",
    "llama",
)  # fmt: skip


def read(request: RequestContext, key: str) -> dict[str, Any]:
    loaded = request.load_config()
    keys = (
        [_find_open_key(key)]
        if key
        else [known for known in config.KEYS.values() if not _is_closed(known.name)]
    )
    return {
        "settings": [_setting_json(loaded, known) for known in keys],
        "changed": False,
        "restart_needed": False,
    }


def write(request: RequestContext, key: str, value: str) -> dict[str, Any]:
    """Write a setting to the user's configuration file."""
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
    return {
        "settings": [_setting_json(request.load_config(), known)],
        "changed": True,
        "restart_needed": known.applies == "restart",
        "path": str(path),
    }


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


def _setting_json(loaded: config.LoadedSettings, key: config.Key) -> dict[str, Any]:
    return {
        "key": key.name,
        "value": loaded.value(key.name),
        "source": loaded.sources.get(key.name, "default"),
        "applies": key.applies,
        "description": key.doc,
    }
