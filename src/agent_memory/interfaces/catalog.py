"""What the features define: their operations, and modules of the same name."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from agent_memory.features import FEATURES
from agent_memory.kernel.operations import Operation, list_operations


@cache
def list_all() -> tuple[Operation[Any], ...]:
    """Return the operations of every feature, in the order of the features."""
    return tuple(
        operation
        for module in import_modules("operations")
        for operation in list_operations(module)
    )


def import_modules(name: str) -> list[ModuleType]:
    """Import the modules of this name, in the order of the features."""
    paths = [f"agent_memory.features.{feature}.{name}" for feature in FEATURES]
    return [import_module(path) for path in paths if find_spec(path) is not None]
