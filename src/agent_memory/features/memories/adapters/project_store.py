"""Projects on an ordered store, with their homes and sync states."""

import msgspec

from agent_memory.features.memories.model.memories import Home
from agent_memory.features.memories.model.projects import Project, SyncState
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Put
from agent_memory.platform.store.rows import write

_PROJECT, _HOME, _SEEN = b"project:", b"home:", b"seen:"
_MOST = 10_000


class _ProjectRecord(msgspec.Struct, array_like=True, frozen=True):
    origin: bytes  # paths and addresses need not be valid text
    homes: list[bytes]
    folder: bytes = b""
    commit: str = ""
    mark: str = ""


class _SyncRecord(msgspec.Struct, array_like=True, frozen=True):
    state: str
    at_ms: int


class StoredProjects:
    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def get(self, project_id: str, /) -> Project | None:
        value = self._store.get(families.PROJECTS, _PROJECT + project_id.encode())
        return None if value is None else _decode_project(project_id, value)

    def find_by_home(self, home: Home, /) -> Project | None:
        value = self._store.get(families.PROJECTS, _HOME + keys.escape(home))
        return None if value is None else self.get(codec.decode_key(value).decode())

    def list_all(self) -> list[Project]:
        rows = self._store.scan(families.PROJECTS, _PROJECT, keys.end_of(_PROJECT), limit=_MOST)
        return [_decode_project(key[len(_PROJECT) :].decode(), value) for key, value in rows]

    def save(self, project: Project, /) -> None:
        name = project.id.encode()
        record = _ProjectRecord(
            origin=project.origin.encode("utf-8", "surrogateescape"),
            homes=[home.encode("utf-8", "surrogateescape") for home in project.homes],
            folder=project.folder.encode("utf-8", "surrogateescape"),
            commit=project.commit,
            mark=project.mark,
        )
        puts = [Put(families.PROJECTS, _PROJECT + name, codec.pack(record))]
        puts += [
            Put(families.PROJECTS, _HOME + keys.escape(home), codec.encode_key(name))
            for home in project.homes
        ]
        write(self._store, *puts)

    def get_sync_state(self, home: Home, /) -> SyncState:
        value = self._store.get(families.PROJECTS, _SEEN + keys.escape(home))
        if value is None:
            return SyncState()
        record = codec.unpack(value, _SyncRecord)
        return SyncState(state=record.state, at_ms=Millis(record.at_ms))

    def set_sync_state(self, home: Home, state: SyncState, /) -> None:
        value = codec.pack(_SyncRecord(state=state.state, at_ms=state.at_ms))
        write(self._store, Put(families.PROJECTS, _SEEN + keys.escape(home), value))


def _decode_project(project_id: str, value: bytes) -> Project:
    record = codec.unpack(value, _ProjectRecord)
    return Project(
        id=project_id,
        origin=record.origin.decode("utf-8", "surrogateescape"),
        homes=tuple(Home(home.decode("utf-8", "surrogateescape")) for home in record.homes),
        folder=record.folder.decode("utf-8", "surrogateescape"),
        commit=record.commit,
        mark=record.mark,
    )
