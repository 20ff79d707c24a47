"""List the operations of all features."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from agent_memory.features import import_modules
from agent_memory.kernel.operations import Operation, list_operations


@cache
def list_all() -> tuple[Operation[Any], ...]:
    """Return the operations of every feature, in the order of the features."""
    operations = tuple(
        operation
        for name in ("operations", "search_operations")
        for module in import_modules(name)
        for operation in list_operations(module)
    )
    check_unique(operations)
    return operations


def check_unique(operations: Sequence[Operation[Any]]) -> None:
    """Raise ValueError if two operations have one name or place, which would mix up their roles."""
    for places in (
        [each.name for each in operations],
        [each.http for each in operations if each.http],
        [each.rpc for each in operations if each.rpc],
        [each.tool for each in operations if each.tool],
    ):
        twice = [place for place, count in Counter(places).items() if count > 1]
        if twice:
            raise ValueError(f"defined twice: {', '.join(twice)}")
