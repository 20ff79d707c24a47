"""Fixtures that run a test once for every implementation of a port."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import DURABLE, STORES, OpenStore


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OrderedStore]:
    """An empty store."""
    opened = STORES[request.param](tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture(params=DURABLE)
def open_durable(request: pytest.FixtureRequest) -> OpenStore:
    """Opens a store that keeps its data when closed."""
    return DURABLE[request.param]
