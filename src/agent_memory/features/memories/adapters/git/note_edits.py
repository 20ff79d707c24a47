"""Edits: apply changes to the texts of a notes tree.

A note holds the newest records of its commit. When it is full, its records move unchanged into a
page of their own, which is rewritten only when one of them changes. So a write costs the same,
however much there is.
"""

from collections.abc import Callable, Iterable, Sequence

from agent_memory.features.memories.adapters.git import records, trees
from agent_memory.features.memories.adapters.git.index import NoteIndex
from agent_memory.features.memories.adapters.git.records import (
    ForeignText,
    NoteRecord,
    Outline,
    Part,
)
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.kernel.errors import GitFailed
from agent_memory.kernel.ids import Digest

MAX_RECORDS = 64
MAX_BYTES = 256 << 10


class NoteEdit:
    """Changes of one notes ref, written together or not at all. `load` returns a blob's text."""

    def __init__(
        self, index: NoteIndex, load: Callable[[str], bytes], parse: Callable[[bytes], list[Part]]
    ) -> None:
        self._index = index
        self._load = load
        self._parse = parse
        self.texts: dict[str, bytes | None] = {}  # new texts by path; None removes
        self.held: dict[str, str] = {}  # existing blobs to put at these paths
        self.outlines: dict[str, Outline] = {}
        self._places: dict[Digest, tuple[str, ...]] = {}
        self._parts: dict[str, list[Part]] = {}
        self._notes: dict[str, str] = {}
        self._pages: dict[str, int] = {}  # last page assigned, by commit
        self.added = 0
        self.updated = 0

    def keep(self, memory: Memory, commit: str) -> None:
        """Write the memory on this commit, or merge it with the copy that the notes have."""
        if not self.merge(memory):
            self.add(commit, [records.build_record(memory)])
            self.added += 1

    def merge(self, memory: Memory) -> bool:
        """Merge the memory with its copies in the notes. Return False if there are none."""
        places = self._places_of(memory.digest)
        if not places:
            return False
        merged = memory
        for copy in self._copies(memory.digest):
            merged = memories.merge_copies(merged, copy)
        self._keep_only(memory.digest, merged)
        return True

    def add(self, commit: str, new_records: Sequence[NoteRecord]) -> None:
        """Append records to the commit's note; none of them may be in the notes already."""
        for record in new_records:
            path = self._note(commit)
            outline = self._outline(path)
            size = outline.size + len(record.data)
            if outline.count and (outline.count >= MAX_RECORDS or size > MAX_BYTES):
                self._turn_page(commit, path)
                outline = self._outline(path)
            text = self._text(path)
            if text.endswith(b"\n") or not text:
                text += record.data
            else:  # foreign text without a final newline: a record begins on its own line
                *before, last = self._parse(text)
                text = records.join([*before, record, last])
            extended = Outline(
                digests=(*outline.digests, record.memory.digest),
                size=outline.size + len(record.data),
                foreign=outline.foreign,
            )
            self._put(path, text, extended)

    def add_foreign(self, commit: str, added: Sequence[ForeignText]) -> None:
        """Add foreign text that the commit's note lacks, in the same order for all clones."""
        path = self._note(commit)
        parts = self._parts_of(path)
        present = [part for part in parts if isinstance(part, ForeignText)]
        new = [
            part
            for part in added
            if part.data.strip() and not any(_holds(other.data, part.data) for other in present)
        ]
        if not new:
            return
        texts = {part.data.strip(b"\n"): part for part in (*new, *present) if part.data.strip()}
        largest = [
            text for text in texts if not any(text != it and _holds(it, text) for it in texts)
        ]
        merged: list[Part] = [part for part in parts if isinstance(part, NoteRecord)]
        merged.extend(_ensure_newline(texts[text]) for text in sorted(largest))
        self._set(path, merged)

    def merge_text(self, path: str, text: bytes, parts: Sequence[Part]) -> None:
        """Merge what is new in someone else's text, which has this path there."""
        new: dict[Digest, NoteRecord] = {}
        for part in parts:
            if isinstance(part, ForeignText) or self.merge(part.memory):
                continue
            known = new.get(part.memory.digest)
            new[part.memory.digest] = (
                part
                if known is None
                else records.build_record(memories.merge_copies(known.memory, part.memory))
            )
        if len(new) == len(parts) and self._is_free(path):
            self._put(path, text, records.build_outline(parts))
            return
        commit = trees.parse_path(path).commit
        self.add(commit, list(new.values()))
        self.add_foreign(commit, [part for part in parts if isinstance(part, ForeignText)])

    def add_sealed(self, path: str, blob: str) -> None:
        """Add someone else's text unread: at its path, or on a page if the path is taken."""
        commit, page = trees.parse_path(path)
        target = path if self._is_free(path) else self._next_page(commit)
        self.held[target] = blob
        self.outlines[target] = records.SEALED
        if page == trees.NOTE and target == path:
            self._notes.setdefault(commit, path)

    def drop(self, digest: Digest) -> bool:
        """Remove a memory, but not its tombstone, which keeps the memory from coming back."""
        copies = self._copies(digest)
        tombstones = [copy for copy in copies if copy.status is MemoryStatus.TOMBSTONE]
        if len(tombstones) == len(copies):
            return False
        self._keep_only(digest, tombstones[0] if tombstones else None)
        return True

    def move(self, paths: Iterable[str], commit: str) -> int:
        """Move the records at these paths to another commit. Return their number."""
        moved = 0
        for path in paths:
            outline = self._outline(path)
            moved += outline.count
            page = trees.parse_path(path).page
            if page != trees.NOTE and not outline.foreign and self._only_here(outline):
                text = self._text(path)
                self._put(path, None, records.EMPTY)
                self._put(self._next_page(commit), text, outline)
                continue
            parts = self._parts_of(path)
            self._set(path, [part for part in parts if isinstance(part, ForeignText)])
            for part in parts:
                # Git itself may have copied the note to the commit that replaced this one.
                if isinstance(part, NoteRecord) and not self.merge(part.memory):
                    self.add(commit, [part])
        return moved

    def _only_here(self, outline: Outline) -> bool:
        return len(set(outline.digests)) == outline.count and all(
            len(self._places_of(digest)) == 1 for digest in outline.digests
        )

    def _is_free(self, path: str) -> bool:
        commit, page = trees.parse_path(path)
        if page == trees.NOTE:
            note = self._own_note(commit)
            return not self._outline(note).sealed and not self._text(note)
        taken = (self.texts, self.held, self._index.blobs, self._index.others)
        return not any(path in paths for paths in taken)

    def _turn_page(self, commit: str, path: str) -> None:
        outline, text = self._outline(path), self._text(path)
        if not outline.foreign:
            self._put(path, b"", records.EMPTY)
            self._put(self._next_page(commit), text, outline)
            return
        parts = self._parts_of(path)
        moving: list[Part] = [part for part in parts if isinstance(part, NoteRecord)]
        self._set(path, [part for part in parts if isinstance(part, ForeignText)])
        self._set(self._next_page(commit), moving)

    def _copies(self, digest: Digest) -> list[Memory]:
        return [
            part.memory
            for path in self._places_of(digest)
            for part in self._parts_of(path)
            if isinstance(part, NoteRecord) and part.memory.digest == digest
        ]

    def _keep_only(self, digest: Digest, memory: Memory | None) -> None:
        """Replace all copies by this one."""
        record = None if memory is None else records.build_record(memory)
        for path in self._places_of(digest):
            self._replace(path, digest, record)
            record = None

    def _replace(self, path: str, digest: Digest, record: NoteRecord | None) -> None:
        """Put the record in the place of the first with its digest, and remove the others."""
        parts: list[Part] = []
        placed = record is None
        for part in self._parts_of(path):
            if isinstance(part, ForeignText) or part.memory.digest != digest:
                parts.append(part)
            elif not placed and record is not None:
                placed = True
                parts.append(part if part.memory == record.memory else record)
        if parts != self._parts_of(path):
            self.updated += 1
            self._set(path, parts)

    def _set(self, path: str, parts: Sequence[Part]) -> None:
        self._put(path, records.join(parts) or None, records.build_outline(parts))
        self._parts[path] = list(parts)

    def _put(self, path: str, text: bytes | None, outline: Outline) -> None:
        for digest in dict.fromkeys(self._outline(path).digests):
            self._places[digest] = tuple(p for p in self._places_of(digest) if p != path)
        for digest in dict.fromkeys(outline.digests):
            self._places[digest] = (*self._places_of(digest), path)
        self._parts.pop(path, None)
        self.texts[path] = text
        self.outlines[path] = outline
        commit, page = trees.parse_path(path)
        if page == trees.NOTE:
            self._notes.setdefault(commit, path)

    def _parts_of(self, path: str) -> list[Part]:
        if path not in self._parts:
            self._parts[path] = self._parse(self._text(path))
        return self._parts[path]

    def _places_of(self, digest: Digest) -> tuple[str, ...]:
        if digest in self._places:
            return self._places[digest]
        return self._index.places.get(digest, ())

    def _outline(self, path: str) -> Outline:
        return self.outlines.get(path) or self._index.outlines.get(path, records.EMPTY)

    def _text(self, path: str) -> bytes:
        if path in self.texts:
            return self.texts[path] or b""
        blob = self._index.blobs.get(path)
        return b"" if blob is None else self._load(blob)

    def _note(self, commit: str) -> str:
        """Return the path to append to: the note, or if sealed, its first usable page."""
        note = self._own_note(commit)
        if not self._outline(note).sealed:
            return note
        return self._page(
            commit,
            1,
            lambda path: not self._outline(path).sealed and path not in self._index.others,
        )

    def _own_note(self, commit: str) -> str:
        known = self._index.notes.get(commit) or self._notes.get(commit)
        return known or trees.note_path(commit)

    def _next_page(self, commit: str) -> str:
        """Return the first free page: a remote's pages may have any number."""
        path = self._page(commit, self._pages.get(commit, 0) + 1, self._is_free)
        self._pages[commit] = trees.parse_path(path).page
        return path

    def _page(self, commit: str, start: int, suits: Callable[[str], bool]) -> str:
        for number in range(start, trees.MAX_PAGE + 1):
            path = trees.page_path(commit, number)
            if suits(path):
                return path
        raise GitFailed(f"the notes of {commit} have no free page: capture on another commit")


def _ensure_newline(part: ForeignText) -> ForeignText:
    """End the part with a newline, so that the next one begins on its own line."""
    if part.data.endswith(b"\n"):
        return part
    return ForeignText(data=part.data + b"\n", reason=part.reason)


def _holds(text: bytes, part: bytes) -> bool:
    """Return whether the lines of `part` occur in `text`, in a row."""
    return b"\n" + part.strip(b"\n") + b"\n" in b"\n" + text + b"\n"
