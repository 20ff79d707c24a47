"""The key for a team's server, in a file of the data folder that only its owner can read."""

import json
from pathlib import Path

from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform import durable
from agent_memory.platform.files import read_regular

MAX_BYTES = 64 << 10


class RemoteKeyFile:
    """A RemoteKeys. The key is bound to the address that it is for: it is never sent elsewhere."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, url: str, /) -> str:
        try:
            content = json.loads(read_regular(self._path, MAX_BYTES))
        except (FileNotFoundError, ValueError):
            return ""
        except OSError as exc:
            raise StorageFailed(f"cannot read {self._path}: {exc.strerror}") from exc
        if not isinstance(content, dict) or content.get("url") != url:
            return ""
        key = content.get("key")
        return key if isinstance(key, str) else ""

    def write(self, url: str, key: str, /) -> None:
        try:
            durable.write_atomic(self._path, json.dumps({"url": url, "key": key}).encode())
        except OSError as exc:
            raise StorageFailed(f"cannot write {self._path}: {exc.strerror}") from exc

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
