"""The vector index: a scan of sign bits in memory, then an exact comparison of the nearest.

A row is a part of a document and its vector; of several parts, the nearest counts. The vectors are
in `vectors-N.f16`, a matrix on disk. The frames of `rows-N.log` describe the rows and list those
that are gone. A frame is written after its vectors, with their checksum, and both are synced: an
incomplete write is ignored after a crash. Memory has one sign bit for each dimension, and the
filtered fields of each row as numbers.

A search first restricts the rows to the scope. If few are left, all are compared exactly;
otherwise only the nearest by sign bits. So a filter never hides rows that it admits, a removed row
is gone at once, and there is nothing to build or to train.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

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
from agent_memory.features.index.ports import PartCosines
from agent_memory.kernel.access import Principal
from agent_memory.kernel.errors import IndexFailed
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.late_package import LatePackage
from agent_memory.kernel.status import IndexStats
from agent_memory.platform import durable
from agent_memory.platform.files import measure_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Halves = NDArray[np.float16]
    Mask = NDArray[np.bool_]
else:
    np = LatePackage("numpy")

log = structlog.get_logger()

FORMAT = 1
EXACT = 2_048  # up to so many rows all are compared exactly
SHORTLIST = 1_000  # least rows that the sign bits select: 99% of the true best ten are in it
_OVERSAMPLE = 10
_QUERY_BITS = 2  # for the size of each dimension; a third bit finds hardly more
_LARGE = 0.98  # quantile of the sizes; larger dimensions count the same
_MARKER = "model.json"
_COLUMNS = (
    "kind", "session", "project", "agent", "role", "namespace", "domain", "spec", "status", "tags",
)  # fmt: skip
_GROWTH = 1_024
_SCAN = 1 << 17  # rows per call; few large calls, because a thread waits for the GIL after each
_FAR = 0xFFFF  # the largest distance
_COMPACT = 2_000  # least dead rows for a rewrite
_HEAD = struct.Struct("<II")  # before a frame: its length, its checksum


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """The stored fields of a part of a document."""

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
    """The description of the folder's content."""

    format: int
    model: str
    dimension: int
    generation: int
    complete: bool
    for_team: bool = False  # every row says which callers see it, as `documents.is_visible` needs


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Frame).decode


class _Column:
    """A field of all rows, with each distinct value as a number."""

    numbers: NDArray[np.int32]

    def __init__(self) -> None:
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
    """The rows of a reader; later rows are beyond `count`."""

    rows: _Rows
    count: int
    signs: NDArray[np.uint64]  # word by word, so that a scan reads contiguous memory
    at: NDArray[np.int64]
    alive: Mask
    matrix: Halves


