"""The counters of hook calls by agent."""

from agent_memory.features.hooks.services import agent_calls
from agent_memory.features.hooks.services.agent_calls import AgentCalls


def test_hook_calls_are_counted_by_agent() -> None:
    counted = AgentCalls()
    for number in range(1, agent_calls.RECENT + 101):
        counted.count("claude-code", number / 1000, failed=False)
    counted.count("codex", 0.002, failed=True)
    claude, codex = counted.list_agents()
    assert (claude.agent, claude.calls, claude.failed) == ("claude-code", 1100, 0)
    assert (claude.p50_ms, claude.p99_ms) == (600, 1090)  # of the last thousand
    assert (codex.calls, codex.failed, codex.p50_ms, codex.p99_ms) == (1, 1, 2, 2)
