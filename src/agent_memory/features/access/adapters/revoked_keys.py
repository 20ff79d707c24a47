"""The hashes of revoked keys, in a file of the data folder, beside the store and not in it.

A store that is restored from an older copy has the keys of that time again, also those that were
revoked since. The file does not go back with it.
"""

from collections.abc import Iterable
from pathlib import Path

from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform import durable
from agent_memory.platform.files import read_regular

FILE = "revoked-keys"
MOST = 50_000  # the newest
_MAX_BYTES = MOST * 65


class RevokedKeyFile:
    """One hash in a line, the newest last. The methods raise StorageFailed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def list_digests(self) -> frozenset[bytes]:
        return frozenset(self._read())

    def add(self, digests: Iterable[bytes], /) -> None:
        every = list(dict.fromkeys((*self._read(), *digests)))[-MOST:]
        try:
            durable.write_atomic(self.path, b"".join(b"%s\n" % d.hex().encode() for d in every))
        except OSError as exc:
            raise StorageFailed(f"cannot write {self.path}: {exc.strerror}") from exc

    def _read(self) -> list[bytes]:
        try:
            lines = read_regular(self.path, _MAX_BYTES).split()
            return [bytes.fromhex(line.decode("ascii")) for line in lines]
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as exc:
            raise StorageFailed(
                f"cannot read {self.path}, which says which keys were revoked: {exc}"
            ) from exc
