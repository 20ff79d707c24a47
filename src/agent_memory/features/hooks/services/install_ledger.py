"""The ledger of installations: folders that we made, and projects that we installed into."""

import json
from pathlib import Path

from agent_memory.features.hooks.model.installations import InstallRecord
from agent_memory.kernel.errors import ConfigError
from agent_memory.platform.durable import make_folder, write_atomic
from agent_memory.platform.files import read_regular

NAME = "installations.json"
LIMIT = 1 << 20


class LedgerFile:
    """A file in the data folder. Without it, nothing is known, and no folder is removed."""

    def __init__(self, data: Path) -> None:
        self._path = data / NAME

    def read(self) -> InstallRecord:
        try:
            raw = json.loads(read_regular(self._path, LIMIT, follow_link=False))
            return InstallRecord(
                folders=frozenset(map(str, raw["folders"])),
                projects=frozenset(map(str, raw["projects"])),
            )
        except (OSError, ValueError, KeyError, TypeError):  # missing, or not ours
            return InstallRecord()

    def write(self, record: InstallRecord, /) -> None:
        content = {"folders": sorted(record.folders), "projects": sorted(record.projects)}
        try:
            make_folder(self._path.parent)
            write_atomic(self._path, json.dumps(content, indent=2).encode() + b"\n")
        except OSError as exc:
            raise ConfigError(f"cannot write {self._path}: {exc.strerror}") from exc
