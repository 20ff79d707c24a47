"""The audit log on an ordered store: `at:` with a number, in the order of commit."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from agent_memory.features.access.model.audit import AuditEntry
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.rows import NumberedEntries


class _AuditRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: Millis
    person: str
    key: str
    interface: str
    method: str
    target: str
    status: int
    count: int


class StoredAudit(NumberedEntries[AuditEntry]):
    def __init__(self, store: OrderedStore) -> None:
        super().__init__(store, families.AUDIT, b"at:", _encode, _decode)

    def add(self, entries: Sequence[AuditEntry], /) -> None:
        self.append(*entries).result()


def _encode(entry: AuditEntry) -> bytes:
    return codec.pack(msgspec.convert(entry, _AuditRecord, from_attributes=True))


def _decode(value: bytes, number: int) -> AuditEntry:
    return AuditEntry(**asdict(codec.unpack(value, _AuditRecord)), number=number)
