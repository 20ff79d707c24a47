"""The two clients are one: the same methods, and nothing of the server behind them."""

import inspect
import subprocess
import sys
from collections.abc import Callable

import pytest

import agent_memory.client
from agent_memory.client import AsyncMemoryClient, MemoryClient


def methods(kind: type) -> dict[str, Callable[..., object]]:
    return {
        name: method
        for name, method in inspect.getmembers(kind, callable)
        if not name.startswith("_")
    }


def test_both_have_the_same_methods() -> None:
    assert methods(MemoryClient).keys() == methods(AsyncMemoryClient).keys()


@pytest.mark.parametrize("name", methods(MemoryClient))
def test_a_method_has_the_same_parameters_and_words(name: str) -> None:
    blocking, awaited = methods(MemoryClient)[name], methods(AsyncMemoryClient)[name]

    one, other = inspect.signature(blocking), inspect.signature(awaited)
    assert one.parameters == other.parameters
    assert blocking.__doc__ == awaited.__doc__
    if name == "iter_events":
        assert inspect.isasyncgenfunction(awaited)
    else:
        assert one == other
        assert inspect.iscoroutinefunction(awaited)
        assert not inspect.iscoroutinefunction(blocking)


def test_all_that_is_public_is_there() -> None:
    for name in agent_memory.client.__all__:
        assert hasattr(agent_memory.client, name)


def test_importing_the_client_imports_nothing_of_the_server() -> None:
    program = "import sys, agent_memory.client; print(*sys.modules, sep='\\n')"

    loaded = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()

    assert "agent_memory.client.calls" in loaded
    ours = {name.split(".")[1] for name in loaded if name.startswith("agent_memory.")}
    assert ours == {"client", "proto"}
    assert not {"structlog", "msgspec", "rocksdict", "uvloop"} & set(loaded)
