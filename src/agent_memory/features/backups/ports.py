"""What backups need: snapshots of the data folder."""

from collections.abc import Callable
from typing import Protocol

from agent_memory.features.backups.model.backups import Snapshot


class Snapshots(Protocol):
    """Copies of the data folder, made while it is in use."""

    def create(self, target: str, /, *, on_progress: Callable[[int], None]) -> Snapshot:
        """Create a snapshot in a folder of snapshots, or an archive where the name ends like
        one. `on_progress` is called with the number of files; it may raise to stop. Raises
        InvalidInput and StorageFailed; then nothing that looks complete is left."""
        ...

    def list_complete(self, folder: str, /) -> list[Snapshot]:
        """List the complete snapshots in a folder, of any store, oldest first."""
        ...

    def remove(self, snapshot: Snapshot, /) -> None: ...
