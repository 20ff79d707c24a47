"""What the features define: their operations."""

from functools import cache
from typing import Any

from agent_memory.features import import_modules
from agent_memory.kernel.operations import Operation, list_operations


@cache
def list_all() -> tuple[Operation[Any], ...]:
    """Return the operations of every feature, in the order of the features."""
    return tuple(
        operation
        for name in ("operations", "search_operations")
        for module in import_modules(name)
        for operation in list_operations(module)
    )
