"""A group that is condensed to one statement has the result of its operations one by one."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Delete, DeleteRange, Put
from agent_memory.platform.store.plans import Write
from agent_memory.platform.store.postgres import condense
from tests.memory_engine import MemoryEngine

in_families = st.sampled_from((families.EVENTS, families.OUTBOX))
keys = st.sampled_from((b"", b"a", b"a\0", b"ab", b"b", b"\xff"))
values = st.sampled_from((b"", b"1", b"2"))
writes: st.SearchStrategy[Write] = st.one_of(
    st.builds(Put, in_families, keys, values),
    st.builds(Delete, in_families, keys),
    st.builds(DeleteRange, in_families, keys, keys),
)


@given(before=st.lists(writes, max_size=6), group=st.lists(writes, max_size=12))
def test_the_rows_are_the_same(before: list[Write], group: list[Write]) -> None:
    one_by_one, condensed = MemoryEngine(), MemoryEngine()
    for engine in (one_by_one, condensed):
        engine.write(before)
    one_by_one.write(group)

    puts, removed, ranges = condense(group)
    condensed.write(ranges)
    condensed.write([Delete(*place) for place in removed])
    condensed.write([Put(*place, value) for place, value in puts.items()])

    assert not set(puts) & set(removed)  # one statement does both, in no order
    for family in (families.EVENTS, families.OUTBOX):
        found = [
            list(engine.scan(family, b"", b"\xff\xff", limit=99, reverse=False))
            for engine in (one_by_one, condensed)
        ]
        assert found[0] == found[1]
