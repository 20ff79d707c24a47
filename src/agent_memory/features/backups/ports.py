"""What backups need from the disk."""

from collections.abc import Callable
from typing import Protocol

from agent_memory.features.backups.model.backups import Snapshot
from agent_memory.kernel.status import BackupStatus


class Snapshots(Protocol):
    """Copies of the data folder, made while it is in use."""

    def create(self, target: str, /, *, done: Callable[[int], None]) -> Snapshot:
        """A snapshot in a folder of snapshots, or one archive where the name is that of one.
        `done` is called with the number of files; it may raise to stop. Raises InvalidInput and
        StorageFailed; nothing that looks complete is left then."""
        ...

    def list_complete(self, folder: str, /) -> list[Snapshot]:
        """The complete snapshots in a folder, of any store, oldest first."""
        ...

    def remove(self, snapshot: Snapshot, /) -> None: ...


class BackupHistory(Protocol):
    """What is known of the last backups, without asking the disk that they are on."""

    def load(self) -> BackupStatus: ...

    def save(self, status: BackupStatus, /) -> None: ...
