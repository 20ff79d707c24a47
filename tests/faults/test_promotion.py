"""A standby is promoted while callers write: what it must have, and what it may lack."""

import pytest

from tests.faults import promotion
from tests.postgres_server import share_server


@pytest.fixture(autouse=True)
def programs() -> None:
    """Skip, and say so, where there is no PostgreSQL server."""
    share_server()


def test_a_synchronous_standby_has_everything_once() -> None:
    found = promotion.run_round(durable=False)
    assert (found.lost, found.doubled, found.gaps) == (0, 0, 0)
    assert found.acknowledged >= promotion.BEFORE + promotion.AFTER


def test_an_asynchronous_one_that_fell_behind_lacks_the_last_events() -> None:
    """What this counts as lost is lost: the test above can fail."""
    found = promotion.run_round(durable=False, synchronous=False)
    assert found.lost >= promotion.BEFORE
    assert (found.doubled, found.gaps) == (0, 0)
