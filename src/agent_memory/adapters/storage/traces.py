"""Looks for byte strings in the rows of a store and in the bytes of files, many at a time.

The first bytes of each string are a number. A table tells of every place whether its number may be
one of these; the few that may are then compared. So the time depends on what is searched through,
and hardly on how much is searched for.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent_memory.adapters.storage import families, keys
from agent_memory.domain.batches import Row
from agent_memory.domain.forgetting import Searched, Trace
from agent_memory.domain.ports import OrderedStore

_PAGE = 500
_CHUNK = 4 << 20
_AT_HAND = 1 << 17
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
# Tables are compressed: what is left of words side by side makes up new ones. Of many short strings
# some are then found by chance; the rows of the tables are read anyway.
_FEW = 1_000
_LONG = 32
_LAST = b"\xff" * 64
_KEPT = (families.EVENTS, families.MEMORIES)  # all else is made from these
# RocksDB's own words, of which people who work on a database speak too; it writes no value there.
_WORDS_OF_ROCKSDB = ("LOG", "OPTIONS-")


class StoredTraces:
    def __init__(self, store: OrderedStore, folders: Sequence[Path]) -> None:
        self._store = store
        self._folders = tuple(folders)

    def in_kept(self, needles: AbstractSet[bytes], /) -> frozenset[bytes]:
        """Of any case, and with any blanks between words: so they stand in what is made from it."""
        by_look: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for needle in needles:
            by_look[_plain(needle)].add(needle)
        search = _Search(by_look.keys())
        found = (trace for family in _KEPT for trace in self._rows(family, search, _plain))
        return frozenset(needle for trace in found for needle in by_look[trace.needle])

    def in_rows(
        self, needles: AbstractSet[bytes], done: Callable[[int], None], /
    ) -> frozenset[Trace]:
        search = _Search(needles)
        found: set[Trace] = set()
        for number, family in enumerate(families.ALL):
            done(number)
            if family not in _KEPT:
                found |= set(self._rows(family, search))
        return frozenset(found)

    def in_files(self, needles: AbstractSet[bytes], done: Callable[[int], None], /) -> Searched:
        search = _Search(needles)
        in_tables = search
        if len(needles) > _FEW:
            in_tables = _Search({needle for needle in needles if len(needle) >= _LONG})
        files = size = 0
        found: set[Trace] = set()
        unreadable: list[str] = []
        for folder in self._folders:
            for path in sorted(_files(folder)):
                done(files)
                name = str(path.relative_to(folder.parent))
                try:
                    for part in _parts(path, search.longest):
                        size += len(part)
                        chosen = in_tables if path.suffix == ".sst" else search
                        found |= {Trace(name, needle) for needle in chosen.found(part)}
                except FileNotFoundError:
                    continue  # a compaction or a merge has removed it
                except OSError:
                    unreadable.append(name)
                    continue
                files += 1
        return Searched(files, size, frozenset(found), tuple(unreadable))

    def _rows(
        self, family: str, search: "_Search", read: Callable[[bytes], bytes] = bytes
    ) -> Iterator[Trace]:
        start = b""
        while rows := self._store.scan(family, start, _LAST, limit=_PAGE):
            for needle in search.found(read(_joined(rows))):
                yield Trace(family, needle)
            start = keys.after(rows[-1][0])


class _Search:
    """Byte strings of six bytes and more, made ready to be looked for."""

    def __init__(self, needles: AbstractSet[bytes]) -> None:
        self.longest = max(map(len, needles), default=0)
        by_width: dict[int, set[bytes]] = {16: set(), 8: set(), 6: set()}
        for needle in needles:
            by_width[next(width for width in by_width if width <= len(needle))].add(needle)
        self._groups = [_Group(each, width) for width, each in by_width.items() if each]

    def found(self, data: bytes) -> set[bytes]:
        padded = data + bytes(16)
        return {needle for group in self._groups for needle in group.found(padded)}


class _Group:
    """Those that are told apart by their first `width` bytes."""

    def __init__(self, needles: AbstractSet[bytes], width: int) -> None:
        self._needles = needles
        self._width = width
        self._lengths: defaultdict[int, set[int]] = defaultdict(set)
        for needle in needles:
            (number,) = self._numbered(needle[:width] + bytes(16 - width))
            self._lengths[int(number)].add(len(needle))
        self._numbers = np.array(sorted(self._lengths), np.uint64)
        # One place in 64 is taken: small, because what a processor has at hand is quick to look up.
        self._shift = np.uint64(64 - 6 - len(self._numbers).bit_length())
        self._table = np.zeros(1 << (64 - int(self._shift)), np.bool_)
        self._table[self._places(self._numbers)] = True

    def found(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _AT_HAND):
            for shift in range(start, min(start + 8, len(data) - 15)):
                numbers = self._numbered(data[shift : shift + _AT_HAND + 8])
                spots = np.flatnonzero(self._table[self._places(numbers)])
                for spot in spots[self._is_one(numbers[spots])]:
                    at = int(spot) * 8 + shift
                    for length in self._lengths[int(numbers[spot])]:
                        if data[at : at + length] in self._needles:
                            yield data[at : at + length]

    def _numbered(self, data: bytes) -> NDArray[np.uint64]:
        """Of every eighth place, a number for the bytes from there on."""
        words: NDArray[np.uint64] = np.frombuffer(data, "<u8", len(data) // 8)
        if self._width == 16:
            return words[:-1] * _SPREAD + words[1:]
        return words[:-1] & np.uint64((1 << 8 * self._width) - 1)

    def _is_one(self, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        next_to = np.searchsorted(self._numbers, numbers)
        found: NDArray[np.bool_] = self._numbers[next_to % len(self._numbers)] == numbers
        return found

    def _places(self, numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
        return ((numbers * _SPREAD) >> self._shift).view(np.int64)


def _plain(text: bytes) -> bytes:
    return b" ".join(text.lower().split())


def _joined(rows: Sequence[Row]) -> bytes:
    return b"\0".join(part for row in rows for part in row)


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            if path.is_file() and not path.is_symlink() and not name.startswith(_WORDS_OF_ROCKSDB):
                yield path


def _parts(path: Path, longest: int) -> Iterator[bytes]:
    """A file piece by piece, each beginning with the end of the one before."""
    tail = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield tail + piece
            tail = (tail + piece)[max(0, len(tail) + len(piece) - longest + 1) :]
