"""What a feature adds to the archive of everything."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agent_memory.platform.ports import OrderedStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFormat:
    """How the records of a type are written as the fields of a JSON object, and read."""

    kind: type[Any]
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePart:
    """The records of a feature. `add` imports one, and returns whether it is new."""

    kinds: tuple[type[Any], ...]
    list_all: Callable[[OrderedStore], Iterator[Any]]
    add: Callable[[Any], bool]
