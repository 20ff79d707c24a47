"""The last contexts, without secrets, as a folder: one file for each project and agent, which the
launcher reads."""

import contextlib
import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from agent_memory.features.hooks.model.last_contexts import LastContext
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ContentBlocked, StorageFailed
from agent_memory.launcher.last_context import MAX_BYTES, SessionPlace
from agent_memory.platform.durable import make_folder, sync_folder, write_atomic

MAX_FILES = 100


class LastContextFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._epoch = 0

    def get_epoch(self) -> int:
        """Return a number that changes with every `clear`."""
        return self._epoch

    def keep(self, context: LastContext, epoch: int, /) -> None:
        """Replace the context of its place; an empty one only removes it.

        Do nothing if the epoch has ended: the context may hold what was forgotten meanwhile. Raises
        StorageFailed.
        """
        place = SessionPlace(context.folder, context.agent, simple=context.simple)
        kept = {
            "key": place.build_key(),
            "marks": place.read_marks(context.environ),
            "text": context.text,
        }
        data = json.dumps(kept).encode()
        path = self._folder / place.name_file()
        try:
            with self._lock:
                if epoch != self._epoch:
                    return
                if not context.text or len(data) > MAX_BYTES:
                    path.unlink(missing_ok=True)
                    return
                make_folder(self._folder)
                write_atomic(path, data)
                self._remove_oldest()
        except OSError as exc:
            raise StorageFailed(f"cannot write to {self._folder}: {exc.strerror}") from exc

    def clear(self) -> None:
        """Remove all contexts, and end the epoch. Raises StorageFailed."""
        with self._lock:
            self._epoch += 1
            try:
                files = self._list_files()
                for file in files:
                    file.unlink(missing_ok=True)
                if files:  # else forgotten text could come back after a power cut
                    sync_folder(self._folder)
            except OSError as exc:
                raise StorageFailed(f"cannot empty {self._folder}: {exc.strerror}") from exc

    def _remove_oldest(self) -> None:
        ages: list[tuple[float, Path]] = []
        for file in self._list_files():
            with contextlib.suppress(FileNotFoundError):
                ages.append((file.stat(follow_symlinks=False).st_mtime, file))
        for _, file in sorted(ages, reverse=True)[MAX_FILES:]:
            file.unlink(missing_ok=True)

    def _list_files(self) -> list[Path]:
        """List all files, drafts of a killed process among them."""
        try:
            return list(self._folder.iterdir())
        except FileNotFoundError:
            return []


@dataclass(frozen=True, slots=True)
class ContextKeeping:
    contexts: LastContextFolder
    secrets: SecretsFilter

    def get_epoch(self) -> int:
        """Return a number to pass to `keep`, before the context is built."""
        return self.contexts.get_epoch()

    def keep(self, context: LastContext, epoch: int) -> None:
        """Keep a context in place of the one before. Raises StorageFailed."""
        try:
            text = self.secrets.clean(context.text, where="last context")
        except ContentBlocked:
            text = ""
        self.contexts.keep(replace(context, text=text), epoch)
