"""Agents and skills in the user's config folder: `agents/<name>/...`, `skills/<name>/...`."""

import os
import stat
from pathlib import Path

from agent_memory.features.runs.model import profiles
from agent_memory.kernel.errors import ConfigError

MAX_BYTES = 256 << 10  # of a file
MAX_NAMES = 1_000


class AgentCatalogFolder:
    """Reads the files each time, so that a user's change takes effect at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.location = str(folder)

    def list_names(self, kind: str, /) -> list[str]:
        """Return the names of the folders of `agents` or `skills`, sorted and unchecked."""
        try:
            with os.scandir(self._folder / kind) as entries:
                names = sorted(entry.name for entry in entries if _is_shown(entry))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            raise ConfigError(f"cannot read {self._folder / kind}: {exc.strerror}") from exc
        return [os.fsencode(name).decode("utf-8", "replace") for name in names[:MAX_NAMES]]

    def has(self, kind: str, name: str, /) -> bool:
        """Return whether this folder exists. False for unsafe names."""
        return not profiles.check_name(name, kind) and (self._folder / kind / name).is_dir()

    def read(self, kind: str, name: str, file: str, /) -> str | None:
        """Return the file, or None if it does not exist. Raises ConfigError if it is unreadable."""
        if profiles.check_name(name, kind):  # an unsafe name could lead to another folder
            return None
        shown = f"{kind}/{name}/{file}"
        try:
            # Opening a pipe without O_NONBLOCK would block.
            descriptor = os.open(
                self._folder / kind / name / file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise ConfigError(f"{shown}: cannot be read: {exc.strerror}") from exc
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{shown}: this is not a file")
            with os.fdopen(descriptor, "rb", closefd=False) as opened:
                data = opened.read(MAX_BYTES + 1)
        except OSError as exc:
            raise ConfigError(f"{shown}: cannot be read: {exc.strerror}") from exc
        finally:
            os.close(descriptor)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"{shown}: the file exceeds {MAX_BYTES >> 10} KiB")
        try:
            return data.decode()
        except UnicodeDecodeError as exc:
            line = data.count(b"\n", 0, exc.start) + 1
            raise ConfigError(f"{shown}:{line}: not UTF-8 text") from exc


def _is_shown(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.name.startswith(".") and entry.is_dir()
    except OSError:  # a link to itself
        return False
