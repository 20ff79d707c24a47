"""The file that says that recording is paused. It is read at every hook, so that a pause holds for
the daemon, for hooks without one, and after a restart."""

import contextlib
import json
from pathlib import Path

from agent_memory.features.hooks.model.consent import Pause
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.platform.durable import make_folder, sync_folder, write_atomic
from agent_memory.platform.files import read_regular

NAME = "paused"
_MAX_BYTES = 4_096


class PauseFile:
    def __init__(self, data: Path) -> None:
        self._path = data / NAME

    def read(self) -> Pause | None:
        try:
            stored = json.loads(read_regular(self._path, _MAX_BYTES))
            until = stored["until_ms"]
        except FileNotFoundError:
            return None
        except OSError as exc:
            return Pause(problem=f"cannot read {self._path}: {exc.strerror}")
        except (ValueError, KeyError, TypeError, RecursionError):
            return Pause(problem=f"{self._path} is damaged")
        if until is None:
            return Pause()
        if type(until) is not int or not 0 <= until <= MAX_MILLIS:
            return Pause(problem=f"{self._path} is damaged")
        return Pause(until_ms=Millis(until))

    def write(self, until_ms: Millis | None, /) -> None:
        try:
            make_folder(self._path.parent)
            write_atomic(self._path, json.dumps({"until_ms": until_ms}).encode())
        except OSError as exc:
            raise StorageFailed(f"cannot write {self._path}: {exc.strerror}") from exc

    def remove(self) -> None:
        try:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
                sync_folder(self._path.parent)
        except OSError as exc:
            raise StorageFailed(f"cannot remove {self._path}: {exc.strerror}") from exc
