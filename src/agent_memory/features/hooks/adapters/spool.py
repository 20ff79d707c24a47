"""The spool as a folder: a file for each call of a hook, whole or not there at all."""

import contextlib
import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.hooks.model.tool_use import ToolUse
from agent_memory.kernel.errors import Overloaded, StorageFailed
from agent_memory.platform.durable import make_folder, remove_abandoned, write_atomic

MAX_FILES = 10_000
MAX_BYTES = 256 << 20
_SUFFIX = ".json"
_DAMAGED = ".damaged"


class SpoolFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, told: HookCall, /) -> None:
        """Durable once it returns."""
        digest = hashlib.sha256(told.nonce.encode("utf-8", "replace")).hexdigest()[:32]
        name = f"{told.at_ms:013}-{digest}{_SUFFIX}"
        data = json.dumps(asdict(told)).encode()
        try:
            make_folder(self._folder)
            self._check_room(len(data))
            write_atomic(self._folder / name, data)
        except OSError as exc:
            raise StorageFailed(f"cannot write to {self._folder}: {exc.strerror}") from exc

    def list_pending(self) -> list[str]:
        try:
            return sorted(each.name for each in self._folder.iterdir() if each.suffix == _SUFFIX)
        except FileNotFoundError:
            return []

    def get(self, name: str, /) -> HookCall | None:
        try:
            return _parse_call(json.loads((self._folder / name).read_bytes()))
        except FileNotFoundError:
            return None
        except (TypeError, KeyError, AttributeError, RecursionError) as exc:
            raise ValueError(f"{name} is no call of a hook: {exc!r}") from exc

    def set_aside(self, name: str, /) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._folder / name).rename(self._folder / f"{name}{_DAMAGED}")

    def remove(self, name: str, /) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._folder / name).unlink()

    def _check_room(self, size: int) -> None:
        remove_abandoned(self._folder, ".")
        files = total = 0
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    total += found.st_size
                    files += 1
        if files >= MAX_FILES or total + size > MAX_BYTES:
            raise Overloaded(
                f"{self._folder} is full ({files} files, {total >> 20} MiB):"
                " `memory-daemon start` empties it"
            )


def _parse_call(found: dict[str, Any]) -> HookCall:
    told = HookCall(
        **{
            **found,
            "moment": HookKind(found["moment"]),
            "use": ToolUse(**found["use"]),
            "decisions": tuple(found["decisions"]),
        }
    )
    texts: list[object] = [told.session, told.nonce, told.given, told.text, told.folder]
    texts += [told.branch, *asdict(told.use).values(), *told.decisions, *told.about.values()]
    if type(found["at_ms"]) is not int or not all(isinstance(each, str) for each in texts):
        raise ValueError("something in it has another type")
    return told
