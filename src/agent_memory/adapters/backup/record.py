"""What is known of the last backups, in a file of the data folder: asked for without their disk."""

import json
import os
from pathlib import Path

from agent_memory.adapters.durable import sync_folder
from agent_memory.domain.backups import BackupStatus
from agent_memory.domain.errors import StorageFailed
from agent_memory.domain.events import Millis

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
                before_upgrade=str(found["before_upgrade"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return BackupStatus()

    def save(self, status: BackupStatus, /) -> None:
        draft = self._path.with_name(f"{FILE}.new")
        try:
            draft.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(draft, flags, 0o600), "w") as file:
                json.dump(
                    {
                        "path": status.path,
                        "made_ms": status.made_ms,
                        "before_upgrade": status.before_upgrade,
                    },
                    file,
                )
                file.flush()
                os.fsync(file.fileno())
            draft.rename(self._path)
            sync_folder(self._path.parent)
        except OSError as exc:
            raise StorageFailed(f"cannot write {self._path}: {exc.strerror}") from exc
