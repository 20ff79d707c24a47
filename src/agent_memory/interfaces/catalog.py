"""All operations of the features."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from agent_memory.features import FEATURES
from agent_memory.kernel.operations import Operation, list_operations


@cache
def list_all() -> tuple[Operation[Any], ...]:
    """Return the operations of every feature, in the order of the features."""
    modules = [f"agent_memory.features.{name}.operations" for name in FEATURES]
    return tuple(
        operation
        for name in modules
        if find_spec(name) is not None
        for operation in list_operations(import_module(name))
    )
