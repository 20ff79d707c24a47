"""The settings of the team's server, read again when one of their files has changed."""

from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from agent_memory.config import Settings
from agent_memory.features.upstream.model.erasures import MAX_HOURS
from agent_memory.features.upstream.model.progress import RemoteSettings
from agent_memory.features.upstream.ports import RemoteKeys
from agent_memory.kernel.errors import ConfigError, StorageFailed

_log = structlog.get_logger()


class RemoteReader:
    """Reads the settings of the team's server again when one of their files has changed."""

    def __init__(
        self, load: Callable[[], Settings], keys: RemoteKeys, files: Sequence[Path]
    ) -> None:
        self._load_settings = load
        self._keys = keys
        self._files = files
        self._read: tuple[object, RemoteSettings] | None = None
        self._erase_hours = MAX_HOURS  # as they were last read

    def read(self) -> RemoteSettings:
        """Read the settings. While they are wrong, nothing leaves, and nothing is erased early."""
        state = tuple(map(_describe_file, self._files))
        if self._read is None or self._read[0] != state:
            try:
                settings = self._load()
            except (ConfigError, StorageFailed) as exc:
                _log.warning("upstream.no_settings", error=str(exc))
                settings = RemoteSettings(erase_hours=self._erase_hours)
                if isinstance(exc, StorageFailed):
                    return settings  # without a change of the file, the next read may succeed
            self._erase_hours = settings.erase_hours
            self._read = state, settings
        return self._read[1]

    def _load(self) -> RemoteSettings:
        own = self._load_settings().upstream
        return RemoteSettings(
            url=own.url,
            name=own.name,
            projects=tuple(entry.strip() for entry in own.projects),
            conversations=tuple(entry.strip() for entry in own.conversations),
            delay_ms=own.delay_minutes * 60_000,
            recall=own.recall,
            review=own.review,
            certificates=str(Path(own.certificates).expanduser()) if own.certificates else "",
            erase_hours=own.erase_hours,
            key=self._keys.read(own.url) if own.url else "",
        )


def _describe_file(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
