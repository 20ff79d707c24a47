"""Copies of a store as it is now, made of links beside it and removed after use."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_memory.platform.ports import StoreMaintenance
from agent_memory.platform.removing import remove_tree


@dataclass(frozen=True, slots=True)
class StoreCopies:
    maintenance: StoreMaintenance
    db_path: Path

    @contextmanager
    def make(self) -> Iterator[Path]:
        """Copy the store for the length of a `with` block: compactions remove the tables of a store
        in use."""
        folder = self.db_path.with_name(f"{self._prefix}{secrets.token_hex(4)}")
        try:
            self.maintenance.copy_to(folder)
            yield folder
        finally:
            remove_tree(folder, ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Remove the copies of a daemon that was killed."""
        for folder in self.db_path.parent.glob(f"{self._prefix}*"):
            remove_tree(folder, ignore_errors=True)

    @property
    def _prefix(self) -> str:
        return f".{self.db_path.name}-export-"
