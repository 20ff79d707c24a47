"""Records in notes: nothing is lost or mistaken, and clones converge."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_memory.features.memories.adapters.git import legacy_formats, note_edits, records, trees
from agent_memory.features.memories.adapters.git.index import NoteIndex
from agent_memory.features.memories.adapters.git.note_edits import NoteEdit
from agent_memory.features.memories.adapters.git.records import ForeignText, NoteRecord, Part
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import NAMESPACES, Memory, MemoryStatus
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Domain, Millis
from tests.memory_values import copies, memory
from tests.memory_values import records as any_memories

PROJECT = Domain("project:shop")
ELSEWHERE = Domain("project:shop-of-another-clone")


def parsed(data: bytes, of: Memory) -> list[Part]:
    return records.parse(data, of.domain, of.namespace)


def found(data: bytes, domain: Domain = PROJECT, namespace: str = "decisions") -> list[Memory]:
    parts = records.parse(data, domain, namespace)
    return [each.memory for each in parts if isinstance(each, NoteRecord)]


decisions = st.builds(
    memory,
    st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    st.sampled_from(
        ["", "body", "\n", "---\n", "\r\n---\r\n", "no end", "---\nid: x\nlength: 3\n---\n"]
    )
    | st.text(max_size=30),
)
fragments = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            b"---\n",
            b"\n",
            b"---",
            b"id: decisions:0123456789ab:0\n",
            b"length: 5\n",
            b"namespace: decisions\ndomain: project\n",
            b"---\r\n",
            b"summary: &a [*a]\n",
            b"type: decisions\ntimestamp: '2025-11-03T08:15:30+00:00'\nsummary: x\n",
        ]
    ),
    decisions.map(records.render),
    st.tuples(decisions.map(records.render), st.integers(0, 400)).map(lambda it: it[0][: it[1]]),
    st.tuples(decisions.map(records.render), st.integers(0, 400)).map(lambda it: it[0][it[1] :]),
)
notes = st.lists(fragments, max_size=8).map(b"".join)
lines = (
    st.binary(max_size=30).filter(lambda data: b"---" not in data).map(lambda data: data + b"\n")
)


class TestText:
    @given(any_memories())
    def test_what_is_written_is_read_again(self, created: Memory) -> None:
        (part,) = parsed(records.render(created), created)
        assert isinstance(part, NoteRecord)
        assert part.memory == created

    @given(any_memories(), st.text(max_size=60))
    def test_a_name_is_refused_or_comes_back(self, created: Memory, name: str) -> None:
        try:
            odd = replace(created, event_id=name, session_id=name)
        except InvalidInput:
            return
        (read,) = found(records.render(odd), created.domain, created.namespace)
        told = "" if created.status is MemoryStatus.TOMBSTONE else name  # a tombstone has no text
        assert (read.digest, read.event_id, read.session_id) == (created.digest, told, told)

    @given(any_memories())
    def test_no_clone_tells_its_own_name_for_the_project(self, created: Memory) -> None:
        here, there = replace(created, domain=PROJECT), replace(created, domain=ELSEWHERE)
        assert records.render(here) == records.render(there)

    @given(notes)
    @example(b"")
    @example(b"---\n---\n---\n")
    def test_the_parts_of_any_text_are_the_text(self, data: bytes) -> None:
        parts = records.parse(data, PROJECT, "decisions")
        assert records.join(parts) == data
        assert all(part.data for part in parts)

    @given(st.lists(st.tuples(lines, decisions), max_size=4), lines)
    def test_records_are_found_among_whatever_people_write(
        self, pairs: list[tuple[bytes, Memory]], last: bytes
    ) -> None:
        data = b"".join(text + records.render(created) for text, created in pairs) + last
        assert found(data) == [created for _, created in pairs]

    @given(st.lists(decisions, min_size=1, max_size=3), lines)
    def test_a_record_in_the_content_of_another_is_content(
        self, inner: list[Memory], between: bytes
    ) -> None:
        quoted = between.join(map(records.render, inner)).decode("utf-8", "replace")
        outer = memory("outer", quoted)
        assert found(records.render(outer)) == [outer]

    @given(decisions, st.data())
    def test_a_damaged_record_never_says_something_else(
        self, created: Memory, data: st.DataObject
    ) -> None:
        text = bytearray(records.render(created))
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
        for each in found(bytes(text)):
            assert (each.summary, each.content) == (created.summary, created.content)

    @given(decisions, st.data())
    def test_a_shortened_record_is_kept_as_it_is_and_hides_none_after_it(
        self, created: Memory, data: st.DataObject
    ) -> None:
        text = records.render(created)
        cut = text[: data.draw(st.integers(1, len(text) - 1))]
        whole = memory("whole", "after it")
        assert whole in found(cut + b"\n" + records.render(whole))

    def test_front_matter_is_in_one_order_without_what_is_empty(self) -> None:
        created = memory("Use: it", "body", tags=frozenset({"b", "a"}), commit="c" * 40)
        assert records.render(created).decode() == (
            f"---\nid: {created.id}\nnamespace: decisions\ndomain: project\nsummary: 'Use: it'\n"
            "timestamp: '2023-11-14T22:13:20.000Z'\nupdated_at: '2023-11-14T22:13:20.000Z'\n"
            f"tags:\n- a\n- b\nstatus: active\ncommit: {'c' * 40}\nlength: 4\n---\nbody\n"
        )

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ((b"length: 4", b"length: 400"), records.CUT),
            ((b"length: 4", b"length: 999999"), records.WRONG),
            ((b"length: 4", b"length: -1"), records.WRONG),
            ((b"\nbody", b"\nBODY"), records.CHANGED),
            ((b"\nbody", b"\n\xff\xffdy"), records.CHANGED),
            ((b"summary: x", b"summary: y"), records.CHANGED),
            ((b"summary: x", b"summary: \xff"), records.UNREADABLE),
            ((b"summary: x", b"summary: 'x"), records.UNREADABLE),
            ((b"summary: x", b"summary: !!python/object:os.system x"), records.UNREADABLE),
            ((b"summary: x", b"summary: &a x\nspec: *a"), records.UNREADABLE),
            ((b"summary: x", b"summary: " + b"[" * 60_000), records.UNREADABLE),
            ((b"summary: x", b"summary:   " + b"[" * 60_000), records.UNREADABLE),
            ((b"summary: x", b"summary: x\r" + b"[" * 60_000), records.UNREADABLE),
            ((b"summary: x", b"tags:\n- " + b"- " * 30_000 + b"x"), records.UNREADABLE),
            ((b"summary: x", b"summary: " + b"x" * 140_000), records.NOT_OURS),
            ((b"summary: x", b"summary: x\ntags:\n- a: b"), records.UNREADABLE),
            ((b"status: active", b"status: busy"), records.WRONG),
            ((b"status: active", b"status: active\nevent_id: " + b"e" * 999), records.UNREADABLE),
            ((b"status: active", b"status: active\ncommit: abc"), records.WRONG),
            ((b"status: active", b"status: active\nrelates_to:\n- nobody"), records.WRONG),
            ((b"status: active", b"status: active\ntags:\n- a,b"), records.WRONG),
            ((b"20.000Z", b"20Z"), records.WRONG),
            ((b"2023-11-14", b"2023-13-14"), records.WRONG),
            ((b"domain: project", b"domain: user"), records.ELSEWHERE),
            ((b"namespace: decisions", b"namespace: learnings"), records.ELSEWHERE),
        ],
    )
    def test_what_is_no_record_says_why(self, change: tuple[bytes, bytes], reason: str) -> None:
        text = records.render(memory("x", "body")).replace(*change)
        (part,) = records.parse(text, PROJECT, "decisions")
        assert part == ForeignText(data=text, reason=reason)

    def test_a_tombstone_must_say_what_it_stands_for(self) -> None:
        gone = memories.build_tombstone(memory("x", "body"), Millis(1_800_000_000_000))
        text = records.render(gone)
        assert found(text) == [gone]
        assert found(text.replace(gone.digest.encode(), b"0" * 64)) == []
        assert found(text.replace(b"length: 0\n---\n", b"length: 4\n---\nbody")) == []

    def test_hostile_texts_take_no_longer_than_long_ones(self) -> None:
        """Each claims a content that spans all that follow; hashing is bounded."""
        claim = records.render(memory("x", "y" * 99_000))[:-99_001]
        texts = claim * 400 + b"\n" * 100_000
        assert found(texts + records.render(memory("z"))) in ([], [memory("z")])


@dataclass
class Clone:
    """Notes without git: blobs by hash, and their paths."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    index: NoteIndex = field(default_factory=NoteIndex)

    def change(self, how: Callable[[NoteEdit], None]) -> None:
        edit = NoteEdit(self.index, self.blobs.__getitem__, parse_here)
        how(edit)
        for path, text in edit.texts.items():
            if text:
                name = hashlib.sha256(text).hexdigest()
                self.blobs[name] = text
                self.index.put(path, name, edit.outlines[path])
            else:
                self.index.remove(path)

    def keep(self, created: Memory, commit: str) -> None:
        self.change(lambda edit: edit.keep(created, commit))

    def unite(self, other: "Clone") -> None:
        def take(edit: NoteEdit) -> None:
            known = set(self.index.blobs.values())
            for path, blob in other.index.blobs.items():
                if blob not in known:
                    text = other.blobs[blob]
                    edit.merge_text(path, text, parse_here(text))

        self.change(take)

    def append(self, text: bytes, commit: str) -> None:
        """Append as `git notes append` does."""
        path = self.index.notes.get(commit) or trees.note_path(commit)
        present = self.blobs[self.index.blobs[path]] + b"\n" if path in self.index.blobs else b""
        data = present + text
        name = hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        self.index.put(path, name, records.build_outline(parse_here(data)))

    def texts(self) -> list[bytes]:
        return [self.blobs[blob] for blob in self.index.blobs.values()]

    def everything(self) -> list[Memory]:
        return [each for text in self.texts() for each in found(text)]


