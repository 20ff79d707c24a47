"""Pages: what a change does to the texts of a notes tree.

A note holds the newest records of its commit. When one more does not fit, its records move as they
are into a page of their own, which is rewritten only when one of them changes. So writing costs the
same however much there is.
"""

from collections.abc import Callable, Iterable, Sequence

from agent_memory.features.memories.adapters.git import records, trees
from agent_memory.features.memories.adapters.git.index import NoteIndex
from agent_memory.features.memories.adapters.git.records import Foreign, NoteRecord, Outline, Part
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.kernel.errors import GitFailed
from agent_memory.kernel.ids import Digest

MAX_RECORDS = 64
MAX_BYTES = 256 << 10


class NoteEdit:
    """Changes of one notes ref, to be written together or not at all. `load` gives the text of a
    blob, `parse` its parts."""

    def __init__(
        self, index: NoteIndex, load: Callable[[str], bytes], parse: Callable[[bytes], list[Part]]
    ) -> None:
        self._index = index
        self._load = load
        self._parse = parse
        self.texts: dict[str, bytes | None] = {}  # what is to be at these paths; None: nothing
        self.held: dict[str, str] = {}  # blobs that are to be at these paths as they are
        self.outlines: dict[str, Outline] = {}
        self._places: dict[Digest, tuple[str, ...]] = {}
        self._parts: dict[str, list[Part]] = {}
        self._notes: dict[str, str] = {}
        self._pages: dict[str, int] = {}  # a commit's last that was handed out
        self.added = 0
        self.updated = 0

    def keep(self, memory: Memory, commit: str) -> None:
        """On this commit, unless it stands somewhere already: then merged with what is there."""
        if not self.merge(memory):
            self.add(commit, [records.build_record(memory)])
            self.added += 1

    def merge(self, memory: Memory) -> bool:
        """Merge it with what stands here. False where nothing does."""
        places = self._places_of(memory.digest)
        if not places:
            return False
        whole = memory
        for each in self._copies(memory.digest):
            whole = memories.merge_copies(whole, each)
        self._keep_only(memory.digest, whole)
        return True

    def add(self, commit: str, added: Sequence[NoteRecord]) -> None:
        """To the commit's note; none of them stands anywhere."""
        for each in added:
            path = self._note(commit)
            outline = self._outline(path)
            size = outline.size + len(each.data)
            if outline.count and (outline.count >= MAX_RECORDS or size > MAX_BYTES):
                self._turn_page(commit, path)
                outline = self._outline(path)
            text = self._text(path)
            if text.endswith(b"\n") or not text:
                text += each.data
            else:  # someone's text without an end of line: a record begins on a line of its own
                *before, last = self._parse(text)
                text = records.join([*before, each, last])
            grown = Outline(
                digests=(*outline.digests, each.memory.digest),
                size=outline.size + len(each.data),
                foreign=outline.foreign,
            )
            self._put(path, text, grown)

    def add_foreign(self, commit: str, added: Sequence[Foreign]) -> None:
        """What of this is not in the commit's note already. In an order that is the same wherever
        two notes meet."""
        path = self._note(commit)
        parts = self._parts_of(path)
        present = [each for each in parts if isinstance(each, Foreign)]
        new = [
            each
            for each in added
            if each.data.strip() and not any(_holds(other.data, each.data) for other in present)
        ]
        if not new:
            return
        texts = {each.data.strip(b"\n"): each for each in (*new, *present) if each.data.strip()}
        largest = [
            text for text in texts if not any(text != it and _holds(it, text) for it in texts)
        ]
        kept: list[Part] = [each for each in parts if isinstance(each, NoteRecord)]
        kept.extend(_ensure_newline(texts[text]) for text in sorted(largest))
        self._set(path, kept)

    def merge_text(self, path: str, text: bytes, parts: Sequence[Part]) -> None:
        """What is new in a text of someone else's, which stands there at this path."""
        new: dict[Digest, NoteRecord] = {}
        for each in parts:
            if isinstance(each, Foreign) or self.merge(each.memory):
                continue
            known = new.get(each.memory.digest)
            new[each.memory.digest] = (
                each
                if known is None
                else records.build_record(memories.merge_copies(known.memory, each.memory))
            )
        if len(new) == len(parts) and self._is_free(path):
            self._put(path, text, records.outline(parts))
            return
        commit = trees.parse_path(path).commit
        self.add(commit, list(new.values()))
        self.add_foreign(commit, [each for each in parts if isinstance(each, Foreign)])

    def add_sealed(self, path: str, blob: str) -> None:
        """Someone else's text that is not read: at its path, or on a page where that is taken."""
        commit, page = trees.parse_path(path)
        there = path if self._is_free(path) else self._next_page(commit)
        self.held[there] = blob
        self.outlines[there] = records.SEALED
        if page == trees.NOTE and there == path:
            self._notes.setdefault(commit, path)

    def drop(self, digest: Digest) -> bool:
        """Remove it, but no tombstone: that says nothing, and keeps the memory from coming back."""
        copies = self._copies(digest)
        gone = [each for each in copies if each.status is MemoryStatus.TOMBSTONE]
        if len(gone) == len(copies):
            return False
        self._keep_only(digest, gone[0] if gone else None)
        return True

    def move(self, paths: Iterable[str], commit: str) -> int:
        """The records of these onto another commit. How many."""
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
            self._set(path, [each for each in parts if isinstance(each, Foreign)])
            for each in parts:
                # Git may have copied the note itself, to the commit that replaced this one.
                if isinstance(each, NoteRecord) and not self.merge(each.memory):
                    self.add(commit, [each])
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
        return not any(path in each for each in taken)

    def _turn_page(self, commit: str, path: str) -> None:
        outline, text = self._outline(path), self._text(path)
        if not outline.foreign:
            self._put(path, b"", records.EMPTY)
            self._put(self._next_page(commit), text, outline)
            return
        parts = self._parts_of(path)
        leaving: list[Part] = [each for each in parts if isinstance(each, NoteRecord)]
        self._set(path, [each for each in parts if isinstance(each, Foreign)])
        self._set(self._next_page(commit), leaving)

    def _copies(self, digest: Digest) -> list[Memory]:
        return [
            each.memory
            for path in self._places_of(digest)
            for each in self._parts_of(path)
            if isinstance(each, NoteRecord) and each.memory.digest == digest
        ]

    def _keep_only(self, digest: Digest, memory: Memory | None) -> None:
        """Just this one where there may be copies."""
        record = None if memory is None else records.build_record(memory)
        for path in self._places_of(digest):
            self._replace(path, digest, record)
            record = None

    def _replace(self, path: str, digest: Digest, record: NoteRecord | None) -> None:
        """Put the record where the first with its digest stands; any others of them go."""
        parts: list[Part] = []
        placed = record is None
        for each in self._parts_of(path):
            if isinstance(each, Foreign) or each.memory.digest != digest:
                parts.append(each)
            elif not placed and record is not None:
                placed = True
                parts.append(each if each.memory == record.memory else record)
        if parts != self._parts_of(path):
            self.updated += 1
            self._set(path, parts)

    def _set(self, path: str, parts: Sequence[Part]) -> None:
        self._put(path, records.join(parts) or None, records.outline(parts))
        self._parts[path] = list(parts)

    def _put(self, path: str, text: bytes | None, outline: Outline) -> None:
        for digest in dict.fromkeys(self._outline(path).digests):
            self._places[digest] = tuple(each for each in self._places_of(digest) if each != path)
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
        """Where records are added: the first page that can be, if the note is sealed."""
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
        """The first that is free: a remote's may have any number."""
        path = self._page(commit, self._pages.get(commit, 0) + 1, self._is_free)
        self._pages[commit] = trees.parse_path(path).page
        return path

    def _page(self, commit: str, start: int, suits: Callable[[str], bool]) -> str:
        for number in range(start, trees.MAX_PAGE + 1):
            path = trees.page_path(commit, number)
            if suits(path):
                return path
        raise GitFailed(f"the notes of {commit} have no free page: capture at another commit")


def _ensure_newline(part: Foreign) -> Foreign:
    """What follows begins on a line of its own."""
    if part.data.endswith(b"\n"):
        return part
    return Foreign(data=part.data + b"\n", reason=part.reason)


def _holds(text: bytes, part: bytes) -> bool:
    """Whether the lines of `part` stand in `text`, one after the other."""
    return b"\n" + part.strip(b"\n") + b"\n" in b"\n" + text + b"\n"
