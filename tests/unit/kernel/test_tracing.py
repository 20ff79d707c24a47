"""Trace contexts of operations."""

import pytest

from agent_memory.kernel import tracing
from agent_memory.kernel.tracing import TraceContext

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_callers_trace_is_continued() -> None:
    found = tracing.parse_traceparent(f"00-{TRACE}-{PARENT}-01")
    assert found == TraceContext(trace_id=TRACE, parent_id=PARENT)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{PARENT}",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}g-{PARENT}-01",
        "x" * 10_000,
    ],
)
def test_a_malformed_header_gives_no_context(wrong: str) -> None:
    assert tracing.parse_traceparent(wrong) is None


def test_a_sessions_own_id_is_its_trace_where_it_can_be() -> None:
    session = "4BF92F35-77B3-4DA6-A3CE-929D0E0E4736"
    assert tracing.from_name(session).trace_id == TRACE


@pytest.mark.parametrize("name", ["lantern-retry", "", "0" * 32, "s\ud800", "x" * 300])
def test_any_other_name_gives_one_that_is_always_the_same(name: str) -> None:
    found = tracing.from_name(name)
    assert found == tracing.from_name(name)
    assert len(found.trace_id) == 32
    assert len(found.parent_id) == 16
    assert int(found.trace_id, 16)
    assert found.trace_id != tracing.from_name(name + "x").trace_id
