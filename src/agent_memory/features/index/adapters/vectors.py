"""The vector index: sign bits scanned in memory, the nearest of them compared exactly.

A row is a part of a document and its vector; of several parts, the nearest counts. Vectors lie in
`vectors-N.f16`, a matrix on disk; `rows-N.log` says in frames what each row is and which rows are
gone. A frame is written after the vectors it tells of, with their checksum, and both are synced:
what a crash cuts off is simply not there. In memory are a bit for the sign of each dimension, and
of each row what filters ask for, as numbers.

A search first restricts the rows to the scope. Where few are left, all are compared exactly;
otherwise the nearest by sign bits are. So a filter never hides what it admits, a removed row is
gone at once, and there is nothing to build or to train.
"""

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray

from agent_memory.features.index.adapters import sizes
from agent_memory.features.index.model import embeddings
from agent_memory.features.index.model.documents import (
    Document,
    DocumentKey,
    DocumentKind,
    Owner,
    build_key,
)
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import IndexHit, SearchScope, domain_names
from agent_memory.kernel.errors import IndexFailed
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.status import IndexStats
from agent_memory.platform import durable

log = structlog.get_logger()

FORMAT = 1
EXACT = 2_048  # rows up to which all are compared exactly
SHORTLIST = 1_000  # rows that the sign bits choose, at least: .99 of the true best ten are in it
_OVERSAMPLE = 10
_QUERY_BITS = 2  # of the size of each dimension; a third finds hardly more
_LARGE = 0.98  # share of the dimensions that are told apart; larger ones count alike
_MARKER = "model.json"
_COLUMNS = (
    *("kind", "session", "project", "agent", "role", "namespace", "domain", "spec", "status"),
    "tags",
)
_GROWTH = 1_024
_SCAN = 1 << 17  # rows at a time. Few, large calls: after each one a thread waits for its turn
_FAR = np.iinfo(np.uint16).max
_COMPACT = 2_000  # dead rows before it is worth a rewrite
_HEAD = struct.Struct("<II")  # before a frame: its length, its checksum

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]
Mask = NDArray[np.bool_]


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """What is kept of a document, or of a part of it."""

    kind: str
    id: str
    part: int
    owner: str
    at_ms: int
    digest: int  # of the text that was embedded
    session: str
    project: str
    agent: str
    role: str
    namespace: str
    domain: str
    spec: str
    status: str
    tags: tuple[str, ...]

    @property
    def key(self) -> DocumentKey:
        return build_key(DocumentKind(self.kind), self.id)


class _Frame(msgspec.Struct, array_like=True, frozen=True):
    rows: tuple[_Row, ...]
    gone: tuple[int, ...]
    checksum: int  # of the rows' vectors


class _Marker(msgspec.Struct, frozen=True):
    """What the folder holds."""

    format: int
    model: str
    dimension: int
    generation: int
    complete: bool


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Frame).decode


class _Column:
    """One field of all rows, each distinct value as a number."""

    def __init__(self) -> None:
        self.numbers: NDArray[np.int32] = np.zeros(0, np.int32)
        self._known: dict[Any, int] = {}
        self._values: list[Any] = []

    def set(self, row: int, value: Any) -> None:
        number = self._known.get(value)
        if number is None:
            number = self._known[value] = len(self._values)
            self._values.append(value)
        self.numbers[row] = number

    def value(self, row: int) -> Any:
        return self._values[self.numbers[row]]

    def equal(self, value: Any) -> list[int]:
        return [self._known[value]] if value in self._known else []

    def where(self, admits: Callable[[Any], bool]) -> list[int]:
        return [number for number, value in enumerate(list(self._values)) if admits(value)]


@dataclass(frozen=True, slots=True)
class _View:
    """The rows as a reader sees them: what is appended later lies beyond `count`."""

    rows: "_Rows"
    count: int
    signs: NDArray[np.uint64]  # word by word, so that a scan reads each in one go
    at: NDArray[np.int64]
    alive: Mask
    matrix: Halves


