"""The status of the last backups, in a file of the data folder, so that reading it needs no
backup disk."""

import json
from dataclasses import asdict
from pathlib import Path

from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.jobs import NEVER
from agent_memory.kernel.status import BackupStatus
from agent_memory.platform.durable import write_atomic

FILE = "backup.json"


class BackupRecord:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def load(self) -> BackupStatus:
        try:
            found = json.loads(self._path.read_text())
            return BackupStatus(
                path=str(found["path"]),
                made_ms=Millis(int(found["made_ms"])),
                scheduled=str(found.get("scheduled", "")),
                scheduled_ms=Millis(int(found.get("scheduled_ms", NEVER))),
                before_upgrade=str(found["before_upgrade"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return BackupStatus()

    def save(self, status: BackupStatus, /) -> None:
        try:
            write_atomic(self._path, json.dumps(asdict(status)).encode())
        except OSError as exc:
            raise StorageFailed(f"cannot write {self._path}: {exc.strerror}") from exc
