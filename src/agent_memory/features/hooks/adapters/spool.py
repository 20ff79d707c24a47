"""The spool as a folder: one file per hook call, written atomically."""

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
_STORED_NAMES = {"kind": "moment", "call_id": "given"}  # the file format keeps its first names
_FIELD_NAMES = {stored: field for field, stored in _STORED_NAMES.items()}


class SpoolFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, call: HookCall, /) -> None:
        digest = hashlib.sha256(call.nonce.encode("utf-8", "replace")).hexdigest()[:32]
        name = f"{call.at_ms:013}-{digest}{_SUFFIX}"
        stored = {_STORED_NAMES.get(field, field): value for field, value in asdict(call).items()}
        for field in ("title", "plugin"):  # earlier versions do not know them
            if not stored[field]:
                del stored[field]
        del stored["use"]["places"]  # consent was given, and nothing else reads them
        data = json.dumps(stored).encode()
        try:
            self._drop_link()
            make_folder(self._folder)
            self._check_room(len(data))
            write_atomic(self._folder / name, data)
        except OSError as exc:
            raise StorageFailed(f"cannot write to {self._folder}: {exc.strerror}") from exc

    def list_pending(self) -> list[str]:
        self._drop_link()
        try:
            return sorted(file.name for file in self._folder.iterdir() if file.suffix == _SUFFIX)
        except FileNotFoundError:
            return []

    def get(self, name: str, /) -> HookCall | None:
        try:
            return _parse_call(json.loads((self._folder / name).read_bytes()))
        except FileNotFoundError:
            return None
        except (TypeError, KeyError, AttributeError, RecursionError) as exc:
            raise ValueError(f"{name} is not a hook call: {exc!r}") from exc

    def set_aside(self, name: str, /) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._folder / name).rename(self._folder / f"{name}{_DAMAGED}")

    def remove(self, name: str, /) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._folder / name).unlink()

    def _drop_link(self) -> None:
        """Remove a link in place of the folder: what is behind it is not ours to rename, remove or
        write."""
        if self._folder.is_symlink():
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                self._folder.unlink()

    def _check_room(self, size: int) -> None:
        remove_abandoned(self._folder, ".")
        files = total = 0
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    total += entry.stat(follow_symlinks=False).st_size
                    files += 1
        if files >= MAX_FILES or total + size > MAX_BYTES:
            raise Overloaded(
                f"{self._folder} is full ({files} files, {total >> 20} MiB): `memory-daemon start`"
                " records what waits there, and `memory resume` what a pause holds back; calls from"
                " where recording is off by now are removed when they are 7 days old"
            )


def _parse_call(stored: dict[str, Any]) -> HookCall:
    fields = {_FIELD_NAMES.get(name, name): value for name, value in stored.items()}
    fields["kind"] = HookKind(fields["kind"])
    fields["use"] = ToolUse(**fields["use"])
    fields["decisions"] = tuple(fields["decisions"])
    call = HookCall(**fields)
    use = call.use
    texts: list[object] = [call.session, call.nonce, call.call_id, call.text, call.folder]
    texts += [call.branch, call.title, use.name, use.asked, use.written, use.file]
    texts += [*call.decisions, *call.about.values()]
    has_types = type(call.at_ms) is int and type(call.plugin) is bool
    if not has_types or not all(isinstance(text, str) for text in texts):
        raise ValueError("a field has the wrong type")
    return call