def parse_here(text: bytes) -> list[Part]:
    return records.parse(text, PROJECT, "decisions")


def agrees(clone: Clone) -> bool:
    """Check that each outline equals what a reader would find."""
    read = {
        path: records.build_outline(parse_here(clone.blobs[blob]))
        for path, blob in clone.index.blobs.items()
    }
    places: dict[str, set[str]] = {}
    for path, outline in read.items():
        for digest in outline.digests:
            places.setdefault(digest, set()).add(path)
    known = {digest: set(paths) for digest, paths in clone.index.places.items()}
    return clone.index.outlines == read and known == places


COMMITS = ("a" * 40, "b" * 40)
SAID = [memory(f"number {number}", "---\n" * number) for number in range(6)]
steps = st.one_of(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(SAID).flatmap(copies),
        st.sampled_from(COMMITS),
    ),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([b"by hand\n", b"by hand\n\nand more\n", b"---\ntype: decisions\n"]),
        st.sampled_from(COMMITS),
    ),
)


class TestPages:
    @settings(max_examples=12, deadline=None)
    @given(st.lists(st.integers(1, 90), min_size=1, max_size=4), st.data())
    def test_however_they_come_each_stands_once_and_pages_stay_small(
        self, sizes: list[int], data: st.DataObject
    ) -> None:
        clone = Clone()
        everything = [memory(f"number {number}") for number in range(sum(sizes))]
        waiting = list(everything)
        for size in sizes:
            group, waiting = waiting[:size], waiting[size:]

            def keep(edit: NoteEdit, group: Sequence[Memory] = group) -> None:
                for each in group:
                    edit.keep(each, COMMITS[0])

            clone.change(keep)
            if data.draw(st.booleans()):
                clone.append(b"by hand\n", COMMITS[0])
        stored = clone.everything()
        assert len(stored) == len(everything)
        assert set(stored) == set(everything)
        assert all(len(found(text)) <= note_edits.MAX_RECORDS for text in clone.texts())
        newest = clone.blobs[clone.index.blobs[clone.index.notes[COMMITS[0]]]]
        assert everything[-1] in found(newest)
        assert agrees(clone)

    @settings(max_examples=12, deadline=None)
    @given(st.sets(st.sampled_from([1, 2, 3, 5, trees.MAX_PAGE - 1, trees.MAX_PAGE]), min_size=1))
    def test_whatever_numbers_are_taken_the_first_free_one_is_next(self, taken: set[int]) -> None:
        clone, before = Clone(), []
        for number in taken:
            before.append(memory(f"on page {number}"))
            path = trees.page_path(COMMITS[0], number)
            text = records.render(before[-1])

            def take(edit: NoteEdit, path: str = path, text: bytes = text) -> None:
                edit.merge_text(path, text, parse_here(text))

            clone.change(take)
        fresh = [memory(f"number {number}") for number in range(3 * note_edits.MAX_RECORDS)]

        def keep(edit: NoteEdit) -> None:
            for each in fresh:
                edit.keep(each, COMMITS[0])

        clone.change(keep)
        numbers = {trees.parse_path(path).page for path in clone.index.blobs} - {trees.NOTE}
        free = [number for number in range(1, 9) if number not in taken]
        assert numbers == taken | set(free[:2])
        assert set(clone.everything()) == {*before, *fresh}
        assert agrees(clone)

    def test_a_text_that_is_not_read_is_never_added_to(self) -> None:
        clone = Clone(blobs={"long": b"never looked at"})
        note = trees.note_path(COMMITS[0])
        clone.index.put(note, "long", records.SEALED)
        fresh = [memory(f"number {number}") for number in range(2 * note_edits.MAX_RECORDS + 1)]
        for start in range(0, len(fresh), 50):

            def keep(edit: NoteEdit, start: int = start) -> None:
                for each in fresh[start : start + 50]:
                    edit.keep(each, COMMITS[0])

            clone.change(keep)
        clone.change(
            lambda edit: edit.add_foreign(COMMITS[0], [ForeignText(data=b"x\n", reason="y")])
        )
        assert clone.index.blobs[note] == "long"
        assert set(clone.everything()) == set(fresh)
        assert len(clone.index.blobs) == 4

    @pytest.mark.parametrize("note", [True, False])
    def test_one_that_is_not_read_is_taken_as_it_is(self, note: bool) -> None:
        clone = Clone()
        clone.keep(memory("ours"), COMMITS[0])
        path = trees.note_path(COMMITS[0]) if note else trees.page_path(COMMITS[0], 1)
        edit = NoteEdit(clone.index, clone.blobs.__getitem__, parse_here)
        edit.add_sealed(path, "long")
        edit.add_sealed(trees.note_path(COMMITS[1]), "other")
        edit.merge_text(trees.note_path(COMMITS[1]), b"x\n", parse_here(b"x\n"))
        assert edit.held == {
            trees.page_path(COMMITS[0], 1): "long",
            trees.note_path(COMMITS[1]): "other",
        }
        assert edit.texts == {trees.page_path(COMMITS[1], 1): b"x\n"}


