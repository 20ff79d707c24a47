"""Memories: parsing inverts naming, and merging does not depend on order."""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import HEX_CHARS, Memory, MemoryStatus, Reference
from agent_memory.features.memories.model.name_changes import NameSet
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Domain, Millis
from tests.memory_values import copies, domains, memory, names, namespaces, records, times

hexes = st.from_regex(r"[0-9a-f]{12}", fullmatch=True)


class TestNames:
    @given(domains, namespaces, hexes, st.integers(0, 9999))
    def test_parsing_a_urn_is_the_inverse_of_building_it(
        self, domain: Domain, namespace: str, name: str, index: int
    ) -> None:
        urn = memories.build_urn(domain, namespace, name, index)
        parsed = Reference(domain, namespace, name, index)
        assert memories.parse_urn(urn) == parsed
        assert memories.parse_urn(urn.replace(":", "%3A").replace("subcog%3A", "subcog:")) == parsed
        assert memories.parse_reference(urn) == parsed

    @given(records())
    def test_a_memory_is_known_by_its_id_its_urn_and_its_first_digits(
        self, created: Memory
    ) -> None:
        start = created.digest[:HEX_CHARS]
        assert memories.parse_reference(created.id) == Reference(None, created.namespace, start, 0)
        assert memories.parse_urn(created.urn) == Reference(
            created.domain, created.namespace, start, 0
        )
        assert memories.parse_reference(created.digest[:6]).hex == created.digest[:6]
        end = created.urn.rpartition("/")[2]
        assert memories.parse_reference(end) == Reference(None, None, start, 0)

    @given(st.text(max_size=200))
    def test_any_text_is_a_name_or_is_refused(self, text: str) -> None:
        try:
            found = memories.parse_reference(text)
        except InvalidInput:
            return
        assert found.hex

    @given(st.text(max_size=200))
    def test_any_name_of_a_folder_gives_a_project(self, text: str) -> None:
        memories.check_domain(f"project:{memories.to_project_name(text)}")

    @given(records(), records())
    def test_what_says_the_same_has_the_same_digest_and_only_that(
        self, one: Memory, other: Memory
    ) -> None:
        def said(memory: Memory) -> tuple[str, ...]:
            return memory.namespace, memory.summary, memory.content, memory.spec

        if MemoryStatus.TOMBSTONE not in (one.status, other.status):
            assert (said(one) == said(other)) == (one.digest == other.digest)

    def test_nothing_can_move_from_one_part_into_the_next(self) -> None:
        assert memory("ab", "c").digest != memory("a", "bc").digest


@st.composite
def three(draw: st.DrawFn) -> list[Memory]:
    created = draw(records().filter(lambda each: each.status is not MemoryStatus.TOMBSTONE))
    return [draw(copies(created)) for _ in range(3)]


def expect_names(of: list[Memory], get: Callable[[Memory], NameSet]) -> frozenset[str]:
    """The names that some copy has, unless the last change of the name removed it."""
    sets = [get(each) for each in of]
    found = set()
    for name in frozenset[str]().union(*(each.names for each in sets)):
        last = max(dict(each.changes).get(name, 0) for each in sets)
        if any(name in each.names and dict(each.changes).get(name, 0) == last for each in sets):
            found.add(name)
    return frozenset(found)


