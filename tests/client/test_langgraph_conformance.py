"""AgentMemorySaver and langgraph-checkpoint-conformance, over a real daemon."""

import asyncio
from collections.abc import AsyncGenerator

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from agent_memory.client.langgraph import AgentMemorySaver
from tests.daemon_process import Daemon


def test_every_capability_base_and_extended_passes(shared_daemon: Daemon) -> None:
    async def saver() -> AsyncGenerator[BaseCheckpointSaver[int], None]:
        async with AgentMemorySaver.connect(f"unix:{shared_daemon.socket}") as connected:
            yield connected

    report = asyncio.run(validate(checkpointer_test(name="AgentMemorySaver")(saver)))

    assert set(report.results) == {each.value for each in ALL_CAPABILITIES}
    for name, result in report.results.items():
        assert result.detected, name
        assert result.passed, (name, result.failures)
        assert result.tests_passed > 0, name
        assert not result.tests_failed
        assert not result.tests_skipped
    assert report.conformance_level() == "FULL"