class TestClones:
    @settings(max_examples=settings().max_examples, deadline=None)
    @given(st.lists(steps, max_size=25), st.permutations(range(3)), st.permutations(range(3)))
    def test_they_converge_in_whatever_order_they_meet(
        self, script: list[tuple[object, ...]], order: list[int], again: list[int]
    ) -> None:
        clones = [Clone() for _ in range(3)]
        expected: dict[str, Memory] = {}
        texts: set[bytes] = set()
        for step in script:
            match step:
                case (int(here), Memory() as created, str(commit)):
                    clones[here].keep(created, commit)
                    known = expected.get(created.digest)
                    expected[created.digest] = (
                        memories.merge_copies(known, created) if known else created
                    )
                case (int(here), int(there)):
                    clones[here].unite(clones[there])
                case (int(here), bytes(text), str(commit)):
                    clones[here].append(text, commit)
                    texts.add(text)
        for here in (*order, *again):
            for there in range(3):
                clones[here].unite(clones[there])
        for clone in clones:
            stored = clone.everything()
            assert len(stored) == len(expected)
            assert {each.digest: each for each in stored} == expected
            assert all(any(text in note for note in clone.texts()) for text in texts)
            assert agrees(clone)
        before = [list(clone.index.blobs.values()) for clone in clones]
        for here in order:
            for there in again:
                clones[here].unite(clones[there])
        assert before == [list(clone.index.blobs.values()) for clone in clones]


