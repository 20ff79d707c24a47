"""Read states of graphs without running anything that stands in them.

LangGraph's own serializer stores an object as the name of a class and its arguments, and by default
imports and calls any name in it. A program that can write a state could then run code in the
program that reads it.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agent_memory.client.errors import SerializationError

AllowedType = type | tuple[str, str]  # a class, or its module and name

# What it writes. LangGraph also reads `json`, of its earlier versions, and can be set to unpickle.
_READ = ("null", "bytes", "bytearray", "msgpack")
_BLOCKED = ("msgpack_blocked", "msgpack_method_blocked")


class StrictSerializer(JsonPlusSerializer):
    """Reads plain values, the types that LangGraph allows, and those you name; nothing else.

    A type that is not allowed is an error: LangGraph, in its strict mode, puts the arguments in
    place of the object, and the graph goes on with them.
    """

    def __init__(self, allowed_types: Iterable[AllowedType] = ()) -> None:
        super().__init__(allowed_msgpack_modules=tuple(allowed_types) or None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind = data[0]
        if kind not in _READ:
            raise SerializationError(
                f"the state is stored as {kind!r}, which may run code when it is read: only"
                f" {', '.join(_READ)} are read"
            )
        with _collect_blocked() as blocked:
            try:
                value = super().loads_typed(data)
            except ValueError as exc:
                raise SerializationError(f"the state is damaged: {exc}") from exc
        if blocked:
            raise SerializationError(
                f"the state holds {', '.join(sorted(blocked))}, which is not allowed to be made:"
                " if it is of your own program, name it in allowed_types"
            )
        return value


_reading = threading.local()


@contextmanager
def _collect_blocked() -> Iterator[set[str]]:
    """Collect the names that LangGraph rejects on this thread."""
    before: set[str] | None = getattr(_reading, "blocked", None)
    _reading.blocked = set()
    try:
        yield _reading.blocked
    finally:
        _reading.blocked = before


def _listen(event: SerdeEvent) -> None:
    blocked: set[str] | None = getattr(_reading, "blocked", None)
    if blocked is not None and event["kind"] in _BLOCKED:
        blocked.add(f"{event['module']}.{event['name']}")


register_serde_event_listener(_listen)
