"""The keys of the providers of models."""

import os
from pathlib import Path
from typing import Protocol

import structlog

from agent_memory.platform.files import read_regular

MAX_BYTES = 16 << 10
log = structlog.get_logger()


class KeySettings(Protocol):
    """The settings that say where a key is."""

    @property
    def api_key_file(self) -> str: ...

    @property
    def api_key_env(self) -> str: ...


def read_api_key(settings: KeySettings) -> str:
    """Return the key that the settings name, or an empty text."""
    if not settings.api_key_file:
        return os.environ.get(settings.api_key_env, "") if settings.api_key_env else ""
    path = Path(settings.api_key_file).expanduser()
    try:
        return read_regular(path, MAX_BYTES, follow_link=True).decode().strip()
    except (OSError, UnicodeDecodeError) as exc:  # memory works without the provider
        log.warning("api_key.unreadable", path=str(path), error=str(exc))
        return ""
