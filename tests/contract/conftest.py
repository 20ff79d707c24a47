"""Fixtures that run a test once for every implementation of a port."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import DURABLE, STORES, OpenStore


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OrderedStore]:
    """Yield an empty store."""
    store = STORES[request.param](tmp_path / "store")
    yield store
    store.close()


@pytest.fixture(params=DURABLE)
def open_durable(request: pytest.FixtureRequest) -> OpenStore:
    """Return a function that opens a store which keeps its data when closed."""
    return DURABLE[request.param]