class TestMerging:
    @given(three())
    def test_order_does_not_matter(self, of: list[Memory]) -> None:
        one, two, other = of
        assert memories.merge_copies(one, two) == memories.merge_copies(two, one)
        assert memories.merge_copies(
            memories.merge_copies(one, two), other
        ) == memories.merge_copies(one, memories.merge_copies(two, other))

    @given(three())
    def test_merging_again_changes_nothing(self, of: list[Memory]) -> None:
        whole = reduce(memories.merge_copies, of)
        assert memories.merge_copies(whole, whole) == whole
        for each in of:
            assert memories.merge_copies(whole, each) == whole

    @given(three())
    def test_a_tombstone_wins_and_says_nothing(self, of: list[Memory]) -> None:
        whole = reduce(memories.merge_copies, of)
        if any(each.status is MemoryStatus.TOMBSTONE for each in of):
            assert whole.status is MemoryStatus.TOMBSTONE
            assert (whole.summary, whole.content, whole.tags, whole.relates_to) == (
                "", "", frozenset(), (),
            )  # fmt: skip

    @given(three())
    def test_the_later_change_counts_and_the_earlier_origin_stays(self, of: list[Memory]) -> None:
        whole = reduce(memories.merge_copies, of)
        assert whole.created_ms == min(each.created_ms for each in of)
        # What one of them has accepted is settled, whenever another noted it.
        deciding = [each for each in of if not each.is_pending] or of
        latest = max(each.updated_ms for each in deciding)
        assert whole.updated_ms == latest
        if whole.status is not MemoryStatus.TOMBSTONE:
            assert whole.tags == expect_names(of, lambda each: each.tag_set)
            assert whole.relates_to == tuple(
                sorted(expect_names(of, lambda each: each.relation_set))
            )
            assert whole.status in {each.status for each in deciding if each.updated_ms == latest}

    @given(three(), names, times)
    def test_a_removal_stays_whatever_else_another_clone_changes(
        self, of: list[Memory], tag: str, at: Millis
    ) -> None:
        if any(each.status is MemoryStatus.TOMBSTONE for each in of):
            return
        one, two, other = (replace(each, tags=each.tags | {tag}, tag_changes=()) for each in of)
        removed = memories.update_fields(one, at, tags=one.tags - {tag})
        status = memories.update_fields(two, Millis(at + 5), status=MemoryStatus.RESOLVED)
        whole = reduce(memories.merge_copies, (status, other, removed))
        assert tag not in whole.tags
        again = memories.update_fields(whole, at, tags=whole.tags | {tag})
        assert tag in reduce(memories.merge_copies, (removed, status, again, other)).tags

    def test_more_names_than_the_limit_merge_the_same_in_every_order(self) -> None:
        low = memory(tags=frozenset(f"a{n:02}" for n in range(40)))
        high = memory(tags=frozenset(f"b{n:02}" for n in range(40)))
        fewer = memories.update_fields(low, Millis(5), tags=low.tags - {"a00"})
        merge = memories.merge_copies
        assert merge(merge(low, high), fewer) == merge(low, merge(high, fewer))
        assert len(merge(low, high).tags) == memories.MAX_TAGS

    def test_a_full_memory_takes_other_tags_and_forgets_its_oldest_removals(self) -> None:
        created = memory(tags=frozenset(f"a{n:02}" for n in range(memories.MAX_TAGS)))
        for n in range(60):
            gone, new = min(created.tags), f"b{n:02}"
            created = memories.update_fields(created, Millis(5), tags=created.tags - {gone} | {new})
        assert len(created.tags) == memories.MAX_TAGS
        fewer = memories.update_fields(created, Millis(5), tags=frozenset({"b59"}))
        assert len(fewer.tag_changes) == memories.MAX_TAGS - 1

    def test_two_memories_do_not_merge(self) -> None:
        with pytest.raises(InvalidInput, match="different memories"):
            memories.merge_copies(memory("one"), memory("two"))


class TestChanging:
    @given(records(), st.sampled_from(MemoryStatus))
    def test_only_what_is_forgotten_is_final(self, created: Memory, status: MemoryStatus) -> None:
        if created.status is MemoryStatus.TOMBSTONE and status is not MemoryStatus.TOMBSTONE:
            with pytest.raises(InvalidInput, match="cannot become"):
                memories.change_status(created, status, created.updated_ms)
        elif created.is_pending and status is not MemoryStatus.PENDING:
            with pytest.raises(InvalidInput, match="awaits review"):
                memories.change_status(created, status, created.updated_ms)
            accepted = memories.accept(created, created.created_ms)
            assert accepted.status is MemoryStatus.ACTIVE
            assert memories.merge_copies(created, accepted) == accepted
        elif status not in (MemoryStatus.TOMBSTONE, MemoryStatus.PENDING):
            moved = memories.change_status(created, status, created.created_ms)
            assert moved.status is status
            assert (
                memories.merge_copies(created, moved) == moved
                or created.created_ms != moved.created_ms
            )

    @given(records())
    def test_a_change_wins_over_what_it_changes_whatever_the_clock_says(
        self, created: Memory
    ) -> None:
        if created.status is MemoryStatus.TOMBSTONE:
            return
        later = memories.update_fields(created, Millis(0), superseded_by="decisions:00ff00ff00ff:0")
        assert memories.merge_copies(created, later) == later


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"summary": ""}, "empty"),
        ({"summary": "x" * 101}, "101 characters; the limit is 100"),
        ({"summary": "two\nlines"}, "one line"),
        ({"summary": "bell\x07"}, "one line"),
        ({"content": "x" * (100 * 1024 + 1)}, "102,401 bytes; the limit is 102,400"),
        ({"content": "\ud800"}, "not valid UTF-8"),
        ({"namespace": "ideas"}, "must be one of decisions"),
        ({"tags": frozenset({"a,b"})}, "no comma"),
        ({"tags": frozenset(str(n) for n in range(51))}, "limit is 50"),
        ({"relates_to": ("nonsense",)}, "such as decisions:abc1234:0"),
        ({"spec": "x" * 201}, "at most 200"),
        ({"status": MemoryStatus.TOMBSTONE}, "cannot be captured"),
    ],
)
def test_what_is_wrong_is_refused_with_the_limit(fields: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"namespace": "decisions", "summary": "fine", **fields}
    with pytest.raises(InvalidInput, match=message):
        memories.Draft(**given)  # type: ignore[arg-type]  # some are wrong on purpose


@pytest.mark.parametrize(
    "domain", ["", "project", "project:", "project:a/b", "team:x", "org:-", "user:", "user:a/b"]
)
def test_other_domains_are_refused(domain: str) -> None:
    with pytest.raises(InvalidInput, match="it must be user, project:NAME or org:NAME"):
        memories.check_domain(domain)
