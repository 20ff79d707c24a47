"""Search the rows of a store and the bytes of files for many byte strings at once."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent_memory.features.forgetting.model.forgetting import FileSearch, NeedleMatch
from agent_memory.platform.ports import KeySpan, OrderedStore
from agent_memory.platform.store import families, keys
from agent_memory.platform.store.rows import iter_pages

if TYPE_CHECKING:
    from agent_memory.features.forgetting.adapters.byte_search import ByteSearch

_PAGE = 500
_CHUNK = 4 << 20
# Tables are compressed, and compression puts pieces of words side by side. Some short strings
# are then found by chance, so only long ones count there; rows are searched uncompressed anyway.
_FEW = 1_000
_LONG = 32
# Everything else is derived from events and memories. Facts are asserted by their callers, and
# graph states belong to their programs.
_KEPT = (families.EVENTS, families.MEMORIES, families.FACTS, families.GRAPH_CHECKPOINTS)
# files with RocksDB's own words, which may be those of an event; RocksDB writes no values there
_WORDS_OF_ROCKSDB = ("LOG", "OPTIONS-")


@dataclass(frozen=True, slots=True)
class StoredTraces:
    """A search of a store and of the folders that exist at the time. `spans` divides families whose
    rows are too large to read by the page."""

    store: OrderedStore
    folders: Callable[[], Sequence[Path]]
    spans: Mapping[str, Sequence[KeySpan]] = field(default_factory=dict)

    def search_kept(self, needles: AbstractSet[bytes], /) -> frozenset[bytes]:
        """Find needles in any case and with any blanks between words: derived text has them so."""
        by_look: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for needle in needles:
            by_look[_normalize(needle)].add(needle)
        search = _search(by_look.keys())
        found = (trace for family in _KEPT for trace in self._rows(family, search, _normalize))
        return frozenset(needle for trace in found for needle in by_look[trace.needle])

    def search_rows(
        self, needles: AbstractSet[bytes], on_progress: Callable[[int], None], /
    ) -> frozenset[NeedleMatch]:
        search = _search(needles)
        found: set[NeedleMatch] = set()
        for number, family in enumerate(families.ALL):
            on_progress(number)
            if family not in _KEPT:
                found |= set(self._rows(family, search))
        return frozenset(found)

    def search_files(
        self, needles: AbstractSet[bytes], on_progress: Callable[[int], None], /
    ) -> FileSearch:
        search = _search(needles)
        in_tables = search
        if len(needles) > _FEW:
            in_tables = _search({needle for needle in needles if len(needle) >= _LONG})
        files = size = 0
        found: set[NeedleMatch] = set()
        unreadable: list[str] = []
        for folder in self.folders():
            for path in sorted(_files(folder)):
                on_progress(files)
                name = str(path.relative_to(folder.parent))
                try:
                    for part in _parts(path, search.longest):
                        size += len(part)
                        chosen = in_tables if path.suffix == ".sst" else search
                        found |= {NeedleMatch(name, needle) for needle in chosen.find(part)}
                except FileNotFoundError:
                    continue  # removed by a compaction or a merge
                except OSError:
                    unreadable.append(name)
                    continue
                files += 1
        return FileSearch(files, size, frozenset(found), tuple(unreadable))

    def _rows(
        self, family: str, search: "ByteSearch", read: Callable[[bytes], bytes] = bytes
    ) -> Iterator[NeedleMatch]:
        whole = KeySpan(family, b"", keys.LAST, _PAGE)
        for _, start, end, limit in self.spans.get(family, (whole,)):
            for rows in iter_pages(self.store, family, start, end, limit=limit):
                for needle in search.find(read(b"\0".join(part for row in rows for part in row))):
                    yield NeedleMatch(family, needle)


def _search(needles: AbstractSet[bytes]) -> "ByteSearch":
    # numpy takes a tenth of a second to load, and is needed only here.
    from agent_memory.features.forgetting.adapters.byte_search import ByteSearch  # noqa: PLC0415

    return ByteSearch(needles)


def _normalize(text: bytes) -> bytes:
    return b" ".join(text.lower().split())


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            if path.is_file() and not path.is_symlink() and not name.startswith(_WORDS_OF_ROCKSDB):
                yield path


def _parts(path: Path, longest: int) -> Iterator[bytes]:
    """Yield a file in pieces, each starting with the end of the one before."""
    tail = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield tail + piece
            tail = (tail + piece)[max(0, len(tail) + len(piece) - longest + 1) :]