ENTRY = "---\ntype: {0}\ntimestamp: '{1}'\nsummary: {2}\n{3}---\n\n{4}\n"


class TestEarlierLayouts:
    def test_entries_are_read_with_all_they_hold(self) -> None:
        text = ENTRY.format(
            "blockers",
            "2025-11-03T09:00:00.100000+00:00",
            "Build host runs out of inodes when two nightly jobs\n  overlap",
            "spec: nightly\nphase: build\ntags:\n- ci\n- disk, full\nstatus: resolved\n"
            "relates_to:\n- decisions:1a2b3c4:0\n- learnings:1a2b3c4:1765368000500\n",
            "Cause found.\n\n---\n\nA rule above.",
        )
        (draft,) = legacy_formats.parse_drafts(text.encode())
        assert draft.namespace == "blockers"
        assert draft.summary == "Build host runs out of inodes when two nightly jobs overlap"
        assert draft.content == "Cause found.\n\n---\n\nA rule above."
        assert draft.created_ms == 1_762_160_400_100
        assert draft.spec == "nightly"
        assert draft.tags == {"ci", "disk full"}
        assert draft.status is MemoryStatus.RESOLVED
        assert draft.relates_to == ("decisions:1a2b3c4:0",)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(NAMESPACES),
                st.integers(0, 10**12),
                st.from_regex(r"[A-Za-z][a-z ]{0,80}[a-z]", fullmatch=True),
                st.text(
                    st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n-"),
                    max_size=60,
                ),
            ),
            max_size=5,
            unique_by=lambda entry: entry[1],
        )
    )
    def test_all_entries_of_a_note_are_found_in_order(
        self, entries: list[tuple[str, int, str, str]]
    ) -> None:
        text = "\n".join(
            ENTRY.format(
                name, f"{1970 + at % 60}-01-01T00:00:00.{at % 10**6:06}Z", summary, "", body
            )
            for name, at, summary, body in entries
        )
        drafts = legacy_formats.parse_drafts(text.encode())
        told = [(each.namespace, each.summary, each.content) for each in drafts]
        assert list(dict.fromkeys(told)) == list(
            dict.fromkeys(
                (name, " ".join(line.split()), body.rstrip("\n")) for name, _, line, body in entries
            )
        )

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "by hand",
            "---\ntype: decisions\n",
            "---\ntype: unheard-of\ntimestamp: '2025-11-03T09:00:00Z'\nsummary: x\n---\n",
            "---\ntype: decisions\ntimestamp: 'yesterday'\nsummary: x\n---\n",
            "---\ntype: decisions\ntimestamp: '2025-11-03T09:00:00Z'\nsummary: ''\n---\n",
            "---\ntype: decisions\nstatus: tombstone\ntimestamp: '2025-11-03'\nsummary: x\n---\n",
            "---\ntype: decisions\ntimestamp: '2025-11-03T09:00:00Z'\nsummary: "
            + "[" * 50_000
            + "\n---\n",
            # what cat_sort_uniq leaves of two
            "\n---\nBody.\nsummary: a\nsummary: b\ntimestamp: '1'\ntimestamp: '2'\ntype: reviews\n",
        ],
    )
    def test_what_is_no_entry_gives_nothing(self, text: str) -> None:
        assert legacy_formats.parse_drafts(text.encode()) == []

    @given(notes)
    def test_no_text_does_harm(self, data: bytes) -> None:
        legacy_formats.parse_drafts(data)

    def test_long_summaries_are_cut_and_copies_are_one(self) -> None:
        text = ENTRY.format("decisions", "2025-11-03T09:00:00Z", "word " * 40, "", "body")
        (draft,) = legacy_formats.parse_drafts((text + "\n" + text).encode())
        assert len(draft.summary) <= memories.MAX_SUMMARY_CHARS
        assert draft.summary.endswith("…")

    def test_text_after_an_entry_is_of_its_content(self) -> None:
        text = ENTRY.format("blockers", "2025-11-03T09:00:00Z", "x", "spec: null\n", "body")
        (draft,) = legacy_formats.parse_drafts((text + "\n## Resolution\n\nDone.\n").encode())
        assert draft.content == "body\n\n## Resolution\n\nDone."
        assert draft.spec == ""