class _Rows:
    """The rows in memory, with room to grow. Its arrays are there from the first row on, and so is
    numpy."""

    signs: NDArray[np.uint64]
    at: NDArray[np.int64]
    digest: NDArray[np.uint64]
    part: NDArray[np.uint16]
    alive: Mask

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._room = 0
        self.count = 0
        self.dead = 0
        self.ids: list[str] = []
        self.columns = {name: _Column() for name in _COLUMNS}
        self.by_key: dict[DocumentKey, tuple[int, ...]] = {}
        self.owners: dict[int, Owner] = {}  # of rows whose owner is another document
        self.owned: dict[Owner, set[int]] = {}  # the inverse of `owners`

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
        """Return the row as it was written."""
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
        others = tuple(other for other in self.by_key[key] if other != number)
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
        room = self._room - self.count
        if more <= room:
            return
        if not self._room:
            self._allocate()
        extra = max(_GROWTH, self.count // 2, more - room)
        self.signs = np.pad(self.signs, ((0, 0), (0, extra)))
        self.at = np.pad(self.at, (0, extra))
        self.digest = np.pad(self.digest, (0, extra))
        self.part = np.pad(self.part, (0, extra))
        self.alive = np.pad(self.alive, (0, extra))
        for column in self.columns.values():
            column.numbers = np.pad(column.numbers, (0, extra))
        self._room += extra

    def _allocate(self) -> None:
        self.signs = np.zeros((-(-self._dimension // 64), 0), np.uint64)
        self.at = np.zeros(0, np.int64)
        self.digest = np.zeros(0, np.uint64)
        self.part = np.zeros(0, np.uint16)
        self.alive = np.zeros(0, np.bool_)
        for column in self.columns.values():
            column.numbers = np.zeros(0, np.int32)


class FlatVectors:
    """A VectorIndex in a folder."""

    def __init__(self, folder: Path, model: str, *, for_team: bool = False) -> None:
        """Open the index; one of another model or with damage is removed and not complete.

        One that becomes `for_team` is not complete either: its rows are written again, with the
        vectors that it has."""
        self._folder = folder
        self._model = model
        self._for_team = for_team
        self._changing = threading.RLock()
        self._view: _View | None = None  # None: there are no rows
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._read_marker()
            if self._load() or (for_team and not self._rows_are_for_team):
                # The end may have been unfinished or damaged: missing rows must be queued again.
                self._write_marker(complete=False)
        except (IndexFailed, FileNotFoundError, ValueError) as exc:
            if any(folder.iterdir()):
                log.warning("vectors.unusable", error=str(exc))
            self.reset()

    @staticmethod
    def outdate(folder: Path) -> None:
        """Mark the index as incomplete, because embedding is off from now on."""
        marker = folder / _MARKER
        try:
            content = msgspec.json.decode(marker.read_bytes(), type=_Marker)
        except (OSError, ValueError):
            return  # there is no index, or none that counts as complete
        durable.write_atomic(
            marker, msgspec.json.encode(msgspec.structs.replace(content, complete=False))
        )

    @property
    def is_complete(self) -> bool:
        """Whether every record was queued for it."""
        return self._complete

    @property
    def is_empty(self) -> bool:
        return self._view is None

    def mark_complete(self) -> None:
        with self._changing:
            self._write_marker(complete=True)

    def reset(self) -> None:
        with self._changing:
            self._generation = 0
            self._dimension = 0  # until the first vector
            self._write_marker(complete=False)
            self._sweep(keep=False)
            self._log_path.touch(0o600)
            self._matrix_path.touch(0o600)
            self._load()

    def purge(self) -> None:
        with self._changing:
            if self._rows.dead and not self._compact():
                raise IndexFailed("vector index: removed rows are still in its files")

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
                    row: vector
                    for document, vectors_of in held
                    for row, vector in zip(
                        _rows_of(document, len(vectors_of)), vectors_of, strict=True
                    )
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
        if view is None:
            return []
        admitted = _select_rows(view, scope)
        count = int(np.count_nonzero(admitted))
        if not count or limit < 1:
            return []
        target = self._direction(query)
        if count <= EXACT:
            numbers = np.flatnonzero(admitted)
        else:
            distances = _distances(view.signs[:, : view.count], target)
            distances[~admitted] = _FAR
            most = min(count, max(SHORTLIST, _OVERSAMPLE * limit))
            numbers = _take_nearest(view, distances, most)
        # The order of rows on disk also depends on rows beyond the scope, and the last digit of a
        # product on its place in the matrix.
        numbers = numbers[np.lexsort((view.rows.digest[numbers], view.at[numbers]))]
        scores = view.matrix[numbers].astype(np.float32) @ target
        hits: dict[str, IndexHit] = {}
        for index in np.argsort(-scores, kind="stable"):
            hit = _build_hit(view, int(numbers[index]), float(scores[index]))
            hits.setdefault(hit.key, hit)
            if len(hits) == limit:
                break
        return list(hits.values())

    def compute_cosines(
        self, query: Vector, keys: Sequence[DocumentKey], /
    ) -> list[PartCosines | None]:
        view = self._view
        if view is None:
            return [None] * len(keys)
        numbers = [
            [number for number in view.rows.by_key.get(key, ()) if number < view.count]
            for key in keys
        ]
        known = [number for parts in numbers for number in parts]
        if not known or len(query) != 4 * view.matrix.shape[1]:  # none is known or comparable
            return [None] * len(keys)
        scores = (view.matrix[known].astype(np.float32) @ np.frombuffer(query, "<f4")).tolist()
        cosines: list[PartCosines | None] = []
        start = 0
        for parts in numbers:
            own = scores[start : start + len(parts)]
            start += len(parts)
            if not own:
                cosines.append(None)
                continue
            best = max(own)
            part = int(view.rows.part[parts[own.index(best)]])
            cosines.append(PartCosines(nearest=best, average=sum(own) / len(own), part=part))
        return cosines

    def stats(self) -> IndexStats:
        return IndexStats(
            documents=len(self._rows.by_key),
            size_bytes=measure_size(self._folder),
        )

    def list_damaged_files(self) -> list[str]:
        """Return the files that do not match their checksums."""
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
            raise IndexFailed(f"the index has model {marker.model}, format {marker.format}")
        self._dimension = marker.dimension
        self._generation = marker.generation
        self._complete = marker.complete
        self._rows_are_for_team = marker.for_team

    def _write_marker(self, *, complete: bool) -> None:
        marker = _Marker(
            FORMAT, self._model, self._dimension, self._generation, complete, self._for_team
        )
        durable.write_atomic(self._folder / _MARKER, msgspec.json.encode(marker))
        self._complete = complete

    def _load(self) -> bool:
        """Read the files, cut off an unfinished last write, and return whether there was one."""
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
                if frame.rows:
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
        if rows:
            self._rows.append(frame, matrix)
            self._show()
        self._rows.delete(gone)  # last: a reader sees the old rows, the new ones or both

    def _compact(self) -> bool:
        """Write the live rows into new files and switch to these; return whether it succeeded."""
        view = self._view
        if view is None:
            return True
        live = self._rows.live()
        matrix = np.asarray(view.matrix[live])
        raw = matrix.tobytes()
        rows = tuple(self._rows.row(number) for number in live)
        self._generation += 1
        try:
            durable.write_atomic(self._matrix_path, raw)
            frame = _encode_frame(_Frame(rows, (), zlib.crc32(raw)))
            durable.write_atomic(self._log_path, frame)
            self._write_marker(complete=self._complete)
        except OSError as exc:
            self._generation -= 1  # the present files stay in use
            log.warning("vectors.not_compacted", error=str(exc))
            return False
        self._load()
        self._sweep(keep=True)
        return True

    def _sweep(self, *, keep: bool) -> None:
        """Remove the files of other generations, or of all unless `keep`."""
        needed = {_MARKER, *((self._log_path.name, self._matrix_path.name) if keep else ())}
        for path in self._folder.iterdir():
            if path.name not in needed:
                path.unlink()

    @property
    def _log_path(self) -> Path:
        return self._folder / f"rows-{self._generation}.log"

    @property
    def _matrix_path(self) -> Path:
        return self._folder / f"vectors-{self._generation}.f16"

    def _show(self) -> None:
        """Make the present rows visible to readers."""
        rows = self._rows
        if not rows.count:
            self._view = None
            return
        shape = (rows.count, self._dimension)
        matrix: Halves = np.memmap(self._matrix_path, "<f2", "r", shape=shape)
        self._view = _View(rows, rows.count, rows.signs, rows.at, rows.alive, matrix)

    def _load_vectors(self, document: Document) -> list[Vector]:
        rows, view = self._rows, self._view
        if view is None:
            return []
        numbers = sorted(rows.by_key.get(document.key, ()), key=lambda number: rows.part[number])
        if not numbers or int(rows.digest[numbers[0]]) != _digest(document):
            return []
        return [Vector(view.matrix[number].astype("<f4").tobytes()) for number in numbers]

    def _direction(self, vector: Vector) -> Floats:
        values = np.frombuffer(vector, "<f4")
        if values.size != self._dimension:
            raise IndexFailed(f"a vector has {values.size} dimensions, not {self._dimension}")
        return values

    def _learn_dimension(
        self, owned: Iterable[Sequence[tuple[Document, Sequence[Vector]]]]
    ) -> None:
        if self._dimension:
            return
        dimensions = (len(vector) // 4 for held in owned for _, parts in held for vector in parts)
        self._dimension = next(dimensions, 0)
        if self._dimension:
            self._write_marker(complete=self._complete)
            self._load()

    def _matrix(self, vectors: Sequence[Floats]) -> Halves:
        if not vectors:
            return np.zeros((0, self._dimension), "<f2")
        return np.stack(vectors).astype("<f2")


def _rows_of(document: Document, parts: int) -> list[_Row]:
    digest = _digest(document) if parts else 0
    return [
        _Row(
            kind=document.kind,
            part=part,
            owner=document.owner,
            id=document.id,
            at_ms=document.at_ms,
            digest=digest,
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
        for part in range(parts)
    ]


def _digest(document: Document) -> int:
    read = "\0".join(embeddings.split_parts(document)).encode()
    return int.from_bytes(blake2b(read, digest_size=8).digest(), "little")


def _signs(vectors: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the signs of vectors, 64 in a word, word by word."""
    bits = np.packbits(vectors > 0, axis=1)
    width = -(-bits.shape[1] // 8) * 8
    padded = np.ascontiguousarray(np.pad(bits, ((0, 0), (0, width - bits.shape[1]))))
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _distances(signs: NDArray[np.uint64], target: Floats) -> NDArray[np.uint16]:
    """Return the distance of each row: the differing signs, weighted by their size in the query.

    With equal weights, one in eight of the true best ten would be lost.
    """
    own = _signs(target[None, :])[:, 0]
    planes = _planes(target)
    distances = np.zeros(signs.shape[1], np.uint16)
    for start in range(0, signs.shape[1], _SCAN):
        differing = signs[:, start : start + _SCAN] ^ own[:, None]
        for weight, plane in planes:
            counts = np.bitwise_count(differing & plane[:, None])
            summed = np.add.reduce(counts, axis=0, dtype=np.uint16)
            distances[start : start + _SCAN] += summed * weight
    return distances


def _take_nearest(view: _View, distances: NDArray[np.uint16], most: int) -> NDArray[np.intp]:
    """Return the rows with the least distances, of equal ones at the end the newest."""
    last = np.partition(distances, most - 1)[most - 1]
    nearer, equal = np.flatnonzero(distances < last), np.flatnonzero(distances == last)
    newest = np.lexsort((view.rows.digest[equal], -view.at[equal]))
    return np.concatenate((nearer, equal[newest[: most - len(nearer)]]))


def _planes(target: Floats) -> list[tuple[np.uint16, NDArray[np.uint64]]]:
    """Return the sizes of the query's dimensions as two-bit numbers, one plane for each bit.

    A plane is the value of the bit and the dimensions that have it.
    """
    sizes = np.abs(target)
    most = (1 << _QUERY_BITS) - 1
    steps = np.clip(np.round(sizes / max(float(np.quantile(sizes, _LARGE)), 1e-12) * most), 0, most)
    levels = steps.astype(np.uint8)
    return [
        (np.uint16(1 << bit), _signs((levels >> bit & 1)[None, :])[:, 0])
        for bit in range(_QUERY_BITS)
    ]


def _select_rows(view: _View, scope: SearchScope) -> Mask:
    """Return which rows are in scope."""
    columns = view.rows.columns
    conditions = [
        (columns[name], columns[name].equal(value)) for name, value in scope.exact().items()
    ]
    conditions.append((columns["status"], columns["status"].where(scope.admits_status)))
    if scope.kinds:
        conditions.append((columns["kind"], columns["kind"].where(scope.kinds.__contains__)))
    if scope.domains:
        named = columns["domain"].where(
            lambda value: not scope.domains.isdisjoint(domain_names(value))
        )
        conditions.append((columns["domain"], named))
    if scope.tags:
        conditions.append((columns["tags"], columns["tags"].where(scope.tags.issubset)))
    admitted = view.alive[: view.count].copy()
    for column, numbers in conditions:
        admitted &= _is_any(column.numbers[: view.count], numbers)
    if scope.since > 0 or scope.until < MAX_MILLIS:
        at = view.at[: view.count]
        admitted &= (at >= scope.since) & (at <= scope.until)
    if scope.caller is not None:
        admitted &= _select_visible(view, scope.caller)
    return admitted


def _select_visible(view: _View, caller: Principal) -> Mask:
    """Return which rows a caller sees, as `documents.is_visible` has it."""
    project, domain = view.rows.columns["project"], view.rows.columns["domain"]

    def select(column: _Column, admits: Callable[[str], bool]) -> Mask:
        return _is_any(column.numbers[: view.count], column.where(admits))

    seen = select(domain, lambda name: bool(name) and caller.sees_domain(name))
    return seen | (select(domain, "".__eq__) & select(project, caller.sees_project))


def _is_any(numbers: NDArray[np.int32], admitted: Sequence[int]) -> Mask:
    if len(admitted) == 1:
        return np.equal(numbers, admitted[0])
    return np.isin(numbers, np.asarray(admitted, np.int32))


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
    """Yield the frames, each with its end. An unfinished last frame is skipped.

    Raises IndexFailed if a damaged frame is followed by others.
    """
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
