"""The fixture of stores, for the tests of the port itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import PORT_STORES


@pytest.fixture(params=PORT_STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OrderedStore]:
    """Yield an empty store."""
    store = PORT_STORES[request.param](tmp_path / "store")
    yield store
    store.close()