class _Rows:
    """The rows in memory, with room to grow."""

    def __init__(self, dimension: int) -> None:
        self.count = 0
        self.dead = 0
        self.ids: list[str] = []
        self.columns = {name: _Column() for name in _COLUMNS}
        self.by_key: dict[DocumentKey, tuple[int, ...]] = {}
        self.owners: dict[int, Owner] = {}  # of rows whose owner is another document
        self.owned: dict[Owner, set[int]] = {}  # the same, the other way round
        self.signs: NDArray[np.uint64] = np.zeros((-(-dimension // 64), 0), np.uint64)
        self.at: NDArray[np.int64] = np.zeros(0, np.int64)
        self.digest: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.part: NDArray[np.uint16] = np.zeros(0, np.uint16)
        self.alive: Mask = np.zeros(0, np.bool_)

    def append(self, frame: _Frame, vectors: Halves) -> None:
        start = self.count
        self._grow(len(frame.rows))
        self.signs[:, start : start + len(frame.rows)] = _signs(vectors)
        for number, row in enumerate(frame.rows, start):
            self.at[number] = row.at_ms
            self.digest[number] = row.digest
            self.alive[number] = True
            for name, column in self.columns.items():
                column.set(number, getattr(row, name))
            self.ids.append(row.id)
            self.part[number] = row.part
            self.by_key[row.key] = (*self.by_key.get(row.key, ()), number)
            if row.owner != row.key:
                owner = Owner(row.owner)
                self.owners[number] = owner
                self.owned.setdefault(owner, set()).add(number)
        self.count += len(frame.rows)

    def delete(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._delete(number)

    def row(self, number: int) -> _Row:
        """As it was written."""
        fields = {name: column.value(number) for name, column in self.columns.items()}
        key = build_key(DocumentKind(fields["kind"]), self.ids[number])
        return _Row(
            id=self.ids[number],
            part=int(self.part[number]),
            owner=self.owners.get(number, key),
            at_ms=int(self.at[number]),
            digest=int(self.digest[number]),
            **fields,
        )

    def find_owned(self, owner: Owner) -> set[int]:
        return self.owned.get(owner, set()).union(self.by_key.get(DocumentKey(owner), ()))

    def live(self) -> list[int]:
        return [int(number) for number in np.flatnonzero(self.alive[: self.count])]

    def _delete(self, number: int) -> None:
        key = self.row(number).key
        self.alive[number] = False
        self.dead += 1
        others = tuple(each for each in self.by_key[key] if each != number)
        if others:
            self.by_key[key] = others
        else:
            del self.by_key[key]
        owner = self.owners.pop(number, None)
        if owner is not None:
            self.owned[owner].discard(number)
            if not self.owned[owner]:
                del self.owned[owner]

    def _grow(self, more: int) -> None:
        room = len(self.at) - self.count
        if more <= room:
            return
        extra = max(_GROWTH, self.count // 2, more - room)
        self.signs = np.pad(self.signs, ((0, 0), (0, extra)))
        self.at = np.pad(self.at, (0, extra))
        self.digest = np.pad(self.digest, (0, extra))
        self.part = np.pad(self.part, (0, extra))
        self.alive = np.pad(self.alive, (0, extra))
        for column in self.columns.values():
            column.numbers = np.pad(column.numbers, (0, extra))


class FlatVectors:
    def __init__(self, folder: Path, model: str) -> None:
        """What is of another model, or damaged, is removed; then it is not `complete`."""
        self._folder = folder
        self._model = model
        self._changing = threading.RLock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._read_marker()
            if self._load():
                # Unfinished or damaged, who knows: what is missing now is to be queued again.
                self._write_marker(complete=False)
        except (IndexFailed, FileNotFoundError, ValueError) as exc:
            if any(folder.iterdir()):
                log.warning("vectors.unusable", error=str(exc))
            self.reset()

    @staticmethod
    def outdate(folder: Path) -> None:
        """Nothing is embedded from now on: should that change, what came meanwhile is missing."""
        marker = folder / _MARKER
        try:
            content = msgspec.json.decode(marker.read_bytes(), type=_Marker)
        except (OSError, ValueError):
            return  # nothing there, or nothing that will be taken for complete
        _write(marker, msgspec.json.encode(msgspec.structs.replace(content, complete=False)))

    @property
    def is_complete(self) -> bool:
        """Whether everything that there was has been queued for it."""
        return self._complete

    def mark_complete(self) -> None:
        with self._changing:
            self._write_marker(complete=True)

    def reset(self) -> None:
        with self._changing:
            self._generation = 0
            self._dimension = 0  # until the first vector tells
            self._write_marker(complete=False)
            self._sweep(keep=False)
            self._log_path.touch(0o600)
            self._matrix_path.touch(0o600)
            self._load()

    def purge(self) -> None:
        with self._changing:
            if self._rows.dead and not self._compact():
                raise IndexFailed("vector index: what was removed is still in its files")

    def replace(
        self, owned: Mapping[Owner, Sequence[tuple[Document, Sequence[Vector]]]], /
    ) -> None:
        with self._changing:
            self._learn_dimension(owned.values())
            rows: list[_Row] = []
            vectors: list[Floats] = []
            gone: list[int] = []
            for owner, held in owned.items():
                new = {
                    _row(document, part): vector
                    for document, vectors_of in held
                    for part, vector in enumerate(vectors_of)
                }
                gone += [
                    number
                    for number in sorted(self._rows.find_owned(owner))
                    if new.pop(self._rows.row(number), None) is None
                ]
                rows += new
                vectors += [self._direction(vector) for vector in new.values()]
            if rows or gone:
                self._append(rows, vectors, gone)
            if self._rows.dead > max(_COMPACT, self._rows.count // 2):
                self._compact()

    def get_vectors(self, documents: Sequence[Document], /) -> list[list[Vector]]:
        with self._changing:
            return [self._load_vectors(document) for document in documents]

    def find_nearest(self, query: Vector, scope: SearchScope, /, *, limit: int) -> list[IndexHit]:
        view = self._view
        admitted = _select_rows(view, scope)
        count = int(np.count_nonzero(admitted))
        if not count or limit < 1:
            return []
        wanted = self._direction(query)
        if count <= EXACT:
            chosen = np.flatnonzero(admitted)
        else:
            distances = _distances(view.signs[:, : view.count], wanted)
            distances[~admitted] = _FAR
            most = min(count, max(SHORTLIST, _OVERSAMPLE * limit))
            chosen = np.sort(np.argpartition(distances, most - 1)[:most])
        scores = view.matrix[chosen].astype(np.float32) @ wanted
        found: dict[str, IndexHit] = {}
        for each in np.lexsort((chosen, -scores)):
            hit = _build_hit(view, int(chosen[each]), float(scores[each]))
            found.setdefault(hit.key, hit)
            if len(found) == limit:
                break
        return list(found.values())

    def compute_cosines(self, query: Vector, keys: Sequence[DocumentKey], /) -> list[float | None]:
        view = self._view
        numbers = [
            [each for each in view.rows.by_key.get(key, ()) if each < view.count] for key in keys
        ]
        wanted = [each for parts in numbers for each in parts]
        if not wanted or len(query) != 4 * view.matrix.shape[1]:  # none there, or none comparable
            return [None] * len(keys)
        scores = view.matrix[wanted].astype(np.float32) @ np.frombuffer(query, "<f4")
        by_number = dict(zip(wanted, scores.tolist(), strict=True))
        return [max((by_number[each] for each in parts), default=None) for parts in numbers]

    def stats(self) -> IndexStats:
        return IndexStats(
            documents=len(self._rows.by_key),
            size_bytes=sizes.folder_bytes(self._folder),
        )

    def list_damaged_files(self) -> list[str]:
        """Compare the files with the checksums in them."""
        with self._changing:
            width = self._dimension * 2
            try:
                with self._matrix_path.open("rb") as matrix:
                    for frame, _ in _parse_frames(self._log_path.read_bytes()):
                        if zlib.crc32(matrix.read(width * len(frame.rows))) != frame.checksum:
                            return [self._matrix_path.name]
            except IndexFailed:
                return [self._log_path.name]
            except OSError as exc:
                return [Path(exc.filename or self._folder).name]
        return []

    def _read_marker(self) -> None:
        marker = msgspec.json.decode((self._folder / _MARKER).read_bytes(), type=_Marker)
        if (marker.format, marker.model) != (FORMAT, self._model):
            raise IndexFailed(f"it is of {marker.model}, format {marker.format}")
        self._dimension = marker.dimension
        self._generation = marker.generation
        self._complete = marker.complete

    def _write_marker(self, *, complete: bool) -> None:
        marker = _Marker(FORMAT, self._model, self._dimension, self._generation, complete)
        _write(self._folder / _MARKER, msgspec.json.encode(marker))
        self._complete = complete

    def _load(self) -> bool:
        """Read what is on disk; what the last write did not finish is cut off. Whether any was."""
        rows = _Rows(self._dimension)
        width = self._dimension * 2
        log_path, matrix_path = self._log_path, self._matrix_path
        finished = 0
        written = log_path.stat().st_size, matrix_path.stat().st_size
        with matrix_path.open("rb") as matrix:
            for frame, end in _parse_frames(log_path.read_bytes()):
                finished = end
                raw = matrix.read(width * len(frame.rows))
                if zlib.crc32(raw) != frame.checksum:
                    raise IndexFailed(f"the checksum of the vectors from {rows.count} on is wrong")
                rows.append(
                    frame, np.frombuffer(raw, "<f2").reshape(len(frame.rows), self._dimension)
                )
                rows.delete(frame.gone)
        os.truncate(log_path, finished)
        os.truncate(matrix_path, rows.count * width)
        self._rows = rows
        self._show()
        return written != (finished, rows.count * width)

    def _append(self, rows: Sequence[_Row], vectors: Sequence[Floats], gone: Sequence[int]) -> None:
        matrix = self._matrix(vectors)
        raw = matrix.tobytes()
        frame = _Frame(tuple(rows), tuple(gone), zlib.crc32(raw))
        try:
            _extend(self._matrix_path, raw)
            _extend(self._log_path, _encode_frame(frame))
        except OSError as exc:
            self._load()
            raise IndexFailed(f"vector index: {exc}") from exc
        self._rows.append(frame, matrix)
        self._show()
        self._rows.delete(gone)  # after: a reader finds the one or the other, or both

    def _compact(self) -> bool:
        """Write the living rows into new files, and take these from then on. Whether it could."""
        live = self._rows.live()
        matrix = np.asarray(self._view.matrix[live])
        raw = matrix.tobytes()
        rows = tuple(self._rows.row(number) for number in live)
        self._generation += 1
        try:
            _write(self._matrix_path, raw)
            _write(self._log_path, _encode_frame(_Frame(rows, (), zlib.crc32(raw))))
            self._write_marker(complete=self._complete)
        except OSError as exc:
            self._generation -= 1  # the files in use are as good as before, only larger
            log.warning("vectors.not_compacted", error=str(exc))
            return False
        self._load()
        self._sweep(keep=True)
        return True

    def _sweep(self, *, keep: bool) -> None:
        """Remove the files of other generations, or of all."""
        kept = {_MARKER, *((self._log_path.name, self._matrix_path.name) if keep else ())}
        for each in self._folder.iterdir():
            if each.name not in kept:
                each.unlink()

    @property
    def _log_path(self) -> Path:
        return self._folder / f"rows-{self._generation}.log"

    @property
    def _matrix_path(self) -> Path:
        return self._folder / f"vectors-{self._generation}.f16"

    def _show(self) -> None:
        """Let readers see the rows there are now."""
        rows = self._rows
        matrix: Halves = (
            np.memmap(self._matrix_path, "<f2", "r", shape=(rows.count, self._dimension))
            if rows.count
            else np.zeros((0, self._dimension), "<f2")
        )
        self._view = _View(rows, rows.count, rows.signs, rows.at, rows.alive, matrix)

    def _load_vectors(self, document: Document) -> list[Vector]:
        rows = self._rows
        numbers = sorted(rows.by_key.get(document.key, ()), key=lambda each: rows.part[each])
        if not numbers or int(rows.digest[numbers[0]]) != _digest(document):
            return []
        return [Vector(self._view.matrix[each].astype("<f4").tobytes()) for each in numbers]

    def _direction(self, vector: Vector) -> Floats:
        found = np.frombuffer(vector, "<f4")
        if found.size != self._dimension:
            raise IndexFailed(f"a vector has {found.size} dimensions, not {self._dimension}")
        return found

    def _learn_dimension(
        self, owned: Iterable[Sequence[tuple[Document, Sequence[Vector]]]]
    ) -> None:
        if self._dimension:
            return
        sizes = (len(vector) // 4 for held in owned for _, found in held for vector in found)
        self._dimension = next(sizes, 0)
        if self._dimension:
            self._write_marker(complete=self._complete)
            self._load()

    def _matrix(self, vectors: Sequence[Floats]) -> Halves:
        if not vectors:
            return np.zeros((0, self._dimension), "<f2")
        return np.stack(vectors).astype("<f2")


def _row(document: Document, part: int) -> _Row:
    return _Row(
        kind=document.kind,
        part=part,
        owner=document.owner,
        id=document.id,
        at_ms=document.at_ms,
        digest=_digest(document),
        session=document.session,
        project=document.project,
        agent=document.agent,
        role=document.role,
        namespace=document.namespace,
        domain=document.domain,
        spec=document.spec,
        status=document.status,
        tags=tuple(sorted(document.tags)),
    )


def _digest(document: Document) -> int:
    read = "\0".join(embeddings.split_parts(document)).encode()
    return int.from_bytes(blake2b(read, digest_size=8).digest(), "little")


def _signs(vectors: NDArray[Any]) -> NDArray[np.uint64]:
    """The signs of some vectors, 64 of them a word, word by word."""
    bits = np.packbits(vectors > 0, axis=1)
    width = -(-bits.shape[1] // 8) * 8
    padded = np.ascontiguousarray(np.pad(bits, ((0, 0), (0, width - bits.shape[1]))))
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _distances(signs: NDArray[np.uint64], wanted: Floats) -> NDArray[np.uint16]:
    """In how many signs each row differs, each counted by how much of the query it is: signs that
    count alike would lose one in eight of the true best ten."""
    own = _signs(wanted[None, :])[:, 0]
    planes = _planes(wanted)
    found = np.zeros(signs.shape[1], np.uint16)
    for start in range(0, signs.shape[1], _SCAN):
        differing = signs[:, start : start + _SCAN] ^ own[:, None]
        for weight, plane in planes:
            counts = np.bitwise_count(differing & plane[:, None])
            summed = np.add.reduce(counts, axis=0, dtype=np.uint16)
            found[start : start + _SCAN] += summed * weight
    return found


def _planes(wanted: Floats) -> list[tuple[np.uint16, NDArray[np.uint64]]]:
    """The sizes of a query's dimensions as numbers of two bits, bit by bit: what a bit is worth,
    and which dimensions have it."""
    sizes = np.abs(wanted)
    most = (1 << _QUERY_BITS) - 1
    steps = np.clip(np.round(sizes / max(float(np.quantile(sizes, _LARGE)), 1e-12) * most), 0, most)
    levels = steps.astype(np.uint8)
    return [
        (np.uint16(1 << bit), _signs((levels >> bit & 1)[None, :])[:, 0])
        for bit in range(_QUERY_BITS)
    ]


def _select_rows(view: _View, scope: SearchScope) -> Mask:
    """Which rows are in scope."""
    columns = view.rows.columns
    wanted = [(columns[name], columns[name].equal(value)) for name, value in scope.exact().items()]
    wanted.append((columns["status"], columns["status"].where(scope.admits_status)))
    if scope.kinds:
        wanted.append((columns["kind"], columns["kind"].where(scope.kinds.__contains__)))
    if scope.domains:
        named = columns["domain"].where(
            lambda value: not scope.domains.isdisjoint(domain_names(value))
        )
        wanted.append((columns["domain"], named))
    if scope.tags:
        wanted.append((columns["tags"], columns["tags"].where(scope.tags.issubset)))
    admitted = view.alive[: view.count].copy()
    for column, numbers in wanted:
        admitted &= _is_any(column.numbers[: view.count], numbers)
    if scope.since > 0 or scope.until < MAX_MILLIS:
        at = view.at[: view.count]
        admitted &= (at >= scope.since) & (at <= scope.until)
    return admitted


def _is_any(numbers: NDArray[np.int32], wanted: Sequence[int]) -> Mask:
    if len(wanted) == 1:
        return np.equal(numbers, wanted[0])
    return np.isin(numbers, np.asarray(wanted, np.int32))


def _build_hit(view: _View, number: int, score: float) -> IndexHit:
    rows = view.rows
    return IndexHit(
        DocumentKind(rows.columns["kind"].value(number)),
        rows.ids[number],
        Millis(int(view.at[number])),
        rows.columns["session"].value(number),
        score,
    )


def _encode_frame(frame: _Frame) -> bytes:
    body = _encode(frame)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def _parse_frames(content: bytes) -> Iterator[tuple[_Frame, int]]:
    """The frames, each with where it ends. An unfinished last one is left out; a damaged one that
    is followed by others raises."""
    start = 0
    while start + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, start)
        end = start + _HEAD.size + length
        body = memoryview(content)[start + _HEAD.size : end]
        if len(body) < length or (zlib.crc32(body) != checksum and end == len(content)):
            return
        if zlib.crc32(body) != checksum:
            raise IndexFailed(f"the frame at {start} is damaged")
        yield _decode(body), end
        start = end


def _extend(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, content: bytes) -> None:
    """A whole file at once, or not at all."""
    durable.write_atomic(path, content)
