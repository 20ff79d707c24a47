"""The settings as JSON, for `memory config list` and REST."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_memory import config
from agent_memory.kernel.errors import ConfigError


def list_settings(loaded: config.LoadedSettings) -> list[dict[str, Any]]:
    """Return all settings with their values and where those come from."""
    return [
        {
            "key": key.name,
            "value": loaded.value(key.name),
            "source": loaded.sources.get(key.name, config.DEFAULT),
            "applies": key.applies,
        }
        for key in config.KEYS.values()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsReader:
    """The settings of a running daemon. `load` reads them again, `clean` removes secrets."""

    running: config.LoadedSettings
    load: Callable[[], config.LoadedSettings]
    clean: Callable[[str], str]

    def read(self) -> dict[str, Any]:
        """Return the settings that apply, without secrets. A setting that differs on disk and needs
        a restart is marked. If the file has an error, the values are those of the last start."""
        problem = ""
        try:
            loaded = self.load()
        except (ConfigError, OSError) as exc:
            loaded, problem = self.running, str(exc)
        return {
            "settings": [self._describe(row) for row in list_settings(loaded)],
            "ignored": [self.clean(reason) for reason in loaded.ignored],
            "problem": self.clean(problem) or None,
        }

    def _describe(self, row: dict[str, Any]) -> dict[str, Any]:
        key = config.find_key(row["key"])
        running = self.running.value(key.name)
        return {
            **row,
            "value": self._clean_value(row["value"]),
            "default": key.default,
            "description": key.doc,
            "restart_needed": key.applies == "restart" and running != row["value"],
        }

    def _clean_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, list):  # an option and its value are two items
            line = " ".join(value)
            return value if self.clean(line) == line else [self.clean(line)]
        return value
